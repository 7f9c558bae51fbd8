//! What a program can see of a TCP connection, through the whole system: the same as without it.

mod common;

use common::{Finished, Site};
use manypath_lab::Host;

/// The shim's own probe: some fifty checks, one line each.
const PROBE: &str = include_str!("../../shim/tests/client/probe.py");
const SERVERS: &str = include_str!("common/probe_server.py");
const PORTS: &str = "7001,7002,7003,7006,7008";

/// A route to addresses that nobody answers for: the right host forwards nothing.
fn silence(site: &Site, prefix: &str, gateway: &str) {
    let mut command = site.command(Host::Left, common::find("ip"));
    command.args(["route", "add", prefix, "via", gateway]);
    let done = common::finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
}

fn probed_site() -> Site {
    let mut site = Site::new();
    let (v4, v6) = (site.server(), site.lab.address_v6(Host::Right, 0).to_string());
    site.service("python3", &["-c", SERVERS, "7000", &v4, &v6], "tcp6", 7003);
    site.serve(PORTS);
    silence(&site, "192.0.2.0/25", &v4);
    silence(&site, "2001:db8:1::/48", &v6);
    site
}

fn compare(direct: &Finished, through: &Finished) {
    let pairs = direct.stdout.lines().zip(through.stdout.lines());
    let differences: Vec<String> = pairs
        .filter(|(direct, through)| direct != through)
        .map(|(direct, through)| format!("direct:  {direct}\nthrough: {through}"))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(direct.stdout.lines().count() > 40, "{direct:?}");
    assert_eq!(direct.stdout.lines().count(), through.stdout.lines().count(), "{through:?}");
}

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
