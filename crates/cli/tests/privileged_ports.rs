//! Ports below 1024 of a server belong to root there, whoever has UDP port 9899.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// An ordinary user of the server's host.
const BOB: u32 = 65_534;

/// A web server whose every page is one word.
const PAGE: &str = "
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(len(sys.argv[3])))
        self.end_headers()
        self.wfile.write(sys.argv[3].encode())
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Page).serve_forever()
";

/// The program where every user may execute it; gone at the end of the test.
struct ForAll(PathBuf);

impl ForAll {
    fn new(site: &Site) -> Self {
        let name = site.dir.file_name().unwrap().to_string_lossy().into_owned();
        let path = std::env::temp_dir().join(format!("manypath-of-bob-{name}"));
        std::fs::copy(MANYPATH, &path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Self(path)
    }

    /// A command of Bob's on the right host.
    fn command(&self, site: &Site, args: &[&str]) -> Command {
        let mut command = site.command(Host::Right, "setpriv");
        command.args([&format!("--reuid={BOB}"), "--clear-groups", "--"]).arg(&self.0).args(args);
        command.current_dir("/").env("MANYPATH_RUNTIME_DIR", "/nonexistent");
        command.env("MANYPATH_OWN_STACK", "1");
        command
    }
}

impl Drop for ForAll {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Real services at TCP ports 80 and 8080 of the right host.
fn with_services() -> Site {
    let mut site = Site::new();
    for port in [80, 8080] {
        let args = ["-c", PAGE, "0.0.0.0", &port.to_string(), "real"];
        site.service("python3", &args, "tcp", port);
    }
    site
}

/// Bob answers for `port` at UDP port 9899 with a page of his own.
fn squat(site: &mut Site, bob: &ForAll, port: u16) {
    site.service("python3", &["-c", PAGE, "127.0.0.1", "8888", "bob"], "tcp", 8888);
    start(site, bob, &["gateway", "--sctp", &port.to_string(), "--tcp", "127.0.0.1:8888"]);
}

/// Bob runs a server that does what it should.
fn serve_as(site: &mut Site, bob: &ForAll, allow: &str) {
    start(site, bob, &["serve", "--allow", allow]);
}

fn start(site: &mut Site, bob: &ForAll, args: &[&str]) {
    let mut command = bob.command(site, args);
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    site.services.push(child);
    wait_for("Bob's manypath", || common::bound(pid, "udp", 9899));
}

/// The page at `port` of the server, and the report of manypath.
fn fetch(site: &Site, port: u16) -> (String, Value) {
    let url = format!("http://{}:{port}/", site.server());
    let log = site.dir.join("log-of-run").display().to_string();
    let options = ["--json", "-v", "--log", &log];
    let done = finish(site.through_command(&options, "curl", &["-sS", "-f", &url]));
    assert_eq!(done.code, Some(0), "{done:?}");
    (done.stdout, serde_json::from_str(done.stderr.trim()).unwrap())
}

/// Whether the log of the last stack gives the reason; it begins anew.
fn says_unproven(site: &Site) -> bool {
    let log = site.dir.join("log-of-run");
    let said = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    said.contains("no manypath of root answers there")
}

fn manypath(site: &Site, host: Host, args: &[&str]) -> Finished {
    let mut command = site.command(host, MANYPATH);
    command.args(args);
    finish(command)
}

#[test]
fn a_user_who_has_udp_9899_gets_no_connections_to_ports_below_1024() {
    let mut site = with_services();
    let bob = ForAll::new(&site);
    squat(&mut site, &bob, 80);
    for round in ["asked", "remembered"] {
        let (page, report) = fetch(&site, 80);
        assert_eq!((page.as_str(), &report["sctp"]), ("real", &0.into()), "{round}: {report}");
        assert!(says_unproven(&site), "{round}");
    }
    // Whoever trusts all users of that host says so, by a rule or for all hosts.
    let rule = ["rules", "add", "remote", "enable", "host", &site.server(), "unproven=on"];
    assert_eq!(manypath(&site, Host::Left, &rule).code, Some(0));
    assert_eq!(fetch(&site, 80).0, "bob");
    std::fs::remove_file(site.dir.join("rules")).unwrap();
    assert_eq!(fetch(&site, 80).0, "real");
    assert_eq!(manypath(&site, Host::Left, &["sysctl", "unproven=on"]).code, Some(0));
    assert_eq!(fetch(&site, 80).0, "bob");
}

#[test]
fn root_serves_ports_below_1024_beside_a_user_who_has_udp_9899() {
    let mut site = with_services();
    let bob = ForAll::new(&site);
    squat(&mut site, &bob, 81);
    let log = site.dir.join("log-899");
    site.service(MANYPATH, &["serve", "--allow", "80,8080", "-v"], "udp", 899);
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("9899") && said.contains("(uid 65534)"), "{said}");
    assert!(said.contains("manypath-of-bob"), "{said}");
    let (page, report) = fetch(&site, 80);
    assert_eq!((page.as_str(), &report["sctp"]), ("real", &1.into()), "{report}");

    let client = site.lab.address(Host::Left, 0).to_string();
    let said = manypath(&site, Host::Right, &["doctor", &client]).stdout;
    assert!(said.contains("port-taken") && said.contains("(uid 65534)"), "{said}");
    let done = finish(bob.command(&site, &["serve", "--allow", "8080", "--port", "899"]));
    assert!(done.code != Some(0) && done.stderr.contains("needs root"), "{done:?}");
    let user = ["serve", "--allow", "8080"];
    let mut other = site.command(Host::Right, "setpriv");
    other.args(["--reuid=65533", "--clear-groups", "--"]).arg(&bob.0).args(user).current_dir("/");
    let done = finish(other);
    assert!(done.code != Some(0) && done.stderr.contains("(uid 65534)"), "{done:?}");
}

#[test]
fn a_program_of_root_is_served_beside_a_user_who_has_udp_9899() {
    let mut site = Site::new();
    let bob = ForAll::new(&site);
    squat(&mut site, &bob, 81);
    site.service_through("python3", &["-c", PAGE, "0.0.0.0", "80", "real"], "tcp", 80);
    wait_for("the offer", || {
        let listeners = site.door_status(Host::Right)["listeners"].as_array().cloned();
        listeners.is_some_and(|all| all.iter().any(|one| one["offered"] == true))
    });
    let (page, report) = fetch(&site, 80);
    assert_eq!((page.as_str(), &report["sctp"]), ("real", &1.into()), "{report}");
}

#[test]
fn an_association_with_the_privileged_port_carries_all_and_the_other_one_no_port_below_1024() {
    let mut site = with_services();
    site.serve("80,8080");
    let status = site.server_status();
    assert_eq!((&status["udp_port"], &status["privileged_port"]), (&9899.into(), &899.into()));
    let url = |port| format!("http://{}:{port}/", site.server());
    // One program, so that all connections belong to one stack.
    for (ports, associations) in [([80, 8080], 1), ([8080, 80], 2)] {
        let script = format!("curl -sS -f {} && curl -sS -f {}", url(ports[0]), url(ports[1]));
        let log = site.dir.join("log-9899");
        let accepted = || std::fs::read_to_string(&log).unwrap().matches(": accepted").count();
        let before = accepted();
        let done = finish(site.through_command(&["--json"], "sh", &["-c", &script]));
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "realreal"), "{done:?}");
        let report: Value = serde_json::from_str(done.stderr.trim()).unwrap();
        assert_eq!(report["sctp"], 2, "{report}");
        assert_eq!(accepted() - before, associations, "{ports:?}");
    }
}

#[test]
fn the_doctor_names_the_port_that_is_missing_and_what_mends_it() {
    let mut site = with_services();
    let bob = ForAll::new(&site);
    serve_as(&mut site, &bob, "80,8080");
    let service = format!("{}:80", site.server());
    let done = manypath(&site, Host::Left, &["doctor", &service, "--json"]);
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    let causes = said["causes"].as_array().unwrap();
    let wrong: Vec<_> = causes.iter().filter(|cause| cause["weight"] != "note").collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(wrong[0]["name"], "unproven-port");
    assert_eq!(wrong[0]["command"], "manypath serve --allow 80");
    assert_eq!((&said["udp_port"], &said["other_port"]["answers"]), (&899.into(), &true.into()));
}

#[test]
fn datagrams_to_ports_below_1024_need_the_privileged_port() {
    const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 53))
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(data, peer)
";
    const ASK: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.sendto(b'ping', (sys.argv[1], 53))
print(s.recvfrom(100)[0].decode())
";
    let mut site = Site::new();
    site.service("python3", &["-c", ECHO], "udp", 53);
    let bob = ForAll::new(&site);
    serve_as(&mut site, &bob, "53/udp");
    for (option, carried) in [("", 0), (" unproven=on", 1)] {
        let rule = format!("remote enable udp port 53{option}\n");
        std::fs::write(site.dir.join("rules"), rule).unwrap();
        let done =
            finish(site.through_command(&["--json"], "python3", &["-c", ASK, &site.server()]));
        assert_eq!((done.code, done.stdout.trim()), (Some(0), "ping"), "{done:?}");
        let report: Value = serde_json::from_str(done.stderr.trim()).unwrap();
        assert_eq!(report["datagrams"], carried, "{report}");
    }
}
