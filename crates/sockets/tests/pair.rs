//! Sockets of two hosts, packets between them by hand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

use bytes::Bytes;
use manypath_engine::{Config, Duration, Endpoint, Instant, LocalAddress, PacketBatch, PathAddr};
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::{sctp_assoc_change, sctp_event, sctp_sndinfo, sctp_status};
use manypath_sockets::{Errno, Host, Outbound, SendInfo, SocketId, Sockets, Style};
use std::net::{IpAddr, SocketAddr};

struct Side {
    endpoint: Endpoint,
    sockets: Sockets,
}

/// Two hosts with two addresses each: 10.0.1.x and 10.0.2.x.
struct Pair {
    now: Instant,
    sides: [Side; 2],
    /// An address to which nothing gets.
    dead: Option<IpAddr>,
}

const PORT: u16 = 4000;

fn address(net: u8, host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, net, host as u8 + 1], PORT))
}

fn side(host: usize) -> Side {
    let mut endpoint = Endpoint::new(Config::production(), [host as u8; 32]);
    let ips = [1, 2].map(|net| address(net, host).ip());
    for (interface, ip) in (1..).zip(ips) {
        let addr = SocketAddr::new(ip, 9899);
        endpoint.add_local_address(LocalAddress { addr, prefix_len: 24, interface, mtu: 1500 });
    }
    Side { endpoint, sockets: Sockets::new(ips.to_vec(), 9899, 0) }
}

impl Pair {
    fn new() -> Self {
        Self { now: Instant::from_nanos(1), sides: [side(0), side(1)], dead: None }
    }

    fn with<T>(&mut self, host: usize, act: impl FnOnce(&mut Sockets, &mut Host<'_>) -> T) -> T {
        let Side { endpoint, sockets } = &mut self.sides[host];
        act(sockets, &mut Host { now: self.now, endpoint })
    }

    /// Packets and events until there are none.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut packets = Vec::new();
            for host in 0..2 {
                packets.extend(self.drain(host));
            }
            if packets.is_empty() {
                return;
            }
            for (to, path, bytes) in packets {
                self.sides[to].endpoint.handle_packet(self.now, path, &bytes);
            }
        }
        panic!("it does not come to rest");
    }

    fn drain(&mut self, host: usize) -> Vec<(usize, PathAddr, Vec<u8>)> {
        self.with(host, |sockets, host| {
            while let Some((id, event)) = host.endpoint.poll_event() {
                sockets.on_event(host, id, event);
            }
            sockets.settle(host);
        });
        let mut all = Vec::new();
        let mut batch = PacketBatch::new(16);
        while let Some(sent) = self.sides[host].endpoint.poll_transmit(self.now, &mut batch) {
            for packet in batch.bytes().chunks(sent.segment_size.max(1)) {
                let path = PathAddr { local: sent.path.remote, remote: sent.path.local };
                if Some(path.local.ip()) != self.dead {
                    all.push((1 - host, path, packet.to_vec()));
                }
            }
        }
        all
    }

    /// So much time passes, timer by timer.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            let due = self.sides.iter().filter_map(|side| side.endpoint.poll_timeout()).min();
            let Some(due) = due.filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            for side in &mut self.sides {
                side.endpoint.handle_timeout(self.now);
            }
        }
        self.now = until;
    }

    /// A socket of host 1 that listens at [`PORT`], and one of host 0.
    fn sockets(&mut self, style: Style) -> (SocketId, SocketId) {
        let listener = self.with(1, |sockets, host| {
            let id = sockets.open(style, false);
            sockets.bind(id, SocketAddr::from(([0; 4], PORT))).unwrap();
            sockets.listen(host, id, 2).unwrap();
            id
        });
        (self.with(0, |sockets, _| sockets.open(style, false)), listener)
    }

    fn send(
        &mut self,
        host: usize,
        id: SocketId,
        to: &[SocketAddr],
        text: &str,
    ) -> Result<usize, Errno> {
        let data = Bytes::copy_from_slice(text.as_bytes());
        let message = Outbound { to: to.to_vec(), info: SendInfo::default(), data };
        self.with(host, |sockets, host| sockets.send(host, id, message))
    }

    /// What comes next: text, or the type of a notification.
    fn next(&mut self, host: usize, id: SocketId) -> Result<String, Errno> {
        let received = self.with(host, |sockets, host| sockets.receive(host, id, 4096, false))?;
        if received.flags & MSG_NOTIFICATION == 0 {
            return Ok(String::from_utf8_lossy(&received.data).into_owned());
        }
        let change = sctp_assoc_change::decode_short(&received.data);
        Ok(match i32::from(change.sac_type) {
            SCTP_ASSOC_CHANGE => format!("change to {}", change.sac_state),
            SCTP_SHUTDOWN_EVENT => "shutdown".into(),
            SCTP_SENDER_DRY_EVENT => "dry".into(),
            other => format!("{other:#x}"),
        })
    }

    fn subscribe(&mut self, host: usize, id: SocketId, kinds: &[i32]) {
        for kind in kinds {
            let event = sctp_event { se_type: *kind as u16, se_on: 1, ..Default::default() };
            let option = (libc::IPPROTO_SCTP, SCTP_EVENT);
            self.with(host, |sockets, host| sockets.set_option(host, id, option, &event.encode()))
                .unwrap();
        }
    }
}

#[test]
fn a_message_begins_the_association_and_its_news_come_in_order() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToMany);
    let kinds = [SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT];
    pair.subscribe(1, server, &kinds);
    pair.subscribe(0, client, &[SCTP_SENDER_DRY_EVENT]);
    assert_eq!(pair.send(0, client, &[address(1, 1)], "one"), Ok(3));
    assert_eq!(pair.send(0, client, &[address(1, 1)], "two"), Ok(3));
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.next(0, client), Ok("dry".into()));
    let eof = SendInfo {
        info: sctp_sndinfo { snd_flags: SCTP_EOF as u16, ..Default::default() },
        ..SendInfo::default()
    };
    let end = Outbound { to: vec![address(1, 1)], info: eof, data: Bytes::new() };
    assert_eq!(pair.with(0, |sockets, host| sockets.send(host, client, end)), Ok(0));
    pair.pass(Duration::from_secs(1));
    let all: Vec<_> = std::iter::from_fn(|| pair.next(1, server).ok()).collect();
    assert_eq!(all, ["change to 0", "one", "two", "shutdown", "change to 3"]);
    // What is over and read is gone.
    let count = (libc::IPPROTO_SCTP, SCTP_GET_ASSOC_NUMBER);
    let left = pair.with(1, |sockets, host| sockets.option(host, server, count, &[0; 4]));
    assert_eq!(left, Ok(vec![0; 4]));
}

#[test]
fn a_message_comes_in_parts_and_stays_when_it_is_only_looked_at() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToOne);
    pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)])).unwrap();
    pair.settle();
    let server = pair.with(1, |sockets, _| sockets.accept(server)).unwrap();
    pair.send(0, client, &[], "abcdef").unwrap();
    pair.settle();
    let mut part = |room, peek| {
        let got = pair.with(1, |sockets, host| sockets.receive(host, server, room, peek)).unwrap();
        (got.data, got.flags)
    };
    assert_eq!(part(4, true), (Bytes::from("abcd"), 0));
    assert_eq!(part(4, false), (Bytes::from("abcd"), 0));
    assert_eq!(part(4, true), (Bytes::from("ef"), libc::MSG_EOR));
    assert_eq!(part(4, false), (Bytes::from("ef"), libc::MSG_EOR));
    assert_eq!(pair.next(1, server), Err(Errno::AGAIN));
}

#[test]
fn the_second_address_begins_an_association_if_the_first_is_not_reached() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    pair.dead = Some(address(1, 1).ip());
    let all = [address(1, 1), address(2, 1)];
    let number = pair.with(0, |sockets, host| sockets.connect(host, client, &all)).unwrap();
    pair.pass(Duration::from_secs(1));
    let state = pair.with(0, |sockets, _| sockets.connection(client, number));
    assert_eq!(state, Err(Errno::IN_PROGRESS));
    pair.pass(Duration::from_secs(600));
    assert_eq!(pair.with(0, |sockets, _| sockets.connection(client, number)), Ok(()));
    let status = sctp_status::default().encode();
    let option = (libc::IPPROTO_SCTP, SCTP_STATUS);
    let found = pair.with(0, |sockets, host| sockets.option(host, client, option, &status));
    assert_eq!(sctp_status::decode(&found.unwrap()).unwrap().sstat_state, SCTP_ESTABLISHED);
}

#[test]
fn more_associations_than_the_backlog_are_refused() {
    let mut pair = Pair::new();
    let (first, server) = pair.sockets(Style::OneToOne);
    let others = [0; 4].map(|_| pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false)));
    for client in std::iter::once(first).chain(others) {
        pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)])).unwrap();
        pair.settle();
    }
    let accepted = std::iter::from_fn(|| pair.with(1, |sockets, _| sockets.accept(server)).ok());
    // As with Linux: one more than was said.
    assert_eq!(accepted.count(), 3);
}

#[test]
fn an_end_that_is_no_end_is_told_as_an_error_once() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToOne);
    let connect =
        |pair: &mut Pair, to| pair.with(0, |sockets, host| sockets.connect(host, client, &[to]));
    let nobody = SocketAddr::new(address(1, 1).ip(), 1);
    let number = connect(&mut pair, nobody).unwrap();
    pair.settle();
    let refused = pair.with(0, |sockets, _| sockets.connection(client, number));
    assert_eq!(refused, Err(Errno::CONNECTION_REFUSED));
    connect(&mut pair, address(1, 1)).unwrap();
    pair.settle();
    let server = pair.with(1, |sockets, _| sockets.accept(server)).unwrap();
    let linger = [1i32, 0].map(i32::to_ne_bytes).concat();
    pair.with(1, |sockets, host| {
        let option = (libc::SOL_SOCKET, libc::SO_LINGER);
        sockets.set_option(host, server, option, &linger).unwrap();
        sockets.close(host, server).unwrap();
    });
    pair.settle();
    assert_eq!(pair.next(0, client), Err(Errno::CONNECTION_RESET));
    assert_eq!(pair.next(0, client), Ok(String::new()));
    assert_eq!(pair.send(0, client, &[], "late"), Err(Errno::PIPE));
}

#[test]
fn messages_that_cannot_be_sent_are_refused_with_the_right_error() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    assert_eq!(pair.send(0, client, &[], "early"), Err(Errno::NOT_CONNECTED));
    pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)])).unwrap();
    pair.settle();
    assert_eq!(pair.send(0, client, &[], ""), Err(Errno::INVALID));
    assert_eq!(pair.send(0, client, &[], &"x".repeat(2 << 20)), Err(Errno::MESSAGE_SIZE));
    let again = pair.with(0, |sockets, host| sockets.connect(host, client, &[address(1, 1)]));
    assert_eq!(again, Err(Errno::IS_CONNECTED));
    let short = pair.with(0, |sockets, host| {
        sockets.set_option(host, client, (libc::IPPROTO_SCTP, SCTP_RTOINFO), &[0; 8])
    });
    assert_eq!(short, Err(Errno::INVALID));
    let foreign = pair
        .with(0, |sockets, host| sockets.set_option(host, client, (libc::IPPROTO_TCP, 1), &[0; 4]));
    assert_eq!(foreign, Err(Errno::NO_PROTOCOL_OPTION));
}
