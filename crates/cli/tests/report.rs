//! "Did it work?": what `manypath run --report` and `--json` say of real transfers over two paths.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that meets the unexpected has failed"
)]

use crate::common;

use common::{Finished, MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

const SIZE: u64 = 5_000_000;

fn site() -> Site {
    let mut site = Site::new();
    site.web();
    site.random_file("file", SIZE);
    site
}

/// A shell on the left host under `manypath run`, whatever carries the programs of other tests.
fn run(site: &Site, option: &str, script: &str) -> Finished {
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["run", option, "--", "sh", "-c", script]);
    finish(command)
}

fn json(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(done.stderr.lines().last().unwrap_or_default())
        .unwrap_or_else(|e| panic!("{e}: {done:?}"))
}

fn fetch(site: &Site) -> String {
    format!("curl -sS -f -o /dev/null http://{}:8080/file", site.server())
}

/// The bytes of each path, which add up to those of the programs.
fn path_bytes(traffic: &Value) -> Vec<(String, u64)> {
    let paths = traffic["path_bytes"].as_object().unwrap();
    let paths: Vec<_> =
        paths.iter().map(|(name, bytes)| (name.clone(), bytes.as_u64().unwrap())).collect();
    let sum: u64 = paths.iter().map(|(_, bytes)| bytes).sum();
    let moved = ["sent_bytes", "received_bytes"].map(|name| traffic[name].as_u64().unwrap());
    assert_eq!(sum, moved[0] + moved[1], "{traffic}");
    paths
}

#[test]
fn a_download_over_two_paths_is_told_in_bytes_and_paths() {
    let mut site = site();
    site.serve("8080");
    let done = run(&site, "--report", &fetch(&site));
    let line = done.stderr.lines().next().unwrap_or_default();
    let begin = "manypath: 1 connection, 5.0 MB, over 2 paths (path";
    assert!(line.starts_with(begin) && line.ends_with(" MB)"), "{done:?}");
    assert!(line.contains("pathA ") && line.contains(", path"), "{done:?}");
}

#[test]
fn connections_of_child_programs_count_and_paths_add_up() {
    let mut site = site();
    site.serve("8080");
    let fetch = fetch(&site);
    let report = json(&run(&site, "--json", &format!("{fetch} & {fetch} & wait; sh -c '{fetch}'")));
    assert_eq!((&report["schema"], &report["sctp"]), (&1.into(), &3.into()), "{report}");
    let traffic = &report["traffic"];
    assert_eq!((&traffic["connections"], &traffic["open"]), (&3.into(), &0.into()), "{report}");
    assert!(traffic["received_bytes"].as_u64().unwrap() >= 3 * SIZE, "{report}");
    let paths = path_bytes(traffic);
    let names: Vec<_> = paths.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["pathA", "pathB"], "{report}");
    assert!(paths.iter().all(|(_, bytes)| *bytes > SIZE / 10), "{report}");
}

#[test]
fn what_an_uplink_has_carried_before_it_went_still_counts() {
    let mut site = Site::with_paths(&["20mbit,10ms,queue=100", "20mbit,10ms,queue=100"]);
    site.web();
    site.random_file("file", SIZE);
    site.serve("8080");
    let script = format!(
        "touch got; curl -sS -f -o got http://{}:8080/file & fetch=$!; \
         while [ $(stat -c %s got) -lt 2000000 ]; do sleep 0.02; done; \
         ip address flush dev pathB; wait $fetch",
        site.server()
    );
    let report = json(&run(&site, "--json", &script));
    let paths = path_bytes(&report["traffic"]);
    assert!(paths.iter().any(|(name, bytes)| name == "pathB" && *bytes > SIZE / 10), "{report}");
}

#[test]
fn an_upload_that_the_program_does_not_wait_for_is_counted_to_its_end() {
    let mut site = Site::new();
    let sink = "import socket\nl = socket.create_server((\"\", 9000))\nc = l.accept()[0]\nwhile c.recv(65536): pass\n";
    site.service("python3", &["-c", sink], "tcp", 9000);
    site.serve("9000");
    let server = site.server();
    let source = format!(
        "import socket; socket.create_connection((\"{server}\", 9000)).sendall(bytes(300000))"
    );
    let script = format!("python3 -c '{source}'");
    let report = json(&run(&site, "--json", &script));
    assert_eq!(report["traffic"]["sent_bytes"], 300_000, "{report}");
    path_bytes(&report["traffic"]);
}

/// Processor time in seconds as bash's `times` has it: 0m0.123s.
fn seconds(text: &str) -> f64 {
    let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
}

/// It does for a second.
#[test]
fn a_connection_that_stays_open_is_waited_for_asleep() {
    let mut site = Site::new();
    let silent = "import socket, time\nl = socket.create_server((\"\", 9000))\nc = l.accept()[0]\ntime.sleep(60)\n";
    site.service("python3", &["-c", silent], "tcp", 9000);
    site.serve("9000");
    let source = format!(
        "import socket; socket.create_connection((\"{}\", 9000)).sendall(bytes(100000))",
        site.server()
    );
    let mut command = site.command(Host::Left, "bash");
    let script = format!("{MANYPATH} run --json -- python3 -c '{source}'; times");
    command.args(["-c", &script]);
    let done = finish(command);
    assert_eq!(json(&done)["traffic"]["open"], 1, "{done:?}");
    let children = done.stdout.lines().last().unwrap_or_default();
    let used: f64 = children.split(' ').map(seconds).sum();
    assert!(used < 0.6, "{used} s of processor time: {done:?}");
}

/// A program in the background outlives the command.
#[test]
fn a_connection_that_is_still_open_is_told() {
    let mut site = site();
    site.serve("8080");
    let program = format!(
        "import socket, time\ns = socket.create_connection((\"{}\", 8080))\n\
         s.sendall(b\"GET /file HTTP/1.0\\r\\n\\r\\n\")\nn = 0\n\
         while n < 1000000: n += len(s.recv(65536))\n\
         open(\"done\", \"w\")\ntime.sleep(600)\n",
        site.server()
    );
    fs::write(site.dir.join("slow.py"), program).unwrap();
    let script = format!(
        "{} slow.py >/dev/null 2>&1 & echo $! >pid; while [ ! -e done ]; do sleep 0.02; done",
        find("python3").display()
    );
    let done = run(&site, "--report", &script);
    let pid = fs::read_to_string(site.dir.join("pid")).unwrap();
    Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(done.stderr.contains("; 1 still open, counted so far"), "{done:?}");
    assert!(done.stderr.contains("manypath: 1 connection, "), "{done:?}");
}

/// Both ways of it: the stack relays what could not wait, the kernel has what could.
#[test]
fn plain_tcp_is_told_with_the_peer_and_the_reason() {
    let site = site();
    let done = run(&site, "--report", &fetch(&site));
    let expected = format!(
        "manypath: 1 connection by plain TCP (bytes not counted): {} has no manypath",
        site.server()
    );
    assert_eq!(done.stderr.lines().next(), Some(expected.as_str()), "{done:?}");
    let report = json(&run(&site, "--json", &format!("{0}; {0}", fetch(&site))));
    let plain = report["plain_tcp"].as_array().unwrap();
    let connections = |one: &Value| one["connections"].as_u64().unwrap();
    assert_eq!(plain.iter().map(connections).sum::<u64>(), 2, "{report}");
    let destination = format!("{}:8080", site.server());
    assert!(plain.iter().all(|one| one["destination"] == destination.as_str()), "{report}");
    assert_eq!(report["traffic"]["connections"], 0, "{report}");
}

#[test]
fn what_a_server_has_accepted_counts_too() {
    let mut site = Site::new();
    site.random_file("file", SIZE);
    let log = fs::File::create(site.dir.join("report")).unwrap();
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(["run", "--json", "--", "python3", "-m", "http.server", "8080", "-d", "www"]);
    site.services.push(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let offered = |site: &Site| site.door_status(Host::Right)["listeners"][0]["offered"] == true;
    wait_for("the server", || offered(&site));
    let client = json(&run(&site, "--json", &fetch(&site)));
    assert_eq!(client["sctp"], 1, "{client}");
    let server = site.services.last_mut().unwrap();
    Command::new("kill").arg(server.id().to_string()).status().unwrap();
    server.wait().unwrap();
    let report = fs::read_to_string(site.dir.join("report")).unwrap();
    let report: Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
    assert_eq!(report["accepted_sctp"], 1, "{report}");
    assert!(report["traffic"]["sent_bytes"].as_u64().unwrap() >= SIZE, "{report}");
    assert_eq!(path_bytes(&report["traffic"]).len(), 2, "{report}");
}
