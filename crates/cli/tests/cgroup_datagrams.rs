//! Datagrams of programs in a cgroup that know nothing of manypath: carried, or plain UDP, and as before when it
//! ends.
#![allow(clippy::panic, reason = "a test that cannot be set up says why and fails")]

use crate::common;

use common::cgroup::{Group, alive};
use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/datagrams.py");
/// A port at which nobody listens.
const NOBODY: u16 = 7009;
const RULE: &str = "remote enable udp ports 5000-7999 lifetime=2s\n";
const PATHS: [&str; 2] = ["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"];

/// A service at both families of the right host, and a rule for it.
fn site(rule: &str) -> Site {
    let mut site = Site::with_paths(&PATHS);
    std::fs::write(site.dir.join("rules"), rule).expect("rules");
    for (host, port, table) in [("0.0.0.0", 7000, "udp"), ("::", 7006, "udp6")] {
        site.service("python3", &[PROGRAM, "server", host, &port.to_string()], table, port);
    }
    site
}

fn serving(rule: &str) -> Site {
    let mut site = site(rule);
    let allow = format!("7000/udp,7006/udp,5353/udp,5201/udp,5201,{NOBODY}/udp");
    site.service(MANYPATH, &["serve", "--allow", &allow, "-v"], "udp", 9899);
    site
}

/// Lets `act` run with a cgroup of the left host that manypath serves; what it has said at its end.
fn in_group(site: &Site, act: impl FnOnce(&mut Group)) -> Value {
    let Some(mut group) = Group::new() else { return Value::Null };
    group.attach(site, Host::Left, &["--client-only", "--json"]);
    act(&mut group);
    report(&group.end(site, Host::Left, "-TERM"))
}

/// The part about datagrams of what manypath says at its end.
fn report(said: &str) -> Value {
    let last = said.lines().last().unwrap_or_default();
    let all: Value = serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {said}"));
    all["datagrams"].clone()
}

fn program(site: &Site, group: &Group, args: &[&str]) -> Finished {
    let all: Vec<&str> = [PROGRAM].into_iter().chain(args.iter().copied()).collect();
    group.through(site, "python3", &all)
}

fn ok(done: &Finished) -> &str {
    assert_eq!(done.code, Some(0), "{done:?}");
    done.stdout.trim()
}

fn services(site: &Site) -> [(String, &'static str); 2] {
    [(site.server(), "7000"), (site.lab.address_v6(Host::Right, 0).to_string(), "7006")]
}

fn carried(site: &Site) -> u64 {
    site.server_counter("datagram_accepted")
}

#[test]
fn programs_that_name_the_destination_of_each_datagram_are_carried_over_both_families() {
    let site = serving(RULE);
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            assert_eq!(ok(&program(&site, group, &["echo", &host, port])), "echo ok");
            assert_eq!(ok(&program(&site, group, &["messages", &host, port])), "messages ok");
        }
        assert_eq!(carried(&site), 4);
    });
    assert_eq!((&said["asked"], &said["sctp"]), (&4.into(), &4.into()), "{said}");
    assert_eq!(said["dropped"], 0, "{said}");
}

#[test]
fn connected_programs_see_true_names_keep_their_port_and_hear_of_errors() {
    let site = serving(RULE);
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            let done = program(&site, group, &["connected", &host, port]);
            let told: Value = serde_json::from_str(ok(&done)).expect("JSON");
            // The service sees an address of its own host, and the port of the program.
            assert_eq!(told["source"][0], *host, "{told}");
            assert_eq!(told["source"][1], told["own"][1].to_string(), "{told}");
            let refused = program(&site, group, &["refused", &host, &NOBODY.to_string()]);
            assert_eq!(ok(&refused), "refused");
        }
    });
    assert_eq!(said["sctp"], 4, "{said}");
}

#[test]
fn many_at_once_and_segments_of_one_are_datagrams_like_others() {
    let site = serving(RULE);
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            assert_eq!(ok(&program(&site, group, &["batches", &host, port])), "batches ok");
            assert_eq!(ok(&program(&site, group, &["segments", &host, port])), "segments ok");
        }
        assert_eq!(carried(&site), 12);
    });
    assert_eq!((&said["asked"], &said["sctp"]), (&12.into(), &12.into()), "{said}");
}

#[test]
fn dig_asks_over_the_association_and_a_setuid_one_too() {
    use std::os::unix::fs::PermissionsExt;
    let mut site = serving(RULE);
    site.service("python3", &[PROGRAM, "dns", "0.0.0.0"], "udp", 5353);
    let at = format!("@{}", site.server());
    let args = [at.as_str(), "-p", "5353", "+short", "+time=3", "+tries=3", "example.org"];
    in_group(&site, |group| {
        assert_eq!(ok(&group.through(&site, "dig", &args)), "192.0.2.53");
        assert!(carried(&site) >= 1);
        // Started by nobody, root all the same.
        let dig = site.dir.join("setuid-dig");
        std::fs::copy(common::find("dig"), &dig).expect("a copy");
        std::fs::set_permissions(&dig, std::fs::Permissions::from_mode(0o4755)).expect("setuid");
        let before = carried(&site);
        let dig = dig.display().to_string();
        let nobody = [&["--reuid", "65534", "--clear-groups", &dig][..], &args].concat();
        assert_eq!(ok(&group.through(&site, "setpriv", &nobody)), "192.0.2.53");
        assert!(carried(&site) > before);
    });
}

#[test]
fn a_static_program_is_carried() {
    let site = serving(RULE);
    let built = site.dir.join("ask").display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/ask.c");
    let compiled =
        Command::new(common::find("cc")).args(["-static", "-o", &built, source]).status();
    assert!(compiled.expect("a C compiler").success());
    let said = in_group(&site, |group| {
        let done = group.through(&site, &built, &[&site.server(), "7000"]);
        assert_eq!(ok(&done), "static");
    });
    assert_eq!(said["sctp"], 1, "{said}");
}

#[test]
fn iperf3_measures_datagrams() {
    let mut site = serving(RULE);
    site.service("iperf3", &["-s"], "tcp6", 5201);
    let host = site.server();
    let args = ["-c", &host, "-u", "-b", "2M", "-l", "1200", "-t", "3", "--json"];
    let said = in_group(&site, |group| {
        let done = group.through(&site, "iperf3", &args);
        let report: Value = serde_json::from_str(ok(&done)).expect("JSON");
        let sum = &report["end"]["sum"];
        let (lost, packets) = (sum["lost_packets"].as_f64(), sum["packets"].as_f64());
        let (lost, packets) = (lost.expect("lost"), packets.expect("packets"));
        assert!(packets > 500.0 && lost < 0.01 * packets, "{sum}");
        assert_eq!(carried(&site), 1);
    });
    assert_eq!((&said["sctp"], &said["dropped"]), (&1.into(), &0.into()), "{said}");
}

/// What is sent last is worth as much as the rest, and the flow is over with its socket.
#[test]
fn a_datagram_of_a_program_that_ends_at_once_arrives() {
    let site = serving(RULE);
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            for _ in 0..5 {
                ok(&program(&site, group, &["note", &host, port]));
            }
        }
        let delivered = || site.server_counter("datagram_received");
        wait_for("all of them", || delivered() == 10);
        let flows = || {
            let mut status = site.command(Host::Left, MANYPATH);
            status.args(["status", "--json"]);
            let all: Value = serde_json::from_str(&finish(status).stdout).expect("JSON");
            let associations = all["stacks"][0]["associations"].as_array().cloned();
            let flows = |one: &Value| one["datagrams"].as_array().map_or(0, Vec::len);
            associations.unwrap_or_default().iter().map(flows).sum::<usize>()
        };
        wait_for("the end of the flows", || flows() == 0);
    });
    assert_eq!((&said["asked"], &said["sctp"]), (&10.into(), &10.into()), "{said}");
}

#[test]
fn a_peer_without_manypath_is_asked_once_and_no_datagram_is_lost() {
    let site = site(RULE);
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            for _ in 0..3 {
                ok(&program(&site, group, &["query", &host, port]));
                ok(&program(&site, group, &["note", &host, port]));
            }
            for way in ["echo", "messages"] {
                ok(&program(&site, group, &[way, &host, port]));
            }
        }
    });
    assert_eq!(said["sctp"], 0, "{said}");
    let left = &said["left_to_the_kernel"];
    assert!(left["remembered"].as_u64() >= Some(10), "{said}");
}

#[test]
fn a_service_that_is_not_open_is_reached_by_plain_udp_whatever_its_datagrams_are_like() {
    let mut site = site(RULE);
    site.serve("9");
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            ok(&program(&site, group, &["query", &host, port]));
            ok(&program(&site, group, &["segments", &host, port]));
        }
    });
    assert_eq!((&said["sctp"], &said["dropped"]), (&0.into(), &0.into()), "{said}");
    assert_eq!(said["left_to_the_kernel"]["not-allowed"], 2, "{said}");
}

#[test]
fn sockets_that_cannot_be_carried_are_left_alone_and_counted() {
    let site = serving(RULE);
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            ok(&program(&site, group, &["hearing", &host, port]));
            ok(&program(&site, group, &["query", &host, port]));
        }
        ok(&program(&site, group, &["device", &site.server(), "7000", "pathA"]));
        ok(&program(&site, group, &["group", &site.server(), "7000"]));
    });
    let left = &said["left_to_the_kernel"];
    for (reason, count) in [("hears-errors", 2), ("bound-to-device", 1), ("not-unicast", 1)] {
        assert_eq!(left[reason], count, "{reason}: {said}");
    }
}

/// They would be told an error for each datagram that is taken, so they are connected to something else.
#[test]
fn connected_sockets_that_ask_for_errors_are_carried_and_see_true_names() {
    let site = serving(RULE);
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            assert_eq!(ok(&program(&site, group, &["asking", &host, port])), "asking ok");
            let refused = program(&site, group, &["deaf", &host, &NOBODY.to_string()]);
            assert_eq!(ok(&refused), "refused");
        }
        assert_eq!(site.server_counter("datagram_received"), 2 * (4 + 1));
    });
    assert_eq!((&said["sctp"], &said["dropped"]), (&4.into(), &0.into()), "{said}");
}

#[test]
fn connected_sockets_that_ask_for_errors_reach_peers_without_manypath() {
    let site = site(RULE);
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            for _ in 0..3 {
                assert_eq!(ok(&program(&site, group, &["asking", &host, port])), "asking ok");
                let refused = program(&site, group, &["deaf", &host, &NOBODY.to_string()]);
                assert_eq!(ok(&refused), "refused");
            }
        }
    });
    assert_eq!((&said["sctp"], &said["dropped"]), (&0.into(), &0.into()), "{said}");
}

/// Theirs is the only way that cannot go back by itself: they must hear of it.
#[test]
fn connected_sockets_that_ask_for_errors_hear_of_the_end_of_the_daemon_or_its_stack() {
    let site = serving(RULE);
    let Some(mut group) = Group::new() else { return };
    for (signal, stack) in [("-KILL", false), ("-TERM", false), ("-KILL", true)] {
        group.attach(&site, Host::Left, &["--client-only"]);
        let args = [PROGRAM, "orphan", &site.server(), "7000"];
        let mut orphan = group.command(&site, Host::Left, "python3", &args);
        let mut orphan =
            orphan.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("program");
        let mut lines = BufReader::new(orphan.stdout.take().expect("out")).lines();
        assert_eq!(lines.next().expect("a line").expect("a line"), "ready");
        let pid = if stack { group.stack() } else { group.pid() }.to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
        group.end(&site, Host::Left, "-TERM");
        orphan.stdin.take().expect("in").write_all(b"go\n").expect("line");
        assert!(orphan.wait().expect("status").success(), "{signal} {stack}");
    }
}

/// What nearly every program of a host does first.
#[test]
fn the_resolver_of_the_c_library_asks_over_the_association() {
    let mut site = Site::with_paths(&PATHS);
    std::fs::write(site.dir.join("rules"), "remote enable udp port 53\n").expect("rules");
    site.service("python3", &[PROGRAM, "dns", "0.0.0.0", "53"], "udp", 53);
    site.service(MANYPATH, &["serve", "--allow", "53/udp", "-v"], "udp", 9899);
    let conf = site.dir.join("resolv.conf");
    std::fs::write(&conf, format!("nameserver {}\noptions timeout:3\n", site.server()))
        .expect("conf");
    let ask = "mount --bind \"$1\" /etc/resolv.conf && getent ahostsv4 name.example";
    let conf = conf.display().to_string();
    let said = in_group(&site, |group| {
        let done = group.through(&site, "unshare", &["-m", "sh", "-c", ask, "sh", &conf]);
        assert!(ok(&done).contains("192.0.2.53"), "{done:?}");
    });
    assert!(said["sctp"].as_u64() >= Some(1), "{said}");
}

#[test]
fn rules_change_live_and_older_sockets_stay_plain() {
    let site = serving("remote enable udp port 9\n");
    let Some(mut group) = Group::new() else { return };
    let mut args = vec![PROGRAM, "older"];
    let host = site.server();
    args.extend([host.as_str(), "7000"]);
    let mut older = group.command(&site, Host::Left, "python3", &args);
    let mut older = older.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("program");
    let mut lines = BufReader::new(older.stdout.take().expect("out")).lines();
    assert_eq!(lines.next().expect("a line").expect("a line"), "ready");
    group.attach(&site, Host::Left, &["--client-only", "--json"]);
    ok(&program(&site, &group, &["query", &host, "7000"]));
    assert_eq!(carried(&site), 0);
    let mut add = site.command(Host::Left, MANYPATH);
    add.args(["rules", "add", "remote", "enable", "udp", "port", "7000"]);
    ok(&finish(add));
    wait_for("the rule", || {
        ok(&program(&site, &group, &["query", &host, "7000"]));
        carried(&site) > 0
    });
    let (before, mut input) = (carried(&site), older.stdin.take().expect("in"));
    input.write_all(b"go\n").expect("line");
    assert_eq!(lines.next().expect("a line").expect("a line"), "asked");
    assert_eq!(carried(&site), before, "a socket from before is the kernel's");
    input.write_all(b"go\n").expect("line");
    assert!(older.wait().expect("status").success());
    assert_eq!(carried(&site), before + 1, "a new one of the same program is carried");
    let said = report(&group.end(&site, Host::Left, "-TERM"));
    assert_eq!(said["left_to_the_kernel"]["older-socket"], 1, "{said}");
}

/// A socket that talks to very many must not cost something for each of them for ever.
#[test]
fn an_idle_flow_is_forgotten_and_begins_anew() {
    let site = serving(RULE);
    std::fs::write(site.dir.join("sysctl.conf"), "datagram_idle_s=1\ntcp_race=off\n")
        .expect("settings");
    let said = in_group(&site, |group| {
        for (host, port) in services(&site) {
            ok(&program(&site, group, &["slow", &host, port, "3"]));
        }
    });
    assert_eq!(
        (&said["asked"], &said["sctp"], &said["given_up"]),
        (&6.into(), &6.into(), &0.into()),
        "{said}"
    );
}

/// A stream of datagrams that runs while something happens: one each 10 ms.
fn streaming(site: &Site, group: &Group, way: &str, count: &str) -> Child {
    let args = [PROGRAM, way, &site.server(), "7000", count, "10"];
    let mut command = group.command(site, Host::Left, "python3", &args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run")
}

fn outcome(child: Child) -> Value {
    let output = child.wait_with_output().expect("output");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_path_is_cut_in_the_middle_of_a_stream_of_datagrams() {
    let site = serving(RULE);
    in_group(&site, |group| {
        let child = streaming(&site, group, "send", "400");
        let shown = || site.server_status()["associations"][0]["datagrams"][0].clone();
        wait_for("datagrams", || shown()["delivered"].as_u64() > Some(100));
        assert_eq!(shown()["lifetime_ms"], 2000, "{}", shown());
        site.lab.path("A").expect("a path").down().expect("down");
        let told = outcome(child);
        assert_eq!((&told["received"], &told["again"]), (&told["sent"], &Value::from(0)), "{told}");
    });
}

/// Programs go on with the same sockets, connected or not, and hear of nothing.
#[test]
fn when_the_daemon_or_its_stack_dies_datagrams_go_on_as_plain_udp_at_once() {
    let site = serving(RULE);
    let Some(mut group) = Group::new() else { return };
    for (signal, stack) in [("-KILL", false), ("-TERM", false), ("-KILL", true)] {
        for way in ["send", "sendto"] {
            group.attach(&site, Host::Left, &["--client-only"]);
            let objects = group.ebpf();
            let child = streaming(&site, &group, way, "300");
            let before = site.server_counter("datagram_received");
            let sent = || site.server_counter("datagram_received");
            wait_for("datagrams", || sent() > before + 50);
            let pid = if stack { group.stack() } else { group.pid() }.to_string();
            let killed = SystemTime::now().duration_since(UNIX_EPOCH).expect("time").as_secs_f64();
            assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
            std::thread::sleep(Duration::from_millis(300));
            let carried = sent();
            let told = outcome(child);
            println!("{signal} {way}: {} of {}", told["received"], told["sent"]);
            // What was in hand is lost with it; on a busy machine that dies a little later.
            let lost = told["lost_at"].as_array().expect("times").iter();
            let late = lost.filter(|at| at.as_f64() > Some(killed + 1.0)).count();
            assert_eq!(late, 0, "{signal} {way}: {told}");
            assert!(told["received"].as_u64() > Some(150), "{signal} {way}: {told}");
            assert_eq!(told["errors"], 0, "{signal} {way}: {told}");
            assert!(told["longest_call_ms"].as_f64() < Some(500.0), "{signal} {way}: {told}");
            assert_eq!(sent(), carried, "{signal} {way}: nothing is carried any more");
            group.end(&site, Host::Left, "-TERM");
            wait_for("nothing to be left", || alive(&objects).is_empty());
        }
    }
}

/// A rule opens a service of the cgroup to peers also where no service of the host does.
#[test]
fn a_rule_opens_a_service_in_an_attached_cgroup() {
    for (rules, sctp) in [("local enable udp port 7000\n", 2), ("local enable udp port 9\n", 0)] {
        let site = Site::with_paths(&PATHS);
        std::fs::write(site.dir.join("rules"), format!("{RULE}{rules}")).expect("rules");
        let Some(mut servers) = Group::new() else { return };
        servers.attach(&site, Host::Right, &["--json"]);
        let args = [PROGRAM, "server", "::", "7000"];
        let mut server = servers.command(&site, Host::Right, "python3", &args);
        let mut server = server.spawn().expect("server");
        wait_for("the service", || common::bound(server.id(), "udp6", 7000));
        let said = in_group(&site, |group| {
            for (host, _) in services(&site) {
                assert_eq!(ok(&program(&site, group, &["echo", &host, "7000"])), "echo ok");
            }
        });
        assert_eq!(said["sctp"], sctp, "{said}");
        server.kill().expect("its end");
        server.wait().expect("its end");
        servers.end(&site, Host::Right, "-TERM");
    }
}

/// The service's own answers are not taken for datagrams to be carried, even where a rule names any port.
#[test]
fn a_service_in_an_attached_cgroup_answers_peers_and_plain_clients() {
    let mut site = Site::with_paths(&PATHS);
    std::fs::write(site.dir.join("rules"), "remote enable udp ports 1024-65535\n").expect("rules");
    site.service(MANYPATH, &["serve", "--allow", "7000/udp", "-v"], "udp", 9899);
    let Some(mut servers) = Group::new() else { return };
    servers.attach(&site, Host::Right, &["--client-only", "--json"]);
    let args = [PROGRAM, "server", "0.0.0.0", "7000"];
    let mut server = servers.command(&site, Host::Right, "python3", &args).spawn().expect("server");
    wait_for("the service", || common::bound(server.id(), "udp", 7000));
    let said = in_group(&site, |group| {
        assert_eq!(ok(&program(&site, group, &["echo", &site.server(), "7000"])), "echo ok");
        let plain = site.direct("python3", &[PROGRAM, "query", &site.server(), "7000"]);
        ok(&plain);
    });
    assert_eq!(said["sctp"], 1, "{said}");
    server.kill().expect("its end");
    server.wait().expect("its end");
    let said = report(&servers.end(&site, Host::Right, "-TERM"));
    assert_eq!(
        (&said["sctp"], &said["left_to_the_kernel"]["local-address"]),
        (&0.into(), &1.into()),
        "{said}"
    );
}
