//! Paths that other carriers than the usual UDP port get through.

use crate::support::{host, namespace};
use host::{Host, LIMIT, SCTP_PORT, config, drive, loopback, pair, text, transfer_on};
use manypath_engine::{AssociationId, Config, Duration, PathAddr, PathState};
use manypath_net::Carrier;
use namespace::{in_namespace, run};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A TCP port that nobody has.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

/// A client and a server at these addresses, the server's UDP port and a TCP port where it listens, and the usual port,
/// which nobody serves.
fn hosts(client: &str, server: &str) -> (Host, Host, (u16, u16), UdpSocket) {
    let silent = UdpSocket::bind(format!("{server}:0")).unwrap();
    let (mut a, mut b) = pair(&loopback(&[client]), &loopback(&[server]));
    let (tcp, usual) = (free_port(), silent.local_addr().unwrap().port());
    b.carry_by("off", 9, Some(tcp));
    let udp = b.locals[0].port();
    a.carry_by("off", usual, None);
    (a, b, (udp, tcp), silent)
}

/// The one path of a client's only association.
fn path(host: &Host, remote: SocketAddr) -> PathAddr {
    PathAddr { local: host.locals[0], remote }
}

/// Whether the engine knows that the packets of the only path of an association are delivered in order.
fn is_in_order(host: &Host, id: AssociationId) -> bool {
    let status = host.driver.endpoint().status(host.clock.now(), id).unwrap();
    assert_eq!(status.paths.len(), 1);
    status.paths[0].rtt_spread.hold_up.is_some()
}

#[test]
fn another_udp_port_carries_where_the_usual_one_is_silent() {
    let (mut a, mut b, (udp, _), usual) = hosts("127.7.21.1", "127.7.21.2");
    let remote = usual.local_addr().unwrap();
    a.carry_by(&format!("udp:{udp}"), remote.port(), None);
    let id = a.connect(remote, SCTP_PORT);
    transfer_on(&mut a, &mut b, id, &text(1 << 20), 16 << 10, || ());
    assert_eq!(a.driver.carrier_of(&path(&a, remote)), Some(Carrier::Udp(udp)));
    let counters = a.driver.counters();
    assert_eq!((counters.carrier_switches, counters.carrier_streams_dialled), (1, 0));
    assert!(!is_in_order(&a, id), "the endpoint knows nothing of it");
}

#[test]
fn a_closed_port_leads_to_the_next_carrier_at_once() {
    let (mut a, mut b, (udp, _), usual) = hosts("127.7.22.1", "127.7.22.2");
    let remote = usual.local_addr().unwrap();
    drop(usual);
    a.carry_by(&format!("udp:{udp}"), remote.port(), None);
    let id = a.connect(remote, SCTP_PORT);
    transfer_on(&mut a, &mut b, id, &text(1 << 16), 16 << 10, || ());
    assert_eq!(a.driver.counters().icmp_port_closed, 1);
}

#[test]
fn the_setup_fails_when_every_carrier_is_refused() {
    let (mut a, _, _, usual) = hosts("127.7.23.1", "127.7.23.2");
    let remote = usual.local_addr().unwrap();
    drop(usual);
    a.carry_by(&format!("tcp:{},udp:9", free_port()), remote.port(), None);
    let start = Instant::now();
    let id = a.connect(remote, SCTP_PORT);
    assert_eq!(a.closed(id), Some(manypath_engine::CloseReason::Unreachable));
    assert!(start.elapsed() < Duration::from_millis(900), "before T1-init");
}

#[test]
fn tcp_carries_in_both_directions() {
    let (mut a, mut b, (_, tcp), usual) = hosts("127.7.24.1", "127.7.24.2");
    let remote = usual.local_addr().unwrap();
    a.carry_by(&format!("udp:9,tcp:{tcp}"), remote.port(), None);
    let id = a.connect(remote, SCTP_PORT);
    let text = text(8 << 20);
    transfer_on(&mut a, &mut b, id, &text, 16 << 10, || ());
    assert_eq!(a.driver.carrier_of(&path(&a, remote)), Some(Carrier::Tcp(tcp)));
    let (back, begun) = (b.events[0].0, b.driver.counters());
    assert_eq!((begun.carrier_streams_accepted, begun.carrier_streams_refused), (1, 0));
    transfer_on(&mut b, &mut a, back, &text, 16 << 10, || ());
    let status = b.driver.endpoint().status(b.clock.now(), back).unwrap();
    assert_eq!(status.paths.len(), 1);
    assert_eq!(status.paths[0].addr.local.port(), manypath_net::STREAM_PORT);
    assert_eq!(status.paths[0].state, PathState::Active);
    assert!(is_in_order(&a, id) && is_in_order(&b, back));
}

/// What comes in between two ends of TCP connections, until it is dropped.
pub(crate) struct Between {
    pub(crate) port: u16,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Between {
    pub(crate) fn new(ip: &str, to: SocketAddr) -> Self {
        let listener = TcpListener::bind(format!("{ip}:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let streams = Arc::<Mutex<Vec<TcpStream>>>::default();
        let all = streams.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(to) else { continue };
                for (from, into) in [(&near, &far), (&far, &near)] {
                    let mut ends = (from.try_clone().unwrap(), into.try_clone().unwrap());
                    std::thread::spawn(move || std::io::copy(&mut ends.0, &mut ends.1));
                }
                all.lock().unwrap().extend([near, far]);
            }
        });
        Self { port, streams }
    }

    pub(crate) fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let (mut a, mut b, (_, tcp), usual) = hosts("127.7.25.1", "127.7.25.2");
    let remote = usual.local_addr().unwrap();
    let between = Between::new("127.7.25.2", SocketAddr::new(remote.ip(), tcp));
    a.carry_by(&format!("tcp:{}", between.port), remote.port(), None);
    let id = a.connect(remote, SCTP_PORT);
    transfer_on(&mut a, &mut b, id, &text(4 << 20), 16 << 10, || between.cut());
    let counters = a.driver.counters();
    assert!(counters.carrier_streams_dialled >= 2, "{counters:?}");
}

/// An HTTP proxy that connects to anywhere, once.
fn proxy(ip: &str) -> SocketAddr {
    let listener = TcpListener::bind(format!("{ip}:0")).unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            near.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut far = TcpStream::connect(head.split(' ').nth(1).unwrap()).unwrap();
        near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let mut back = (far.try_clone().unwrap(), near.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
        let _ = std::io::copy(&mut near, &mut far);
    });
    addr
}

#[test]
fn a_proxy_makes_the_connection() {
    let (mut a, mut b, (_, tcp), usual) = hosts("127.7.28.1", "127.7.28.2");
    let remote = usual.local_addr().unwrap();
    a.proxy = Some(proxy("127.7.28.9"));
    a.carry_by(&format!("tcp:{},proxy:{tcp}", free_port()), remote.port(), None);
    let id = a.connect(remote, SCTP_PORT);
    transfer_on(&mut a, &mut b, id, &text(1 << 20), 16 << 10, || ());
    assert_eq!(a.driver.carrier_of(&path(&a, remote)), Some(Carrier::Proxy(tcp)));
    assert!(is_in_order(&a, id));
    let status = b.driver.endpoint().status(b.clock.now(), b.events[0].0).unwrap();
    assert_eq!(status.paths[0].addr.remote.ip().to_string(), "127.0.0.1", "the proxy's address");
}

#[test]
fn strangers_cost_little_and_keep_nobody_out() {
    let (mut a, mut b, (_, tcp), usual) = hosts("127.7.26.1", "127.7.26.2");
    let remote = usual.local_addr().unwrap();
    let server = SocketAddr::new(remote.ip(), tcp);
    let mut strangers: Vec<_> = (0..40).map(|_| TcpStream::connect(server).unwrap()).collect();
    drive(&mut a, &mut b, LIMIT, |_, b| {
        let counters = b.driver.counters();
        counters.carrier_streams_accepted + counters.carrier_streams_refused == 40
    });
    assert_eq!(b.driver.counters().carrier_streams_refused, 24, "those of one host are few");
    strangers[0].write_all(b"GET / HTTP/1.1\r\n").unwrap();
    drive(&mut a, &mut b, LIMIT, |_, b| b.driver.counters().carrier_streams_foreign == 1);
    assert_eq!(strangers[0].read(&mut [0; 1]).unwrap_or(0), 0, "it is told nothing");
    a.carry_by(&format!("tcp:{tcp}"), remote.port(), None);
    let id = a.connect(remote, SCTP_PORT);
    transfer_on(&mut a, &mut b, id, &text(1 << 16), 16 << 10, || ());
    drive(&mut a, &mut b, LIMIT, |_, b| b.driver.counters().carrier_streams_expired == 15);
}

/// Passes datagrams on between the first client and a server. The last packet of an association that the client has sent.
fn relay(ip: &str, server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let socket = UdpSocket::bind(format!("{ip}:0")).unwrap();
    let addr = socket.local_addr().unwrap();
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let kept = seen.clone();
    std::thread::spawn(move || {
        let (mut client, mut bytes) = (server, [0; 65536]);
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let packet = &bytes[..len];
            if from != server {
                client = from;
                if packet[4..8] != [0; 4] {
                    *kept.lock().unwrap() = packet.to_vec();
                }
            }
            let to = if from == server { client } else { server };
            let _ = socket.send_to(packet, to);
        }
    });
    (addr, seen)
}

/// Whoever has an association knows its tag.
#[test]
fn a_connection_that_is_no_path_is_a_strangers_whatever_it_brings() {
    let (mut a, mut b, (_, tcp), _usual) = hosts("127.7.29.1", "127.7.29.2");
    let (addr, seen) = relay("127.7.29.9", b.locals[0]);
    let id = a.connect(addr, SCTP_PORT);
    transfer_on(&mut a, &mut b, id, &text(1 << 12), 1 << 12, || ());
    let packet = seen.lock().unwrap().clone();
    let length = (packet.len() as u16).to_be_bytes();
    let bytes = [b"mpath/1\n", &length[..], &packet].concat();
    let server = SocketAddr::new("127.7.29.2".parse().unwrap(), tcp);
    let before = b.driver.counters().packets_received;
    let mut strangers: Vec<_> = (0..16).map(|_| TcpStream::connect(server).unwrap()).collect();
    strangers.iter_mut().for_each(|stranger| stranger.write_all(&bytes).unwrap());
    drive(&mut a, &mut b, LIMIT, |_, b| b.driver.counters().packets_received >= before + 16);
    let _another = TcpStream::connect(server).unwrap();
    drive(&mut a, &mut b, LIMIT, |_, b| b.driver.counters().carrier_streams_refused == 1);
    assert_eq!(b.driver.counters().carrier_streams_accepted, 16);
}

/// UDP is blocked while data flows.
#[test]
fn a_path_moves_to_tcp() {
    in_namespace(|| {
        let server = "127.7.27.2";
        let config =
            |port, accept| Config { address_reconfiguration: true, ..config(port, accept) };
        let mut a = Host::new(1, config(1, false), &loopback(&["127.7.27.1"]));
        let mut b = Host::new(2, config(SCTP_PORT, true), &loopback(&[server]));
        b.carry_by("off", 9, Some(443));
        a.carry_by("tcp:443", b.locals[0].port(), None);
        let remote = b.locals[0];
        let id = a.connect(remote, SCTP_PORT);
        let path = path(&a, remote);
        drive(&mut a, &mut b, LIMIT, |a, _| a.is_connected());
        assert!(!is_in_order(&a, id));
        transfer_on(&mut a, &mut b, id, &text(4 << 20), 16 << 10, || {
            run("nft", "add table ip t");
            run("nft", "add chain ip t c { type filter hook input priority 0 ; }");
            run("nft", "add rule ip t c meta l4proto udp drop");
        });
        assert_eq!(a.driver.carrier_of(&path), Some(Carrier::Tcp(443)));
        assert!(is_in_order(&a, id));
    });
}
