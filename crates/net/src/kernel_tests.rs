//! The socket layer against the real kernel: loopback, and namespaces where root makes them.

use crate::any_io::Io;
use crate::bind::{self, LocalBinding, Opened, UdpPort, open_native};
use crate::error_queue::Quote;
use crate::inherited::Inherited;
use crate::interfaces::interfaces;
use crate::namespace::{in_namespace, in_peer_namespace, ip, run};
use crate::receive::ReceiveBuffers;
use crate::socket::{Lacks, PathSocket, REPORT_PAUSE, REPORTS_PER_PAUSE, TooBig, Unreachable};
use crate::socket_option::{self, receive_overflows};
use crate::waiting::Packets;
use manypath_engine::{Ecn, Instant};
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant as StdInstant, SystemTime};

fn open_all(bindings: &[&LocalBinding], port: UdpPort) -> io::Result<Vec<Opened>> {
    bind::open_all(bindings, port, &mut Inherited::default())
}

fn binding(ip: &str) -> LocalBinding {
    let addr = SocketAddr::new(ip.parse().unwrap(), 0);
    LocalBinding { addr, device: None, prefix_len: 8, mtu: u16::MAX }
}

fn socket(ip: &str) -> PathSocket<Io> {
    let mut opened = open_all(&[&binding(ip)], UdpPort::Ephemeral).unwrap();
    let opened = opened.pop().unwrap();
    PathSocket::new(opened.io, opened.address.addr)
}

/// `count` packets of `size` bytes and a shorter one, every byte telling its packet.
fn packets(count: u8, size: usize) -> Vec<u8> {
    let full = (0..count).flat_map(|number| vec![number; size]);
    full.chain(vec![count; size / 2]).collect()
}

fn send(socket: &mut PathSocket<Io>, remote: SocketAddr, bytes: &[u8], segment_size: usize) {
    send_marked(socket, remote, (bytes, segment_size), Ecn::NotEct);
}

fn send_marked(
    socket: &mut PathSocket<Io>,
    remote: SocketAddr,
    (bytes, segment_size): (&[u8], usize),
    ecn: Ecn,
) {
    socket.send(Instant::ZERO, Packets { remote, segment_size, bytes, may_fragment: false, ecn });
}

fn receive(socket: &mut PathSocket<Io>) -> Vec<Vec<u8>> {
    let mut buffers = ReceiveBuffers::default();
    let received = socket.receive(&mut buffers);
    let datagrams = buffers.datagrams(received.datagrams);
    datagrams.flat_map(|datagram| datagram.packets().map(<[u8]>::to_vec)).collect()
}

/// The ECN bits of the packets that have arrived.
fn receive_marks(socket: &mut PathSocket<Io>) -> Vec<Ecn> {
    let mut buffers = ReceiveBuffers::default();
    let received = socket.receive(&mut buffers);
    let datagrams = buffers.datagrams(received.datagrams);
    datagrams.flat_map(|datagram| datagram.packets().map(move |_| datagram.ecn)).collect()
}

/// A raw socket, where we may have one.
fn raw_socket(ip: &str) -> Option<PathSocket<Io>> {
    let opened = open_native(&binding(ip)).ok()?;
    Some(PathSocket::new(opened.io, opened.address.addr))
}

/// What ICMP reports of `packet`.
fn icmp(remote: SocketAddr, packet: &[u8]) -> Unreachable {
    Unreachable { remote, quote: Some(Quote::of(packet)), lacks: Lacks::Way }
}

/// What ICMP reports of `packet` if nobody listens.
fn icmp_port_closed(remote: SocketAddr, packet: &[u8]) -> Unreachable {
    Unreachable { lacks: Lacks::Port, ..icmp(remote, packet) }
}

fn local_failure(remote: SocketAddr) -> Unreachable {
    Unreachable { remote, quote: None, lacks: Lacks::Way }
}

/// An address on which nobody listens.
fn closed_port(ip: &str) -> SocketAddr {
    UdpSocket::bind(SocketAddr::new(ip.parse().unwrap(), 0)).unwrap().local_addr().unwrap()
}

fn have_ipv6() -> bool {
    UdpSocket::bind("[::1]:0").is_ok()
}

#[test]
fn runs_cross_the_kernel_whole_and_in_order() {
    for (from, to) in [("127.0.0.2", "127.0.0.3"), ("::1", "::1")] {
        if from == "::1" && !have_ipv6() {
            continue;
        }
        let (mut a, mut b) = (socket(from), socket(to));
        let bytes = packets(40, 1400);
        send(&mut a, b.local, &bytes, 1400);
        assert_eq!(a.counters.gso_sends, 1, "offload must be used on loopback");
        assert_eq!(a.counters.send_calls, 1);
        let received = receive(&mut b);
        assert_eq!(received.len(), 41);
        assert!(received.iter().zip(bytes.chunks(1400)).all(|(got, sent)| got == sent));
        assert_eq!(b.counters.gro_receives, 1, "and the run arrives in one buffer");
    }
}

const EVERY_MARK: [Ecn; 5] = [Ecn::Ect0, Ecn::NotEct, Ecn::Ce, Ecn::Ect1, Ecn::Ect0];

#[test]
fn ecn_bits_cross_the_kernel_with_every_packet_of_a_run() {
    for (from, to) in [("127.0.0.4", "127.0.0.5"), ("::1", "::1")] {
        if from == "::1" && !have_ipv6() {
            continue;
        }
        let (mut a, mut b) = (socket(from), socket(to));
        for ecn in EVERY_MARK {
            let bytes = packets(4, 1000);
            send_marked(&mut a, b.local, (&bytes, 1000), ecn);
            assert_eq!(receive_marks(&mut b), [ecn; 5], "{from}");
        }
        // What waits together is not put together if its bits differ.
        for ecn in EVERY_MARK {
            send_marked(&mut a, b.local, (&[1; 100], 100), ecn);
        }
        assert_eq!(receive_marks(&mut b), EVERY_MARK);
    }
}

/// Only together do they fill what a receive call has room for.
#[test]
fn a_run_comes_with_its_time_its_ecn_bits_and_the_size_of_its_packets() {
    const LATE: Duration = Duration::from_millis(30);
    for (from, to) in [("127.0.0.4", "127.0.0.5"), ("::1", "::1")] {
        if from == "::1" && !have_ipv6() {
            continue;
        }
        let (mut a, mut b) = (socket(from), socket(to));
        let sent = SystemTime::now();
        send_marked(&mut a, b.local, (&packets(4, 1000), 1000), Ecn::Ce);
        std::thread::sleep(LATE);
        let mut buffers = ReceiveBuffers::default();
        let received = b.receive(&mut buffers);
        let read = SystemTime::now();
        let datagrams: Vec<_> = buffers.datagrams(received.datagrams).collect();
        assert_eq!(datagrams.iter().map(|it| it.packets().len()).sum::<usize>(), 5, "{from}");
        for datagram in datagrams {
            assert_eq!(datagram.ecn, Ecn::Ce);
            let came = SystemTime::UNIX_EPOCH + datagram.stamp.expect("a time stamp");
            assert!(sent <= came && came + LATE <= read, "{from}: {sent:?} {came:?} {read:?}");
        }
    }
}

#[test]
fn ecn_bits_cross_the_kernel_without_udp() {
    for (from, to) in [("127.0.0.6", "127.0.0.7"), ("::1", "::1")] {
        if from == "::1" && !have_ipv6() {
            continue;
        }
        let (Some(mut a), Some(mut b)) = (raw_socket(from), raw_socket(to)) else { return };
        let to = SocketAddr::new(to.parse().unwrap(), 0);
        for ecn in EVERY_MARK {
            send_marked(&mut a, to, (&[2; 64], 64), ecn);
        }
        let mut marks = receive_marks(&mut b);
        // Packets of other tests cross loopback, too.
        marks.truncate(EVERY_MARK.len());
        assert_eq!(marks, EVERY_MARK, "{from}");
    }
}

#[test]
fn a_closed_port_is_reported_with_its_destination() {
    for ip in ["127.0.0.4", "::1"] {
        if ip == "::1" && !have_ipv6() {
            continue;
        }
        let mut a = socket(ip);
        let closed = closed_port(ip);
        let packet = b"a packet longer than what is kept of its quote";
        send(&mut a, closed, packet, packet.len());
        assert_eq!(a.read_errors(), 1);
        assert_eq!(a.unreachable, [icmp_port_closed(closed, packet)]);
        assert_eq!(a.counters.icmp_port_closed, 1);
    }
}

#[test]
fn a_closed_port_does_not_cost_packets_of_another_path() {
    let (mut a, mut b) = (socket("127.0.0.5"), socket("127.0.0.6"));
    let closed = closed_port("127.0.0.7");
    send(&mut a, closed, b"lost", 4);
    send(&mut a, b.local, b"kept", 4);
    assert_eq!(receive(&mut b), [b"kept"]);
    assert_eq!(a.unreachable, [icmp_port_closed(closed, b"lost")]);

    let back = a.local;
    send(&mut a, closed, b"lost", 4);
    send(&mut b, back, b"back", 4);
    assert_eq!(receive(&mut a), [b"back"]);
}

#[test]
fn too_many_reports_are_not_heard_for_a_while_and_fail_no_call() {
    for ip in ["127.0.0.9", "::1"] {
        if ip == "::1" && !have_ipv6() {
            continue;
        }
        let (mut a, mut b) = (socket(ip), socket(ip));
        let closed = closed_port(ip);
        let heard = |a: &PathSocket<Io>| a.counters.icmp_port_closed;
        (0..REPORTS_PER_PAUSE + 50).for_each(|_| send(&mut a, closed, b"lost", 4));
        send(&mut a, b.local, b"kept", 4);
        assert_eq!(receive(&mut b), [b"kept"]);
        assert_eq!((heard(&a), a.counters.report_pauses), (REPORTS_PER_PAUSE as u64, 1));
        assert_eq!((a.read_errors(), a.counters.dropped_send_error), (0, 0));

        a.count_reports_anew(Instant::ZERO + REPORT_PAUSE);
        send(&mut a, closed, b"lost", 4);
        assert_eq!((a.read_errors(), heard(&a)), (1, REPORTS_PER_PAUSE as u64 + 1));
    }
}

#[test]
fn a_busy_port_says_so() {
    let taken = UdpSocket::bind("127.0.0.8:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = open_all(&[&binding("127.0.0.8")], UdpPort::Fixed(port)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let text = error.to_string();
    assert!(text.contains(&format!("UDP port {port} of 127.0.0.8 is in use")), "{text}");
    assert!(text.contains("choose another port"), "{text}");
}

#[test]
fn the_kernel_computes_the_udp_checksum() {
    for ip in ["127.0.0.15", "::1"] {
        if ip == "::1" && !have_ipv6() {
            continue;
        }
        let a = socket(ip);
        let none = socket_option::get(a.io.socket(), libc::SOL_SOCKET, libc::SO_NO_CHECK);
        assert_eq!(none.unwrap(), 0);
    }
}

#[test]
fn addresses_that_cannot_be_used_say_why() {
    let of = |ip| open_all(&[&binding(ip)], UdpPort::Ephemeral).unwrap_err().to_string();
    assert_eq!(of("192.0.2.1"), "192.0.2.1 is not an address of this host");
    assert!(of("0.0.0.0").contains("not an address of one interface"));
    assert!(of("224.0.0.1").contains("not an address of one interface"));
}

#[test]
fn all_addresses_get_the_same_port() {
    let bindings = ["127.0.0.9", "127.0.0.10", "127.0.0.11"].map(binding);
    let all: Vec<_> = bindings.iter().collect();
    let opened = open_all(&all, UdpPort::Ephemeral).unwrap();
    let port = opened[0].address.addr.port();
    assert_ne!(port, 0);
    for (opened, binding) in opened.iter().zip(&bindings) {
        let mut expected = binding.addr;
        expected.set_port(port);
        assert_eq!(opened.address.addr, expected);
    }
}

#[test]
fn binds_to_the_interface_and_keeps_the_reason_if_it_cannot() {
    let on = |device: &str| LocalBinding { device: Some(device.into()), ..binding("127.0.0.12") };
    let lo = open_all(&[&on("lo")], UdpPort::Ephemeral).unwrap().pop().unwrap();
    assert_eq!((lo.device.as_deref(), lo.device_error), (Some("lo"), None));
    let none = open_all(&[&on("nosuch0")], UdpPort::Ephemeral).unwrap().pop().unwrap();
    assert_eq!(none.device, None);
    let reason = none.device_error.unwrap();
    assert!(reason.starts_with("cannot bind to interface nosuch0"), "{reason}");
}

#[test]
fn a_full_receive_buffer_shows_in_the_status() {
    let (mut a, b) = (socket("127.0.0.13"), socket("127.0.0.14"));
    SockRef::from(b.io.socket()).set_recv_buffer_size(4096).unwrap();
    for _ in 0..40 {
        send(&mut a, b.local, &[1; 1400], 1400);
    }
    assert!(receive_overflows(b.io.socket()) > 0);
    assert_eq!(a.counters.packets_sent, 40, "the sender cannot know");
}

#[test]
fn packets_without_a_route_are_dropped_and_reported() {
    in_namespace(|| {
        let mut a = socket("127.0.0.1");
        let nowhere = "192.0.2.1:9899".parse().unwrap();
        send(&mut a, nowhere, &packets(3, 100), 100);
        assert_eq!(a.counters.dropped_no_route, 4);
        assert_eq!(a.unreachable, [local_failure(nowhere)]);
    });
}

#[test]
fn an_address_that_left_the_host_is_no_verdict_on_offload() {
    in_namespace(|| {
        ip("link add name veth0 type veth peer name veth1");
        ip("addr add 10.9.0.1/24 dev veth0");
        ip("link set veth0 up");
        ip("link set veth1 up");
        let mut a = socket("10.9.0.1");
        ip("addr del 10.9.0.1/24 dev veth0");
        ip("addr add 10.9.0.2/24 dev veth0");
        let remote = "10.9.0.9:9899".parse().unwrap();
        send(&mut a, remote, &packets(3, 100), 100);
        assert_eq!(a.counters.dropped_no_route, 4, "{:?}", a.counters);
        assert_eq!(a.unreachable, [local_failure(remote)]);
        assert!(a.offload.is_trusted());
    });
}

#[test]
fn an_mtu_that_shrinks_costs_nothing_but_fragments() {
    in_namespace(|| {
        ip("link set lo mtu 1500");
        for local in ["127.0.0.1", "::1"] {
            let (mut a, mut b) = (socket(local), socket(local));
            let bytes = packets(9, 2000);
            send(&mut a, b.local, &bytes, 2000);
            send(&mut a, b.local, &[9; 2000], 2000);
            assert!(a.fragments, "{:?}", a.counters);
            assert_eq!(receive(&mut b).concat(), [bytes, vec![9; 2000]].concat());
            assert_eq!(a.counters.packets_sent, 11);
        }
    });
}

#[test]
fn only_a_packet_that_may_be_fragmented_crosses_a_link_that_is_too_narrow() {
    in_namespace(|| {
        ip("link set lo mtu 1500");
        for local in ["127.0.0.1", "::1"] {
            let (mut a, mut b) = (socket(local), socket(local));
            a.searches = true;
            let bytes = [5; 2000];
            let remote = b.local;
            let packet = |may_fragment| Packets {
                remote,
                segment_size: 2000,
                bytes: &bytes,
                may_fragment,
                ecn: Ecn::NotEct,
            };
            a.send(Instant::ZERO, packet(true));
            assert_eq!(receive(&mut b), [bytes]);
            a.send(Instant::ZERO, packet(false));
            assert!(receive(&mut b).is_empty(), "the DF bit is set again");
            assert_eq!((a.counters.packets_sent, a.counters.dropped_too_big), (1, 1));
            assert_eq!(a.too_big, [TooBig { remote, mtu: 1500, quote: None }]);
            assert!(!a.fragments);
        }
    });
}

/// Host, router, host; the second link is narrower than the first.
#[test]
fn a_narrow_link_further_on_is_crossed_in_fragments() {
    let veth = |near: &str, far: &str, peer| {
        ip(&format!("link add name {near} type veth peer name {far} netns {peer}"));
    };
    let up = |device: &str, address: &str| {
        ip(&format!("addr add {address} dev {device}"));
        ip(&format!("link set dev {device} up"));
    };
    in_namespace(|| {
        let (mut router_and_b, remote) = in_peer_namespace(
            |router| {
                veth("a", "ra", router);
                up("a", "10.6.1.1/24");
                ip("route add 10.6.2.0/24 via 10.6.1.2");
            },
            || {
                run("sysctl", "-qw net.ipv4.ip_forward=1");
                let b = in_peer_namespace(
                    |host| {
                        up("ra", "10.6.1.2/24");
                        veth("rb", "b", host);
                        ip("link set dev rb mtu 1300");
                        up("rb", "10.6.2.2/24");
                    },
                    || {
                        up("b", "10.6.2.1/24");
                        ip("route add 10.6.1.0/24 via 10.6.2.2");
                        socket("10.6.2.1")
                    },
                );
                // The router's own socket keeps its namespace.
                let remote = b.local;
                ((socket("10.6.1.2"), b), remote)
            },
        );
        let mut a = socket("10.6.1.1");
        send(&mut a, remote, &packets(4, 1472), 1472);
        let end = StdInstant::now() + Duration::from_secs(5);
        while !a.fragments && StdInstant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            a.read_errors();
        }
        assert!(a.counters.icmp_too_big > 0, "{:?}", a.counters);
        receive(&mut router_and_b.1);
        let bytes = packets(4, 1472);
        send(&mut a, remote, &bytes, 1472);
        let mut arrived = Vec::new();
        while arrived.len() < 5 && StdInstant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            arrived.extend(receive(&mut router_and_b.1));
        }
        assert_eq!(arrived.concat(), bytes);
    });
}

/// Keeps the calling thread on one processor. Loopback has a queue of arrivals for each processor,
/// so what a shaper releases now on one and now on another may arrive in another order.
fn stay_on_this_processor() {
    // SAFETY: an empty set is valid; the call reads it, and concerns the calling thread alone.
    let result = unsafe {
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut processors);
        libc::sched_setaffinity(0, size_of_val(&processors), &processors)
    };
    assert_eq!(result, 0, "sched_setaffinity: {}", io::Error::last_os_error());
}

/// A queue that drains slowly fills the send buffer; nothing may be lost or change places.
#[test]
fn back_pressure_neither_loses_nor_reorders() {
    in_namespace(|| {
        stay_on_this_processor();
        run("tc", "qdisc add dev lo root tbf rate 8mbit burst 200k limit 100m");
        let (mut a, mut b) = (socket("127.0.0.1"), socket("127.0.0.2"));
        let mut numbers = 0u32..;
        let mut send_run = |a: &mut PathSocket<Io>| {
            let packets = numbers.by_ref().take(44).flat_map(|n| n.to_be_bytes().repeat(350));
            send(a, b.local, &packets.collect::<Vec<_>>(), 1400);
        };
        let mut runs = 0;
        while !a.is_blocked() && runs < 1000 {
            send_run(&mut a);
            runs += 1;
        }
        assert!(a.counters.send_blocked > 0, "the send buffer must fill");
        (0..10).for_each(|_| send_run(&mut a));
        let sent: Vec<u32> = (0..(runs + 10) * 44).collect();
        run("tc", "qdisc change dev lo root tbf rate 4gbit burst 200k limit 100m");

        let mut received = Vec::new();
        let end = StdInstant::now() + Duration::from_secs(10);
        while received.len() < sent.len() && StdInstant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
            a.resume(Instant::ZERO);
            let arrived = receive(&mut b);
            received.extend(arrived.iter().map(|p| u32::from_be_bytes(p[..4].try_into().unwrap())));
        }
        assert_eq!(received, sent);
        assert_eq!(a.waiting.bytes(), 0);
        assert_eq!(a.counters.packets_sent, sent.len() as u64);
    });
}

#[test]
fn addresses_not_yet_usable_are_left_out() {
    in_namespace(|| {
        ip("link add name veth0 type veth peer name veth1");
        ip("addr add 2001:db8::1/64 dev veth0 nodad");
        run("sysctl", "-qw net.ipv6.conf.veth0.dad_transmits=1000");
        ip("link set veth0 up");
        ip("link set veth1 up");
        ip("addr add 2001:db8::2/64 dev veth0");
        let found: Vec<_> = interfaces().unwrap().into_iter().map(|one| one.addr).collect();
        assert!(found.contains(&"2001:db8::1".parse().unwrap()), "{found:?}");
        assert!(!found.contains(&"2001:db8::2".parse().unwrap()), "{found:?}");
    });
}

#[test]
fn a_host_that_does_not_answer_is_reported_by_the_kernel() {
    in_namespace(|| {
        ip("link add name veth0 type veth peer name veth1");
        ip("addr add 10.9.0.1/24 dev veth0");
        ip("link set veth0 up");
        ip("link set veth1 up");
        run("sysctl", "-qw net.ipv4.neigh.veth0.retrans_time_ms=20");
        let mut a = socket("10.9.0.1");
        let silent = SocketAddr::new(IpAddr::from([10, 9, 0, 77]), 9899);
        send(&mut a, silent, b"packet", 6);
        let end = StdInstant::now() + Duration::from_secs(5);
        while a.unreachable.is_empty() && StdInstant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            a.read_errors();
        }
        assert_eq!(a.unreachable, [icmp(silent, b"packet")]);
    });
}
