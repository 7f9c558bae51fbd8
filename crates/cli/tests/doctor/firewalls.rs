//! Setups in which something drops packets.

use crate::common::gateways::sh;
use crate::doctor::patient::{healthy, is_mended};
use manypath_lab::Host;

/// A chain of a firewall with one rule.
fn wall(hook: &str, rule: &str) -> String {
    format!(
        "nft add table inet wall; nft 'add chain inet wall own {{ type filter hook {hook} priority 0; }}'
         nft add rule inet wall own {rule}"
    )
}

#[test]
fn a_firewall_of_the_peer_drops_udp() {
    let mut site = healthy();
    sh(&site, Host::Right, &wall("input", "udp dport 9899 drop"));
    let server = site.server();
    let cause = is_mended(&mut site, &[&server], "udp-blocked");
    assert!(cause["place"] == "peer" && cause["path"].is_null(), "{cause:#}");
}

#[test]
fn a_firewall_of_the_peer_drops_udp_on_one_path() {
    let mut site = healthy();
    sh(&site, Host::Right, &wall("input", "iifname pathB udp dport 9899 drop"));
    let server = site.server();
    let cause = is_mended(&mut site, &[&server], "udp-blocked");
    assert_eq!(cause["path"]["interface"], "pathB", "{cause:#}");
    assert_eq!(cause["weight"], "degraded");
}

#[test]
fn a_firewall_of_the_peer_drops_udp_on_the_path_of_its_name() {
    let mut site = healthy();
    sh(&site, Host::Right, &wall("input", "iifname pathA udp dport 9899 drop"));
    let server = site.server();
    let cause = is_mended(&mut site, &[&server], "udp-blocked");
    assert_eq!(cause["path"]["interface"], "pathA", "{cause:#}");
}

#[test]
fn a_firewall_of_this_host_lets_nothing_out() {
    let mut site = healthy();
    sh(&site, Host::Left, &wall("output", "udp dport 9899 drop"));
    let server = site.server();
    let (report, _) = crate::doctor::patient::doctor(&site, &[&server]);
    assert_eq!(
        crate::doctor::patient::wrong(&report),
        ["local-firewall", "local-firewall"],
        "{report:#}"
    );
    let command = "nft insert rule inet wall own udp dport 9899 accept";
    assert_eq!(
        crate::doctor::patient::cause(&report, "local-firewall").unwrap()["command"],
        command
    );
    sh(&site, Host::Left, &format!("PATH=/usr/sbin:$PATH; {command}"));
    let (report, code) = crate::doctor::patient::doctor(&site, &[&server]);
    assert!(crate::doctor::patient::wrong(&report).is_empty() && code == Some(0), "{report:#}");
    sh(&site, Host::Left, "PATH=/usr/sbin:$PATH; nft flush chain inet wall own");
    sh(
        &site,
        Host::Left,
        "PATH=/usr/sbin:$PATH; nft add rule inet wall own oifname pathB udp dport 9899 drop",
    );
    let cause = is_mended(&mut site, &[&server], "local-firewall");
    assert_eq!(cause["path"]["interface"], "pathB", "{cause:#}");
}

#[test]
fn a_firewall_of_this_host_drops_the_answers() {
    let mut site = healthy();
    sh(&site, Host::Left, &wall("input", "iifname pathB udp sport 9899 drop"));
    let server = site.server();
    let cause = is_mended(&mut site, &[&server], "answers-dropped");
    assert_eq!((&cause["path"]["interface"], &cause["place"]), (&"pathB".into(), &"here".into()));
}

#[test]
fn large_packets_vanish() {
    let mut site = healthy();
    sh(&site, Host::Right, &wall("input", "iifname pathB meta length gt 1300 drop"));
    let server = site.server();
    let cause = is_mended(&mut site, &[&server], "mtu-black-hole");
    assert_eq!(cause["command"], "ip link set dev pathB mtu 1300");
}
