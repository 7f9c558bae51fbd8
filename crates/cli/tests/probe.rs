//! What a program can see of a TCP connection, through the whole system: the same as without it.

use crate::common;

use common::Site;
use common::probe::{arguments, compare, over_ipv4, over_ipv6, probed_site};

fn probe(site: &Site, addresses: &[String; 4]) {
    let args = arguments(addresses);
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
    probe(&site, &over_ipv4(&site));
}

#[test]
fn the_probe_prints_the_same_over_ipv6() {
    let site = probed_site();
    probe(&site, &over_ipv6(&site));
}
