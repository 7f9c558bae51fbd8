//! The network of the server: two uplinks with a private address each, behind NATs with a public one each.

use crate::common::gateways::{LEASES, sh, with_inner_host};
use crate::common::{Site, wait_for};
use manypath_lab::Host;

/// By which the server is known. The right host, which is the router, has them.
pub(crate) const PUBLIC: [&str; 2] = ["203.0.113.1", "203.0.113.2"];
/// Which the server has.
pub(crate) const PRIVATE: [&str; 2] = ["10.9.1.2", "10.9.2.2"];

/// The paths of the client's uplinks.
pub(crate) const TWO: &[&str] = &["20mbit,10ms,queue=100", "10mbit,20ms,queue=100"];

/// All that is sent to a public address goes to the private one that belongs to it, and what leaves from there has
/// the public one.
pub(crate) const ONE_TO_ONE: &str = "
  chain pre {
    type nat hook prerouting priority -100;
    ip daddr 203.0.113.1 dnat to 10.9.1.2
    ip daddr 203.0.113.2 dnat to 10.9.2.2
  }
  chain post {
    type nat hook postrouting priority 100;
    iifname out1 snat to 203.0.113.1
    iifname out2 snat to 203.0.113.2
  }";

/// Nobody outside can send to a private address: what was not translated goes nowhere.
const WALL: &str = "
  chain wall {
    type filter hook forward priority 0;
    iifname { pathA, pathB } ct state new ct status dnat accept
    iifname { pathA, pathB } ct state new drop
  }";

/// The client, with an uplink on each path, and the server behind NATs with these chains.
pub(crate) fn behind(chains: &str, on_client: &str) -> Site {
    let (mut site, pid) = with_inner_host(TWO);
    let wires: String = (1..=2)
        .map(|n| {
            format!(
                "ip link add out{n} type veth peer name in{n} netns {pid}; ip link set out{n} up
                 ip address add 10.9.{n}.1/24 dev out{n}; ip address add 203.0.113.{n}/32 dev lo\n"
            )
        })
        .collect();
    let router = format!(
        "{wires}
         echo 1 > /proc/sys/net/ipv4/ip_forward
         nft -f - <<.\ntable ip nat {{{chains}{WALL}\n}}\n."
    );
    sh(&site, Host::Right, &router);
    sh(&site, Host::Left, &format!("{LEASES}\n{on_client}"));
    site.inner = Some(pid);
    let links = (1..=2).map(|n| {
        format!(
            "ip link set in{n} up; ip address add 10.9.{n}.2/24 dev in{n}
             ip route add default via 10.9.{n}.1 dev in{n} metric {n}00\n"
        )
    });
    sh(&site, Host::Right, &format!("ip link set lo up\n{}", links.collect::<String>()));
    site
}

/// The client has one uplink only.
pub(crate) const ONE_UPLINK: &str = "ip address flush dev pathB; ip link set pathB down";
/// The server has one uplink only, as far as manypath is concerned.
pub(crate) const ONE_HOME: &str = "ip link set in2 down";

/// Runs a line with a shell on the router.
pub(crate) fn on_router(site: &mut Site, line: &str) -> String {
    let inner = site.inner.take();
    let said = sh(site, Host::Right, line);
    site.inner = inner;
    said
}

/// Waits until the right host's stack leads peers to a listener at `port`.
pub(crate) fn wait_for_offer(site: &Site, port: u16) {
    wait_for("the server to be offered", || {
        let status = site.door_status(Host::Right);
        let listeners = status["listeners"].as_array().cloned().unwrap_or_default();
        let ends = format!(":{port}");
        listeners.iter().any(|one| {
            one["offered"] == true && one["addr"].as_str().is_some_and(|addr| addr.ends_with(&ends))
        })
    });
}
