//! Processes of manypath that are suspended (SIGSTOP) for longer than they wait for each other, while connections of every
//! age are there: some carried, some being made, some not begun. The kernel carries TCP: a program that uses it would
//! notice nothing.

use crate::common::cgroup::Group;
use crate::common::{Site, wait_for};
use manypath_lab::Host;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Clients and servers that check what they get.
const SOAK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/soak.py");
/// One begins after the other, a step later.
const PROGRAMS: usize = 24;
const STEP: Duration = Duration::from_millis(40);
/// So many of them are carried when the others are suspended: a busy machine takes its time to start a program.
const CARRIED: u64 = PROGRAMS as u64 / 4;
/// Longer than any process of manypath waits for another one.
const SUSPENSION: Duration = Duration::from_secs(12);
/// A connect takes some round trips of 100 ms, so that many are under way at a time.
const PATHS: [&str; 2] = ["100mbit,50ms,queue=1000", "100mbit,50ms,queue=1000"];

/// Hosts on which a busy processor does not look like a silent peer.
fn hosts() -> Site {
    let mut site = Site::with_paths(&PATHS);
    let settings = "step_aside = never\ntcp_race = off\nfallback_timeout_ms = 2000\n";
    std::fs::write(site.dir.join("sysctl.conf"), settings).expect("settings");
    site.web();
    site.random_file("file", 400_000);
    site
}

fn site() -> Site {
    let mut site = hosts();
    site.service("python3", &[SOAK, "digest", "7000"], "tcp", 7000);
    site.serve("7000,8080");
    site
}

/// A sender that pauses between its pieces, or such a reader.
fn args(site: &Site, number: usize, port: u16) -> Vec<String> {
    let seed = number.to_string();
    let args = match number.is_multiple_of(2) {
        true => ["pausing-sender", &site.server(), &port.to_string(), "3", &seed],
        false => ["pausing-reader", &site.server(), "8080", "/file", &seed],
    };
    [SOAK].into_iter().chain(args).map(str::to_owned).collect()
}

/// Begins the programs; `command` makes one of what its interpreter is to run.
fn begin(site: &Site, port: u16, command: impl Fn(&[&str]) -> Command) -> Vec<Child> {
    let one = |number| {
        let args = args(site, number, port);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = command(&args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("a program");
        sleep(STEP);
        child
    };
    let programs = (0..PROGRAMS).map(one).collect();
    wait_for_some(site);
    programs
}

fn send(signal: &str, processes: &[u32]) {
    // Some of them may have ended.
    let processes = processes.iter().map(u32::to_string);
    let _ = Command::new("kill").arg(signal).args(processes).stderr(Stdio::null()).status();
}

/// Waits until some programs are carried.
fn wait_for_some(site: &Site) {
    wait_for("some connections", || {
        let status = site.door_status(Host::Right);
        status["counters"]["stack_relays_started"].as_u64() >= Some(CARRIED)
    });
}

/// Suspends the processes, and looks whether everything arrives at and from each program.
fn check(site: &Site, programs: Vec<Child>, suspended: &[u32]) {
    assert!(!suspended.is_empty());
    send("-STOP", suspended);
    sleep(SUSPENSION);
    send("-CONT", suspended);
    let file = site.dir.join("www/file");
    let digest = Command::new("sha256sum").arg(file).output().expect("sha256sum").stdout;
    let digest = String::from_utf8_lossy(&digest).split(' ').next().expect("a digest").to_owned();
    let ends = programs.into_iter().map(|one| one.wait_with_output().expect("its end"));
    let mut lost = Vec::new();
    for (number, end) in ends.enumerate() {
        let said = String::from_utf8_lossy(&end.stdout);
        let expected = if number.is_multiple_of(2) { "" } else { &digest };
        if !end.status.success() || said.trim() != expected {
            lost.push((
                number,
                said.into_owned(),
                String::from_utf8_lossy(&end.stderr).into_owned(),
            ));
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}

/// Programs under a `manypath run` each, with a stack each.
fn under_run(site: &Site, port: u16) -> Vec<Child> {
    begin(site, port, |args| site.through_command(&["-v"], "python3", args))
}

fn launchers(programs: &[Child]) -> Vec<u32> {
    programs.iter().map(Child::id).collect()
}

/// Those that have been started by now.
fn stacks(programs: &[Child]) -> Vec<u32> {
    let of = |launcher: u32| {
        let place = format!("/proc/{launcher}/task/{launcher}/children");
        let children = std::fs::read_to_string(place).unwrap_or_default();
        let children: Vec<u32> = children.split(' ').filter_map(|pid| pid.parse().ok()).collect();
        let is_stack = |pid: &u32| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split('\0').nth(1) == Some("stack")
        };
        children.into_iter().find(is_stack)
    };
    programs.iter().filter_map(|program| of(program.id())).collect()
}

#[test]
#[ignore = "takes half a minute: make test-full"]
fn suspended_launchers_lose_no_connection() {
    let site = site();
    let programs = under_run(&site, 7000);
    let suspended = launchers(&programs);
    check(&site, programs, &suspended);
}

#[test]
#[ignore = "takes half a minute: make test-full"]
fn suspended_stacks_of_launchers_lose_no_connection() {
    let site = site();
    let programs = under_run(&site, 7000);
    let suspended = stacks(&programs);
    check(&site, programs, &suspended);
}

#[test]
#[ignore = "takes half a minute: make test-full"]
fn launchers_that_are_suspended_with_their_stacks_lose_no_connection() {
    let site = site();
    let programs = under_run(&site, 7000);
    let suspended = [launchers(&programs), stacks(&programs)].concat();
    check(&site, programs, &suspended);
}

#[test]
#[ignore = "takes half a minute: make test-full"]
fn a_suspended_server_loses_no_connection() {
    let site = site();
    let server = site.server_status()["pid"].as_u64().expect("a process");
    let programs = under_run(&site, 7000);
    check(&site, programs, &[u32::try_from(server).expect("a number")]);
}

/// The launcher of a server under `manypath run`, and the stack by which peers come to it.
#[test]
#[ignore = "takes a minute: make test-full"]
fn a_server_under_run_loses_no_connection_whichever_process_is_suspended() {
    for door in [false, true] {
        let mut site = hosts();
        site.service_through("python3", &[SOAK, "digest", "7100"], "tcp", 7100);
        wait_for("the door", || !site.door_status(Host::Right)["pid"].is_null());
        let stack = site.door_status(Host::Right)["pid"].as_u64().expect("a process");
        let launcher = site.services.last().expect("the server").id();
        let programs = under_run(&site, 7100);
        let suspended = if door { u32::try_from(stack).expect("a number") } else { launcher };
        check(&site, programs, &[suspended]);
    }
}

#[test]
#[ignore = "takes a minute: make test-full"]
fn a_suspended_attach_or_its_stack_loses_no_connection() {
    for stack in [false, true] {
        let site = site();
        let Some(mut group) = Group::new() else { return };
        group.attach(&site, Host::Left, &["--client-only"]);
        let suspended = if stack { group.stack() } else { group.pid() };
        let programs = begin(&site, 7000, |args| group.command(&site, Host::Left, "python3", args));
        check(&site, programs, &[suspended]);
        group.end(&site, Host::Left, "-TERM");
    }
}
