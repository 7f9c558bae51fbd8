//! Setups in which an interface or a route is wrong.

use crate::common::gateways::{BACK, LEASES, SERVER, add_lan, behind_gateways, sh};
use crate::common::wait_for;
use crate::doctor::patient::{cause, doctor, healthy, is_mended, wrong};
use manypath_lab::Host;
use serde_json::Value;

const TWO: &[&str] = &["20mbit,10ms,queue=100", "10mbit,20ms,queue=100"];

#[test]
fn an_uplink_is_switched_off() {
    let mut site = healthy();
    sh(&site, Host::Left, "ip link set pathB down");
    let server = site.server();
    let cause = is_mended(&mut site, &[&server], "link-down");
    assert_eq!(cause["command"], "ip link set dev pathB up");
}

#[test]
fn an_uplink_has_no_carrier() {
    let site = healthy();
    sh(&site, Host::Left, "ip link set pathB carrier off");
    // The kernel tells of carriers that come and go with some delay.
    wait_for("no carrier", || wrong(&doctor(&site, &[&site.server()]).0) == ["no-carrier"]);
    sh(&site, Host::Left, "ip link set pathB carrier on");
    wait_for("a carrier", || doctor(&site, &[&site.server()]).1 == Some(0));
}

#[test]
fn loopback_is_down() {
    let mut site = healthy();
    sh(&site, Host::Left, "ip link set lo down");
    let server = site.server();
    is_mended(&mut site, &[&server], "loopback-down");
}

#[test]
fn a_rule_forbids_packets_of_an_uplink() {
    let mut site = healthy();
    // IPv4 takes a host to be on the link of an interface without a way to it, also if the way is forbidden.
    let uplink = site.lab.address_v6(Host::Left, 1);
    sh(&site, Host::Left, &format!("ip -6 rule add from {uplink} prohibit pref 100"));
    let server = site.lab.address_v6(Host::Right, 0).to_string();
    let cause = is_mended(&mut site, &[&server], "route-forbidden");
    assert_eq!(cause["command"], "ip -6 rule del pref 100");
}

/// A server behind a router, reached over two uplinks in one network.
fn in_one_lan(leases: &str) -> crate::common::Site {
    let off = "ip link set pathA down; ip link set pathB down; ip address flush dev pathA
               ip address flush dev pathB";
    let mut site = behind_gateways(TWO, "", off);
    add_lan(&mut site, &["20mbit", "10mbit"]);
    sh(&site, Host::Left, leases);
    site.serve("8080");
    site
}

#[test]
fn an_uplink_has_no_route_of_its_own() {
    let mut site = in_one_lan("ip route add default via 192.168.7.1 dev u1 metric 100");
    let cause = is_mended(&mut site, &[SERVER], "no-route");
    assert_eq!(cause["command"], "ip route add default via 192.168.7.1 dev u2 metric 200");
}

#[test]
fn a_peer_that_no_route_leads_to_is_not_called_silent() {
    let site = healthy();
    let (report, code) = doctor(&site, &["192.0.2.9:22"]);
    assert_eq!(code, Some(1));
    assert_eq!(wrong(&report), ["no-route"], "{report:#}");
}

#[test]
fn the_kernel_drops_what_comes_over_the_second_uplink_of_a_network() {
    let leases = "for i in 1 2; do
                    ip route add default via 192.168.7.1 dev u$i metric ${i}00
                  done
                  echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
                  echo 1 > /proc/sys/net/ipv4/conf/u2/rp_filter";
    let mut site = in_one_lan(leases);
    let cause = is_mended(&mut site, &[SERVER], "rp-filter");
    assert_eq!(cause["command"], "sysctl -w net.ipv4.conf.u2.rp_filter=2");
}

/// A NAT that forgets what is not used for 5 s, on the way of path A.
const NAT: &str = "nft -f - <<.
table ip nat {
  chain post {
    type nat hook postrouting priority 100;
    iifname pathA oifname out ip protocol udp snat to 198.51.100.1:20000-60000 fully-random
  }
}
.
echo 5 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout
echo 5 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream";

#[test]
fn a_nat_is_seen_and_how_long_it_remembers() {
    let mut site = behind_gateways(TWO, NAT, LEASES);
    sh(&site, Host::Right, BACK);
    site.serve("8080");
    let (report, code) = doctor(&site, &["--nat", SERVER]);
    assert_eq!(code, Some(0), "{report:#}");
    let path = |number: usize| report["paths"][number].clone();
    let (first, second) = (path(0), path(1));
    assert_eq!((&first["nat"], &second["nat"]), (&true.into(), &false.into()), "{report:#}");
    assert!(first["outside"].as_str().unwrap().starts_with("198.51.100.1:"), "{first:#}");
    let measured = &first["rebinding"];
    let number = |it: &Value| it.as_f64().unwrap();
    assert_eq!(measured["state"], "between", "{measured:#}");
    assert!(
        number(&measured["kept_s"]) < 7.0 && number(&measured["lost_s"]) >= 5.0,
        "{measured:#}"
    );
    assert!(cause(&report, "nat-forgets").is_some(), "{report:#}");
}

#[test]
#[ignore = "takes two minutes: make test-full"]
fn a_nat_that_remembers_longer_than_a_minute_is_told_from_one_that_forgets() {
    let nat = NAT.replace("echo 5 ", "echo 120 ");
    let site = {
        let mut site = behind_gateways(TWO, &nat, LEASES);
        sh(&site, Host::Right, BACK);
        site.serve("8080");
        site
    };
    let mut command = site.command(Host::Left, crate::common::MANYPATH);
    // Longer than any other program of a test may run.
    let done = command.args(["doctor", "--json", "--nat", SERVER]).output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let measured = &report["paths"][0]["rebinding"];
    assert_eq!(measured["state"], "longer", "{report:#}");
    assert!(measured["than_s"].as_f64().unwrap() > 30.0, "{measured:#}");
}
