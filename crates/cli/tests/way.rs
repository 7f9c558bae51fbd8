//! What a program hears about its own socket: the way to the destination, not the one to the stack.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::cgroup::Group;
use common::{Finished, MANYPATH, Site, find, finish, options, wait_for, way};
use manypath_lab::Host;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn a_program_that_asks_its_socket_hears_of_the_way_to_the_destination() {
    let mut site = way::site();
    site.serve("8080");
    for v6 in [false, true] {
        way::carried(&way::ask(&site, v6, &|program, args| {
            site.through_command(&[], program, args)
        }));
    }
    assert!(site.server_counter("stack_relays_started") >= 4, "it went over SCTP");
}

#[test]
fn a_program_in_a_cgroup_hears_what_it_would_hear_under_run() {
    let mut site = way::site();
    site.serve("8080");
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only"]);
    for v6 in [false, true] {
        let under_run =
            way::ask(&site, v6, &|program, args| site.through_command(&[], program, args));
        let before = site.server_counter("stack_relays_started");
        let told =
            way::ask(&site, v6, &|program, args| group.command(&site, Host::Left, program, args));
        assert_eq!(site.server_counter("stack_relays_started") - before, 2, "it went over SCTP");
        way::carried(&told);
        for name in ["mss", "maxseg", "state", "size"] {
            assert_eq!(told["later"][name], under_run["later"][name], "{name}: {told} {under_run}");
        }
        // Later it is the window, which follows the reader.
        let [one, other] = [&told, &under_run].map(|told| &told["first"]["receive_buffer"]);
        assert_eq!(one, other, "{told} {under_run}");
        assert_eq!(told["before"], under_run["before"], "no connection yet");
    }
}

#[test]
fn a_program_in_a_cgroup_whose_connection_is_left_to_tcp_hears_what_tcp_says() {
    let site = way::site();
    let Some(mut group) = Group::new() else { return };
    let in_group = |group: &Group, program: &str, args: &[&str]| {
        group.command(&site, Host::Left, program, args)
    };
    let alone = way::ask(&site, false, &|program, args| in_group(&group, program, args));
    fs::write(site.dir.join("rules"), "remote disable port 8080\n").unwrap();
    group.attach(&site, Host::Left, &["--client-only", "--json"]);
    let left = way::ask(&site, false, &|program, args| in_group(&group, program, args));
    for name in ["mss", "maxseg", "receive_buffer", "state", "size"] {
        assert_eq!(left["first"][name], alone["first"][name], "{left} {alone}");
    }
    assert_ne!(left["first"]["receive_buffer"], 8 << 20, "{left}");
    assert_eq!(left["chosen"], 100_000, "{left}");
    way::is_cut(&left);
    let report = group.end(&site, Host::Left, "-TERM");
    assert!(report.contains("\"left_to_the_kernel\":{\"rule\":2}"), "{report}");
}

/// Whether it is denied, the kernel says only after our program has seen it.
#[test]
fn a_receive_buffer_counts_as_forced_only_where_the_kernel_has_allowed_it() {
    let mut site = way::site();
    site.serve("8080");
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only"]);
    for v6 in [false, true] {
        let args = [way::PROGRAM, "force", &way::server(&site, v6), "8080"];
        let done = group.through(&site, "python3", &args);
        assert_eq!(done.code, Some(0), "{done:?}");
        let told: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(told[0], serde_json::json!([true, 120_000]), "{told}");
        let least = &told[1];
        assert!(least[0] == true && (1000..4608).contains(&least[1].as_u64().unwrap()), "{told}");
        for denied in [&told[2], &told[3]] {
            assert_eq!(*denied, serde_json::json!([false, 8 << 20]), "{told}");
        }
    }
}

fn relay(report: &str) -> u64 {
    let report: Value = serde_json::from_str(report.trim()).unwrap();
    report["tcp_relay"].as_u64().unwrap()
}

#[test]
fn a_connection_that_fell_back_to_relayed_tcp_tells_of_that_connection() {
    let site = way::site();
    let done = finish(site.through_command(
        &["--json"],
        "python3",
        &[way::PROGRAM, "connect", &site.server(), "8080"],
    ));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(relay(&done.stderr), 1, "{done:?}");
    let told: Value = serde_json::from_str(&done.stdout).unwrap();
    way::of_way(&told["first"]);
    way::of_way(&told["later"]);
}

#[test]
fn a_connection_from_a_cgroup_that_is_relayed_as_tcp_tells_of_that_connection() {
    let site = way::site();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only", "--json"]);
    let told =
        way::ask(&site, false, &|program, args| group.command(&site, Host::Left, program, args));
    way::of_way(&told["first"]);
    way::of_way(&told["later"]);
    assert_eq!(relay(&group.end(&site, Host::Left, "-TERM")), 1, "{told}");
}

fn visit(site: &Site, v6: bool, through: bool, port: &str) -> Value {
    let args = [way::PROGRAM, "visit", &way::server(site, v6), port];
    let done: Finished =
        if through { site.through("python3", &args) } else { site.direct("python3", &args) };
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

/// What a server's accepted sockets tell: of the way to the client, over which it has sent enough for the congestion
/// window to grow; or of plain TCP.
fn serve(site: &Site, mut command: Command) {
    let log = fs::File::create(site.dir.join("server")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut server = command.spawn().unwrap();
    let listeners = || site.door_status(Host::Right)["listeners"].as_array().map_or(0, Vec::len);
    wait_for("both sockets to be offered", || listeners() == 2);
    for v6 in [false, true] {
        let told = visit(site, v6, true, "7100");
        way::of_association(&told);
        let cwnd = |name: &str| told[name]["cwnd"].as_u64().unwrap();
        assert!(cwnd("later") > 2 * cwnd("first"), "{told}");
        // What is chosen for the listening socket holds for those that it gives.
        let told = visit(site, v6, true, "7101");
        assert_eq!(told["first"]["receive_buffer"], 100_000, "{told}");
        way::of_way(&told["first"]);
        let plain = visit(site, v6, false, "7100");
        assert_ne!(plain["first"]["receive_buffer"], 8 << 20, "{plain}");
        assert_ne!(plain["later"]["mss"], told["later"]["mss"], "{plain}");
    }
    let carried = &site.door_status(Host::Right)["counters"]["stack_relays_started"];
    assert_eq!(*carried, 4, "over SCTP");
    let pid = server.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    server.wait().unwrap();
}

fn server_site() -> Site {
    Site::with_paths(&["100mbit,20ms,queue=200", "50mbit,20ms,queue=200"])
}

#[test]
fn a_server_in_a_cgroup_hears_of_the_way_to_its_client() {
    let site = server_site();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Right, &["-v"]);
    let args = [way::PROGRAM, "listen", "7100"];
    serve(&site, group.command(&site, Host::Right, "python3", &args));
}

#[test]
fn a_server_under_run_hears_of_the_way_to_its_client() {
    let site = server_site();
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(["run", "--"]).arg(find("python3")).args([way::PROGRAM, "listen", "7100"]);
    serve(&site, command);
}

#[test]
fn options_of_sockets_decide_class_and_patience() {
    for v6 in [false, true] {
        let site = options::site();
        options::decide(&site, v6, &|program, args| site.through_command(&[], program, args));
    }
}
