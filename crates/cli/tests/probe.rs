//! What a program can see of a TCP connection, through the whole system: the same as without it.

mod common;

use common::Site;
use common::probe::{PROBE, compare, probed_site};
use manypath_lab::Host;

fn probe(site: &Site, addresses: [&str; 4]) {
    let [host, silent, source, unroutable] = addresses;
    let args = ["-c", PROBE, host, "7000", silent, source, unroutable, "far"];
    let direct = site.direct("python3", &args);
    let before = site.server_counter("flow_incoming");
    let through = site.through("python3", &args);
    compare(&direct, &through);
    let carried = site.server_counter("flow_incoming") - before;
    assert!(carried > 150, "only {carried} connections went through manypath");
}

#[test]
fn the_probe_prints_the_same_over_ipv4() {
    let site = probed_site();
    let own = site.lab.address(Host::Left, 0).to_string();
    probe(&site, [&site.server(), "192.0.2.1", &own, "192.0.2.200"]);
}

#[test]
fn the_probe_prints_the_same_over_ipv6() {
    let site = probed_site();
    let own = site.lab.address_v6(Host::Left, 0).to_string();
    let server = site.lab.address_v6(Host::Right, 0).to_string();
    probe(&site, [&server, "2001:db8:1::1", &own, "2001:db8:2::1"]);
}
