//! While bulk data comes over a long path, a stack handles several packets for each wake-up; over a short one it never waits.

use crate::common;

use common::Site;

const BYTES: u64 = 12_000_000;
/// Answers with the number of bytes that came.
const SERVER: &str = "
import socket
listener = socket.create_server(('0.0.0.0', 8080))
one = listener.accept()[0]
one.sendall(b'%d' % sum(iter(lambda: len(one.recv(1 << 20)), 0)))
one.close()
";
const CLIENT: &str = "
import socket, sys
one = socket.create_connection((sys.argv[1], 8080))
one.sendall(bytes(int(sys.argv[2])))
one.shutdown(socket.SHUT_WR)
print(one.recv(99).decode())
";

/// Uploads over `path` and returns the server's counter `stack_turns`, how many packets it got, and its pauses.
fn upload(path: &str) -> (u64, u64, u64) {
    let mut site = Site::with_paths(&[path]);
    site.service("python3", &["-c", SERVER], "tcp", 8080);
    site.serve("8080");
    let (server, bytes) = (site.server(), BYTES.to_string());
    let options = ["--step-aside", "never"];
    let command = site.through_command(&options, "python3", &["-c", CLIENT, &server, &bytes]);
    let done = common::finish(command);
    assert_eq!(done.stdout.trim(), bytes, "{done:?}");
    let names = ["stack_turns", "udp_packets_received", "udp_moderation_pauses"];
    let [turns, packets, pauses] = names.map(|name| site.server_counter(name));
    assert!(packets > BYTES / 1500, "not carried: {packets} packets");
    (turns, packets, pauses)
}

#[test]
fn bulk_data_over_a_long_path_wakes_the_stack_less_often_than_its_packets_come() {
    let (turns, packets, pauses) = upload("60mbit,10ms,queue=400");
    assert!(pauses > 0, "{turns} turns for {packets} packets");
    assert!(turns * 2 < packets, "{turns} turns for {packets} packets, {pauses} pauses");
}

#[test]
fn bulk_data_over_a_short_path_does_not_wait() {
    assert_eq!(upload("60mbit,queue=20").2, 0);
}
