//! What a program hears about its own socket: the way to the destination, not the one to the stack.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

mod common;

use common::{Site, finish};

/// Fetches a file over a connection that stays open, then prints what the socket says: the receive
/// buffer, that of a socket which has chosen its own, and of `TCP_INFO` the round trip, the segment
/// and the state.
const ASK: &str = "
import json, socket, struct, sys
host, port = sys.argv[1], int(sys.argv[2])
def fetch(own):
    s = socket.socket()
    if own:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, own)
    s.connect((host, port))
    s.sendall(b'GET /big HTTP/1.1\\r\\nHost: there\\r\\n\\r\\n')
    left = 1 << 20
    while left > 0:
        left -= len(s.recv(65536))
    return s
s = fetch(0)
info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
short = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
own = fetch(50000)
print(json.dumps({
    'receive_buffer': s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    'own_receive_buffer': own.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    'rtt_us': struct.unpack_from('I', info, 68)[0],
    'mss': struct.unpack_from('I', info, 16)[0],
    'maxseg': s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG),
    'cwnd': struct.unpack_from('I', info, 80)[0],
    'state': info[0],
    'short': len(short),
}))
";

fn ask(site: &Site) -> serde_json::Value {
    let server = site.server();
    let command = site.through_command(&[], "python3", &["-c", ASK, &server, "8080"]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

#[test]
fn a_program_that_asks_its_socket_hears_of_the_way_to_the_destination() {
    let mut site = Site::with_paths(&["100mbit,20ms,queue=200", "50mbit,20ms,queue=200"]);
    site.web();
    site.random_file("big", 1 << 20);
    site.serve("8080");
    let told = ask(&site);
    assert!(site.server_counter("stack_relays_started") >= 2, "it went over SCTP");
    assert_eq!(told["receive_buffer"], 8 << 20, "{told}");
    assert_eq!(told["own_receive_buffer"], 100_000, "{told}");
    let rtt = told["rtt_us"].as_u64().unwrap();
    assert!((38_000..1_000_000).contains(&rtt), "{told}");
    let mss = told["mss"].as_u64().unwrap();
    assert!((1200..1500).contains(&mss), "{told}");
    assert_eq!(told["maxseg"], told["mss"], "{told}");
    assert!((1..100_000).contains(&told["cwnd"].as_u64().unwrap()), "{told}");
    assert_eq!(told["short"], 8, "{told}");
}

#[test]
fn a_connection_that_fell_back_to_relayed_tcp_tells_of_that_connection() {
    let mut site = Site::with_paths(&["100mbit,20ms,queue=200"]);
    site.web();
    site.random_file("big", 1 << 20);
    let server = site.server();
    // Without waiting, so that the stack's own TCP connection carries it.
    let patched =
        ASK.replace("s.connect((host, port))", "s.settimeout(20); s.connect((host, port))");
    let command = site.through_command(&["--json"], "python3", &["-c", &patched, &server, "8080"]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    let report: serde_json::Value = serde_json::from_str(done.stderr.trim()).unwrap();
    assert_eq!(report["tcp_relay"], 1, "{report}");
    let told: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert!((38_000..1_000_000).contains(&told["rtt_us"].as_u64().unwrap()), "{told}");
    let mss = told["mss"].as_u64().unwrap();
    assert!((1000..1500).contains(&mss), "{told}");
}
