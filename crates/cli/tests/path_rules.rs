//! Rules that say which uplinks connections use: `path`, `path-down`, `never-metered`, as the counters of both interfaces
//! have it.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::gateways::sh;
use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::fs::File;
use std::process::{Child, Command, Stdio};

const PATHS: &[&str] = &["20mbit,10ms,queue=100", "20mbit,15ms,queue=100"];
/// Of the file that is loaded whole, and of one that lasts.
const FILE: u64 = 6_000_000;
const LONG_FILE: u64 = 90_000_000;
/// What HEARTBEATs, acknowledgements and what is under way when a policy changes may come to.
const LITTLE: u64 = 150_000;
const MUCH: u64 = 500_000;

/// Two hosts with a web server, and these rules and path policies.
fn site(rules: &str, paths: &str, bytes: u64) -> Site {
    let mut site = Site::with_paths(PATHS);
    site.web();
    let _content = site.random_file("file", bytes);
    std::fs::write(site.dir.join("rules"), rules).unwrap();
    std::fs::write(site.dir.join("paths"), paths).unwrap();
    site
}

fn url(site: &Site, number: usize) -> String {
    format!("http://{}:8080/file", site.lab.address(Host::Right, number))
}

/// Bytes that the interface of a path has received and sent on the left host.
fn carried(site: &Site, number: usize) -> u64 {
    let done = site.direct("cat", &["/proc/net/dev"]);
    let name = format!("path{}:", ["A", "B"][number]);
    let line = done.stdout.lines().find_map(|line| line.trim_start().strip_prefix(&name));
    let fields: Vec<u64> =
        line.unwrap().split_whitespace().map(|field| field.parse().unwrap()).collect();
    fields[0] + fields[8]
}

fn wait_for_bytes(site: &Site, number: usize, more: u64) {
    let before = carried(site, number);
    wait_for(&format!("{more} bytes on path {number}"), || carried(site, number) > before + more);
}

fn with(mut command: Command, args: &[&str]) -> Command {
    command.args(args);
    command
}

fn begin(site: &Site, url: &str) -> Child {
    let args = ["-sS", "-f", "-o", "/dev/null", url];
    let mut command = site.through_command(&["-v", "--fallback-timeout", "5000"], "curl", &args);
    let log = File::options().create(true).append(true).open(site.dir.join("log-curl")).unwrap();
    command.stdin(Stdio::null()).stderr(log).spawn().unwrap()
}

fn end(mut child: Child) {
    // What was watched is enough.
    let _ = child.kill();
    let _ = child.wait();
}

fn path_command(site: &Site, args: &[&str]) -> Finished {
    let mut command = site.command(Host::Left, MANYPATH);
    command.arg("path").args(args);
    finish(command)
}

/// The path from the left host's address on this path to the peer's there, as the left host sees it.
fn path(site: &Site, number: usize) -> Value {
    let shown: Value =
        serde_json::from_str(&path_command(site, &["show", "--json"]).stdout).unwrap();
    let is_at = |row: &&Value| {
        let at = |end: &str, host| {
            let address = format!("{}:", site.lab.address(host, number));
            row[end].as_str().unwrap().starts_with(&address)
        };
        at("local", Host::Left) && at("remote", Host::Right)
    };
    shown["paths"].as_array().unwrap().iter().find(is_at).cloned().unwrap_or_default()
}

#[test]
fn a_connection_uses_the_uplink_that_its_rule_names_and_others_use_all() {
    let mut site = site("remote enable port 8080 path=pathB\n", "dev pathB backup\n", FILE);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/put_server.py");
    site.service("python3", &[script, "8082"], "tcp", 8082);
    site.serve("8080,8082");
    let before = [carried(&site, 0), carried(&site, 1)];
    let file = site.dir.join("www/file").display().to_string();
    let to_file = site.dir.join("loaded").display().to_string();
    let done = site.through("curl", &["-sS", "-f", "-o", &to_file, &url(&site, 1)]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(&file).unwrap() == std::fs::read(&to_file).unwrap());
    let after = [carried(&site, 0), carried(&site, 1)];
    assert!(after[1] - before[1] > FILE, "{before:?} {after:?}: a backup that the rule names");
    assert!(after[0] - before[0] < LITTLE, "{before:?} {after:?}");
    // A connection without such a rule, in an association of its own, leaves the backup alone.
    let upload = format!("http://{}:8082/file", site.lab.address(Host::Right, 1));
    let done = site.through("curl", &["-sS", "-f", "-T", &file, &upload]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let last = [carried(&site, 0), carried(&site, 1)];
    assert!(last[0] - after[0] > FILE && last[1] - after[1] < MUCH, "{after:?} {last:?}");
}

#[test]
fn connections_wait_for_their_uplink_or_use_any_as_the_rule_says() {
    for (rule, waits) in [("path=pathB", true), ("path=pathB path-down=any", false)] {
        let mut site = site(&format!("remote enable port 8080 {rule}\n"), "", LONG_FILE);
        site.serve("8080");
        let download = begin(&site, &url(&site, 1));
        wait_for_bytes(&site, 1, MUCH);
        let said = path(&site, 0);
        assert_eq!(said["idle_reason"], "excluded", "{rule}: {said}");
        let status = site.command(Host::Left, MANYPATH);
        let status = finish(with(status, &["status"])).stdout;
        assert!(status.contains("uplinks by rule: path=pathB path-down="), "{status}");
        let peer = format!("{}:8080", site.lab.address(Host::Right, 1));
        let doctor = finish(with(site.command(Host::Left, MANYPATH), &["doctor", &peer])).stdout;
        let words = match waits {
            true => "a rule keeps these connections off the path: path=pathB path-down=wait",
            false => {
                "a rule makes the path a backup for these connections: path=pathB path-down=any"
            }
        };
        assert!(doctor.contains(words), "{doctor}");
        let first = carried(&site, 0);
        assert!(first < MUCH, "{rule}: {first} bytes over the other uplink");
        site.lab.path("B").unwrap().down().unwrap();
        match waits {
            true => {
                std::thread::sleep(std::time::Duration::from_secs(3));
                let more = carried(&site, 0) - first;
                assert!(more < LITTLE, "{more} bytes over the other uplink");
                site.lab.path("B").unwrap().up().unwrap();
                wait_for_bytes(&site, 1, MUCH);
            }
            false => wait_for_bytes(&site, 0, MUCH),
        }
        end(download);
    }
}

#[test]
fn a_connection_that_is_never_metered_follows_what_uplinks_cost() {
    let rule = "remote enable port 8080 never-metered=on\n";
    let mut site = site(rule, "dev pathB metered 100mbit\n", LONG_FILE);
    site.serve("8080");
    let download = begin(&site, &url(&site, 0));
    wait_for_bytes(&site, 0, MUCH);
    let second = carried(&site, 1);
    assert!(second < LITTLE, "{second} bytes over a metered uplink");
    wait_for("the reason", || path(&site, 1)["idle_reason"] == "excluded");
    // Whichever is metered is left, even if no other one is there.
    let done = path_command(&site, &["add", "dev", "pathA", "metered", "100mbit"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    wait_for("both to rest", || path(&site, 0)["idle_reason"] == "excluded");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let rested = [carried(&site, 0), carried(&site, 1)];
    std::thread::sleep(std::time::Duration::from_secs(2));
    let now = [carried(&site, 0), carried(&site, 1)];
    assert!(now[0] - rested[0] < LITTLE && now[1] - rested[1] < LITTLE, "{rested:?} {now:?}");
    let done = path_command(&site, &["remove", "dev", "pathB"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    wait_for_bytes(&site, 1, MUCH);
    end(download);
}

#[test]
fn plain_tcp_takes_no_uplink_that_the_rule_excludes() {
    // No manypath on the right host, and the kernel's way to it is the first uplink.
    let site = site("remote enable port 8080 path=pathB\n", "", 10_000);
    let load = |site: &Site| {
        let args = ["-sS", "-f", "-m", "10", "-o", "/dev/null", &url(site, 0)];
        finish(site.through_command(&["--report"], "curl", &args))
    };
    let done = load(&site);
    assert_eq!(done.code, Some(7), "{done:?}");
    for (rule, why) in [("path=pathA", "allowed"), ("path=pathB path-down=any", "any")] {
        let rule = format!("remote enable port 8080 {rule}\n");
        std::fs::write(site.dir.join("rules"), rule).unwrap();
        let done = load(&site);
        assert_eq!(done.code, Some(0), "{why}: {done:?}");
    }
    // The address of an uplink does not make packets leave by it.
    let (to, from) = (site.lab.address(Host::Right, 0), site.lab.address(Host::Left, 1));
    sh(&site, Host::Left, &format!("ip route add {to} dev pathA src {from}"));
    std::fs::write(site.dir.join("rules"), "remote enable port 8080 path=pathB\n").unwrap();
    let done = load(&site);
    assert_eq!(done.code, Some(7), "{done:?}");
}
