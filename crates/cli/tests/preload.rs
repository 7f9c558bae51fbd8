//! `manypath run --sctp`: programs made for the kernel's SCTP, against themselves, in a network of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

use std::path::PathBuf;
use std::process::{Command, Output};

const MANYPATH: &str = env!("CARGO_BIN_EXE_manypath");

/// Where cargo has put the library for this run.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().join("libmanypath_preload.so")
}

/// The script that runs one end (`tests/peers/programs/run.sh`); `make interop` runs it with other far ends.
const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/programs/run.sh");

/// A program listens and connects to itself, in a network of its own that has loopback: both ends must say the same.
fn talks_to_itself(program: &str, executable: &str, package: &str, listening: &str) {
    let found = Command::new("which").arg(executable).output();
    if !found.is_ok_and(|found| found.status.success()) {
        eprintln!("SKIPPED: no {executable} (apt install {package})");
        return;
    }
    let script = format!(
        "ip link set lo up; log=$(mktemp); end() {{ timeout 40 {RUN} {program} $1 127.0.0.1 127.0.0.1 preload {MANYPATH} udp; }}
         end listen >$log 2>&1 & server=$!
         until grep -q '{listening}' $log; do sleep 0.05; kill -0 $server || break; done
         end connect
         until grep -q RESULT $log; do sleep 0.05; kill -0 $server || break; done
         echo; echo LISTENER; cat $log; rm $log"
    );
    let mut command = Command::new("timeout");
    command.args([
        "60",
        "unshare",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "bash",
        "-c",
        &script,
    ]);
    command.env("MANYPATH_SCTP_LIBRARY", library());
    let said = said(&command.output().unwrap());
    let results: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("RESULT ")).collect();
    assert!(results.len() == 2 && results[0] == results[1], "{said}");
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    let text = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// What a program hears that listens with `port` as its UDP port, of which 9901 is taken.
fn listens_at(port: u16) -> String {
    let program = "import socket; u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((\"127.0.0.1\", 9901)); \
                   s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132); s.bind((\"127.0.0.1\", 7)); s.listen(1)";
    let script = format!(
        "ip link set lo up; exec {MANYPATH} preload --port {port} -- python3 -c '{program}'"
    );
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--net", "bash", "-c", &script]);
    said(&command.env("MANYPATH_SCTP_LIBRARY", library()).output().unwrap())
}

#[test]
fn a_program_that_listens_where_no_peer_finds_it_is_told() {
    let hidden = listens_at(9901);
    assert!(hidden.contains("UDP port 9901 is in use by another program"), "{hidden}");
    assert_eq!(listens_at(9902), "");
}

/// Runs a program in Python under `manypath run --sctp`, in a network of its own that has loopback.
fn python(program: &str) -> String {
    let script = format!("ip link set lo up; exec {MANYPATH} preload -- python3 -c '{program}'");
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--net", "bash", "-c", &script]);
    said(&command.env("MANYPATH_SCTP_LIBRARY", library()).output().unwrap())
}

/// As Java closes its sockets. If the number were free in between, `dup2` would fail with EBUSY, or take it from who was
/// given it.
#[test]
fn a_descriptor_that_takes_the_place_of_a_socket_takes_it_from_nobody_else() {
    let said = python(
        r#"
import os, socket, threading, time
null, ends, stolen = os.open("/dev/null", os.O_WRONLY), False, 0
def opens():
    global stolen
    while not ends:
        fd = os.open("/dev/zero", os.O_RDONLY)
        os.sched_yield()
        stolen += os.fstat(fd).st_rdev != os.makedev(1, 5)
        os.close(fd)
threads = [threading.Thread(target=opens) for _ in range(2)]
for thread in threads: thread.start()
try:
    end = time.monotonic() + 15
    for _ in range(3000):
        if time.monotonic() > end: break
        fd = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, 132).detach()
        os.dup2(null, fd)
        os.close(fd)
finally:
    ends = True
    for thread in threads: thread.join()
print(stolen, "stolen")
"#,
    );
    assert_eq!(said, "0 stolen\n");
}

#[test]
fn sctp_test_of_lksctp_tools_sends_to_itself() {
    talks_to_itself("sctp_test", "sctp_test", "lksctp-tools", "Server: Receiving");
}

#[test]
fn sctp_darn_of_lksctp_tools_talks_to_itself() {
    talks_to_itself("sctp_darn", "sctp_darn", "lksctp-tools", "sctp_darn listening");
}

#[test]
fn ncat_carries_a_file() {
    talks_to_itself("ncat", "ncat", "ncat", "Ncat: Listening");
}

/// It serves each client in the child of a fork, which runs a program between two pipes.
#[test]
fn ncat_serves_clients_with_a_program() {
    let script = format!(
        "ip link set lo up; export MANYPATH_SCTP_LIBRARY={}; log=$(mktemp)
         {MANYPATH} preload -- ncat -v --sctp -l -k 127.0.0.1 7000 --exec /bin/cat 2>$log & server=$!
         until grep -q Listening $log; do sleep 0.05; kill -0 $server || break; done
         for i in 1 2; do
             {{ echo question $i; sleep 1; }} | \
                 timeout 20 {MANYPATH} preload -- ncat --sctp 127.0.0.1 7000
         done; cat $log >&2; kill $server; rm $log",
        library().display()
    );
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-c"]);
    let said = said(&command.arg(&script).output().unwrap());
    assert!(said.contains("question 1") && said.contains("question 2"), "{said}");
}

#[test]
fn iperf3_measures_both_directions() {
    talks_to_itself("iperf3", "iperf3", "iperf3", "Server listening");
}

#[test]
fn gen_sctp_of_erlang_talks_to_itself() {
    talks_to_itself("erlang", "escript", "erlang-base", "listening");
}

#[test]
fn the_program_is_told_what_it_would_get() {
    let mut command = Command::new(MANYPATH);
    command.args([
        "run",
        "--sctp",
        "--json",
        "--encapsulation",
        "udp",
        "--port",
        "1234",
        "true",
        "now",
    ]);
    let output = command.env("MANYPATH_SCTP_LIBRARY", library()).output().unwrap();
    let json: serde_json::Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!(json["command"], serde_json::json!(["true", "now"]));
    assert!(json["environment"].to_string().contains("MANYPATH_SCTP_UDP_PORT\",\"1234"), "{json}");
}

#[test]
fn a_missing_library_is_a_clear_error() {
    let mut command = Command::new(MANYPATH);
    command.args(["run", "--sctp", "true"]).env("MANYPATH_SCTP_LIBRARY", "/nowhere/at/all.so");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("MANYPATH_SCTP_LIBRARY names /nowhere/at/all.so"), "{text}");
}

#[test]
fn a_program_that_does_not_exist_is_said_as_a_shell_says_it() {
    let mut command = Command::new(MANYPATH);
    command.args(["run", "--sctp", "/no/such/program"]).env("MANYPATH_SCTP_LIBRARY", library());
    assert_eq!(command.output().unwrap().status.code(), Some(127));
}
