//! SCTP directly over IP, between two stacks in namespaces.

use crate::support::{host, namespace};

use host::{Host, SCTP_PORT, config, text, transfer_on};
use manypath_engine::{AssociationId, PathStatus};
use manypath_net::LocalBinding;
use namespace::{in_namespace, in_peer_namespace, ip};
use std::net::{IpAddr, SocketAddr};

const SIZE: usize = 2 << 20;

fn local(addr: &str, prefix_len: u8) -> LocalBinding {
    let addr = SocketAddr::new(addr.parse::<IpAddr>().unwrap(), 0);
    LocalBinding { addr, device: None, prefix_len, mtu: 1500 }
}

fn paths(host: &Host, id: AssociationId) -> Vec<PathStatus> {
    host.driver.endpoint().status(host.clock.now(), id).unwrap().paths
}

/// Two hosts that have both, joined by a virtual cable. To be called in a namespace.
fn joined(near: &str, far: &str, prefix: u8) -> (Host, Host) {
    let nodad = if near.contains(':') { "nodad" } else { "" };
    let b = in_peer_namespace(
        |peer| {
            ip(&format!("link add name a type veth peer name b netns {peer}"));
            ip(&format!("addr add {near}/{prefix} dev a {nodad}"));
            ip("link set dev a up");
        },
        || {
            ip(&format!("addr add {far}/{prefix} dev b {nodad}"));
            ip("link set dev b up");
            Host::with_native(2, config(SCTP_PORT, true), &[local(far, prefix)])
        },
    );
    (Host::with_native(1, config(1, false), &[local(near, prefix)]), b)
}

#[test]
fn a_transfer_without_encapsulation_leaves_the_udp_sockets_alone() {
    for (near, far, prefix, headers) in
        [("10.8.1.1", "10.8.1.2", 24, 20), ("fd08::1", "fd08::2", 64, 40)]
    {
        in_namespace(|| {
            let (mut a, mut b) = joined(near, far, prefix);
            let id = a.connect(SocketAddr::new(far.parse().unwrap(), 0), SCTP_PORT);
            transfer_on(&mut a, &mut b, id, &text(SIZE), 16 << 10, || ());
            for host in [&a, &b] {
                let id = host.driver.endpoint().associations()[0];
                let paths = paths(host, id);
                assert_eq!(paths.len(), 1);
                assert_eq!((paths[0].addr.local.port(), paths[0].addr.remote.port()), (0, 0));
                assert_eq!(paths[0].mtu, 1500, "as a probe has shown");
                for socket in host.driver.sockets() {
                    let used = socket.counters.packets_sent + socket.counters.packets_received;
                    assert_eq!(used > 100, socket.local.port() == 0, "{socket:?}");
                    assert_eq!(used == 0, socket.local.port() != 0, "{socket:?}");
                }
            }
            let fragment = a.driver.endpoint().fragment_size(id);
            assert_eq!(fragment, (1500 - headers) / 4 * 4 - 12 - 16);
        });
    }
}

#[test]
fn encapsulated_and_native_associations_live_side_by_side() {
    in_namespace(|| {
        let (mut a, mut b) = joined("10.8.2.1", "10.8.2.2", 24);
        let encapsulated = a.connect(b.locals[0], SCTP_PORT);
        transfer_on(&mut a, &mut b, encapsulated, &text(SIZE / 4), 16 << 10, || ());
        b.received.clear();
        // The address belongs to the first association as long as the SCTP ports are the same.
        a.driver.endpoint_mut().configure(|config| config.port = 2);
        let native = a.connect(SocketAddr::new(b.locals[0].ip(), 0), SCTP_PORT);
        transfer_on(&mut a, &mut b, native, &text(SIZE / 4), 16 << 10, || ());
        let port = b.locals[0].port();
        assert_eq!(paths(&a, encapsulated)[0].addr.remote.port(), port);
        assert_eq!(paths(&a, native)[0].addr.remote.port(), 0);
    });
}

/// Its kernel says at once that it does not know the protocol: nobody needs to wait.
#[test]
fn a_host_without_sctp_is_known_at_once() {
    for (near, far, prefix) in [("10.8.3.1", "10.8.3.2", 24), ("fd08:3::1", "fd08:3::2", 64)] {
        in_namespace(|| {
            let nodad = if near.contains(':') { "nodad" } else { "" };
            let far_socket = in_peer_namespace(
                |peer| {
                    ip(&format!("link add name a type veth peer name b netns {peer}"));
                    ip(&format!("addr add {near}/{prefix} dev a {nodad}"));
                    ip("link set dev a up");
                },
                || {
                    ip(&format!("addr add {far}/{prefix} dev b {nodad}"));
                    ip("link set dev b up");
                    // Keeps the namespace.
                    std::net::UdpSocket::bind((far, 1)).unwrap()
                },
            );
            let mut host = Host::with_native(1, config(1, false), &[local(near, prefix)]);
            let remote = SocketAddr::new(far.parse().unwrap(), 0);
            // The first one also waits for the link and finds the neighbour.
            for number in 1..=2 {
                let id = host.connect(remote, SCTP_PORT);
                let begun = std::time::Instant::now();
                let reason = host.closed(id);
                assert_eq!(reason, Some(manypath_engine::CloseReason::Unreachable));
                let after = begun.elapsed().as_millis();
                assert!(number == 1 || after < 900, "{after} ms, INIT is repeated after a second");
            }
            assert!(host.driver.counters().icmp_no_protocol >= 2);
            drop(far_socket);
        });
    }
}

/// Linux says the same of packets for which the receive buffer of a raw socket has no room.
#[test]
fn an_association_outlives_the_report_that_its_peers_host_knows_no_sctp() {
    in_namespace(|| {
        let (b, keeper) = in_peer_namespace(
            |peer| {
                ip(&format!("link add name a type veth peer name b netns {peer}"));
                ip("addr add 10.8.4.1/24 dev a");
                ip("link set dev a up");
            },
            || {
                ip("addr add 10.8.4.2/24 dev b");
                ip("link set dev b up");
                let host = Host::with_native(2, config(SCTP_PORT, true), &[local("10.8.4.2", 24)]);
                (host, std::net::UdpSocket::bind("10.8.4.2:1").unwrap())
            },
        );
        let (mut a, mut b) = (Host::with_native(1, config(1, false), &[local("10.8.4.1", 24)]), b);
        let id = a.connect(SocketAddr::new("10.8.4.2".parse().unwrap(), 0), SCTP_PORT);
        transfer_on(&mut a, &mut b, id, &text(1000), 1000, || ());
        drop(b);
        assert!(a.send(id, text(1000)));
        let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while a.driver.counters().icmp_no_protocol == 0 && std::time::Instant::now() < end {
            a.turn(std::time::Duration::from_millis(10));
        }
        assert!(a.driver.counters().icmp_no_protocol > 0);
        assert_eq!(a.driver.endpoint().associations(), [id]);
        drop(keeper);
    });
}
