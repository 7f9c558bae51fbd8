//! UDP and DNS of a network behind `manypath gateway --lan`.

use super::{HOSTS, Network, PLAIN, PLAIN_V6, end};
use crate::common::gateways::sh;
use crate::common::{MANYPATH, Site, bound, find, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::process::Stdio;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/datagrams.py");
/// The server's host at its first address, which relays.
pub(super) const RELAY: &str = "10.77.1.2";

/// A network whose server relays to the host behind it, which answers datagrams at ports 7000 (IPv4), 7001 (IPv6) and 53.
fn network() -> Network {
    network_open_to(&["--relay-to", "198.51.100.0/24:1-8000", "--relay-to", "[fd99::/64]:1-8000"])
}

/// The same with other options of the relay.
pub(super) fn network_open_to(open: &[&str]) -> Network {
    let network = Network::with_server(false, |site| {
        let list = authorize(site);
        let args = ["serve", "-v", "--relay", "--authorized", &list];
        site.service(MANYPATH, &[&args[..], open].concat(), "udp", 9899);
    });
    with_services(network)
}

fn with_services(mut network: Network) -> Network {
    let services: [(&[&str], u16, &str); 4] = [
        (&["server", "0.0.0.0", "7000"], 7000, "udp"),
        (&["server", "::", "7001"], 7001, "udp6"),
        (&["server", "0.0.0.0", "8100"], 8100, "udp"),
        (&["dns", "0.0.0.0", "53"], 53, "udp"),
    ];
    for (args, port, protocol) in services {
        let mut command = network.site.command(Host::Right, find("nsenter"));
        command.arg(format!("--net=/proc/{}/ns/net", network.plain));
        command.arg(find("python3")).arg(PROGRAM).args(args).stdin(Stdio::null());
        let child = command.spawn().unwrap();
        let pid = child.id();
        network.site.services.push(child);
        wait_for("a service", || bound(pid, protocol, port));
    }
    network
}

/// Writes the router's key into the relay's list.
fn authorize(site: &Site) -> String {
    let mut show = site.command(Host::Left, MANYPATH);
    show.args(["key", "show", "--json"]);
    let shown: Value = serde_json::from_str(&finish(show).stdout).unwrap();
    let key = shown["keys"][0]["key"].as_str().unwrap();
    let list = site.dir.join("authorized").display().to_string();
    std::fs::write(&list, format!("{key} router\n")).unwrap();
    list
}

/// What a host's program says, which must succeed.
pub(super) fn said(network: &Network, host: usize, program: &str, args: &[&str]) -> String {
    let done = network.run(host, program, args);
    assert_eq!(done.code, Some(0), "{args:?}: {done:?}\n{}", log(network));
    done.stdout.trim().to_owned()
}

fn asks(network: &Network, host: usize, args: &[&str]) -> String {
    said(network, host, "python3", &[&[PROGRAM], args].concat())
}

fn log(network: &Network) -> String {
    std::fs::read_to_string(network.site.dir.join("gateway.log")).unwrap()
}

fn host(status: &Value, address: &str) -> Value {
    let hosts = status["door_hosts"].as_array().unwrap();
    hosts.iter().find(|one| one["host"] == address).cloned().unwrap_or_default()
}

#[test]
fn udp_and_dns_of_the_network_go_by_the_relay_and_the_router_is_left_as_it_was() {
    let network = network();
    let before = network.rules();
    let gateway = network.gateway(&["--via", RELAY, "--dns", PLAIN]);
    // Every size, and answers come from where they were asked for.
    assert_eq!(asks(&network, 1, &["echo", PLAIN, "7000"]), "echo ok");
    assert_eq!(asks(&network, 1, &["echo", PLAIN_V6, "7001"]), "echo ok");
    let names: Value =
        serde_json::from_str(&asks(&network, 2, &["connected", PLAIN, "7000"])).unwrap();
    assert_eq!(names["source"][0], "198.51.100.1", "the relay asks: {names}");
    assert_eq!(names["own"][0], HOSTS[2], "{names}");
    // A resolver outside, and the router's own address, where none listens.
    for resolver in [PLAIN, "192.168.7.1"] {
        let answer =
            said(&network, 0, "busybox", &["nslookup", "-type=a", "example.org", resolver]);
        assert!(answer.contains("192.0.2.53"), "{answer}");
    }
    // Where nobody listens the host hears of it.
    assert_eq!(asks(&network, 2, &["refused", PLAIN, "7999"]), "refused");
    let status = network.status();
    for address in [HOSTS[0], HOSTS[1], HOSTS[2], "fd08::12"] {
        let host = host(&status, address);
        assert!(host["carried"].as_u64() >= Some(1) && host["plain"] == 0, "{status}");
    }
    let third = host(&status, HOSTS[1]);
    assert!(third["received_bytes"].as_u64() > Some(110_000), "{third}");
    let relayed = network.site.server_status()["relayed_peers"][0].clone();
    assert!(relayed["opened"].as_u64() >= Some(6), "{relayed}");
    let sandbox = &status["sandbox"];
    assert_ne!(sandbox["user"], 0, "{sandbox}");
    assert_eq!(sandbox["capabilities"], Value::Array(vec![]), "{sandbox}");
    end(gateway);
    assert_eq!(network.rules(), before);
    asks(&network, 0, &["query", PLAIN, "7000"]);
}

#[test]
fn a_stream_of_datagrams_and_a_download_outlive_an_uplink() {
    let network = network();
    let gateway = network.gateway(&["--via", RELAY]);
    let url = format!("http://{PLAIN}:8000/file");
    let mut download = network.command(0, "busybox", &["wget", "-q", "-O", "got", &url]);
    let mut download = download.stdin(Stdio::null()).spawn().unwrap();
    let mut stream = network.command(2, "python3", &[PROGRAM, "send", PLAIN, "7000", "300", "20"]);
    let stream = stream.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let got = network.site.dir.join("got");
    let is_begun = || std::fs::metadata(&got).is_ok_and(|got| got.len() > 1_500_000);
    wait_for("a part of the file", is_begun);
    let uplinks = super::by_uplink(&network.status());
    assert!(uplinks.iter().all(|bytes| *bytes > 200_000), "both uplinks: {uplinks:?}");
    network.site.lab.path("A").expect("a path").down().expect("down");
    assert!(download.wait().unwrap().success());
    assert!(std::fs::read(got).unwrap() == network.content);
    let told = stream.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(told["received"].as_u64() > Some(150), "of 300: {}", told["received"]);
    end(gateway);
}

#[test]
fn a_host_that_is_no_client_reaches_no_more_than_the_packet_filter_lets_it() {
    let network = network();
    sh(
        &network.site,
        Host::Left,
        "nft 'table inet egress { chain forward { type filter hook forward priority 0; udp dport 7000 drop; }; }'",
    );
    let gateway = network.gateway(&["--via", RELAY, "--clients", "192.168.7.0/24"]);
    asks(&network, 0, &["query", PLAIN, "7000"]);
    let closed = |host, to: &str, port: &str| {
        let ask = "import socket,sys\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.settimeout(2)\ns.sendto(b'question',(sys.argv[1],int(sys.argv[2])))\ns.recv(9)";
        let done = network.run(host, "python3", &["-c", ask, to, port]);
        assert!(done.stderr.contains("timed out"), "{to}: {done:?}");
    };
    closed(1, PLAIN, "7000");
    // The gateway's own port is no way through, whoever asks.
    let rules = network.rules();
    let port = rules.split("udp tproxy to :").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    closed(1, "192.168.8.1", &port);
    closed(0, "192.168.7.1", &port);
    let status = network.status();
    assert_eq!(host(&status, HOSTS[1]), Value::Null, "{status}");
    assert!(host(&status, HOSTS[0])["refused"].as_u64() >= Some(1), "{status}");
    end(gateway);
}

#[test]
fn what_the_relay_closes_is_plain_udp_of_the_router_unless_a_rule_forbids_that() {
    let network = network();
    let gateway = network.gateway(&["--via", RELAY]);
    asks(&network, 0, &["query", PLAIN, "8100"]);
    let first = host(&network.status(), HOSTS[0]);
    assert_eq!((&first["plain"], &first["carried"]), (&1.into(), &0.into()), "{first}");
    end(gateway);
    std::fs::write(network.site.dir.join("rules"), "remote enable udp port 8100 encrypt=require\n")
        .unwrap();
    let gateway = network.gateway(&["--via", RELAY]);
    assert_eq!(asks(&network, 2, &["refused", PLAIN, "8100"]), "refused");
    let third = host(&network.status(), HOSTS[2]);
    assert_eq!((&third["failed"], &third["plain"]), (&1.into(), &0.into()), "{third}");
    end(gateway);
}

#[test]
fn datagrams_are_routed_again_when_the_gateway_is_killed() {
    let network = with_services(Network::new(false));
    let before = network.rules();
    let mut gateway = network.gateway(&["--udp"]);
    asks(&network, 1, &["query", PLAIN, "7000"]);
    let second = host(&network.status(), HOSTS[1]);
    assert_eq!((&second["plain"], &second["carried"]), (&1.into(), &0.into()), "{second}");
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    wait_for("the rules to go", || network.rules() == before);
    asks(&network, 1, &["query", PLAIN, "7000"]);
    // Both at once, so that nobody is left to remove the rules.
    let mut gateway = network.gateway(&["--udp"]);
    let keepers = sh(&network.site, Host::Left, &format!("pgrep -P {} -f lan-rules", gateway.id()));
    sh(&network.site, Host::Left, &format!("kill -9 {} {}", keepers.trim(), gateway.id()));
    gateway.wait().unwrap();
    asks(&network, 0, &["query", PLAIN, "7000"]);
    let mut remove = network.site.command(Host::Left, MANYPATH);
    remove.args(["gateway", "--lan", network.interfaces, "--remove"]);
    assert_eq!(finish(remove).code, Some(0));
    assert_eq!(network.rules(), before);
}
