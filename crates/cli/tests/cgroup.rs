//! Programs in a cgroup that know nothing of manypath: what they can see, and that they are carried.

use crate::common;

use common::cgroup::{Group, alive};
use common::clients::{self, carried, web_site};
use common::probe::{arguments, compare, over_ipv4, over_ipv6, probed_site};
use common::{Finished, MANYPATH, Site, find, finish, options, wait_for};
use manypath_lab::Host;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// What was studied of ways to take connections over (rows of a table of programs' views), and the checks of
/// the probe that have it.
const VIEWS: [(&str, &[&str]); 15] = [
    ("epoll registered before connect", &["epoll registered before connect, edge-triggered"]),
    ("non-blocking connect", &["non-blocking, poll and select", "connect while connecting"]),
    ("refused, non-blocking", &["refused, non-blocking: every event"]),
    ("refused, blocking; retry", &["refused, blocking; retry on the same socket"]),
    ("second connect after success", &["second connect after success, blocking"]),
    ("options set before connect", &["options set before connect are kept"]),
    ("options of a connected socket", &["options of a connected socket"]),
    ("SO_DOMAIN, SO_PROTOCOL", &["family, type, protocol"]),
    (
        "half-close, sendfile, splice, linger",
        &["half-close", "sendfile and splice", "reset by linger", "close is no reset"],
    ),
    (
        "fork, SCM_RIGHTS",
        &[
            "fork before use",
            "connect in a child, socket passed back",
            "non-blocking connect begun here",
        ],
    ),
    ("dup", &["dup before connect", "connect through the dup"]),
    ("bind before connect", &["bind(source) before connect", "bind(port) before connect"]),
    ("time limit of connect", &["connect time-out of 1 s", "SO_SNDTIMEO of 0.5 s"]),
    ("getpeername, getsockname", &["names: peer", "names: truncation", "names: before, during"]),
    (
        "left alone",
        &["UDP is left alone", "MPTCP sockets are left alone", "loopback is left alone"],
    ),
];

fn probe(site: &Site, addresses: &[String; 4]) {
    let Some(mut group) = Group::new() else { return };
    let args = arguments(addresses);
    let direct = site.direct("python3", &args);
    group.attach(site, Host::Left, &["--report"]);
    let before = site.server_counter("flow_incoming");
    let through = group.through(site, "python3", &args);
    eprintln!("{}", group.end(site, Host::Left, "-TERM"));
    compare(&direct, &through);
    for (view, checks) in VIEWS {
        let had = |check: &&str| through.stdout.lines().any(|line| line.starts_with(check));
        assert!(checks.iter().all(had), "{view}: {through:?}");
    }
    let carried = site.server_counter("flow_incoming") - before;
    assert!(carried > 150, "only {carried} connections went through manypath");
}

#[test]
fn the_probe_prints_the_same_over_ipv4() {
    let site = probed_site();
    probe(&site, &over_ipv4(&site));
}

#[test]
fn the_probe_prints_the_same_over_ipv6() {
    let site = probed_site();
    probe(&site, &over_ipv6(&site));
}

/// Lets `act` run programs of the left host in a cgroup that manypath serves.
fn in_group(site: &Site, act: impl FnOnce(&dyn Fn(&str, &[&str]) -> Command)) {
    let Some(mut group) = Group::new() else { return };
    group.attach(site, Host::Left, &["--client-only", "--report"]);
    act(&|program, args| group.command(site, Host::Left, program, args));
}

#[test]
fn curl_fetches_one_file_and_many_in_parallel_over_both_families() {
    let site = web_site();
    in_group(&site, |run| clients::curl(&site, run));
}

#[test]
fn openssh_programs_work() {
    let mut site = Site::new();
    site.ssh();
    site.serve("2222");
    in_group(&site, |run| clients::openssh(&site, run));
}

#[test]
fn netcat_half_closes() {
    let mut site = Site::new();
    site.serve("7000");
    in_group(&site, |run| clients::netcat(&site, run));
}

#[test]
fn event_loops_and_static_programs_work() {
    let site = web_site();
    in_group(&site, |run| {
        clients::event_loops(&site, run);
        clients::static_go(&site, run);
    });
}

/// Nobody may look into it, so `manypath run` without root leaves it alone.
#[test]
fn programs_that_may_not_be_looked_into_are_caught() {
    let site = web_site();
    let program = "import ctypes, sys, urllib.request\n\
        assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0\n\
        print(len(urllib.request.urlopen(sys.argv[1]).read()))";
    let url = format!("http://{}:8080/small", site.server());
    in_group(&site, |run| {
        let done = carried(&site, 1, || finish(run("python3", &["-c", program, &url])));
        assert_eq!(done.stdout.trim(), "10000", "{done:?}");
    });
}

/// What `manypath run` cannot see: io_uring, and setuid programs that lose their rights under it.
#[test]
fn io_uring_and_setuid_programs_are_caught() {
    let site = web_site();
    let url = format!("http://{}:8080/small", site.server());
    let uring = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/io_uring_connect.py");
    in_group(&site, |run| {
        let server = site.server();
        let done = carried(&site, 1, || finish(run("python3", &[uring, &server, "8080"])));
        assert_eq!(done.stdout.trim(), format!("0 {server} 8080 True"), "{done:?}");
        // Started by nobody, root all the same: only root can write there.
        let curl = site.dir.join("setuid-curl");
        fs::copy(find("curl"), &curl).expect("a copy");
        fs::set_permissions(&curl, fs::Permissions::from_mode(0o4755)).expect("setuid");
        let (curl, out) = (curl.display().to_string(), site.dir.join("got").display().to_string());
        let nobody = ["--reuid", "65534", "--clear-groups", &curl, "-sS", "-f", "-o", &out, &url];
        let done = carried(&site, 1, || finish(run("setpriv", &nobody)));
        assert_eq!(done.code, Some(0), "{done:?}");
        let su = format!("curl -sS -f -o /dev/null {url}");
        let done = carried(&site, 1, || finish(run("su", &["-s", "/bin/sh", "nobody", "-c", &su])));
        assert_eq!(done.code, Some(0), "{done:?}");
    });
}

/// What cannot be taken to the gate must not be plain TCP where a rule forbids that.
#[test]
fn a_connect_that_must_not_be_plain_tcp_is_refused() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    let server = site.server();
    let rules =
        format!("remote enable port 8079\nremote enable host {server} port 8080 sctp-only=on\n");
    fs::write(site.dir.join("rules"), rules).expect("rules");
    let program = "
import errno, socket, sys
device = [name for _, name in socket.if_nameindex() if name != 'lo'][0]
for port, bound in (8080, True), (8081, True), (8080, False):
    s = socket.socket()
    s.settimeout(10)
    if bound:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    print(errno.errorcode.get(s.connect_ex((sys.argv[1], port)), 0))";
    group.attach(&site, Host::Left, &["--report"]);
    let done = carried(&site, 1, || group.through(&site, "python3", &["-c", program, &server]));
    assert_eq!(done.stdout, "EPERM\nECONNREFUSED\n0\n", "{done:?}");
    let report = group.end(&site, Host::Left, "-TERM");
    for words in ["bound-to-device=1", "refused, as only SCTP may be used=1"] {
        assert!(report.contains(words), "{report}");
    }
}

#[test]
fn options_of_sockets_decide_class_and_patience() {
    for v6 in [false, true] {
        let site = options::site();
        in_group(&site, |run| options::decide(&site, v6, run));
    }
}

/// Fetches a small file, plainly or through manypath, and asserts which.
pub(crate) fn fetch(site: &Site, group: &Group, flows: u64) -> Finished {
    let url = format!("http://{}:8080/small", site.server());
    let done = carried(site, flows, || {
        group.through(site, "curl", &["-sS", "-f", "-o", "/dev/null", &url])
    });
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

#[test]
fn a_killed_daemon_leaves_plain_tcp_at_once_and_nothing_in_the_kernel() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    for signal in ["-KILL", "-TERM"] {
        group.attach(&site, Host::Left, &["--report"]);
        let objects = group.ebpf();
        assert!(objects.len() >= 9 + 9 + 8, "{objects:?}");
        assert_eq!(alive(&objects).len(), objects.len());
        fetch(&site, &group, 1);
        group.end(&site, Host::Left, signal);
        // The very next connect: the kernel takes the links away with the process.
        let done = fetch(&site, &group, 0);
        assert!(done.time.as_secs() < 1, "{done:?}");
        wait_for("nothing to be left", || alive(&objects).is_empty());
    }
}

/// What a second `manypath attach` says that does not begin.
fn refused(site: &Site, dir: &Path, by: &Group) {
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["attach", "--client-only", "--cgroup"]).arg(dir);
    let done = finish(command);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    let (pid, place) = (by.pid(), by.dir.display());
    let says = format!("manypath {pid} carries the programs of {place} already");
    assert!(done.stderr.contains(&says), "{done:?}");
    assert!(done.stderr.contains(&format!("to end that one: kill {pid}")), "{done:?}");
}

#[test]
fn a_second_one_on_a_cgroup_or_above_or_below_it_is_refused() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    let dir = group.dir.join("below");
    fs::create_dir(&dir).expect("a cgroup below");
    group.attach(&site, Host::Left, &["--client-only"]);
    refused(&site, &group.dir, &group);
    refused(&site, &dir, &group);
    // One in another network has nothing to do with it.
    let mut other = Group::to_be_made(group.dir.clone());
    other.attach(&site, Host::Right, &["--client-only"]);
    fetch(&site, &group, 1);
    other.end(&site, Host::Right, "-TERM");
    group.end(&site, Host::Left, "-TERM");

    let mut below = Group::to_be_made(dir);
    below.attach(&site, Host::Left, &["--client-only"]);
    refused(&site, &group.dir, &below);
    below.end(&site, Host::Left, "-KILL");
    drop(below);
    group.attach(&site, Host::Left, &["--client-only"]);
    fetch(&site, &group, 1);
}

/// The kernel sends the SYN that waits at the gate again after a second: it is the same connect.
#[test]
fn a_connect_that_takes_longer_than_a_second_succeeds() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only"]);
    let path = site.lab.path("A").expect("a path");
    path.down().expect("down");
    let url = format!("http://{}:8080/small", site.server());
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            sleep(Duration::from_millis(1100));
            path.up().expect("up");
        });
        // All INITs, and the SYN of plain TCP, are lost at first.
        group.through(&site, "curl", &["-sS", "-f", "-o", "/dev/null", &url])
    });
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.time.as_secs_f64() > 1.0, "it did not take long: {done:?}");
}

/// The same where manypath is late: the answer to the connect waits for it, and so does the word of the second SYN.
#[test]
fn a_syn_that_is_sent_again_while_its_connect_is_answered_is_no_second_connect() {
    let mut site = Site::with_paths(&["100mbit,100ms", "100mbit,100ms"]);
    site.web();
    site.random_file("small", 10_000);
    site.serve("8080");
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only", "--report"]);
    let url = format!("http://{}:8080/small", site.server());
    let args = ["-sS", "-f", "-o", "/dev/null", &url];
    let mut curl = group.command(&site, Host::Left, "curl", &args).spawn().expect("curl");
    wait_for("the connect", || {
        let mut ss = site.command(Host::Left, find("ss"));
        ss.args(["-Htn", "state", "syn-sent"]);
        finish(ss).stdout.contains("127.0.0.1")
    });
    // manypath has asked its stack, which takes three round trips of 200 ms.
    let (pid, second) = (group.pid().to_string(), Duration::from_secs(1));
    sleep(second / 5);
    for (signal, pause) in [("-STOP", second), ("-CONT", Duration::ZERO)] {
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill");
        assert!(sent.success());
        sleep(pause);
    }
    assert_eq!(curl.wait().expect("its end").code(), Some(0));
    let report = group.end(&site, Host::Left, "-TERM");
    assert!(report.contains("opened=1 sctp=1 "), "{report}");
    assert_eq!(site.server_counter("stack_relays_started"), 1);
}

/// What programs see when manypath dies: connects that begin a second later at most are plain TCP.
fn outage(site: &Site, group: &Group, signal: &str, pid: u32) -> serde_json::Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/outage.py");
    let pid = pid.to_string();
    let done = group.through(site, "python3", &[script, &site.server(), "8080", &pid, signal]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let seen: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    eprintln!("{signal}: {seen}");
    assert!(seen["before"].as_u64() > Some(20), "{seen}");
    assert!(seen["after"].as_u64() > Some(50), "{seen}");
    seen
}

#[test]
fn programs_have_plain_tcp_within_a_second_of_the_death_of_the_daemon_or_its_stack() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    for (signal, stack) in [("KILL", false), ("KILL", true), ("TERM", false)] {
        group.attach(&site, Host::Left, &["--client-only"]);
        let pid = if stack { group.stack() } else { group.pid() };
        let seen = outage(&site, &group, signal, pid);
        assert!(seen["recovered_ms"].as_f64() < Some(1000.0), "{seen}");
        group.end(&site, Host::Left, "-TERM");
    }
}

/// Nobody can know at once that a stack hangs; a connect that it has not answered for a second shows it. Those that
/// wait for it do so until it goes on, as does the rest.
#[test]
fn programs_have_plain_tcp_soon_after_their_stack_hangs() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only"]);
    let seen = outage(&site, &group, "STOP", group.stack());
    assert!(seen["recovered_ms"].as_f64() < Some(2000.0), "{seen}");
    assert_eq!(seen["failed"], 0, "{seen}");
    let carried = site.server_counter("stack_relays_started");
    wait_for("connects that are carried again", || {
        let url = format!("http://{}:8080/small", site.server());
        let done = group.through(&site, "curl", &["-sS", "-f", "-o", "/dev/null", &url]);
        assert_eq!(done.code, Some(0), "{done:?}");
        site.server_counter("stack_relays_started") > carried
    });
    let notes = group.end(&site, Host::Left, "-TERM");
    assert!(notes.contains("programs use plain TCP until it does"), "{notes}");
}

/// Also when the only connect that has shown it was given up long before.
#[test]
fn a_stack_that_hangs_for_half_a_minute_counts_as_dead() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only"]);
    let stack = group.stack().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &stack]).status().expect("kill").success());
    };
    signal("-STOP");
    let url = format!("http://{}:8080/small", site.server());
    let done = group.through(&site, "curl", &["-sS", "-m", "3", "-o", "/dev/null", &url]);
    assert_eq!(done.code, Some(28), "{done:?}");
    assert!(!group.links().is_empty(), "it has ended at once");
    sleep(Duration::from_secs(25));
    wait_for("the end of attach", || group.links().is_empty());
    signal("-KILL");
    let notes = group.wait(&site, Host::Left);
    assert!(notes.contains("the stack does not answer; programs use plain TCP\n"), "{notes}");
}

#[test]
fn without_a_stack_nothing_stays_attached() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only"]);
    let objects = group.ebpf();
    fetch(&site, &group, 1);
    group.kill_stack();
    wait_for("nothing to be left", || alive(&objects).is_empty());
    fetch(&site, &group, 0);
    let said = group.end(&site, Host::Left, "-TERM");
    assert!(said.contains("programs use plain TCP"), "{said}");
}

#[test]
fn rules_hold_inside_connect_and_change_live() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    fs::write(site.dir.join("rules"), "remote disable port 8080\n").expect("rules");
    group.attach(&site, Host::Left, &["--client-only", "--json"]);
    fetch(&site, &group, 0);
    let mut delete = site.command(Host::Left, common::MANYPATH);
    delete.args(["rules", "delete", "remote", "disable", "port", "8080"]);
    let done = finish(delete);
    assert_eq!(done.code, Some(0), "{done:?}");
    fetch(&site, &group, 1);
    let report = group.end(&site, Host::Left, "-TERM");
    assert!(report.contains("\"left_to_the_kernel\":{\"rule\":1}"), "{report}");
}

#[test]
fn a_service_without_sctp_is_relayed_once_and_then_left_to_the_kernel() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only", "--json"]);
    let url = format!("http://{}:8080/small", site.server());
    for _ in 0..3 {
        let done = group.through(&site, "curl", &["-sS", "-f", "-o", "/dev/null", &url]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let report = group.end(&site, Host::Left, "-TERM");
    assert!(report.contains("\"opened\":1,\"sctp\":0,\"tcp_relay\":1"), "{report}");
    assert!(report.contains("\"left_to_the_kernel\":{\"remembered\":2}"), "{report}");
}
