//! What is neither TCP nor UDP, behind `manypath gateway --lan --tun`.

use super::datagrams::{RELAY, network_open_to, said};
use super::{Network, PLAIN, PLAIN_V6, end};
use crate::common::finish;
use crate::common::gateways::sh;
use manypath_lab::Host;

fn network() -> Network {
    network_open_to(&["--relay-to", "198.51.100.0/24", "--relay-to", "fd99::/64"])
}

fn links(network: &Network) -> String {
    sh(&network.site, Host::Left, "ip -o link show | cut -d: -f2")
}

/// What ping says of a destination that does not answer.
fn complaint(network: &Network, args: &[&str]) -> String {
    let done = network.run(2, "ping", &[&["-c", "1", "-W", "10", "-n"], args].concat());
    assert_eq!(done.code, Some(1), "{done:?}");
    done.stdout
}

#[test]
fn pings_of_the_network_go_by_the_relay_with_the_errors_that_answer_them() {
    let network = network();
    sh(&network.site, Host::Left, "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
    let before = (network.rules(), links(&network));
    let gateway = network.gateway(&["--via", RELAY, "--tun", "tun-many"]);
    let pinged = said(&network, 0, "busybox", &["ping", "-c", "3", "-W", "10", PLAIN]);
    assert!(pinged.contains("3 packets received"), "{pinged}");
    let pinged = said(&network, 1, "ping", &["-c", "3", "-W", "10", "-n", PLAIN_V6]);
    assert!(pinged.contains("3 received"), "{pinged}");
    // Each router on the way says so itself, the relay too.
    for (ttl, router) in [("1", "192.168.9.1"), ("2", "198.51.100.1")] {
        let said = complaint(&network, &["-t", ttl, PLAIN]);
        assert!(said.contains(&format!("From {router} ")) && said.contains("exceeded"), "{said}");
    }
    let unreachable = complaint(&network, &["198.51.100.77"]);
    assert!(unreachable.contains("From 198.51.100.1 "), "{unreachable}");
    assert!(unreachable.contains("Host Unreachable"), "{unreachable}");
    // Its own addresses are closed.
    let closed = complaint(&network, &["10.77.2.2"]);
    assert!(closed.contains("Packet filtered"), "{closed}");
    let too_big = complaint(&network, &["-M", "do", "-s", "1400", PLAIN]);
    assert!(too_big.contains("mtu = 1280") || too_big.contains("mtu=1280"), "{too_big}");
    // Of other protocols the relay says that it has none of them (ENOPROTOOPT).
    let other = "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_RAW,47)\ns.settimeout(10)\ns.connect(('198.51.100.2',0))\ns.send(bytes(8))\ntry:\n s.recv(9)\nexcept OSError as e:\n print(e.errno)";
    assert_eq!(said(&network, 2, "python3", &["-c", other]), "92");
    network.downloads(1, &super::plain());
    let counter = |status: &serde_json::Value, name: &str| {
        status["counters"][format!("stack_{name}")].as_u64().unwrap_or_default()
    };
    let (status, relay) = (network.status(), network.site.server_status());
    for (name, least) in [("door_packets_sent", 9), ("door_packets_received", 9)] {
        assert!(counter(&status, name) >= least, "{name}: {}", status["counters"]);
    }
    assert_eq!(counter(&status, "door_packets_of_flows"), 0, "{}", status["counters"]);
    for name in ["packets_denied_protocol", "packets_denied_destination", "packets_expired"] {
        assert_eq!(counter(&relay, name), 1, "{name}: {}", relay["counters"]);
    }
    assert_ne!(status["sandbox"]["user"], 0, "{status}");
    assert_eq!(status["sandbox"]["capabilities"], serde_json::Value::Array(vec![]));
    end(gateway);
    assert_eq!((network.rules(), links(&network)), before);
}

/// Echo replies to this host that nobody has asked for, as many as go.
const FLOOD: &str = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
while True: s.sendto(bytes([0, 0, 0xff, 0xff, 0, 0, 0, 0]), ('127.0.0.1', 0))";

#[test]
fn a_flood_of_icmp_at_the_relay_is_read_with_pauses_and_pings_are_answered_beside_it() {
    let network = network();
    sh(&network.site, Host::Right, "ip link set lo up");
    let gateway = network.gateway(&["--via", RELAY, "--tun", "tun-many"]);
    said(&network, 0, "busybox", &["ping", "-c", "1", "-W", "10", PLAIN]);
    let mut flood = network.site.lab.command(Host::Right, crate::common::find("python3"));
    let mut flood = flood.args(["-c", FLOOD]).spawn().unwrap();
    let counter = |name: &str| network.site.server_counter(name);
    crate::common::wait_for("pauses", || counter("udp_flood_pauses") > 0);
    let pinged = network.run(0, "ping", &["-c", "10", "-i", "0.2", "-W", "5", "-n", PLAIN]);
    let _ = (flood.kill(), flood.wait());
    assert_eq!(pinged.code, Some(0), "one at least is answered: {pinged:?}");
    assert!(counter("udp_unrelated_icmp") > 0);
    network.downloads(1, &super::plain());
    end(gateway);
}

#[test]
fn a_killed_gateway_leaves_neither_device_nor_rules() {
    let network = network();
    let before = (network.rules(), links(&network));
    let mut gateway = network.gateway(&["--via", RELAY, "--tun", "tun-many"]);
    said(&network, 0, "busybox", &["ping", "-c", "1", "-W", "10", PLAIN]);
    // A device that somebody removes is given up once, and packets are routed.
    sh(&network.site, Host::Left, "ip link delete tun-many");
    let failures = || network.status()["counters"]["stack_door_packets_device_failed"].as_u64();
    crate::common::wait_for("the device to be given up", || failures().is_some());
    said(&network, 0, "busybox", &["ping", "-c", "1", "-W", "10", PLAIN]);
    assert_eq!(failures(), Some(1));
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    crate::common::wait_for("the rules to go", || (network.rules(), links(&network)) == before);
    said(&network, 0, "busybox", &["ping", "-c", "1", "-W", "10", PLAIN]);
    // A name that is taken is refused before anything is made.
    let mut second = network.site.command(Host::Left, crate::common::MANYPATH);
    second.args(["gateway", "--lan", network.interfaces, "--via", RELAY, "--tun", "lan1"]);
    let second = finish(second);
    assert!(second.code != Some(0) && second.stderr.contains("--tun lan1"), "{second:?}");
    assert_eq!((network.rules(), links(&network)), before);
}
