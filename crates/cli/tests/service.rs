//! A stack as a service: what it tells a service manager, and what others can watch.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that meets the unexpected has failed"
)]

mod encrypted;
mod loops;
mod takeover;

use crate::common;

use common::folder::Folder;
use common::previous::{self, fetch, stacks, versions};
use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A service manager that listens to one service.
struct Manager {
    folder: Folder,
    socket: UnixDatagram,
    service: Option<Child>,
}

impl Manager {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        // Where stacks and tools meet must be nobody else's.
        std::fs::DirBuilder::new().mode(0o700).create(folder.at("run")).unwrap();
        let socket = UnixDatagram::bind(folder.at("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { folder, socket, service: None }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(MANYPATH);
        command
            .args(args)
            .env("NOTIFY_SOCKET", self.folder.at("notify"))
            .env("WATCHDOG_USEC", "400000")
            .env("MANYPATH_RULES", self.folder.at("rules"))
            .env("MANYPATH_SYSCTL", self.folder.at("sysctl"))
            .env("MANYPATH_PEERS", self.folder.at("peers"))
            .env("MANYPATH_RUNTIME_DIR", self.folder.at("run"))
            .env("MANYPATH_OWN_STACK", "1")
            .stdin(Stdio::null());
        command
    }

    /// Starts `manypath serve` on an address and a port that no other test has.
    fn start(&mut self, addr: &str, port: &str) {
        let serve = ["serve", "--local", addr, "--loopback-paths", "--port", port];
        let log = std::fs::File::create(self.folder.at("log")).unwrap();
        self.service = Some(self.command(&serve).stderr(log).spawn().unwrap());
    }

    fn signal(&self, name: &str) {
        let pid = self.service.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Takes messages until one has `line`; returns that one.
    fn hear(&self, line: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let length = self
                .socket
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("no {line}: {error}; {}", self.folder.read("log")));
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.lines().any(|one| one.starts_with(line)) {
                return text;
            }
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

#[test]
fn a_manager_hears_of_begin_health_reloads_and_end() {
    let mut manager = Manager::new("service-notify");
    // Nothing is open yet: a service that was just installed waits for its first rule.
    manager.start("127.0.31.1", "9731");
    manager.hear("READY=1");
    let health = manager.hear("WATCHDOG=1");
    assert!(health.contains("STATUS=0 associations, 0 connections"), "{health}");
    assert!(manager.folder.read("log").contains("no service is open to peers yet"));

    manager.folder.file("rules", "local enable port 8080\n");
    manager.signal("-HUP");
    let began = manager.hear("RELOADING=1");
    assert!(began.contains("MONOTONIC_USEC="), "{began}");
    assert!(manager.hear("READY=1").contains("STATUS=settings and 1 rule read"));
    let status = finish(manager.command(&["status", "--json"]));
    assert!(status.stdout.contains("8080"), "{status:?}");

    manager.folder.file("rules", "local enable prot 8080\n");
    manager.signal("-HUP");
    assert!(manager.hear("READY=1").contains("STATUS=configuration unchanged: "));
    let status = finish(manager.command(&["status", "--json"]));
    assert!(status.stdout.contains("\"stack_reloads_refused\": 1"), "{status:?}");
    let reload = finish(manager.command(&["reload"]));
    assert_eq!(reload.code, Some(1), "{reload:?}");
    assert!(reload.stdout.contains("not changed: stack"), "{reload:?}");

    manager.signal("-TERM");
    manager.hear("STOPPING=1");
    assert!(manager.service.as_mut().unwrap().wait().unwrap().success());
}

/// Opens a UDP socket as a service manager does, and becomes the command in `argv`.
const ACTIVATE: &str = "
import os, socket, sys
waiting = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
waiting.bind((sys.argv[1], int(sys.argv[2])))
if waiting.fileno() != 3:
    os.dup2(waiting.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
os.execv(sys.argv[3], sys.argv[3:])
";

#[test]
fn sockets_of_the_manager_are_used_in_place_of_new_ones() {
    let mut manager = Manager::new("service-sockets");
    let start = |manager: &Manager, at: [&str; 2], port: &str| {
        let mut command = manager.command(&[]);
        let log = std::fs::File::create(manager.folder.at("log")).unwrap();
        let mut python = Command::new("python3");
        python.envs(command.env("PYTHONUTF8", "1").get_envs().filter_map(|(k, v)| Some((k, v?))));
        python.args(["-c", ACTIVATE]).args(at).arg(MANYPATH);
        python.args(["serve", "--local", at[0], "--loopback-paths", "--port", port]);
        python.stdin(Stdio::null()).stderr(log).spawn().unwrap()
    };
    // Nobody else could bind the address: it is the manager's socket that is used.
    manager.service = Some(start(&manager, ["127.0.31.3", "9733"], "9733"));
    manager.hear("READY=1");
    let status = finish(manager.command(&["status", "--json"]));
    assert!(status.stdout.contains("127.0.31.3:9733"), "{status:?}");
    let mut wrong = start(&manager, ["127.0.31.4", "9734"], "9735");
    assert_eq!(wrong.wait().unwrap().code(), Some(1));
    assert!(manager.folder.read("log").contains("UDP port 9734: --port 9734"));
}

#[test]
fn a_stack_of_a_program_leaves_the_manager_of_its_service_alone() {
    let manager = Manager::new("service-part");
    let run = ["run", "--local", "127.0.31.2", "--loopback-paths", "--", "true"];
    let done = finish(manager.command(&run));
    assert_eq!(done.code, Some(0), "{done:?}");
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.recv(&mut [0; 64]).is_err(), "the service was said to be something");
}

fn ask(site: &Site, args: &[&str]) -> Finished {
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(args);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

/// A lab with a server that has just sent a file over both paths.
fn busy_site() -> Site {
    let mut site = Site::new();
    site.web();
    site.serve("8080");
    site.random_file("file", 2_000_000);
    let url = format!("http://{}:8080/file", site.server());
    let done = site.through("curl", &["-sS", "-f", "-o", "/dev/null", &url]);
    assert_eq!(done.code, Some(0), "{done:?}");
    wait_for("the end of the connection", || sent_by_connections(&site) == 0);
    site
}

/// What was sent on associations that have connections now, in bytes.
fn sent_by_connections(site: &Site) -> u64 {
    let status = site.server_status();
    let all = status["associations"].as_array().into_iter().flatten();
    let used = all.filter(|one| one["flows"].as_array().is_some_and(|it| !it.is_empty()));
    let paths = used.flat_map(|one| one["paths"].as_array().into_iter().flatten());
    paths.filter_map(|path| path["bytes_sent"].as_u64()).sum()
}

/// One that takes the better part of a minute, once some of it was sent.
fn slow_transfer(site: &Site) -> std::process::Child {
    let url = format!("http://{}:8080/file", site.server());
    let slow = ["-sS", "--limit-rate", "50k", "-o", "/dev/null", &url];
    let transfer = site.through_command(&[], "curl", &slow).spawn().unwrap();
    wait_for("the connection", || sent_by_connections(site) >= 100_000);
    transfer
}

#[test]
fn figures_of_paths_and_stacks_are_there_for_prometheus() {
    let site = busy_site();
    let mut transfer = slow_transfer(&site);
    let text = ask(&site, &["metrics"]).stdout;
    transfer.kill().unwrap();
    transfer.wait().unwrap();
    let sent: f64 = text
        .lines()
        .filter(|line| line.starts_with("manypath_path_sent_bytes_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!(sent >= 100_000.0, "{text}");
    for line in [
        "# TYPE manypath_path_srtt_seconds gauge",
        "# UNIT manypath_path_srtt_seconds seconds",
        "# TYPE manypath_events counter",
        "manypath_stacks{role=\"server\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.ends_with("# EOF\n"));
    let dashboard = include_str!("../../../packaging/grafana/manypath.json");
    let names: std::collections::BTreeSet<_> = dashboard
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("manypath_"))
        .collect();
    assert!(names.len() > 10, "{names:?}");
    // Nothing has fallen back to TCP here, and families without series are left out.
    for name in names.into_iter().filter(|name| *name != "manypath_fallbacks_total") {
        let family = name.strip_suffix("_total").unwrap_or(name);
        assert!(text.contains(&format!("# TYPE {family} ")), "{name}: {text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&ask(&site, &["metrics", "--json"]).stdout).unwrap();
    assert_eq!(json["stacks"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn top_shows_rates_as_a_table_and_as_json() {
    let site = busy_site();
    let mut transfer = slow_transfer(&site);
    let table = ask(&site, &["status", "--watch", "--count", "1", "--interval", "0.2"]).stdout;
    assert!(table.starts_with("1 stack, "), "{table}");
    assert!(table.contains("INTERFACE"), "{table}");
    let lines = ask(&site, &["status", "--watch", "-n", "2", "--interval", "0.2", "--json"]).stdout;
    let tables: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tables.len(), 2);
    assert_eq!(tables[0]["stacks"], 1);
    assert!(tables[0]["paths"][0]["state"].is_string(), "{lines}");
    assert!(tables[0]["connections"][0]["destination"].is_string(), "{lines}");
    transfer.kill().unwrap();
    transfer.wait().unwrap();
    let mut wrong = site.command(Host::Right, MANYPATH);
    wrong.args(["status", "--watch", "--interval", "0"]);
    assert_eq!(finish(wrong).code, Some(2));
}

#[test]
fn a_scraper_gets_figures_and_nothing_else() {
    let manager = Manager::new("service-metrics");
    let mut exporter = manager
        .command(&["metrics", "--listen", "127.0.0.1:9798"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let get = |request: &str| {
        let mut stream = TcpStream::connect("127.0.0.1:9798").ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    let figures = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    wait_for("the exporter", || get(figures).is_some());
    let answer = get(figures).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("application/openmetrics-text") && answer.ends_with("# EOF\n"));
    assert!(get("GET / HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 404 "));
    assert!(get("DELETE /metrics HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 405 "));
    exporter.kill().unwrap();
    exporter.wait().unwrap();
}

#[test]
fn shells_take_their_completion() {
    let folder = Folder::new("service-completion");
    let script = finish({
        let mut command = Command::new(MANYPATH);
        command.args(["completion", "bash"]);
        command
    });
    let file = folder.file("bash", &script.stdout);
    let mut bash = Command::new("bash");
    let words = "COMP_WORDS=(manypath sta); COMP_CWORD=1; _manypath manypath sta manypath";
    bash.args(["-c", &format!("source {file}; {words}; echo \"${{COMPREPLY[@]}}\"")]);
    let done = finish(bash);
    assert_eq!(done.stdout.trim(), "status", "{done:?}");
    for shell in ["zsh", "fish"] {
        let mut command = Command::new(MANYPATH);
        command.args(["completion", shell]);
        assert!(finish(command).stdout.contains("metrics"));
    }
}

/// A web server on the right host, with a stack of the given version for it, which the stack's own command sees.
fn served_by(manypath: &str) -> Site {
    let mut site = Site::new();
    site.web();
    site.random_file("file", 100_000);
    previous::serve(&mut site, manypath, "8080");
    site
}

#[test]
#[ignore = "slow; make test-full"]
fn this_version_and_the_one_before_carry_each_others_connections() {
    let [this, previous] = versions();
    for (server, client) in [(&this, &previous), (&previous, &this)] {
        let site = served_by(server);
        let done = fetch(&site, client);
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "100000"), "{done:?}");
        assert!(done.stderr.contains("sctp=1 "), "{done:?}");
    }
}

#[test]
#[ignore = "slow; make test-full"]
fn commands_and_stacks_of_this_version_and_the_one_before_speak_with_each_other() {
    let [this, previous] = versions();
    for (server, command) in [(&this, &previous), (&previous, &this)] {
        let site = served_by(server);
        let stack = stacks(&site, command).remove(0);
        assert_eq!(stack["pid"], stacks(&site, server).remove(0)["pid"]);
        let mut reload = previous::command(&site, Host::Right, command);
        reload.arg("reload");
        let done = finish(reload);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

/// The launcher of a server finds the stack of another version that has the host's UDP port.
#[test]
#[ignore = "slow; make test-full"]
fn a_stack_of_the_version_before_offers_the_listeners_of_a_launcher() {
    let [this, previous] = versions();
    for (door, launcher) in [(&this, &previous), (&previous, &this)] {
        let mut site = Site::new();
        site.random_file("file", 100_000);
        previous::serve(&mut site, door, "1");
        let root = site.dir.join("www").display().to_string();
        let mut command = previous::command(&site, Host::Right, launcher);
        command.args(["run", "-v", "--", "python3", "-m", "http.server", "8080", "-d", &root]);
        let log = std::fs::File::create(site.dir.join("launcher")).unwrap();
        let mut launched = command.stderr(log).stdout(Stdio::null()).spawn().unwrap();
        let offered = |stack: &serde_json::Value| stack["listeners"][0]["offered"] == true;
        wait_for("the listener", || stacks(&site, door).iter().any(offered));
        let done = fetch(&site, &this);
        assert!(done.stderr.contains("sctp=1 "), "{done:?}");
        launched.kill().unwrap();
        launched.wait().unwrap();
    }
}
