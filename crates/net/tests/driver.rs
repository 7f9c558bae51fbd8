//! Two drivers with real endpoints, on loopback and across virtual cables.

mod behind;
mod carriers;
mod loops;

use crate::support::{host, namespace};
use host::{Host, LIMIT, SCTP_PORT, config, drive, loopback, pair, text, transfer};
use manypath_engine::{CloseReason, Event};
use manypath_net::{LocalBinding, UdpPort, interfaces};
use namespace::{in_namespace, in_peer_namespace, ip};
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

#[test]
fn a_transfer_uses_every_path_and_offload() {
    let (mut a, mut b) =
        pair(&loopback(&["127.7.1.1", "127.7.2.1"]), &loopback(&["127.7.1.2", "127.7.2.2"]));
    transfer(&mut a, &mut b, &text(8 << 20), 16 << 10, || ());
    let counters = a.driver.counters();
    assert!(counters.gso_sends > 100, "{counters:?}");
    assert_eq!(counters.gso_refused, 0);
    assert!(b.driver.counters().gro_receives > 100);
    for socket in a.driver.sockets() {
        assert!(socket.counters.bytes_sent > 1 << 20, "{:?}", a.driver.sockets());
    }
    let dropped = counters.entries().into_iter().filter(|(name, _)| name.starts_with("dropped"));
    assert!(dropped.map(|(_, count)| count).all(|count| count == 0), "{counters:?}");
}

#[test]
fn ipv6_carries_a_transfer() {
    if UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6 here");
        return;
    }
    let addr = "[::1]:0".parse().unwrap();
    let local = [LocalBinding { addr, device: None, prefix_len: 128, mtu: 1500 }];
    let (mut a, mut b) = pair(&local, &local);
    transfer(&mut a, &mut b, &text(1 << 20), 16 << 10, || ());
    assert!(a.driver.counters().gso_sends > 10);
}

#[test]
fn a_closed_port_ends_the_setup_at_once() {
    let (mut a, mut b) = pair(&loopback(&["127.7.3.1"]), &loopback(&["127.7.3.2"]));
    let closed = UdpSocket::bind("127.7.3.3:0").unwrap().local_addr().unwrap();
    let start = Instant::now();
    let id = a.connect(closed, SCTP_PORT);
    drive(&mut a, &mut b, LIMIT, |a, _| {
        a.events.iter().any(|(_, event)| matches!(event, Event::Closed(_)))
    });
    assert_eq!(a.events, [(id, Event::Closed(CloseReason::Unreachable))]);
    assert!(start.elapsed() < Duration::from_millis(900), "before T1-init");
    assert_eq!(a.driver.counters().icmp_port_closed, 1);
}

/// On two paths, so that what has come to two sockets is read together.
#[test]
fn a_process_that_reads_late_measures_the_round_trips_of_the_network() {
    const LATE: Duration = Duration::from_millis(40);
    let (mut a, mut b) =
        pair(&loopback(&["127.7.7.1", "127.7.8.1"]), &loopback(&["127.7.7.2", "127.7.8.2"]));
    let id = a.connect(b.locals[0], SCTP_PORT);
    drive(&mut a, &mut b, LIMIT, |a, b| a.is_connected() && b.is_connected());
    for _ in 0..40 {
        assert!(a.send(id, text(6000)));
        let now = a.clock.now();
        a.driver.flush(now);
        (0..3).for_each(|_| b.turn(Duration::from_millis(1)));
        std::thread::sleep(LATE);
        a.turn(Duration::ZERO);
    }
    let status = a.driver.endpoint().status(a.clock.now(), id).unwrap();
    let srtt = status.paths.iter().filter_map(|path| path.srtt).min().unwrap();
    assert!(srtt < LATE / 2, "{srtt:?}");
}

#[test]
fn garbage_is_counted_and_does_no_harm() {
    let (mut a, mut b) = pair(&loopback(&["127.7.4.1"]), &loopback(&["127.7.4.2"]));
    let stranger = UdpSocket::bind("127.7.4.9:0").unwrap();
    for length in [0usize, 1, 11, 12, 13, 300, 1472, 60_000] {
        stranger.send_to(&vec![0xa5; length], b.locals[0]).unwrap();
    }
    transfer(&mut a, &mut b, &text(100_000), 1000, || ());
    assert_eq!(b.driver.counters().dropped_empty, 1);
    let counters = b.driver.endpoint().counters();
    assert_eq!(counters.malformed_packets + counters.bad_checksum, 7, "{counters:?}");
}

#[test]
fn all_sockets_have_one_port_and_later_ones_get_it_too() {
    let mut a = Host::new(1, config(1, false), &loopback(&["127.7.5.1", "127.7.5.2"]));
    let poll = mio::Poll::new().unwrap();
    let [late] = <[_; 1]>::try_from(loopback(&["127.7.5.3"])).unwrap();
    let bound = a.driver.bind(poll.registry(), mio::Token(9), late.clone()).unwrap();
    let port = bound.addr.port();
    assert!(a.locals.iter().all(|local| local.port() == port));

    let again = a.driver.bind(poll.registry(), mio::Token(9), late.clone()).unwrap_err();
    assert_eq!(again.kind(), std::io::ErrorKind::InvalidInput);
    let mut b = Host::new(2, config(1, false), &[]);
    let busy = [(mio::Token(0), late)];
    let error = b.driver.bind_all(poll.registry(), &busy, UdpPort::Fixed(port)).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(b.driver.sockets().is_empty());
}

/// Two hosts with two virtual cables; one is pulled in the middle of the transfer.
#[test]
fn a_transfer_survives_the_loss_of_a_cable() {
    in_namespace(|| {
        let mut b = in_peer_namespace(
            |peer| {
                for n in 0..2 {
                    ip(&format!("link add name a{n} type veth peer name b{n} netns {peer}"));
                    ip(&format!("addr add 10.7.{n}.1/24 dev a{n}"));
                    ip(&format!("link set dev a{n} up"));
                }
            },
            || {
                for n in 0..2 {
                    ip(&format!("addr add 10.7.{n}.2/24 dev b{n}"));
                    ip(&format!("link set dev b{n} up"));
                }
                Host::new(2, config(SCTP_PORT, true), &cables())
            },
        );
        let mut a = Host::new(1, config(1, false), &cables());
        let devices: Vec<_> = a.driver.sockets().into_iter().map(|s| s.device).collect();
        assert_eq!(devices, [Some("a0".to_owned()), Some("a1".to_owned())]);
        transfer(&mut a, &mut b, &text(16 << 20), 16 << 10, || ip("link set dev a0 down"));
        assert!(a.is_connected() && b.is_connected());
        let counters = a.driver.counters();
        assert!(counters.dropped_no_route > 0, "{counters:?}");
    });
}

fn cables() -> Vec<LocalBinding> {
    let all = interfaces().unwrap();
    let is_cable = |addr: IpAddr| matches!(addr, IpAddr::V4(v4) if v4.octets()[0] == 10);
    all.iter().filter(|one| is_cable(one.addr)).map(LocalBinding::from).collect()
}
