//! `manypath preload`: programs made for the kernel's SCTP, against themselves, in a network of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

use std::path::PathBuf;
use std::process::{Command, Output};

const MANYPATH: &str = env!("CARGO_BIN_EXE_manypath");

/// Where cargo has put the library for this run.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().join("libmanypath_preload.so")
}

fn is_there(program: &str) -> bool {
    let there =
        Command::new("which").arg(program).output().is_ok_and(|found| found.status.success());
    if !there {
        eprintln!("SKIPPED: no {program} (scripts/setup test)");
    }
    there
}

/// Runs a script in a network of its own that has loopback; `$M` in it is `manypath preload --`.
fn in_own_network(script: &str) -> Output {
    let script =
        format!("set -e; ip link set lo up; M='timeout 20 {MANYPATH} preload --'; {script}");
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--net", "bash", "-c", &script]);
    command.env("MANYPATH_SCTP_LIBRARY", library());
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    let text = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// Waits in the script until something listens at the UDP port of SCTP.
const UNTIL_READY: &str = "for i in $(seq 100); do ss -lun | grep -q 127.0.0.1:9899 && break; sleep 0.05; done; sleep 0.2;";

#[test]
fn sctp_test_of_lksctp_tools_sends_to_itself() {
    if !is_there("sctp_test") {
        return;
    }
    let output = in_own_network(&format!(
        "log=$(mktemp); $M sctp_test -H 127.0.0.1 -P 5001 -l >$log 2>&1 & server=$!; {UNTIL_READY} \
         $M sctp_test -H 127.0.0.1 -P 5002 -h 127.0.0.1 -p 5001 -s -x 3; \
         for i in $(seq 100); do grep -q SHUTDOWN_COMPLETE $log && break; sleep 0.05; done; \
         kill $server; cat $log; rm $log"
    ));
    let said = said(&output);
    assert!(said.contains("SCTP_ASSOC_CHANGE(COMMUNICATION_UP)"), "{said}");
    assert!(said.contains("SCTP_ASSOC_CHANGE(SHUTDOWN_COMPLETE)"), "{said}");
    assert!(said.matches("recvmsg(sk=").count() > 10, "{said}");
}

#[test]
fn sctp_darn_of_lksctp_tools_talks_to_itself() {
    if !is_there("sctp_darn") {
        return;
    }
    let output = in_own_network(&format!(
        "log=$(mktemp); $M stdbuf -oL sctp_darn -H 127.0.0.1 -P 5003 -l >$log 2>&1 & server=$!; {UNTIL_READY} \
         (echo hello; sleep 1; echo world; sleep 1) | \
         $M sctp_darn -H 127.0.0.1 -P 5004 -h 127.0.0.1 -p 5003 -s || true; \
         for i in $(seq 100); do grep -q world $log && break; sleep 0.05; done; \
         kill $server; cat $log; rm $log"
    ));
    let said = said(&output);
    assert!(said.contains("SCTP_COMM_UP"), "{said}");
    assert!(said.contains("hello") && said.contains("world"), "{said}");
}

#[test]
fn ncat_carries_a_file() {
    if !is_there("ncat") {
        return;
    }
    let output = in_own_network(&format!(
        "cd $(mktemp -d); head -c 3000000 /dev/urandom >sent; \
         sleep 30 | $M ncat --sctp -l 127.0.0.1 7000 --recv-only >got & {UNTIL_READY} \
         $M ncat --sctp --send-only 127.0.0.1 7000 <sent; \
         for i in $(seq 200); do cmp -s sent got && break; sleep 0.05; done; cmp sent got && echo same; \
         rm -r $PWD; kill $(jobs -p) 2>/dev/null || true"
    ));
    assert!(said(&output).contains("same"));
}

#[test]
fn iperf3_measures_both_directions() {
    if !is_there("iperf3") {
        return;
    }
    for reverse in ["", "-R"] {
        let output = in_own_network(&format!(
            "$M iperf3 -s -1 -B 127.0.0.1 >/dev/null & \
             for i in $(seq 100); do ss -ltn | grep -q :5201 && break; sleep 0.05; done; \
             $M iperf3 --sctp -c 127.0.0.1 -n 20M {reverse} --json; wait"
        ));
        let said = said(&output);
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        let received = json["end"]["sum_received"]["bytes"].as_f64().unwrap_or(0.0);
        assert!(received > 15e6, "{said}");
    }
}

#[test]
fn the_program_is_told_what_it_would_get() {
    let mut command = Command::new(MANYPATH);
    command.args(["preload", "--json", "--encapsulation", "udp", "--port", "1234", "true", "now"]);
    let output = command.env("MANYPATH_SCTP_LIBRARY", library()).output().unwrap();
    let json: serde_json::Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!(json["command"], serde_json::json!(["true", "now"]));
    assert!(json["environment"].to_string().contains("MANYPATH_SCTP_UDP_PORT\",\"1234"), "{json}");
}

#[test]
fn a_missing_library_is_a_clear_error() {
    let mut command = Command::new(MANYPATH);
    command.args(["preload", "true"]).env("MANYPATH_SCTP_LIBRARY", "/nowhere/at/all.so");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("MANYPATH_SCTP_LIBRARY names /nowhere/at/all.so"), "{text}");
}

#[test]
fn a_program_that_does_not_exist_is_said_as_a_shell_says_it() {
    let mut command = Command::new(MANYPATH);
    command.args(["preload", "/no/such/program"]).env("MANYPATH_SCTP_LIBRARY", library());
    assert_eq!(command.output().unwrap().status.code(), Some(127));
}
