//! `manypath run` on machines that let it do less: older kernels, containers, services, sandboxes. A program works
//! there as it does without manypath, and one line says why it is not carried and what to do.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::machines::{DOCKER, forbidding, on_kernel};
use common::{Finished, MANYPATH, Site, find, finish, in_cgroup, wait_for};
use manypath_lab::Host;
use std::process::{Child, Command, Stdio};

/// A site whose server is reached both ways.
fn site() -> Option<Site> {
    if in_cgroup() {
        eprintln!("SKIPPED: about `manypath run` alone");
        return None;
    }
    let mut site = Site::new();
    site.web();
    site.random_file("file", 10_000);
    site.serve("8080");
    Some(site)
}

/// What curl says after a download from the server, through `manypath run`.
fn download(site: &Site, mut command: Command, options: &[&str]) -> Finished {
    let url = format!("http://{}:8080/file", site.server());
    command.arg("run").args(options).arg("--").arg(find("curl"));
    command.args(["-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", &url]);
    finish(command)
}

/// The page came, and not over SCTP; one line says why.
fn assert_plain(site: &Site, done: &Finished, words: &[&str]) {
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "200"), "{done:?}");
    assert_eq!(site.server_counter("stack_relays_started"), 0, "{done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    assert!(done.stderr.starts_with("manypath: all connections are plain TCP: "), "{done:?}");
    words.iter().for_each(|word| assert!(done.stderr.contains(word), "{word}: {done:?}"));
}

#[test]
fn a_kernel_without_answers_that_go_on_runs_programs_as_they_are() {
    let Some(site) = site() else { return };
    for kernel in ["5.4", "5.5"] {
        let done = download(&site, on_kernel(&site, Host::Left, kernel), &[]);
        let here = format!("this is {kernel}");
        assert_plain(&site, &done, &["Linux 5.6 or newer is needed", &here]);
    }
}

#[test]
fn a_kernel_that_cannot_give_descriptors_carries_clients() {
    let Some(site) = site() else { return };
    for kernel in ["5.8", "5.13"] {
        let done = download(&site, on_kernel(&site, Host::Left, kernel), &[]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "200"), "{done:?}");
        assert_eq!(done.stderr, "");
    }
    assert_eq!(site.server_counter("stack_relays_started"), 2);
}

/// Says hello to so many clients, and how many descriptors it has then. A signal is only heard.
const GREETER: &str = "
import os, signal, socket, sys
signal.signal(signal.SIGUSR1, lambda *_: print('interrupted', file=sys.stderr, flush=True))
listener = socket.create_server(('0.0.0.0', 7000))
for _ in range(int(sys.argv[1])):
    client, address = listener.accept()
    client.sendall(f'hello {address[0]}'.encode())
    client.close()
    print(len(os.listdir('/proc/self/fd')), file=sys.stderr, flush=True)
";

/// Reads what the server says until its end.
const GREETED: &str = "
import socket, sys
with socket.create_connection((sys.argv[1], 7000), timeout=10) as s:
    print(s.makefile().read())
";

/// The greeter on the right host under manypath on a kernel, once it listens.
fn greeter(site: &Site, kernel: &str, clients: u32, interrupt: bool) -> Child {
    let mut command = on_kernel(site, Host::Right, kernel);
    if interrupt {
        command.env("INTERRUPT_ACCEPT", "1");
    }
    command.args(["run", "--report", "--"]).arg(find("python3"));
    command.args(["-c", GREETER, &clients.to_string()]);
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the server", || common::bound(child.id(), "tcp", 7000));
    child
}

/// Everything that the server and its launcher have said.
fn said(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
}

#[test]
fn a_kernel_that_cannot_give_descriptors_leaves_servers_to_tcp_and_says_so_once() {
    let Some(site) = site() else { return };
    let server = greeter(&site, "5.8", 2, false);
    for _ in 0..2 {
        let done = site.through("python3", &["-c", GREETED, &site.server()]);
        let own = site.lab.address(Host::Left, 0);
        assert_eq!(done.stdout, format!("hello {own}\n"), "{done:?}");
    }
    let said = said(server);
    assert_eq!(said.matches("Linux 5.9 or newer is needed").count(), 1, "{said}");
    assert!(said.contains("not offered: old-kernel=1"), "{said}");
}

#[test]
fn a_server_is_given_connections_in_two_steps_where_one_is_too_many() {
    let Some(site) = site() else { return };
    let server = greeter(&site, "5.13", 2, false);
    let own = site.lab.address(Host::Left, 0);
    for done in [
        site.direct("python3", &["-c", GREETED, &site.server()]),
        site.through("python3", &["-c", GREETED, &site.server()]),
    ] {
        assert_eq!(done.stdout, format!("hello {own}\n"), "{done:?}");
    }
    let said = said(server);
    assert!(said.contains("listeners offered=1 accepted sctp=1 tcp=1"), "{said}");
}

/// The process has the connection then under a number that it does not know. Kept there besides, it would not end
/// when the server closes it.
#[test]
fn a_call_that_is_interrupted_between_the_two_steps_gets_the_connection_when_it_is_repeated() {
    let Some(site) = site() else { return };
    let server = greeter(&site, "5.13", 2, true);
    for _ in 0..2 {
        let done = site.direct("python3", &["-c", GREETED, &site.server()]);
        assert!(done.stdout.starts_with("hello "), "{done:?}");
    }
    let said = said(server);
    assert!(said.starts_with("interrupted\n"), "{said}");
    let counts: Vec<&str> = said.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    assert!(counts.len() == 2 && counts[0] == counts[1], "a descriptor is left: {said}");
}

#[test]
fn a_container_that_forbids_looking_into_processes_runs_programs_as_they_are() {
    let Some(site) = site() else { return };
    let done = download(&site, forbidding(&site, Host::Left, &DOCKER), &[]);
    assert_plain(&site, &done, &["forbids pidfd_getfd", "--cap-add SYS_PTRACE"]);
    std::fs::write(site.dir.join("rules"), "remote enable sctp-only=on\n").unwrap();
    let done = download(&site, forbidding(&site, Host::Left, &DOCKER), &[]);
    let notice = "connections are plain TCP, also where a rule allows SCTP only: ";
    assert!(done.stderr.contains(notice), "{done:?}");
    let mut command = forbidding(&site, Host::Left, &DOCKER);
    command.args(["run", "--json", "--", "sh", "-c", "exit 7"]);
    let done = finish(command);
    assert_eq!(done.code, Some(7), "{done:?}");
    assert!(done.stderr.contains(r#""obstacle":"call-forbidden""#), "{done:?}");
}

#[test]
fn a_service_whose_filter_kills_is_not_killed() {
    let Some(site) = site() else { return };
    for call in ["pidfd_getfd", "pidfd_open", "seccomp"] {
        let spec = format!("kill:{call}");
        let done = download(&site, forbidding(&site, Host::Left, &[&spec]), &[]);
        let cure = format!("SystemCallFilter={call}");
        assert_plain(&site, &done, &[&format!("kills programs that call {call};"), &cure]);
    }
}

#[test]
fn a_machine_that_keeps_processes_apart_runs_programs_as_they_are() {
    let Some(site) = site() else { return };
    let done = download(&site, forbidding(&site, Host::Left, &["reach"]), &[]);
    assert_plain(&site, &done, &["lets no program look into another one", "run as root"]);
}

#[test]
fn a_listener_of_somebody_else_is_not_taken_for_a_launcher() {
    let Some(site) = site() else { return };
    let done = download(&site, forbidding(&site, Host::Left, &["listener"]), &[]);
    assert_plain(&site, &done, &["another program", "outside of it"]);
    assert!(!done.stderr.contains("already inside"), "{done:?}");
}

#[test]
fn without_proc_the_command_is_run() {
    let Some(site) = site() else { return };
    let mut command = site.command(Host::Left, find("unshare"));
    let script = format!("umount -l /proc && exec {MANYPATH} \"$@\"");
    command.args(["-m", "sh", "-c", &script, "sh"]);
    let done = download(&site, command, &[]);
    assert_plain(&site, &done, &["/proc is not mounted"]);
}

/// As the images of many servers do in containers: root starts, and becomes somebody else.
#[test]
fn a_program_that_becomes_another_user_in_a_container_is_named() {
    let Some(site) = site() else { return };
    let mut command = site.command(Host::Left, find("setpriv"));
    let less = ["--bounding-set", "-sys_ptrace", "--inh-caps", "-all"];
    command.args(less).args([MANYPATH, "run", "--report", "--"]).arg(find("setpriv"));
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(find("curl"));
    let url = format!("http://{}:8080/file", site.server());
    command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url]);
    let done = finish(command);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "200"), "{done:?}");
    let notice = "manypath: connections of curl (user 65534) are plain TCP: ";
    assert_eq!(done.stderr.matches("manypath: ").count(), 3, "a notice and a report: {done:?}");
    assert!(done.stderr.starts_with(notice), "{done:?}");
    assert!(done.stderr.contains("CAP_SYS_PTRACE is missing"), "{done:?}");
    assert!(done.stderr.contains("out-of-reach="), "{done:?}");
}

#[test]
fn the_doctor_says_what_keeps_run_from_carrying() {
    let Some(site) = site() else { return };
    let host = format!("{}:8080", site.server());
    let mut command = forbidding(&site, Host::Left, &DOCKER);
    command.args(["doctor", &host]);
    let done = finish(command);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("broken: run-plain-tcp: "), "{done:?}");
    assert!(done.stdout.contains("--cap-add SYS_PTRACE"), "{done:?}");
    let mut command = forbidding(&site, Host::Left, &["listener"]);
    command.args(["doctor", &host, "--json"]);
    let done = finish(command);
    assert!(done.stdout.contains(r#""obstacle": "other-listener""#), "{done:?}");
    // Where all is well it says so, too.
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["doctor", &host]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("manypath run carries clients and servers"), "{done:?}");
}
