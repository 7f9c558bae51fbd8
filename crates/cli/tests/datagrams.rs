//! Datagrams of stock programs, carried over two paths with loss; and those that are not.

use crate::common;

use common::{Finished, MANYPATH, Site, finish, stack_of, wait_for};
use manypath_lab::{Change, Host};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/datagrams.py");
/// A port at which nobody listens.
const NOBODY: u16 = 7009;

/// Two paths that lose, a service at both addresses of the right host, and a rule for it.
fn site(paths: &[&str], rule: &str) -> Site {
    let mut site = Site::with_paths(paths);
    std::fs::write(site.dir.join("rules"), rule).expect("rules");
    for host in ["0.0.0.0", "::"] {
        let port = if host == "::" { 7006 } else { 7000 };
        let args = [PROGRAM, "server", host, &port.to_string()];
        let table = if host == "::" { "udp6" } else { "udp" };
        site.service("python3", &args, table, port);
    }
    site
}

fn serving(paths: &[&str], rule: &str) -> Site {
    let mut site = site(paths, rule);
    let allow = format!("7000/udp,7006/udp,5353/udp,5201/udp,5201,{NOBODY}/udp");
    let args = ["serve", "--allow", &allow, "-v"];
    site.service(MANYPATH, &args, "udp", 9899);
    site
}

const LOSSY: [&str; 2] = ["20mbit,20ms,queue=100,loss=2%", "20mbit,40ms,queue=100,loss=5%"];
const RULE: &str = "remote enable udp ports 5000-7999 lifetime=2s\n";

/// Paths that lose, and a client that is patient enough for a handshake of which parts are lost.
fn losing(rule: &str) -> Site {
    let site = serving(&LOSSY, rule);
    let mut patience = site.command(Host::Left, MANYPATH);
    patience.args(["sysctl", "fallback_timeout_ms=3000", "init_rtx_max=4"]);
    ok(&finish(patience));
    site
}

fn program(site: &Site, args: &[&str]) -> Finished {
    let all: Vec<&str> = [PROGRAM].into_iter().chain(args.iter().copied()).collect();
    finish(site.through_command(&["--report"], "python3", &all))
}

fn ok(done: &Finished) -> &str {
    assert_eq!(done.code, Some(0), "{done:?}");
    done.stdout.trim()
}

fn server(site: &Site) -> [String; 2] {
    [site.server(), site.lab.address_v6(Host::Right, 0).to_string()]
}

fn carried(site: &Site) -> u64 {
    site.server_counter("datagram_accepted")
}

#[test]
fn programs_that_name_the_destination_of_each_datagram_are_carried_over_both_families() {
    let site = serving(&["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"], RULE);
    for (host, port) in server(&site).iter().zip(["7000", "7006"]) {
        assert_eq!(ok(&program(&site, &["echo", host, port])), "echo ok");
        assert_eq!(ok(&program(&site, &["messages", host, port])), "messages ok");
    }
    assert_eq!(carried(&site), 4);
    assert_eq!(site.server_counter("datagram_refused"), 0);
}

#[test]
fn connected_programs_see_true_names_keep_their_port_and_hear_of_errors() {
    let site = serving(&["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"], RULE);
    for (host, port) in server(&site).iter().zip(["7000", "7006"]) {
        let done = program(&site, &["connected", host, port]);
        let told: Value = serde_json::from_str(ok(&done)).expect("JSON");
        // The service sees an address of its own host, and the port of the program.
        assert_eq!(told["source"][0], **host, "{told}");
        assert_eq!(told["source"][1], told["own"][1].to_string(), "{told}");
    }
    let refused = program(&site, &["refused", &site.server(), &NOBODY.to_string()]);
    assert_eq!(ok(&refused), "refused");
}

#[test]
fn a_dns_query_is_carried_once_per_question() {
    let mut site = losing(RULE);
    site.service("python3", &[PROGRAM, "dns", "0.0.0.0"], "udp", 5353);
    let (at, port) = (format!("@{}", site.server()), "5353");
    let args = [at.as_str(), "-p", port, "+short", "+time=3", "+tries=3", "example.org"];
    for _ in 0..3 {
        let done = site.through("dig", &args);
        assert_eq!(ok(&done), "192.0.2.53");
    }
    assert!(carried(&site) >= 3);
}

#[test]
fn iperf3_measures_datagrams_over_two_lossy_paths() {
    let mut site = losing(RULE);
    site.service("iperf3", &["-s"], "tcp6", 5201);
    let host = site.server();
    let args = ["-c", &host, "-u", "-b", "2M", "-l", "1200", "-t", "3", "--json"];
    let done = site.through("iperf3", &args);
    let report: Value = serde_json::from_str(ok(&done)).expect("JSON");
    let sum = &report["end"]["sum"];
    let (lost, packets) = (sum["lost_packets"].as_f64(), sum["packets"].as_f64());
    let (lost, packets) = (lost.expect("lost"), packets.expect("packets"));
    assert!(packets > 500.0 && lost < 0.01 * packets, "{sum}");
    assert!(carried(&site) >= 1);
}

/// Each datagram at most once, and late only as far as it was still worth something when it was sent last.
#[test]
fn a_stream_of_datagrams_arrives_without_duplicates_and_never_later_than_its_lifetime() {
    let rule = "remote enable udp port 7000 lifetime=300ms\n";
    let site = serving(&["20mbit,20ms,queue=100", "20mbit,40ms,queue=100"], rule);
    std::fs::write(
        site.dir.join("rules"),
        format!("{rule}local enable udp port 7000 lifetime=300ms\n"),
    )
    .expect("rules");
    let child = streaming(&site, "send", "400");
    wait_for("a flow", || carried(&site) == 1);
    // From here on: whether a handshake is lost is another question.
    for path in ["A", "B"] {
        let path = site.lab.path(path).expect("a path");
        path.set(&[Change::Loss(100_000)]).expect("loss");
    }
    let told = outcome(child);
    assert_eq!((carried(&site), &told["again"]), (1, &0.into()), "{told}");
    assert!(told["received"].as_u64().expect("count") > 340, "{told}");
    // Both ways: two lifetimes, and once each the longer path.
    assert!(worst(&told) < 2.0 * (300.0 + 40.0) + 200.0, "{told}");
}

#[test]
fn without_a_rule_or_a_peer_with_manypath_datagrams_are_plain() {
    let paths = ["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"];
    let site = serving(&paths, "remote enable udp port 9\n");
    ok(&program(&site, &["query", &site.server(), "7000"]));
    std::fs::write(site.dir.join("rules"), "").expect("rules");
    ok(&program(&site, &["query", &site.server(), "7000"]));
    assert_eq!(carried(&site), 0);
}

#[test]
fn a_peer_without_manypath_costs_the_usual_patience_once() {
    let site = site(&["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"], RULE);
    let host = site.server();
    let ask = || {
        let done = program(&site, &["query", &host, "7000"]);
        let ms: u64 = ok(&done).parse().expect("milliseconds");
        (ms, done.stderr)
    };
    let (_, first) = ask();
    assert!(first.contains("silent=1") || first.contains("refused=1"), "{first}");
    // A program may end before its stack has saved what it knows.
    let peers = || std::fs::read_to_string(site.dir.join("peers")).unwrap_or_default();
    wait_for("what is remembered", || peers().contains(&host));
    let (_, second) = ask();
    assert!(second.contains("remembered=1"), "{second}");
    for way in ["echo", "connected", "messages"] {
        ok(&program(&site, &[way, &host, "7000"]));
    }
}

#[test]
fn a_service_that_is_not_open_to_peers_is_reached_by_plain_udp() {
    let mut site = site(&["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"], RULE);
    site.serve("9");
    let done = program(&site, &["query", &site.server(), "7000"]);
    ok(&done);
    assert!(done.stderr.contains("not-allowed=1"), "{done:?}");
    assert_eq!(site.server_counter("stack_datagrams_denied"), 1);
}

#[test]
fn flows_are_shown_and_end_when_they_are_idle() {
    let site = serving(&["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"], RULE);
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(["sysctl", "datagram_idle_s=2"]);
    ok(&finish(command));
    let args = [PROGRAM, "send", &site.server(), "7000", "300", "10"];
    let mut child = site.through_command(&[], "python3", &args);
    let mut child = child.stdout(std::process::Stdio::null()).spawn().expect("program");
    let flow = || site.server_status()["associations"][0]["datagrams"][0].clone();
    wait_for("datagrams that are delivered", || flow()["delivered"].as_u64() > Some(5));
    let shown = flow();
    assert_eq!(shown["initiated"], false, "{shown}");
    assert_eq!(shown["lifetime_ms"], 2000, "{shown}");
    assert_eq!(shown["undelivered"], 0, "{shown}");
    assert!(child.wait().expect("status").success());
    wait_for("the end of an idle flow", || flow().is_null());
    assert_eq!(site.server_counter("stack_datagram_relays_ended"), 1);
}

#[test]
fn many_at_once_and_segments_of_one_are_datagrams_like_others() {
    let site = serving(&["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"], RULE);
    for (host, port) in server(&site).iter().zip(["7000", "7006"]) {
        assert_eq!(ok(&program(&site, &["batches", host, port])), "batches ok");
        assert_eq!(ok(&program(&site, &["segments", host, port])), "segments ok");
    }
    assert_eq!(carried(&site), 12);
}

/// A stream of datagrams that runs while something happens: one each 10 ms.
fn streaming(site: &Site, way: &str, count: &str) -> Child {
    let args = [PROGRAM, way, &site.server(), "7000", count, "10"];
    let mut command = site.through_command(&[], "python3", &args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run")
}

fn outcome(child: Child) -> Value {
    let output = child.wait_with_output().expect("output");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn worst(told: &Value) -> f64 {
    let delays = told["delays"].as_object().expect("delays").values();
    delays.filter_map(Value::as_f64).fold(0.0, f64::max)
}

#[test]
fn a_path_is_cut_in_the_middle_of_a_stream_of_datagrams() {
    let site = serving(&["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"], RULE);
    let child = streaming(&site, "send", "400");
    let sent = || site.server_status()["associations"][0]["datagrams"][0]["delivered"].as_u64();
    wait_for("datagrams", || sent() > Some(100));
    site.lab.path("A").expect("a path").down().expect("down");
    let told = outcome(child);
    println!("longest {:.0} ms, {} of {}", worst(&told), told["received"], told["sent"]);
    assert_eq!((&told["received"], &told["again"]), (&told["sent"], &Value::from(0)), "{told}");
    assert!(worst(&told) < 2000.0, "{told}");
}

#[test]
fn a_rule_sends_the_datagrams_of_a_flow_over_every_path() {
    let rules =
        "remote enable udp port 7000 lifetime=2s redundant=on\nlocal enable udp redundant=on\n";
    let site = losing(rules);
    let child = streaming(&site, "send", "300");
    let shown = || site.server_status()["associations"][0].clone();
    wait_for("datagrams", || shown()["datagrams"][0]["delivered"].as_u64() > Some(100));
    assert_eq!(shown()["datagrams"][0]["redundant"], true, "{}", shown());
    let told = outcome(child);
    assert_eq!(told["again"], 0, "{told}");
    assert!(told["received"].as_u64() > Some(297), "{told}");
    let status = shown();
    let paths = status["paths"].as_array().expect("paths");
    let sent: Vec<_> = paths.iter().map(|path| path["bytes_sent"].as_u64()).collect();
    // Each of 300 answers is 160 bytes. A path that loses much is suspected now and then, and carries nothing meanwhile.
    let both: u64 = sent.iter().flatten().sum();
    assert!(both > 450 * 160 && sent.iter().all(|bytes| *bytes > Some(100 * 160)), "{sent:?}");
}

fn kill_stack_under(launcher: &Child) {
    let stack = stack_of(launcher.id()).to_string();
    let killed = Command::new("kill").args(["-9", &stack]).status().expect("kill");
    assert!(killed.success());
}

#[test]
fn when_the_stack_dies_datagrams_go_on_as_plain_udp() {
    let site = serving(&["20mbit,5ms,queue=300", "20mbit,10ms,queue=300"], RULE);
    for way in ["send", "sendto"] {
        let child = streaming(&site, way, "400");
        let sent = || site.server_counter("datagram_received");
        let before = sent();
        wait_for("datagrams", || sent() > before + 100);
        kill_stack_under(&child);
        std::thread::sleep(Duration::from_millis(300));
        let carried = sent();
        let told = outcome(child);
        let received = told["received"].as_u64().expect("count");
        println!("{way}: {received} of {}, {}", told["sent"], told["longest_call_ms"]);
        // What the stack had in hand is lost with it.
        assert!(received > 380, "{way}: {told}");
        assert!(told["errors"].as_u64() <= Some(1), "{way}: {told}");
        assert!(told["longest_call_ms"].as_f64() < Some(500.0), "{way}: {told}");
        // Each datagram of an unconnected socket may begin a flow, by the stack that replaces the dead one.
        if way == "send" {
            assert_eq!(sent(), carried, "{way}: nothing goes through a stack any more");
        }
    }
}
