//! `manypath path`: policies kept in a file, in force at once and in both directions, told by a monitor.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::fs::File;
use std::process::{Child, Stdio};

const PATHS: &[&str] = &["20mbit,10ms,queue=100", "20mbit,15ms,queue=100"];
const FILE: u64 = 60_000_000;
/// What HEARTBEATs, acknowledgements and what is under way when a policy changes may come to.
const LITTLE: u64 = 150_000;
const MUCH: u64 = 500_000;

fn say(site: &Site, host: Host, args: &[&str]) -> Finished {
    let mut command = site.command(host, MANYPATH);
    command.arg("path").args(args);
    finish(command)
}

fn ok(site: &Site, args: &[&str]) -> String {
    let done = say(site, Host::Left, args);
    assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    done.stdout
}

fn json(done: &Finished) -> Value {
    serde_json::from_str(&done.stdout).expect("JSON")
}

/// The path with this number as a host sees it; null while there is none.
fn path(site: &Site, host: Host, number: usize) -> Value {
    let shown = json(&say(site, host, &["show", "--json"]));
    let peer = if host == Host::Left { Host::Right } else { Host::Left };
    let is_at = |row: &Value, end: &str, host| {
        row[end].as_str().unwrap().starts_with(&site.lab.address(host, number).to_string())
    };
    let mut rows = shown["paths"].as_array().unwrap().iter();
    let own = |row: &&Value| is_at(row, "local", host) && is_at(row, "remote", peer);
    rows.find(own).cloned().unwrap_or_default()
}

fn sent(site: &Site, host: Host, number: usize) -> u64 {
    path(site, host, number)["bytes_sent"].as_u64().unwrap_or(0)
}

/// Waits until a path has carried so much more.
fn wait_for_bytes(site: &Site, host: Host, number: usize, more: u64) {
    let before = sent(site, host, number);
    wait_for(&format!("{more} bytes on path {number}"), || {
        sent(site, host, number) > before + more
    });
}

/// While data flows from `sender`: the second path, of which the left host says that it is a backup, carries
/// none, then some, then none again.
fn change_while_data_flows(site: &Site, sender: Host) {
    let uplink = site.lab.address(Host::Left, 1).to_string();
    wait_for_bytes(site, sender, 0, MUCH);
    let second = path(site, sender, 1);
    assert!(second["bytes_sent"].as_u64().unwrap() < LITTLE, "{second}");
    assert_eq!(second["idle_reason"], "backup", "{second}");
    let changed = ok(site, &["change", &uplink, "enable"]);
    assert!(changed.contains("matches 1 existing path"), "{changed}");
    wait_for_bytes(site, sender, 1, MUCH);
    ok(site, &["change", &uplink, "backup"]);
    let policy = if sender == Host::Left { "policy" } else { "peer_policy" };
    wait_for("the sender to hear of it", || path(site, sender, 1)[policy] == "backup");
    let before = sent(site, sender, 1);
    wait_for_bytes(site, sender, 0, MUCH);
    let more = sent(site, sender, 1) - before;
    assert!(more < LITTLE, "{more} bytes over the backup");
}

/// Starts a transfer by curl. A busy machine may not answer in time, which is not what is tested here; what the stack
/// has said stays when the test fails.
fn begin(site: &Site, args: &[&str]) -> Child {
    let patient = ["-v", "--fallback-timeout", "5000"];
    let mut command = site.through_command(&patient, "curl", &[&["-sS", "-f"], args].concat());
    let log = File::options().create(true).append(true).open(site.dir.join("log-curl")).unwrap();
    command.stdin(Stdio::null()).stderr(log).spawn().unwrap()
}

fn end(mut child: Child) {
    // What was watched is enough.
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_backup_is_left_alone_in_both_directions_and_changed_while_data_flows() {
    let mut site = Site::with_paths(PATHS);
    site.web();
    let _content = site.random_file("file", FILE);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/put_server.py");
    site.service("python3", &[script, "8082"], "tcp", 8082);
    site.serve("8080,8082");
    wait_for("the stack", || !site.server_status().is_null());
    let uplink = site.lab.address(Host::Left, 1).to_string();
    ok(&site, &["add", &uplink, "backup"]);
    let events = site.dir.join("events");
    let mut monitor = site.command(Host::Left, MANYPATH);
    // Those of the server, too, which is in another network namespace.
    monitor.args(["path", "monitor", "--all", "--json"]).stdout(File::create(&events).unwrap());
    let monitor = monitor.spawn().unwrap();

    let url = format!("http://{}:8080/file", site.server());
    let download = begin(&site, &["-o", "/dev/null", &url]);
    change_while_data_flows(&site, Host::Right);
    end(download);

    let url = format!("http://{}:8082/file", site.server());
    let file = site.dir.join("www/file").display().to_string();
    let upload = begin(&site, &["-T", &file, &url]);
    change_while_data_flows(&site, Host::Left);
    end(upload);

    let told = std::fs::read_to_string(&events).unwrap();
    end(monitor);
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The client's stack may be older than the monitor's knowledge of it; the server's is not.
    let is_about = |one: &Value, end: &str| one[end].as_str().unwrap().starts_with(&uplink);
    let about = |event: &str| {
        let mut fitting = told.iter().filter(|one| one["event"] == event);
        fitting.any(|one| is_about(one, "local") || is_about(one, "remote"))
    };
    for event in ["added", "confirmed", "policy"] {
        assert!(about(event), "{event}: {told:#?}");
    }
}

#[test]
fn the_monitor_leaves_other_network_namespaces_out_unless_all_are_wanted() {
    let mut site = Site::new();
    site.serve("8080");
    let watched = |host, args: &[&str], lines: usize| {
        let told = site.dir.join("watched");
        let mut monitor = site.command(host, MANYPATH);
        monitor.args(["path", "monitor"]).args(args).stdout(File::create(&told).unwrap());
        let monitor = monitor.spawn().unwrap();
        let read = || std::fs::read_to_string(&told).unwrap();
        match lines {
            0 => std::thread::sleep(std::time::Duration::from_millis(1500)),
            _ => wait_for("the monitor to see it", || read().lines().count() >= lines),
        }
        end(monitor);
        read()
    };
    let own = watched(Host::Right, &[], 1);
    assert!(own.starts_with("stack ") && own.ends_with(": watching its paths\n"), "{own}");
    assert_eq!(watched(Host::Left, &[], 0), "");
    let all = watched(Host::Left, &["--all"], 1);
    assert!(all.ends_with(": watching its paths, in another network namespace\n"), "{all}");
}

#[test]
fn lines_are_kept_shown_and_refused_with_words_that_help() {
    let site = Site::new();
    let file = site.dir.join("paths");
    std::fs::write(&file, "# mine\n").unwrap();
    let added = say(&site, Host::Left, &["add", "dev", "wwan0", "metered", "5mbit"]);
    let told = "added: dev wwan0 metered 5mbit\nno stack is running";
    assert!(added.stdout.contains(told), "{added:?}");
    let told = "this host has no interface wwan0 now; the policy applies once it has";
    assert!(added.stderr.contains(told), "{added:?}");
    assert!(!ok(&site, &["change", "dev", "lo", "backup"]).contains("no interface"));
    ok(&site, &["remove", "dev", "lo"]);
    ok(&site, &["change", "dev", "wwan0", "cost", "7"]);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept, "# mine\ndev wwan0 cost 7 metered 5mbit\n");
    let shown = json(&say(&site, Host::Left, &["--json"]));
    assert_eq!(shown["policies"][0], "dev wwan0 cost 7 metered 5mbit");
    for (args, code, words) in [
        (&["add", "dev", "wwan0", "backup"] as &[&str], 1, "`manypath path change dev wwan0 ...`"),
        (
            &["add", "10.0.0.9", "dev", "wwan0", "backup"],
            1,
            "it would never match, because \"dev wwan0 ",
        ),
        (&["change", "wwan0", "backup"], 2, "dev INTERFACE"),
        (&["change", "backup"], 2, "no paths given"),
        (&["change", "dev", "wwan0"], 2, "no policy given for dev wwan0"),
        (&["change", "dev", "wwan0", "metered", "5"], 2, "a rate such as"),
        (&["remove", "dev", "eth7"], 1, "there is \"dev wwan0\""),
        (&["remove", "dev", "wwan0", "backup"], 2, "manypath path remove dev wwan0"),
    ] {
        let done = say(&site, Host::Left, args);
        assert!(done.code == Some(code) && done.stderr.contains(words), "{args:?}: {done:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
    ok(&site, &["remove", "dev", "wwan0"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "# mine\n");
}

#[test]
fn a_wrong_line_is_named_and_a_running_stack_keeps_what_it_has() {
    let mut site = Site::new();
    site.serve("8080");
    wait_for("the stack", || !site.server_status().is_null());
    let file = site.dir.join("paths");
    std::fs::write(&file, "dev wwan0 fast\n").unwrap();
    let done = say(&site, Host::Right, &["change", "dev", "eth0", "backup"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let wrong = "line 1: unknown word \"fast\"";
    assert!(done.stdout.contains("not changed: ") && done.stdout.contains(wrong), "{done:?}");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept, "dev wwan0 fast\ndev eth0 backup\n", "it stays for whoever knows it");
    let shown = say(&site, Host::Right, &[]);
    assert!(shown.code == Some(1) && shown.stderr.contains(wrong), "{shown:?}");
    let run = site.through("true", &[]);
    assert!(run.stderr.contains(wrong), "{run:?}");
}

/// A download through a stack for which the second uplink has no address yet.
fn download_over_the_first(site: &mut Site) -> Child {
    site.web();
    let _content = site.random_file("file", FILE);
    site.serve("8080");
    let mut flush = site.command(Host::Left, "ip");
    flush.args(["address", "flush", "dev", "pathB"]);
    assert_eq!(finish(flush).code, Some(0));
    let url = format!("http://{}:8080/file", site.server());
    let download = begin(site, &["-o", "/dev/null", &url]);
    wait_for_bytes(site, Host::Right, 0, MUCH);
    download
}

fn add_second_uplink(site: &Site) {
    let mut add = site.command(Host::Left, "ip");
    add.args([
        "address",
        "add",
        &format!("{}/24", site.lab.address(Host::Left, 1)),
        "dev",
        "pathB",
    ]);
    assert_eq!(finish(add).code, Some(0));
}

#[test]
fn an_uplink_that_comes_later_has_the_policy_of_its_interface() {
    let mut site = Site::with_paths(PATHS);
    // The server reads the same file, and has an interface of this name.
    let uplink = site.lab.address(Host::Left, 1).to_string();
    ok(&site, &["add", &uplink, "dev", "pathB", "backup"]);
    let download = download_over_the_first(&mut site);
    add_second_uplink(&site);
    wait_for("the new path", || path(&site, Host::Left, 1)["state"] == "active");
    assert_eq!(path(&site, Host::Left, 1)["policy"], "backup");
    wait_for("the server to hear of it", || path(&site, Host::Right, 1)["peer_policy"] == "backup");
    wait_for_bytes(&site, Host::Right, 0, MUCH);
    let carried = sent(&site, Host::Right, 1);
    assert!(carried < LITTLE, "{carried} bytes over a backup");
    ok(&site, &["change", &uplink, "dev", "pathB", "enable"]);
    wait_for_bytes(&site, Host::Right, 1, MUCH);
    end(download);
}

#[test]
fn the_primary_path_is_another_one_at_once_at_both_ends() {
    let mut site = Site::with_paths(PATHS);
    let download = download_over_the_first(&mut site);
    add_second_uplink(&site);
    wait_for("the new path", || path(&site, Host::Left, 1)["state"] == "active");
    let is_primary = |host, number| path(&site, host, number)["primary"] == true;
    for number in [1, 0] {
        let uplink = site.lab.address(Host::Left, number).to_string();
        ok(&site, &["change", &uplink, "primary"]);
        for host in [Host::Left, Host::Right] {
            wait_for("the primary path", || {
                is_primary(host, number) && !is_primary(host, 1 - number)
            });
        }
    }
    end(download);
}

#[test]
fn the_last_path_is_disabled_only_by_force() {
    let mut site = Site::with_paths(PATHS);
    let download = download_over_the_first(&mut site);
    let file = site.dir.join("paths");
    let [first, second] = [0, 1].map(|number| site.lab.address(Host::Left, number).to_string());
    let refused = say(&site, Host::Left, &["change", &first, "disable"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for words in ["no path would be left", &site.server(), "--force"] {
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), "", "nothing was changed");
    let peer = site.server();
    let refused = say(&site, Host::Left, &["add", "peer", &peer, "disable"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    add_second_uplink(&site);
    wait_for("the new path", || path(&site, Host::Left, 1)["state"] == "active");
    ok(&site, &["change", &first, "disable"]);
    wait_for_bytes(&site, Host::Right, 1, MUCH);
    let forced = ok(&site, &["change", &second, "disable", "--force"]);
    assert!(forced.contains("no path is left"), "{forced}");
    wait_for("both to stop", || path(&site, Host::Left, 1)["policy"] == "disabled");
    ok(&site, &["remove", &second]);
    wait_for_bytes(&site, Host::Right, 1, MUCH);
    end(download);
}

/// An uplink that may carry 3 MB a day carries no more beside another one, and the next stack knows.
#[test]
fn a_budget_is_used_up_while_data_flows_and_remembered_by_the_next_stack() {
    let mut site = Site::with_paths(PATHS);
    site.web();
    let _content = site.random_file("file", FILE);
    site.serve("8080");
    wait_for("the stack", || !site.server_status().is_null());
    let url = format!("http://{}:8080/file", site.server());
    let args = ["-o", "/dev/null", &url];
    let download = begin(&site, &args);
    wait_for_bytes(&site, Host::Right, 1, LITTLE);
    let uplink = path(&site, Host::Left, 1)["interface"].as_str().unwrap().to_owned();
    ok(&site, &["add", "dev", &uplink, "budget", "3MB/day"]);
    let budget = || json(&say(&site, Host::Left, &["--json"]))["budgets"][0].clone();
    wait_for("the budget to be used up", || budget()["used_up"] == true);
    assert_eq!(budget()["limit_bytes"], 3_000_000);
    wait_for("the sender to hear of it", || {
        path(&site, Host::Right, 1)["peer_policy"] == "metered"
    });
    let before = sent(&site, Host::Right, 1);
    wait_for_bytes(&site, Host::Right, 0, MUCH);
    let more = sent(&site, Host::Right, 1) - before;
    assert!(more < LITTLE, "{more} bytes over the uplink");
    let shown = ok(&site, &["show"]);
    assert!(shown.contains("carries data only where no other path is usable"), "{shown}");
    end(download);

    let used = budget()["used_bytes"].as_u64().unwrap();
    wait_for("the stack to end", || budget().is_null());
    let download = begin(&site, &args);
    wait_for("the next stack", || budget()["used_bytes"].as_u64() >= Some(used));
    wait_for_bytes(&site, Host::Right, 0, MUCH);
    assert!(sent(&site, Host::Right, 1) < LITTLE, "{}", path(&site, Host::Right, 1));
    ok(&site, &["change", "dev", &uplink, "budget", "off"]);
    wait_for_bytes(&site, Host::Right, 1, MUCH);
    end(download);
}
