//! A single short path leads to the server: programs use plain TCP there, and say why; with a second path, or
//! where a rule or an option says so, they are carried.
//!
//! On a busy machine an answer may take longer than a short path has. Then a connection is carried, and the
//! next one is tried.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::cgroup::Group;
use common::{MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

const SHORT: &str = "rate=1gbit,queue=1000";
const REASON: &str = "nothing-to-gain";

/// Fetches the file once for each line that it is told.
const CLIENT: &str = "
import socket, sys
for _ in sys.stdin:
    s = socket.create_connection((sys.argv[1], 8080))
    s.sendall(b'GET /small HTTP/1.0\\r\\n\\r\\n')
    got = b''.join(iter(lambda: s.recv(65536), b''))
    print(len(got) > 10000, flush=True)
";

/// Two paths, or two of which the second has no addresses yet.
fn site(paths: usize) -> Site {
    let mut site = Site::with_paths(&[SHORT; 2]);
    if paths == 1 {
        for host in Host::ALL {
            ip(&site, host, "address flush dev pathB");
        }
    }
    site.web();
    site.random_file("small", 10_000);
    site.serve("8080");
    site
}

fn add_second_path(site: &Site) {
    for (host, last) in [(Host::Right, 2), (Host::Left, 1)] {
        ip(site, host, &format!("address add 10.77.2.{last}/24 dev pathB"));
    }
}

fn ip(site: &Site, host: Host, words: &str) {
    let mut command = site.command(host, find("ip"));
    let done = finish({
        command.args(words.split(' '));
        command
    });
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// A program that runs through manypath and connects when it is told.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(site: &Site, options: &[&str]) -> Self {
        let mut command = site.command(Host::Left, MANYPATH);
        command.args(["run", "--json"]).args(options).arg("--").arg(find("python3"));
        command.args(["-c", CLIENT, &site.server()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    /// Whether a connection is carried.
    fn connect(&mut self, site: &Site) -> bool {
        let before = site.server_counter("stack_relays_started");
        self.input.write_all(b"now\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "True\n");
        site.server_counter("stack_relays_started") > before
    }

    /// The report at its end.
    fn end(self) -> Value {
        let Self { mut child, input, .. } = self;
        drop(input);
        let mut report = String::new();
        child.stderr.take().unwrap().read_to_string(&mut report).unwrap();
        assert!(child.wait().unwrap().success(), "{report}");
        // Notices of a busy machine come before it.
        let last = report.lines().last().unwrap_or_default();
        let told = serde_json::from_str(last);
        assert!(told.is_ok(), "{report}");
        told.unwrap()
    }
}

/// How many of the three connections of a program are carried, and how many are left because nothing is to gain.
/// What `python3` is may connect to other things than the server (a wrapper in Bash asks who its user is).
fn three(site: &Site, options: &[&str]) -> (u64, u64) {
    let mut program = Program::start(site, options);
    for _ in 0..3 {
        program.connect(site);
    }
    let report = program.end();
    (report["sctp"].as_u64().unwrap(), report["left_to_the_kernel"][REASON].as_u64().unwrap_or(0))
}

#[test]
fn a_single_short_path_is_left_to_plain_tcp_until_a_second_one_comes() {
    let site = site(1);
    let mut program = Program::start(&site, &["--step-aside", "auto"]);
    wait_for("plain TCP", || !program.connect(&site));
    assert!(!program.connect(&site), "it is known by now");
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["status"]);
    let status = finish(command).stdout;
    assert!(status.contains(REASON) || status.contains("nothing to gain"), "{status}");
    add_second_path(&site);
    wait_for("SCTP over two paths", || program.connect(&site));
    assert!(program.connect(&site), "it stays so");
    let report = program.end();
    assert!(report["left_to_the_kernel"][REASON].as_u64().unwrap() >= 2, "{report}");
    assert!(report["sctp"].as_u64().unwrap() >= 2, "{report}");
    assert_eq!(report["tcp_relay"], 0, "{report}");
}

#[test]
fn rules_and_the_option_keep_a_single_short_path_to_sctp() {
    let site = site(1);
    assert_eq!(three(&site, &["--step-aside", "never"]), (3, 0));
    let rule = |words: &str| std::fs::write(site.dir.join("rules"), words).unwrap();
    for options in ["step-aside=never", "sctp-only=on"] {
        rule(&format!("remote enable port 8080 {options}\n"));
        assert_eq!(three(&site, &["--step-aside", "auto"]), (3, 0), "{options}");
    }
    // The file of settings says never.
    rule("remote enable port 8080 step-aside=auto\n");
    wait_for("plain TCP", || three(&site, &[]) == (0, 3));
}

#[test]
fn two_short_paths_are_used() {
    let site = site(2);
    assert_eq!(three(&site, &["--step-aside", "auto"]), (3, 0));
}

/// A connect that was sent to the gate cannot go back; those that follow do not go there, until more can be had.
#[test]
fn in_a_cgroup_the_kernel_leaves_such_connections_alone_until_a_second_path_comes() {
    let site = site(1);
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only", "--json", "--step-aside", "auto"]);
    let url = format!("http://{}:8080/small", site.server());
    let is_carried = || {
        let before = site.server_counter("stack_relays_started");
        let done = group.through(&site, "curl", &["-sS", "-f", "-o", "/dev/null", &url]);
        assert_eq!(done.code, Some(0), "{done:?}");
        site.server_counter("stack_relays_started") > before
    };
    wait_for("plain TCP", || !is_carried());
    assert!(!is_carried(), "the kernel has been told");
    add_second_path(&site);
    wait_for("SCTP over two paths", is_carried);
    let report = group.end(&site, Host::Left, "-TERM");
    let report: Value = serde_json::from_str(report.trim()).unwrap();
    assert_eq!(report["tcp_relay"], 1, "{report}");
    assert!(report["left_to_the_kernel"]["remembered"].as_u64() >= Some(1), "{report}");
}

/// Its own trial has a single answer to go by, which a busy machine may delay: a stack that runs knows.
#[test]
fn the_doctor_says_why_and_calls_nobody_ill() {
    let site = site(1);
    let mut program = Program::start(&site, &["--step-aside", "auto"]);
    wait_for("plain TCP", || !program.connect(&site));
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["doctor", &site.server()]);
    let said = finish(command);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains(REASON), "{said:?}");
    assert!(said.stdout.contains("manypath config set step_aside=never"), "{said:?}");
    program.end();
}
