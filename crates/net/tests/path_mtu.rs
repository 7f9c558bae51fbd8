//! Links that are narrower than the interfaces at both ends: host, router, host in namespaces.

use crate::support::{host, namespace};

use host::{Host, LIMIT, SCTP_PORT, config, drive, text, transfer};
use manypath_engine::{Config, PathMtu, PathStatus};
use manypath_net::LocalBinding;
use namespace::{in_namespace, in_peer_namespace, ip, run};
use std::net::UdpSocket;

/// IP addresses of the two networks: of A and its router, of the router and B.
#[derive(Clone, Copy)]
struct Family {
    a: &'static str,
    near: &'static str,
    a_network: &'static str,
    far: &'static str,
    b: &'static str,
    b_network: &'static str,
    prefix: u8,
}

const IPV4: Family = Family {
    a: "10.6.1.1",
    near: "10.6.1.2",
    a_network: "10.6.1.0/24",
    far: "10.6.2.2",
    b: "10.6.2.1",
    b_network: "10.6.2.0/24",
    prefix: 24,
};
const IPV6: Family = Family {
    a: "fd06:1::1",
    near: "fd06:1::2",
    a_network: "fd06:1::/64",
    far: "fd06:2::2",
    b: "fd06:2::1",
    b_network: "fd06:2::/64",
    prefix: 64,
};

fn searching(port: u16, accept: bool) -> Config {
    Config { path_mtu: PathMtu::Search, ..config(port, accept) }
}

fn local(addr: &str, prefix_len: u8, mtu: u16) -> LocalBinding {
    let addr = (addr.parse::<std::net::IpAddr>().unwrap(), 0).into();
    LocalBinding { addr, device: None, prefix_len, mtu }
}

fn up(device: &str, address: &str, prefix: u8, mtu: u16) {
    ip(&format!("link set dev {device} mtu {mtu}"));
    let nodad = if address.contains(':') { "nodad" } else { "" };
    ip(&format!("addr add {address}/{prefix} dev {device} {nodad}"));
    ip(&format!("link set dev {device} up"));
}

/// Two hosts with a router between them, whose link to B is made narrow by `narrow`. To be called in
/// a namespace, which becomes that of A. The socket keeps the router.
fn routed(family: Family, mtu: u16, narrow: impl Fn() + Sync) -> (Host, Host, UdpSocket) {
    let Family { a, near, a_network, far, b, b_network, prefix } = family;
    let veth = |near: &str, far: &str, peer| {
        ip(&format!("link add name {near} type veth peer name {far} netns {peer}"));
    };
    let (b, router) = in_peer_namespace(
        |router| {
            veth("a", "ra", router);
            up("a", a, prefix, mtu);
            ip(&format!("route add {b_network} via {near}"));
        },
        || {
            run("sysctl", "-qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
            up("ra", near, prefix, mtu);
            let b = in_peer_namespace(
                |host| {
                    veth("rb", "b", host);
                    up("rb", far, prefix, mtu);
                    narrow();
                },
                || {
                    up("b", b, prefix, mtu);
                    ip(&format!("route add {a_network} via {far}"));
                    Host::new(2, searching(SCTP_PORT, true), &[local(b, prefix, mtu)])
                },
            );
            (b, UdpSocket::bind((near, 0)).unwrap())
        },
    );
    (Host::new(1, searching(1, false), &[local(a, prefix, mtu)]), b, router)
}

fn path(host: &Host) -> PathStatus {
    let endpoint = host.driver.endpoint();
    let id = endpoint.associations()[0];
    endpoint.status(host.clock.now(), id).unwrap().paths[0].clone()
}

/// Sends some, waits until the search has come to its end, sends again.
fn transfer_and_search(a: &mut Host, b: &mut Host, mtu: u16) {
    transfer(a, b, &text(1 << 20), 16 << 10, || ());
    drive(a, b, LIMIT, |a, _| path(a).mtu == mtu);
}

/// That nothing was left to IP, and no association suffered.
fn assert_unharmed(a: &Host) {
    let counters = a.driver.endpoint().counters();
    assert_eq!((counters.fragmented_packets, counters.mtu_black_holes), (0, 0));
    assert!(a.driver.sockets().iter().all(|socket| !socket.fragments));
    assert_eq!((path(a).timeouts, path(a).error_count), (0, 0));
}

#[test]
fn a_narrow_link_that_reports_is_crossed_without_fragments() {
    for family in [IPV4, IPV6] {
        in_namespace(|| {
            let (mut a, mut b, _router) = routed(family, 1500, || ip("link set dev rb mtu 1400"));
            transfer_and_search(&mut a, &mut b, 1400);
            assert_unharmed(&a);
            assert_eq!(a.driver.counters().icmp_too_big, 1);
            assert_eq!(a.driver.endpoint().counters().mtu_probes, 2);
        });
    }
}

#[test]
fn a_black_hole_is_crossed_without_fragments() {
    for family in [IPV4, IPV6] {
        in_namespace(|| {
            // Drops what is larger, and tells nobody.
            let narrow = || run("tc", "qdisc add dev rb root tbf rate 1gbit burst 1414 limit 10m");
            let (mut a, mut b, _router) = routed(family, 1500, narrow);
            transfer_and_search(&mut a, &mut b, 1400);
            assert_eq!(a.driver.counters().icmp_too_big, 0);
            assert_unharmed(&a);
        });
    }
}

#[test]
fn a_path_of_9000_bytes_is_used_in_full() {
    in_namespace(|| {
        let (mut a, mut b, _router) = routed(IPV4, 9000, || ());
        transfer_and_search(&mut a, &mut b, 9000);
        assert_unharmed(&a);
        assert!(a.driver.counters().dropped_too_big == 0);
    });
}

#[test]
fn an_interface_that_becomes_narrow_is_noticed_by_the_first_packet() {
    for family in [IPV4, IPV6] {
        in_namespace(|| {
            let (mut a, mut b, _router) = routed(family, 1500, || ());
            transfer(&mut a, &mut b, &text(4 << 20), 16 << 10, || {
                ip("link set dev a mtu 1400");
            });
            drive(&mut a, &mut b, LIMIT, |a, _| path(a).mtu == 1400);
            assert!(a.driver.counters().dropped_too_big > 0, "{:?}", a.driver.counters());
            assert!(a.driver.endpoint().counters().too_big_reports > 0);
            assert!(a.driver.sockets().iter().all(|socket| !socket.fragments));
            assert!(b.is_connected());
        });
    }
}
