//! For which peers addresses are there: what is routed into a tunnel stays in it, and nobody else is told of tunnels
//! and of bridges of containers.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::gateways::sh;
use common::{MANYPATH, Site, finish, in_cgroup, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Child, Stdio};

const PATHS: &[&str] = &["20mbit,10ms,queue=100", "20mbit,15ms,queue=100"];
const FILE: u64 = 2 << 20;
const VPN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/vpn.py");
/// The mark of the tunnel's own packets, as wg-quick uses it.
const MARK: &str = "51820";
/// A network of containers, with one that is running.
const POD: &str = "ip link add pod type bridge; ip link add tap0 type veth peer name tap1
                   ip link set tap0 master pod; ip link set tap0 up; ip link set tap1 up; ip link set pod up
                   ip address add 172.17.0.1/16 dev pod";
/// Where a full tunnel leads.
const FAR: &str = "198.51.100.2";
/// What wg-quick does for AllowedIPs = 0.0.0.0/0, over uplinks that reach everything as well.
const FULL_TUNNEL: &str = "ip route add default via 10.77.1.2 dev pathA metric 100
                           ip route add default via 10.77.2.2 dev pathB metric 200
                           ip route add default dev vpn table 51820
                           ip rule add not fwmark 51820 table 51820
                           ip rule add table main suppress_prefixlength 0";
/// Counts what leaves for a peer beside the tunnel.
const COUNTER: &str = "nft -f - <<.
table inet watch {
  chain out {
    type filter hook output priority 0;
    oifname { pathA, pathB } udp dport 9899 counter
  }
}
.";

/// Two hosts with two uplinks each, and a tunnel between them over the first ones. The right one serves a file.
fn site() -> Site {
    let mut site = Site::with_paths(PATHS);
    let ends = [(Host::Left, "10.77.1.1", "10.77.1.2"), (Host::Right, "10.77.1.2", "10.77.1.1")];
    for (number, (host, here, there)) in (1..).zip(ends) {
        site.service_on(host, "python3", &[VPN, "vpn", here, there, MARK], "udp", 5555);
        let line =
            format!("ip link set vpn mtu 1400 up; ip address add 10.8.0.{number}/24 dev vpn");
        sh(&site, host, &line);
    }
    site.web();
    site.random_file("file", FILE);
    site
}

fn download(site: &Site, from: &str) {
    let url = format!("http://{from}:8080/file");
    let args = ["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url];
    let done = site.through("curl", &args);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), FILE.to_string().as_str()), "{done:?}");
    assert_eq!(site.server_counter("flow_incoming"), 1);
}

/// A download that takes longer than the test.
fn slow_download(site: &Site) -> Child {
    let url = format!("http://{}:8080/file", site.server());
    let args = ["-sS", "-o", "/dev/null", "--limit-rate", "20k", &url];
    site.through_command(&[], "curl", &args).stdin(Stdio::null()).spawn().unwrap()
}

/// The client's addresses as the server knows them, which are those that it was told and those that it has seen.
fn known(site: &Site) -> Vec<String> {
    let status = site.server_status();
    let paths = status["associations"][0]["paths"].as_array().cloned().unwrap_or_default();
    let ip = |path: &Value| path["remote"].as_str().unwrap().split(':').next().unwrap().to_owned();
    let all: BTreeSet<String> = paths.iter().map(ip).collect();
    all.into_iter().collect()
}

fn path(site: &Site, words: &[&str]) -> String {
    let mut command = site.command(Host::Left, MANYPATH);
    command.arg("path").args(words);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
    done.stdout
}

/// Packets for the peer that have left beside the tunnel.
fn beside(site: &Site) -> u64 {
    let rules = sh(site, Host::Left, "nft list chain inet watch out");
    let count = rules.split("packets ").nth(1).and_then(|rest| rest.split(' ').next());
    count.unwrap().parse().unwrap()
}

#[test]
fn addresses_of_containers_and_tunnels_are_told_to_nobody_elsewhere_until_they_are_named() {
    let mut site = site();
    sh(&site, Host::Left, POD);
    site.serve("8080");
    let mut download = slow_download(&site);
    let uplinks = ["10.77.1.1", "10.77.2.1"];
    wait_for("both uplinks", || {
        let known = known(&site);
        uplinks.iter().all(|uplink| known.iter().any(|it| it == uplink))
    });
    let others = known(&site).into_iter().filter(|it| !uplinks.contains(&it.as_str()));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0]);
    let shown = path(&site, &["show"]);
    for words in ["172.17.0.1 dev pod is isolated: bridge", "10.8.0.1 dev vpn is isolated: tunnel"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.contains("`manypath path add dev pod normal`"), "{shown}");
    path(&site, &["add", "dev", "pod", "normal"]);
    wait_for("the bridge to be told", || known(&site).iter().any(|it| it == "172.17.0.1"));
    assert!(path(&site, &["show"]).contains("172.17.0.1 dev pod is open: named"));
    let _ = download.kill();
    let _ = download.wait();
}

#[test]
fn what_goes_to_an_address_in_a_tunnel_leaves_through_the_tunnel_alone() {
    let mut site = site();
    site.serve("8080");
    sh(&site, Host::Left, COUNTER);
    download(&site, "10.8.0.2");
    assert_eq!((known(&site), beside(&site)), (vec!["10.8.0.1".to_owned()], 0));
}

#[test]
fn a_full_tunnel_by_policy_routing_is_respected() {
    let mut site = site();
    sh(&site, Host::Right, &format!("ip address add {FAR}/32 dev vpn"));
    sh(&site, Host::Left, FULL_TUNNEL);
    site.serve("8080");
    sh(&site, Host::Left, COUNTER);
    download(&site, FAR);
    assert_eq!((known(&site), beside(&site)), (vec!["10.8.0.1".to_owned()], 0));
}

#[test]
fn interfaces_that_local_names_are_used_and_no_others() {
    // A redirector has options of its own.
    if in_cgroup() {
        return;
    }
    let mut site = site();
    site.serve("8080");
    let url = format!("http://{}:8080/file", site.server());
    let args = ["-sS", "-o", "/dev/null", "--limit-rate", "20k", &url];
    let mut command = site.through_command(&["--local", "pathA,vpn"], "curl", &args);
    let mut download = command.stdin(Stdio::null()).spawn().unwrap();
    wait_for("the tunnel to be told", || known(&site) == ["10.77.1.1", "10.8.0.1"]);
    let _ = download.kill();
    let _ = download.wait();
    let refused = site.through_command(&["--local", "wg7"], "true", &[]);
    let said = finish(refused);
    assert!(said.stderr.contains("--local: wg7 is no interface of this host"), "{said:?}");
}
