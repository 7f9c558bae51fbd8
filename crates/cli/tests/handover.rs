//! Programs of the C library hand over their sockets where the launcher may not copy them, as in containers of Docker's
//! default profile: they are carried as everywhere, and see the same.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::machines::{DOCKER, handing_over, on_kernel, with_library};
use common::probe::{arguments, compare, over_ipv4, over_ipv6, probed_site};
use common::{Finished, Site, bound, find, finish, in_cgroup, wait_for};
use manypath_lab::Host;
use std::process::{Child, Command, Stdio};

fn is_skipped() -> bool {
    if in_cgroup() {
        eprintln!("SKIPPED: about `manypath run` alone");
    }
    in_cgroup()
}

/// A site with a web server and `manypath serve`.
fn site() -> Site {
    let mut site = Site::new();
    site.web();
    site.random_file("file", 10_000);
    site.serve("8080");
    site
}

/// Runs a program on the left host, in a container.
fn contained(site: &Site, specs: &[&str], program: &str, args: &[&str]) -> Finished {
    let mut command = handing_over(site, Host::Left, specs);
    command.args(["run", "--report", "--"]).arg(find(program)).args(args);
    finish(command)
}

fn url(site: &Site) -> String {
    format!("http://{}:8080/file", site.server())
}

#[test]
fn clients_are_carried() {
    if is_skipped() {
        return;
    }
    let site = site();
    let url = url(&site);
    let python = "import sys, urllib.request as u; print(len(u.urlopen(sys.argv[1]).read()))";
    let node =
        "fetch(process.argv[1]).then(r => r.arrayBuffer()).then(b => console.log(b.byteLength))";
    for specs in [&DOCKER[..], &["kill:pidfd_getfd"]] {
        for (program, args) in [
            ("curl", vec!["-sS", "-o", "/dev/null", "-w", "%{size_download}\n", &url]),
            ("python3", vec!["-c", python, &url]),
            ("node", vec!["-e", node, &url]),
        ] {
            let done = contained(&site, specs, program, &args);
            assert_eq!((done.code, done.stdout.as_str()), (Some(0), "10000\n"), "{done:?}");
            assert!(done.stderr.contains("sctp=1 "), "{done:?}");
            assert!(!done.stderr.contains("out-of-reach"), "{done:?}");
            assert_eq!(done.stderr.lines().count(), 2, "a sentence and counts: {done:?}");
        }
    }
}

/// Whatever was preloaded before is preloaded after the library.
#[test]
fn a_kernel_without_copies_of_descriptors_carries_clients() {
    if is_skipped() {
        return;
    }
    let site = site();
    let url = url(&site);
    let mut command = with_library(on_kernel(&site, Host::Left, "5.5"));
    command.args(["run", "--report", "--"]).arg(find("curl"));
    command.args(["-sS", "-o", "/dev/null", "-w", "%{size_download}", &url]);
    let done = finish(command);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "10000"), "{done:?}");
    assert!(done.stderr.contains("sctp=1 "), "{done:?}");
}

#[test]
fn the_doctor_says_which_programs_are_carried() {
    if is_skipped() {
        return;
    }
    let site = site();
    let mut command = handing_over(&site, Host::Left, &DOCKER);
    command.args(["doctor", &format!("{}:8080", site.server())]);
    let done = finish(command);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("carries programs of the C library, not static ones"), "{done:?}");
    assert!(done.stdout.contains("degraded: run-plain-tcp: static programs"), "{done:?}");
    let mut command = with_library(on_kernel(&site, Host::Left, "5.5"));
    command.args(["doctor", &format!("{}:8080", site.server())]);
    let done = finish(command);
    assert!(done.stdout.contains("and no servers"), "{done:?}");
    assert!(done.stdout.contains("degraded: run-plain-tcp: servers and static"), "{done:?}");
}

#[test]
fn a_client_sees_the_same_as_without_manypath() {
    if is_skipped() {
        return;
    }
    let site = probed_site();
    for addresses in [over_ipv4(&site), over_ipv6(&site)] {
        let args = arguments(&addresses);
        let direct = site.direct("python3", &args);
        let before = site.server_counter("flow_incoming");
        let through = contained(&site, &DOCKER, "python3", &args);
        compare(&direct, &through);
        let carried = site.server_counter("flow_incoming") - before;
        assert!(carried > 150, "only {carried} connections went through manypath");
    }
}

/// A server on the right host, in a container, once it listens.
fn server(site: &Site, program: &str, args: &[&str], port: u16) -> Child {
    let mut command = handing_over(site, Host::Right, &DOCKER);
    command.args(["run", "--report", "--"]).arg(find(program)).args(args);
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the server", || bound(child.id(), "tcp", port));
    child
}

/// Ends a server and returns what it and its launcher have said.
fn end(server: Child) -> String {
    let done = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(done.success());
    String::from_utf8(server.wait_with_output().unwrap().stderr).unwrap()
}

#[test]
fn nginx_with_workers_serves_both_kinds_of_clients() {
    if is_skipped() {
        return;
    }
    let site = Site::new();
    site.random_file("file", 10_000);
    let d = site.dir.display();
    let conf = format!(
        "daemon off;\nmaster_process on;\nworker_processes 2;\nuser root;\npid {d}/pid;\n\
         error_log {d}/error.log;\nevents {{}}\nhttp {{\naccess_log {d}/access.log;\n\
         server {{ listen 0.0.0.0:8080; root {d}/www; }}\n}}\n"
    );
    let file = site.dir.join("conf").display().to_string();
    std::fs::write(&file, conf).unwrap();
    let log = site.dir.join("error.log").display().to_string();
    let nginx = server(&site, "nginx", &["-c", &file, "-e", &log], 8080);
    let (url, own) = (url(&site), site.lab.address(Host::Left, 0).to_string());
    let args = ["-sS", "-o", "/dev/null", "-w", "%{size_download}", &url];
    for done in [site.direct("curl", &args), site.through("curl", &args)] {
        assert_eq!(done.stdout, "10000", "{done:?}");
    }
    let said = end(nginx);
    assert!(said.contains("listeners offered=1 accepted sctp=1 tcp=1"), "{said}");
    let access = std::fs::read_to_string(site.dir.join("access.log")).unwrap();
    assert_eq!(access.lines().filter(|line| line.starts_with(&own)).count(), 2, "{access}");
}

/// The kernel repeats a call that a signal has interrupted, without the C library.
#[test]
fn calls_that_are_repeated_after_signals_are_served() {
    if is_skipped() {
        return;
    }
    let site = Site::new();
    let text = "import os, signal, socket, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.siginterrupt(signal.SIGUSR1, False)
listener = socket.create_server(('0.0.0.0', 7000))
if os.fork() == 0:
    import time
    for _ in range(40):
        time.sleep(0.02); os.kill(os.getppid(), signal.SIGUSR1)
    os.execlp('sleep', 'sleep', '30')
for _ in range(2):
    client, address = listener.accept()
    client.sendall(address[0].encode()); client.close()
os.kill(0, signal.SIGTERM)";
    let server = server(&site, "setsid", &["-w", "python3", "-c", text], 7000);
    let ask = "import socket, sys, time
time.sleep(0.4)
with socket.create_connection((sys.argv[1], 7000), timeout=20) as s: print(s.makefile().read())";
    let own = site.lab.address(Host::Left, 0);
    let args = ["-c", ask, &site.server()];
    for done in [site.through("python3", &args), site.direct("python3", &args)] {
        assert_eq!(done.stdout, format!("{own}\n"), "{done:?}");
    }
    let said = String::from_utf8(server.wait_with_output().unwrap().stderr).unwrap();
    assert!(
        said.contains("listeners offered=1 accepted sctp=1 tcp=1; not offered: none"),
        "{said}"
    );
}

/// It cannot hand over its socket then, and is told what the kernel would tell it.
#[test]
fn a_server_at_its_descriptor_limit_stays_offered() {
    if is_skipped() {
        return;
    }
    let site = Site::new();
    let text = "import errno, os, resource, signal, socket
listener = socket.create_server(('0.0.0.0', 7000))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
try:
    while True: os.dup(listener.fileno())
except OSError: pass
try: listener.accept()
except OSError as error: full = error.errno == errno.EMFILE
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
client, address = listener.accept()
client.sendall(f'{address[0]} {full}'.encode()); client.close()";
    let server = server(&site, "python3", &["-c", text], 7000);
    let ask = "import socket, sys, time
time.sleep(0.5)
with socket.create_connection((sys.argv[1], 7000), timeout=20) as s: print(s.makefile().read())";
    let done = site.through("python3", &["-c", ask, &site.server()]);
    let own = site.lab.address(Host::Left, 0);
    assert_eq!(done.stdout, format!("{own} True\n"), "{done:?}");
    let said = String::from_utf8(server.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("accepted sctp=1 tcp=0; not offered: none"), "{said}");
    assert_eq!(said.lines().count(), 2, "a sentence and counts: {said}");
}

/// A server that was killed while it waited must not keep its port.
#[test]
fn a_server_that_is_killed_while_it_waits_leaves_its_port() {
    if is_skipped() {
        return;
    }
    let site = Site::new();
    let waits = "import socket; socket.create_server(('0.0.0.0', 7000)).accept()";
    let again = "import socket, sys, time
for n in range(100):
    try:
        socket.create_server(('0.0.0.0', 7000)); sys.exit(0)
    except OSError: time.sleep(0.1)
sys.exit(1)";
    let script = format!(
        "python3 -c \"{waits}\" & sleep 1; kill -9 $!; wait $!; exec python3 -c \"{again}\""
    );
    let mut command = handing_over(&site, Host::Right, &DOCKER);
    command.args(["run", "--", "sh", "-c", &script]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_static_program_is_named_once_and_runs_as_it_is() {
    if is_skipped() {
        return;
    }
    let site = site();
    let source = site.dir.join("static.c");
    let text = "#include <arpa/inet.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(8080) };
    inet_pton(AF_INET, words[count - 1], &to.sin_addr);
    int connected = 0;
    for (int i = 0; i < 3; i++) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        connected += !connect(s, (void *)&to, sizeof to);
        close(s);
    }
    return 40 + connected;
}
";
    std::fs::write(&source, text).unwrap();
    let program = site.dir.join("static").display().to_string();
    let mut compiler = Command::new(find("cc"));
    compiler.args(["-static", "-o", &program]).arg(&source);
    assert!(compiler.status().unwrap().success());
    // As the command itself it is not put under a filter at all.
    let mut command = handing_over(&site, Host::Left, &DOCKER);
    command.args(["run", "--", &program, &site.server()]);
    let done = finish(command);
    assert_eq!((done.code, done.stderr.lines().count()), (Some(43), 1), "{done:?}");
    assert!(done.stderr.contains("--cap-add SYS_PTRACE"), "{done:?}");
    // Below a program that hands over its sockets.
    let script = format!("{program} {}; exit $?", site.server());
    let done = contained(&site, &DOCKER, "sh", &["-c", &script]);
    assert_eq!((done.code, done.stderr.lines().count()), (Some(43), 3), "{done:?}");
    assert!(done.stderr.contains("connections of static are plain TCP: "), "{done:?}");
    assert!(done.stderr.contains("out-of-reach=3"), "{done:?}");
    assert_eq!(site.server_counter("stack_relays_started"), 0);
}

/// A program that is linked with another C library, musl, as those of Alpine are.
#[test]
#[ignore = "slow; make test-full"]
fn a_program_of_musl_is_carried() {
    if is_skipped() {
        return;
    }
    let site = site();
    // The one that packages hold; what cargo builds for tests needs the GNU C library.
    let library = site.dir.join("libmanypath_handover.so");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/handover");
    assert!(Command::new(script).arg(&library).status().unwrap().success());
    let program = site.dir.join("of-musl").display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/fetch.c");
    let mut compiler = Command::new(find("musl-gcc"));
    assert!(compiler.args(["-o", &program, source]).status().unwrap().success());
    let mut command = handing_over(&site, Host::Left, &DOCKER);
    command.env("MANYPATH_HANDOVER_LIBRARY", library);
    command.args(["run", "--report", "--", &program, &site.server(), "8080", "/file"]);
    let done = finish(command);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "10000\n"), "{done:?}");
    assert!(done.stderr.contains("sctp=1 ") && !done.stderr.contains("out-of-reach"), "{done:?}");
}

/// Signals that interrupt blocking connects again and again, which the kernel makes again then.
const INTERRUPTED: &str = "\
import ctypes, signal, socket, struct, sys
libc = ctypes.CDLL(None)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
to = struct.pack('=HH4s8x', socket.AF_INET, socket.htons(8080), socket.inet_aton(sys.argv[1]))
sockets = [socket.socket() for _ in range(100)]
results = {libc.connect(one.fileno(), to, 16) for one in sockets}
signal.setitimer(signal.ITIMER_REAL, 0)
print(results)
";

#[test]
fn connects_that_the_kernel_makes_again_are_carried() {
    if is_skipped() {
        return;
    }
    let site = site();
    let done = contained(&site, &DOCKER, "python3", &["-c", INTERRUPTED, &site.server()]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "{0}\n"), "{done:?}");
    assert!(done.stderr.contains("sctp=100 "), "{done:?}");
}
