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

/// Connects, asks for low delay (before and after the connect), has the status of its stack printed,
/// then waits for a peer that has gone, no longer than `TCP_USER_TIMEOUT` says.
const OPTIONS: &str = "
import socket, subprocess, sys, time
host, manypath = sys.argv[1], sys.argv[2]
def connect(before, after):
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, before)
    s.connect((host, 8080))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, after)
    return s
kept = [connect(0x10, 0x10), connect(0, 0xb8), connect(0x10, 0), connect(0x20, 0x20)]
time.sleep(0.3)
print(subprocess.run([manypath, 'status', '--json'], capture_output=True, text=True).stdout, flush=True)
s = kept[0]
s.setsockopt(socket.IPPROTO_TCP, 18, 1500)
print(s.getsockopt(socket.IPPROTO_TCP, 18), flush=True)
sys.stdin.readline()
begun = time.monotonic()
s.sendall(b'GET /small HTTP/1.1\\r\\nHost: there\\r\\n\\r\\n')
try:
    s.recv(100)
    print('answered')
except ConnectionResetError:
    print(time.monotonic() - begun)
";

#[test]
fn options_of_sockets_decide_class_and_patience() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::Stdio;
    let mut site = Site::with_paths(&["100mbit,5ms,queue=200"]);
    site.web();
    site.random_file("small", 10_000);
    site.serve("8080");
    let server = site.server();
    let args = ["-c", OPTIONS, &server, common::MANYPATH];
    let mut command = site.through_command(&[], "python3", &args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let mut next = |out: &mut BufReader<_>| {
        line.clear();
        out.read_line(&mut line).unwrap();
        line.trim().to_owned()
    };
    let mut status = next(&mut out);
    while serde_json::from_str::<serde_json::Value>(&status).is_err() {
        status.push_str(&next(&mut out));
    }
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let stacks = status["stacks"].as_array().unwrap();
    let flows = |stack: &serde_json::Value| stack["associations"][0]["flows"].clone();
    let ours = stacks.iter().find(|one| one["accepting"] == false).map(flows).unwrap();
    let classes: Vec<_> =
        ours.as_array().unwrap().iter().map(|flow| flow["class"].as_str().unwrap()).collect();
    assert_eq!(classes, ["interactive", "interactive", "bulk", "bulk"], "{ours}");
    let mut told = String::new();
    while told.is_empty() {
        told = next(&mut out);
    }
    assert_eq!(told, "1500");
    site.lab.path("A").unwrap().down().unwrap();
    child.stdin.take().unwrap().write_all(b"now\n").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    let seconds: f64 = rest.trim().parse().unwrap_or_else(|_| panic!("{rest}"));
    assert!((1.4..10.0).contains(&seconds), "{seconds}");
}
