//! `manypath gateway` between real programs: curl and nginx over SCTP through two gateways, a client
//! for the kernel's SCTP and a Diameter-like service over TCP, usrsctp and nginx.
#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

use crate::common;

use common::{Finished, MANYPATH, Site, find, finish};
use manypath_lab::Host;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const BYTES: u64 = 3_000_000;

fn succeeded(done: Finished) -> Finished {
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

/// A gateway on the right host that leads SCTP clients to a TCP service at `port` there.
fn to_tcp(site: &mut Site, port: u16, more: &[&str]) {
    let service = format!("127.0.0.1:{port}");
    let args = ["gateway", "--sctp", "3868", "--tcp", &service, "-v"];
    let (protocol, wait) = match more.contains(&"native") {
        true => ("raw", 132),
        false => ("udp", 9899),
    };
    site.service(MANYPATH, &[&args[..], more].concat(), protocol, wait);
}

/// nginx behind two gateways, and its URL on the left host.
fn web_behind_two(site: &mut Site, more: &[&str]) -> &'static str {
    site.web();
    to_tcp(site, 8080, more);
    let server = format!("{}:3868", site.server());
    let args = ["gateway", "--tcp", "8000", "--sctp", &server, "--listen", "127.0.0.1", "-v"];
    site.service_on(Host::Left, MANYPATH, &[&args[..], more].concat(), "tcp", 8000);
    "http://127.0.0.1:8000"
}

fn curl(site: &Site, args: &[&str]) -> Finished {
    succeeded(site.direct("curl", &[&["-sS", "-f", "--max-time", "50"], args].concat()))
}

#[test]
fn many_http_clients_reach_nginx_through_two_gateways() {
    let mut site = Site::new();
    let content = site.random_file("file", BYTES);
    let url = web_behind_two(&mut site, &[]);
    for size in 0..20 {
        site.random_file(&format!("f{size}"), 10_000 + size);
    }
    let many = format!("{url}/f[0-19]");
    let parallel = ["-Z", "--parallel-immediate", "--parallel-max", "20", "-o", "got-#1"];
    curl(&site, &[&parallel[..], &[&many]].concat());
    for size in 0..20 {
        let got = std::fs::metadata(site.dir.join(format!("got-{size}"))).expect("an answer");
        assert_eq!(got.len(), 10_000 + size);
    }
    curl(&site, &["-o", "got", &format!("{url}/file")]);
    assert!(std::fs::read(site.dir.join("got")).unwrap() == content);
    common::wait_for("all connections to end", || {
        site.server_counter("stack_relays_finished") == 21
    });
    assert_eq!(site.server_counter("stack_direct_associations_accepted"), 21);
}

#[test]
fn a_lost_path_does_not_end_a_connection_of_gateways_directly_over_ip() {
    let mut site = Site::with_paths(&["20mbit,10ms,queue=100", "20mbit,10ms,queue=100"]);
    let content = site.random_file("file", BYTES);
    let url = web_behind_two(&mut site, &["--encapsulation", "native"]);
    let args = ["-sS", "-f", "-o", "got", "--max-time", "50", &format!("{url}/file")];
    let mut command = site.command(Host::Left, find("curl"));
    let mut child = command.args(args).stdin(Stdio::null()).spawn().expect("curl");
    let got = site.dir.join("got");
    common::wait_for("a part of the file", || {
        std::fs::metadata(&got).is_ok_and(|got| got.len() > 500_000)
    });
    site.lab.path("A").expect("a path").down().expect("down");
    assert!(child.wait().unwrap().success());
    assert!(std::fs::read(got).unwrap() == content);
}

/// Where cargo has put the library for this run.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libmanypath_preload.so")
}

#[test]
fn a_program_for_the_kernels_sctp_talks_diameter_to_a_tcp_service() {
    let mut site = Site::new();
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
    let python = find("python3").display().to_string();
    site.service(&python, &[&format!("{programs}/diameter_tcp.py"), "3868"], "tcp", 3868);
    to_tcp(&mut site, 3868, &["--framing", "diameter"]);
    let mut command = site.command(Host::Left, MANYPATH);
    command.env("MANYPATH_SCTP_LIBRARY", library());
    command.args(["run", "--sctp", "--", &python, &format!("{programs}/diameter_sctp.py")]);
    command.args([&site.server(), "3868", "10", "300"]);
    let done = succeeded(finish(command));
    assert_eq!(done.stdout, "answers 3000\n");
    assert_eq!(site.server_counter("stack_direct_associations_accepted"), 10);
    common::wait_for("all ends", || site.server_counter("stack_relays_finished") == 10);
}

#[test]
fn a_usrsctp_client_reaches_nginx_behind_a_gateway() {
    if !std::path::Path::new("/usr/include/usrsctp.h").exists() {
        let advice = "run: scripts/setup peers (or apt install libusrsctp-dev)";
        assert!(std::env::var_os("CI").is_none(), "usrsctp is missing; {advice}");
        println!("SKIPPED: usrsctp is missing; {advice}");
        return;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/usrsctp/http.c");
    let mut site = Site::new();
    let program = site.dir.join("usrsctp-http");
    let mut compiler = Command::new("cc");
    compiler.arg("-O2").arg("-o").arg(&program).arg(source).args(["-lusrsctp", "-lpthread"]);
    assert!(compiler.status().expect("cc runs").success());
    site.web();
    site.random_file("file", BYTES);
    to_tcp(&mut site, 8080, &[]);
    let own = site.lab.address(Host::Left, 0).to_string();
    let mut command = site.command(Host::Left, &program);
    command.args(["get", &own, &site.server(), "3868", "/file"]);
    let done = succeeded(finish(command));
    let got: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON of the report");
    assert_eq!((&got["status"], &got["bytes"]), (&200.into(), &BYTES.into()), "{got}");
}

#[test]
fn the_state_is_printed_as_lines_of_json() {
    let mut site = Site::new();
    to_tcp(&mut site, 8080, &["--json", "--interval", "1"]);
    let log = site.dir.join("log-9899");
    let lines = || {
        let text = std::fs::read_to_string(&log).unwrap();
        let json = text.lines().filter(|line| line.starts_with('{'));
        json.map(|line| serde_json::from_str(line).expect("JSON"))
            .collect::<Vec<serde_json::Value>>()
    };
    common::wait_for("two lines", || lines().len() == 2);
    let lines = lines();
    assert_eq!(lines[0]["gateway"], "SCTP clients at port 3868 to TCP 127.0.0.1:8080");
    assert_eq!((&lines[0]["connections"], &lines[1]["ending"]), (&0.into(), &false.into()));
}

/// Its standard output is a pipe that is full from the beginning, and that nobody reads.
#[test]
fn a_reader_of_the_lines_that_has_stopped_does_not_stop_the_gateway() {
    let mut site = Site::new();
    site.web();
    let content = site.random_file("file", BYTES);
    let line = format!(
        "mkfifo full; exec 3<>full; head -c 65536 /dev/zero >&3; \
         exec {MANYPATH} gateway --sctp 3868 --tcp 127.0.0.1:8080 --json --interval 1 >&3"
    );
    site.service("bash", &["-c", &line], "udp", 9899);
    let server = format!("{}:3868", site.server());
    let args = ["gateway", "--tcp", "8000", "--sctp", &server, "--listen", "127.0.0.1", "-v"];
    site.service_on(Host::Left, MANYPATH, &args, "tcp", 8000);
    let lost = || site.server_counter("stack_status_lines_lost");
    common::wait_for("lines that are not read", || lost() > 0);
    curl(&site, &["-o", "got", "http://127.0.0.1:8000/file"]);
    assert!(std::fs::read(site.dir.join("got")).unwrap() == content);
}

/// What is said about arguments that make no gateway.
#[test]
fn arguments_that_make_no_gateway_are_said_to_be_wrong() {
    let cases = [
        (["3868", "3868"], "no server given"),
        (["a:3868", "b:3868"], "no port for clients given"),
        (["0", "b:3868"], "'0' is not a port"),
        (["29899", "127.0.0.1:1"], "manypath's own associations"),
        (["2001:db8::1:3868", "3868"], "brackets"),
        (["0.0.0.0:3868", "3868"], "are not valid here"),
    ];
    for ([sctp, tcp], expected) in cases {
        let mut command = Command::new(MANYPATH);
        command.args(["gateway", "--sctp", sctp, "--tcp", tcp]);
        let done = finish(command);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.stderr.contains(expected), "{done:?}");
    }
}
