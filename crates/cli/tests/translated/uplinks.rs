//! Every path between the two hosts carries, whoever is behind a NAT.

use crate::common::gateways::{inner_host, sh};
use crate::common::{MANYPATH, Site, finish, wait_for};
use crate::translated::home::{ONE_TO_ONE, ONE_UPLINK, PUBLIC, behind, on_router};
use manypath_lab::Host;
use serde_json::Value;
use std::process::Stdio;

const FILE: u64 = 4 << 20;
/// What an uplink has carried at least that has taken part: more than all that keeps a path alive.
const PART: u64 = 300_000;

fn serving(mut site: Site) -> Site {
    site.web();
    site.random_file("file", FILE);
    site.serve("8080");
    site
}

/// Downloads the file from a public address.
fn download(site: &Site) {
    let url = format!("http://{}:8080/file", PUBLIC[0]);
    let args = ["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url];
    let incoming = |stack: &Value| stack["counters"]["flow_incoming"].as_u64().unwrap_or(0);
    let flows = || all_stacks(site, Host::Right).iter().map(incoming).sum::<u64>();
    let before = flows();
    let done = site.through("curl", &args);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), FILE.to_string().as_str()), "{done:?}");
    assert_eq!(flows() - before, 1, "{:#?}", all_stacks(site, Host::Right));
}

/// What all stacks of a host say.
fn all_stacks(site: &Site, host: Host) -> Vec<Value> {
    let mut command = site.command(host, MANYPATH);
    command.args(["status", "--json"]);
    let all: Value = serde_json::from_str(&finish(command).stdout).expect("JSON");
    all["stacks"].as_array().cloned().unwrap_or_default()
}

/// Bytes that have left over a device.
fn sent(said: &str) -> u64 {
    said.trim().parse().expect("a number")
}

fn statistics(device: &str) -> String {
    format!("grep {device}: /proc/net/dev | cut -d: -f2 | awk '{{print $9}}'")
}

/// Whether both paths have carried towards the client.
fn both_paths_carried(site: &mut Site) {
    let carried =
        |site: &mut Site| ["pathA", "pathB"].map(|it| sent(&on_router(site, &statistics(it))));
    // On a busy machine one file may be over before the second path is in use.
    for last in [false, false, false, true] {
        let bytes = carried(site);
        if bytes.iter().all(|bytes| *bytes > PART) {
            return;
        }
        assert!(!last, "pathA, pathB: {bytes:?}");
        download(site);
    }
}

#[test]
fn both_uplinks_of_the_client_carry() {
    let mut site = serving(behind(ONE_TO_ONE, ""));
    download(&site);
    both_paths_carried(&mut site);
}

#[test]
fn both_uplinks_of_the_client_carry_where_it_is_behind_nats_too() {
    let chains = ONE_TO_ONE.replace(
        "iifname out1 snat",
        "iifname pathA snat to 192.0.2.1\n iifname pathB snat to 192.0.2.2\n iifname out1 snat",
    );
    let mut site = serving(behind(&chains, ""));
    download(&site);
    both_paths_carried(&mut site);
    // They would be its addresses if the client had told them.
    let known = serde_json::to_string(&all_stacks(&site, Host::Right)).expect("JSON");
    assert!(known.contains("192.0.2.2:") && !known.contains("10.77."), "{known}");
}

#[test]
fn both_uplinks_of_the_server_carry_where_the_client_knows_one() {
    let site = serving(behind(ONE_TO_ONE, ONE_UPLINK));
    download(&site);
    for device in ["in1", "in2"] {
        let bytes = sent(&sh(&site, Host::Right, &statistics(device)));
        assert!(bytes > PART, "{device}: {bytes}");
    }
}

/// The private addresses that the server lists are tried, and then not mentioned any more.
#[test]
fn addresses_that_mean_nothing_outside_are_given_up() {
    let site = serving(behind(ONE_TO_ONE, ""));
    // More than all buffers take, or the association would be over before the addresses are given up.
    site.random_file("large", 64 << 20);
    let url = format!("http://{}:8080/large", PUBLIC[0]);
    let args = ["-sS", "-o", "/dev/null", "--limit-rate", "100k", &url];
    let mut command = site.through_command(&[], "curl", &args);
    let mut child = command.stdin(Stdio::null()).spawn().expect("curl");
    let remotes = || {
        let stacks =
            all_stacks(&site, Host::Left).into_iter().filter(|stack| stack["accepting"] != true);
        let paths = stacks.flat_map(|stack| stack["associations"][0]["paths"].as_array().cloned());
        let remote = |path: Value| path["remote"].as_str().unwrap_or_default().to_owned();
        paths.flatten().map(remote).collect::<Vec<_>>()
    };
    let is_private = |remote: &String| remote.starts_with("10.9.");
    wait_for("the addresses to be tried", || remotes().iter().any(is_private));
    wait_for("them to be given up", || {
        let remotes = remotes();
        remotes.len() >= 2 && !remotes.iter().any(is_private)
    });
    let _ = child.kill();
    let _ = child.wait();
}

/// In a network of the client there is another host with a private address of the server, which serves peers
/// itself. It answers HEARTBEATs of an association that it does not know with ABORT.
#[test]
fn a_stranger_with_a_private_address_of_the_server_is_left_alone() {
    let mut site = serving(behind(ONE_TO_ONE, ""));
    let stranger = inner_host(&mut site, Host::Left);
    let lan = format!(
        "ip link add lan type veth peer name lan netns {stranger}; ip link set lan up
         ip address add 10.9.1.9/24 dev lan"
    );
    sh(&site, Host::Left, &lan);
    let server = site.inner.replace(stranger);
    sh(
        &site,
        Host::Right,
        "ip link set lo up; ip link set lan up; ip address add 10.9.1.2/24 dev lan",
    );
    site.serve("8080");
    let log = std::fs::read_to_string(site.dir.join("log-9899")).expect("its log");
    assert!(log.contains("10.9.1.2"), "{log}");
    site.inner = server;
    download(&site);
    both_paths_carried(&mut site);
    site.inner = Some(stranger);
    let counters = &all_stacks(&site, Host::Right)[0]["counters"];
    assert!(counters["sctp_out_of_the_blue"].as_u64() > Some(0), "never asked: {counters:#}");
    let bytes = sent(&sh(&site, Host::Left, &statistics("lan")));
    assert!(bytes < 50_000, "it got {bytes} bytes");
}
