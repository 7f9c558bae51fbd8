//! The probe: what a program can see of a TCP connection, and the servers that it asks.

use super::{Finished, Site, find, finish};
use manypath_lab::Host;

/// The shim's own probe: some fifty checks, one line each.
const PROBE: &str = include_str!("../../../shim/tests/client/probe.py");
const SERVERS: &str = include_str!("probe_server.py");
const PORTS: &str = "7001,7002,7003,7006,7008";

/// A route to addresses that nobody answers for: the right host forwards nothing.
fn silence(site: &Site, prefix: &str, gateway: &str) {
    let mut command = site.command(Host::Left, find("ip"));
    command.args(["route", "add", prefix, "via", gateway]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// Two hosts with the probe's servers on the right one, behind manypath.
pub(crate) fn probed_site() -> Site {
    let mut site = Site::new();
    let (v4, v6) = (site.server(), site.lab.address_v6(Host::Right, 0).to_string());
    site.service("python3", &["-c", SERVERS, "7000", &v4, &v6], "tcp6", 7003);
    site.serve(PORTS);
    silence(&site, "192.0.2.0/25", &v4);
    silence(&site, "2001:db8:1::/48", &v6);
    site
}

/// Whom the probe asks over IPv4: the servers, one who is silent, from the own address, one to whom no route leads.
pub(crate) fn over_ipv4(site: &Site) -> [String; 4] {
    let own = site.lab.address(Host::Left, 0).to_string();
    [site.server(), "192.0.2.1".into(), own, "192.0.2.200".into()]
}

/// The same over IPv6.
pub(crate) fn over_ipv6(site: &Site) -> [String; 4] {
    let own = site.lab.address_v6(Host::Left, 0).to_string();
    let server = site.lab.address_v6(Host::Right, 0).to_string();
    [server, "2001:db8:1::1".into(), own, "2001:db8:2::1".into()]
}

/// What python is called with to run it.
pub(crate) fn arguments([host, silent, source, unroutable]: &[String; 4]) -> [&str; 8] {
    ["-c", PROBE, host, "7000", silent, source, unroutable, "far"]
}

/// Whether both have printed the same.
pub(crate) fn compare(direct: &Finished, through: &Finished) {
    let pairs = direct.stdout.lines().zip(through.stdout.lines());
    let differences: Vec<String> = pairs
        .filter(|(direct, through)| direct != through)
        .map(|(direct, through)| format!("direct:  {direct}\nthrough: {through}"))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(direct.stdout.lines().count() > 40, "{direct:?}");
    assert_eq!(direct.stdout.lines().count(), through.stdout.lines().count(), "{through:?}");
}
