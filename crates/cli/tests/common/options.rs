//! Options of programs' sockets that mean something to their stack, whatever takes their connections to it.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use super::clients::Run;
use super::{MANYPATH, Site};
use manypath_lab::Host;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

/// Connects, asks for low delay (before and after the connect), has the status of its stack printed,
/// then waits for a peer that has gone, no longer than `TCP_USER_TIMEOUT` says.
const OPTIONS: &str = "
import socket, subprocess, sys, time
host, manypath = sys.argv[1], sys.argv[2]
six = ':' in host
CLASS = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if six else (socket.IPPROTO_IP, socket.IP_TOS)
def connect(before, after):
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    s.setsockopt(*CLASS, before)
    s.connect((host, 8080))
    s.setsockopt(*CLASS, after)
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

/// Two hosts with one path, a web server on the right one.
pub(crate) fn site() -> Site {
    let mut site = Site::with_paths(&["100mbit,5ms,queue=200"]);
    site.web();
    site.random_file("small", 10_000);
    site.serve("8080");
    site
}

/// Asks for low delay and for patience on sockets of the left host, and asserts that both are had.
pub(crate) fn decide(site: &Site, v6: bool, run: Run) {
    let six = site.lab.address_v6(Host::Right, 0).to_string();
    let server = if v6 { six } else { site.server() };
    let mut command = run("python3", &["-c", OPTIONS, &server, MANYPATH]);
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
