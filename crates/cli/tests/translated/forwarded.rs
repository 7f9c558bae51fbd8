//! A router with one public address that forwards the UDP ports and the port of the service, or only the latter.

use crate::common::gateways::sh;
use crate::common::{MANYPATH, Site, find, finish};
use crate::translated::home::{ONE_HOME, PUBLIC, behind, on_router};
use manypath_lab::Host;
use std::process::Stdio;
use std::time::Duration;

/// `udp`: what becomes of UDP port 9899; `source`: how the source ports of what leaves are chosen.
fn chains(udp: &str, source: &str) -> String {
    format!(
        "
  chain pre {{
    type nat hook prerouting priority -100;
    ip daddr 203.0.113.1 tcp dport {{ 80, 8080 }} dnat to 10.9.1.2
    {udp}
  }}
  chain post {{
    type nat hook postrouting priority 100;
    iifname out1 ip protocol udp snat to 203.0.113.1{source}
    iifname out1 snat to 203.0.113.1
  }}"
    )
}

const FORWARDED: &str = "ip daddr 203.0.113.1 udp dport 9899 dnat to 10.9.1.2";
/// With the port that is asked for services at ports below 1024.
const BOTH_FORWARDED: &str = "ip daddr 203.0.113.1 udp dport { 899, 9899 } dnat to 10.9.1.2";

fn serving(chains: &str) -> Site {
    let mut site = behind(chains, "");
    sh(&site, Host::Right, ONE_HOME);
    site.web();
    site.random_file("file", 2 << 20);
    let root = site.dir.join("www").display().to_string();
    site.service("python3", &["-m", "http.server", "-d", &root, "80"], "tcp", 80);
    site.serve("80,8080");
    site
}

/// Downloads the file; how long the connect took, in seconds.
fn download(site: &Site) -> f64 {
    download_at(site, 8080)
}

fn download_at(site: &Site, port: u16) -> f64 {
    let url = format!("http://{}:{port}/file", PUBLIC[0]);
    let format = "%{size_download} %{time_connect}";
    let done = site.through("curl", &["-sS", "-f", "-o", "/dev/null", "-w", format, &url]);
    let (size, time) = done.stdout.split_once(' ').unwrap_or_default();
    assert_eq!((done.code, size), (Some(0), "2097152"), "{done:?}");
    time.parse().expect("a time")
}

fn is_carried_and_well(site: &Site) {
    download(site);
    assert_eq!(site.server_counter("flow_incoming"), 1, "{:#}", site.server_status());
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["doctor", "--json", &format!("{}:8080", PUBLIC[0])]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{}", done.stdout);
}

#[test]
fn a_router_that_keeps_source_ports() {
    is_carried_and_well(&serving(&chains(FORWARDED, "")));
}

#[test]
fn a_router_that_changes_source_ports() {
    is_carried_and_well(&serving(&chains(FORWARDED, ":20000-60000 fully-random")));
}

#[test]
fn ports_below_1024_are_carried_where_their_udp_port_is_forwarded() {
    for (udp, carried) in [(FORWARDED, 0), (BOTH_FORWARDED, 1)] {
        for source in ["", ":20000-60000 fully-random"] {
            let site = serving(&chains(udp, source));
            download_at(&site, 80);
            assert_eq!(site.server_counter("flow_incoming"), carried, "{udp}");
        }
    }
}

/// From then on the server comes from another port, too.
#[test]
fn a_router_that_changes_source_ports_forgets_its_mappings() {
    mappings_are_forgotten(FORWARDED, 8080);
}

/// The client hears the server from the port alone that it has asked.
#[test]
fn a_router_forgets_its_mappings_of_the_privileged_port() {
    mappings_are_forgotten(BOTH_FORWARDED, 80);
}

fn mappings_are_forgotten(udp: &str, port: u16) {
    let mut site = serving(&chains(udp, ":20000-60000 fully-random"));
    site.random_file("file", 8 << 20);
    let url = format!("http://{}:{port}/file", PUBLIC[0]);
    let args = ["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url];
    let mut command = site.through_command(&[], "curl", &args);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("curl");
    std::thread::sleep(Duration::from_secs(1));
    let conntrack = find("conntrack").display().to_string();
    on_router(&mut site, &format!("{conntrack} -F"));
    let done = child.wait_with_output().expect("its output");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "8388608", "{done:?}");
    assert_eq!(site.server_counter("flow_incoming"), 1);
}

#[test]
fn without_the_udp_port_plain_tcp_takes_over_in_time() {
    // Said by the router, which has the address and nobody who listens; and not said.
    for udp in ["", "ip daddr 203.0.113.1 udp dport 9899 dnat to 10.9.1.250"] {
        let site = serving(&chains(udp, ""));
        let time = download(&site);
        assert_eq!(site.server_counter("flow_incoming"), 0);
        // A second is what a SYN that was lost would take.
        assert!(time < 1.0, "{udp}: {time} s");
    }
}
