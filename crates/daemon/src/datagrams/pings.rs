//! A relay's echo requests for its peers: each has an identifier of its own on the wire, by which answers and errors
//! find back.

use super::onward::private_pair;
use crate::base::Base;
use crate::packets::{Content, Echo, Packet, SharedAllowances, parse};
use crate::services::Services;
use crate::timers::Timer;
use crate::token::Source;
use manypath_engine::{Duration, Instant};
use manypath_keys::PublicKey;
use manypath_net::{PingSocket, icmp, icmp_error, route_to};
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Sequences of echo requests, by their host, its destination and its identifier: of one peer, and of all. Each engine
/// loop has its share.
const MAX_OF_PEER: usize = 512;
const MAX_ALL: usize = 8192;
/// How long a socket rests when a turn has read nothing but messages that concern no peer: the kernel drops what it has no
/// room for meanwhile.
const REST: Duration = Duration::from_millis(1);
/// How long one outlasts its last request.
const IDLE: Duration = Duration::from_secs(30);
/// How often idle ones are looked for when there are too many.
const LOOK: Duration = Duration::from_secs(1);
/// Packets that are taken from a flow, and messages from a raw socket, before others have their turn: about as many as the
/// kernel keeps for one.
const TURN: usize = 64;
const TURN_OF_SOCKET: u64 = 256;
const MAX_PACKET: usize = 65_535;
const ECHO_HEADER: usize = 8;
/// What replies may pass whose own limit is not known.
const TTL: u8 = 64;

/// The flow, from where to where, and the identifier that the host has chosen.
type Key = (u64, IpAddr, IpAddr, u16);

/// All of them. Without sockets nothing is carried.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    /// By the numbers of their tokens; IPv4 and IPv6.
    sockets: BTreeMap<u64, PingSocket>,
    /// The near ends of flows.
    flows: BTreeMap<u64, UdpSocket>,
    /// Whose flows they are.
    peers: BTreeMap<u64, PublicKey>,
    /// By identifier on the wire.
    sequences: BTreeMap<u16, (Key, Instant)>,
    identifiers: BTreeMap<Key, u16>,
    last: u16,
    /// What each peer may still send.
    allowances: SharedAllowances,
    /// Sockets that rest until then.
    resting: BTreeMap<u64, Instant>,
    /// Which engine loop this is, of how many: their sockets all receive the same, so each has identifiers of its own.
    seat: Option<(u16, u16)>,
    looked: Instant,
    room: Vec<u8>,
}

/// What has come of a look at a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    Nothing,
    /// What concerns no peer.
    Unrelated,
    Answer,
}

impl Pings {
    /// Opens the sockets of a relay, as far as it may. Without them peers are told that it sends no packets on.
    pub(crate) fn open(&mut self, base: &mut Base) {
        // Pings of this host itself count from other numbers, most probably.
        let mut start = [0; 2];
        let _ = getrandom::fill(&mut start);
        self.last = u16::from_ne_bytes(start);
        let seat = base.core.config.process.seat.as_ref();
        self.allowances = base.core.config.process.pings.clone();
        self.seat = seat.map(|seat| (seat.index() as u16, seat.count() as u16));
        for is_ipv6 in [false, true] {
            let id = base.core.next_id();
            let opened = PingSocket::open(is_ipv6).and_then(|mut socket| {
                socket.register(&base.core.registry, Source::Ping(id).token())?;
                Ok(socket)
            });
            match opened {
                Ok(socket) => drop(self.sockets.insert(id, socket)),
                Err(error) => tracing::info!(target: crate::log::STACK,
                    "pings of peers are not sent on ({}): {error}", if is_ipv6 { "IPv6" } else { "IPv4" }),
            }
        }
    }

    /// A flow of packets begins; the end that the stack talks to.
    pub(crate) fn begin(
        &mut self,
        registry: &Registry,
        id: u64,
        peer: PublicKey,
    ) -> io::Result<OwnedFd> {
        if self.sockets.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (near, far) = private_pair()?;
        let mut near = UdpSocket::from_std(near);
        registry.register(&mut near, Source::Ping(id).token(), Interest::READABLE)?;
        self.flows.insert(id, near);
        self.peers.insert(id, peer);
        Ok(far)
    }

    pub(crate) fn end(&mut self, now: Instant, id: u64) {
        if self.flows.remove(&id).is_some() {
            // Those that are not full stay: a peer gains nothing by a new flow.
            self.allowances.forget_full(now);
            self.peers.remove(&id);
            let own: Vec<Key> = self.of_flow(id).copied().collect();
            own.into_iter().for_each(|key| self.forget(key));
        }
    }

    fn of_flow(&self, id: u64) -> impl Iterator<Item = &Key> {
        let from_there = self.identifiers.range((id, LEAST, LEAST, 0)..).map(|(key, _)| key);
        from_there.take_while(move |key| key.0 == id)
    }

    /// Whether the peer with a flow, or all peers together, have as many sequences as there may be.
    fn is_full(&self, id: u64) -> bool {
        let loops = self.seat.map_or(1, |(_, loops)| usize::from(loops));
        let peer = self.peers.get(&id);
        let of_peer = self.peers.iter().filter(|(_, one)| Some(*one) == peer);
        self.identifiers.len() >= MAX_ALL / loops
            || of_peer.map(|(id, _)| self.of_flow(*id).count()).sum::<usize>()
                >= MAX_OF_PEER / loops
    }

    fn forget(&mut self, key: Key) {
        if let Some(identifier) = self.identifiers.remove(&key) {
            self.sequences.remove(&identifier);
        }
    }

    /// A socket, or a flow, may have something.
    pub(crate) fn on_socket(&mut self, base: &mut Base, services: &mut Services, id: u64) {
        let mut room = std::mem::take(&mut self.room);
        room.resize(MAX_PACKET, 0);
        match self.sockets.contains_key(&id) {
            true => self.hear_some(base, id, &mut room),
            false if (0..TURN).all(|_| self.send(base, services, id, &mut room)) => {
                base.core.in_next_turn(Timer::Ping(id));
            }
            false => {}
        }
        self.room = room;
    }

    /// Hands on what a socket has, as much as a turn allows.
    fn hear_some(&mut self, base: &mut Base, id: u64, room: &mut [u8]) {
        let now = base.core.now;
        if self.resting.get(&id).is_some_and(|until| now < *until) {
            return;
        }
        self.resting.remove(&id);
        let (mut unrelated, mut heard) = (0, Heard::Nothing);
        for _ in 0..TURN_OF_SOCKET {
            heard = self.hear(base, id, room);
            unrelated += u64::from(heard == Heard::Unrelated);
            if heard == Heard::Nothing {
                break;
            }
        }
        base.core.driver.note_unrelated(unrelated);
        if unrelated == TURN_OF_SOCKET {
            base.core.count("packets_pauses");
            self.resting.insert(id, now + REST);
            base.core.after(REST, Timer::Ping(id));
        } else if heard != Heard::Nothing {
            base.core.in_next_turn(Timer::Ping(id));
        }
    }

    /// Sends a packet of a peer on; whether there may be more.
    fn send(&mut self, base: &mut Base, services: &mut Services, id: u64, room: &mut [u8]) -> bool {
        let Some(near) = self.flows.get(&id) else { return false };
        let length = match near.recv(room) {
            Ok(length) => length,
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let Some(packet) = room.get(..length).and_then(parse) else {
            base.core.count("packets_malformed");
            return true;
        };
        let now = base.core.now;
        let (counter, error) = match packet.content {
            Content::Request(_)
                if !services.onward.is_open_to_packets(base, packet.destination) =>
            {
                ("packets_denied_destination", Some(Fault::Closed))
            }
            Content::Request(_) if packet.ttl <= 1 => ("packets_expired", Some(Fault::Expired)),
            Content::Request(echo) => (self.request(now, id, &packet, echo), None),
            // An error is never answered by one (RFC 1122 section 3.2.2).
            Content::Reply | Content::Error(_) | Content::Icmp => ("packets_denied_icmp", None),
            Content::Fragment => ("packets_denied_fragment", None),
            Content::TcpOrUdp | Content::Other => {
                ("packets_denied_protocol", Some(Fault::Protocol))
            }
        };
        base.core.count(counter);
        if let Some(answer) = error.and_then(|error| error.answer(&packet)) {
            self.tell(base, id, &answer);
        }
        true
    }

    /// Sends a request on; the counter of what became of it.
    fn request(
        &mut self,
        now: Instant,
        id: u64,
        packet: &Packet<'_>,
        echo: Echo<'_>,
    ) -> &'static str {
        if !self.is_within_rate(now, id) {
            return "packets_denied_rate";
        }
        let key = (id, packet.source, packet.destination, echo.identifier);
        let Some(identifier) = self.identifier(now, key) else { return "packets_denied_too_many" };
        let is_ipv4 = packet.destination.is_ipv4();
        // The sockets are in this order; one of them may be missing.
        let sockets = self.sockets.values();
        let Some(socket) = sockets.into_iter().find(|one| one.is_ipv4() == is_ipv4) else {
            return "packets_denied_family";
        };
        let mut message = vec![if is_ipv4 { 8 } else { 128 }, 0, 0, 0];
        message.extend(identifier.to_be_bytes());
        message.extend(echo.rest.get(2..).unwrap_or_default());
        match socket.send(packet.destination, packet.ttl - 1, &mut message) {
            Ok(()) => "packets_sent_on",
            Err(_) => "packets_not_sent",
        }
    }

    fn is_within_rate(&self, now: Instant, id: u64) -> bool {
        let Some(peer) = self.peers.get(&id) else { return false };
        self.allowances.take(now, *peer)
    }

    /// The identifier on the wire of a sequence, which may begin now.
    fn identifier(&mut self, now: Instant, key: Key) -> Option<u16> {
        if let Some(identifier) = self.identifiers.get(&key).copied() {
            self.sequences.insert(identifier, (key, now));
            return Some(identifier);
        }
        if self.is_full(key.0) && now.since(self.looked) >= LOOK {
            self.looked = now;
            let idle = |(_, (_, last)): &(&u16, &(Key, Instant))| now.since(*last) >= IDLE;
            let idle: Vec<Key> =
                self.sequences.iter().filter(idle).map(|(_, (key, _))| *key).collect();
            idle.into_iter().for_each(|key| self.forget(key));
        }
        if self.is_full(key.0) {
            return None;
        }
        let is_of_others = |last: u16| self.seat.is_some_and(|(own, loops)| last % loops != own);
        while is_of_others(self.last) || self.sequences.contains_key(&self.last) {
            self.last = self.last.wrapping_add(1);
        }
        let identifier = self.last;
        self.last = self.last.wrapping_add(1);
        self.sequences.insert(identifier, (key, now));
        self.identifiers.insert(key, identifier);
        Some(identifier)
    }

    /// Hands an answer, or an error, to whom it is for.
    fn hear(&self, base: &mut Base, id: u64, room: &mut [u8]) -> Heard {
        let Some(socket) = self.sockets.get(&id) else { return Heard::Nothing };
        let is_ipv4 = socket.is_ipv4();
        let (length, from, ttl) = match socket.receive(room) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Nothing,
            Err(_) => return Heard::Unrelated,
        };
        let message = room.get(..length).unwrap_or_default();
        // What was for this host's own pings is nobody's here.
        let answer = self.answer(is_ipv4, from, ttl.unwrap_or(TTL), message);
        let Some((flow, packet)) = answer else { return Heard::Unrelated };
        base.core.count("packets_received");
        self.tell(base, flow, &packet);
        Heard::Answer
    }

    /// The packet that a message from the network becomes for a host of a peer, and its flow.
    fn answer(
        &self,
        is_ipv4: bool,
        from: IpAddr,
        ttl: u8,
        message: &[u8],
    ) -> Option<(u64, Vec<u8>)> {
        let (&[kind, code, _, _, high, low, ..], rest) =
            message.split_first_chunk::<ECHO_HEADER>()?;
        let is_reply = kind == if is_ipv4 { 0 } else { 129 };
        if is_reply {
            let (key, _) = self.sequences.get(&u16::from_be_bytes([high, low]))?;
            if key.2 != from || ttl <= 1 {
                return None;
            }
            let mut answer = vec![kind, code, 0, 0];
            answer.extend(key.3.to_be_bytes());
            answer.extend(message.get(6..)?);
            return Some((key.0, icmp((from, key.1), ttl - 1, answer)?));
        }
        // The packet that is quoted may be cut short, so it is not taken for a whole one.
        let header = if is_ipv4 { usize::from(rest.first()? & 0xf) * 4 } else { 40 };
        let protocol = *rest.get(if is_ipv4 { 9 } else { 6 })?;
        let quoted: &[u8; ECHO_HEADER] = rest.get(header..)?.first_chunk()?;
        let (request, icmp_protocol) = if is_ipv4 { (8, 1) } else { (128, 58) };
        if (quoted[0], protocol) != (request, icmp_protocol) {
            return None;
        }
        let (key, _) = self.sequences.get(&u16::from_be_bytes([quoted[4], quoted[5]]))?;
        let to = if is_ipv4 { rest.get(16..20)? } else { rest.get(24..40)? };
        if address(to)? != key.2 {
            return None;
        }
        // What the host has sent, as far as it is known: its kernel looks at the ends and the identifier.
        let mut original = vec![request, 0, 0, 0];
        original.extend(key.3.to_be_bytes());
        original.extend(&quoted[6..]);
        let original = icmp((key.1, key.2), 1, original)?;
        let word = u32::from_be_bytes(*message.get(4..)?.first_chunk()?);
        Some((key.0, icmp_error((from, key.1), (kind, code, word), &original)?))
    }

    fn tell(&self, base: &mut Base, flow: u64, packet: &[u8]) {
        let told = self.flows.get(&flow).is_some_and(|near| near.send(packet).is_ok());
        if !told {
            base.core.count("packets_dropped");
        }
    }
}

/// Less than every other address.
const LEAST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(octets).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(octets).ok()?)),
        _ => None,
    }
}

/// Why a packet goes no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Expired,
    /// Administratively prohibited (RFC 1812 section 5.2.7.1, RFC 4443 section 3.1).
    Closed,
    Protocol,
}

impl Fault {
    /// What the sender is told. A hop shows its address on the way to an open destination. Otherwise the destination
    /// speaks, so that no peer learns the addresses of this host in networks that are closed to it.
    fn answer(self, packet: &Packet<'_>) -> Option<Vec<u8>> {
        let from = match self {
            Self::Expired => route_to(packet.destination, None, None).ok()?.source?,
            Self::Closed | Self::Protocol => packet.destination,
        };
        let (kind, code) = match (self, from.is_ipv4()) {
            (Self::Expired, true) => (11, 0),
            (Self::Closed, true) => (3, 13),
            (Self::Protocol, true) => (3, 2),
            (Self::Expired, false) => (3, 0),
            (Self::Closed, false) => (1, 1),
            (Self::Protocol, false) => (4, 1),
        };
        // Where the next header stands.
        let word = if (kind, from.is_ipv4()) == (4, false) { 6 } else { 0 };
        icmp_error((from, packet.source), (kind, code, word), packet.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(identifier: u16) -> (Key, Vec<u8>) {
        let (host, to) = ("10.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let [high, low] = identifier.to_be_bytes();
        ((1, host, to, identifier), icmp((host, to), 9, vec![8, 0, 0, 0, high, low, 0, 5]).unwrap())
    }

    #[test]
    fn answers_and_errors_find_back_and_those_of_others_do_not() {
        let mut pings = Pings::default();
        let (key, _) = request(77);
        let wire = pings.identifier(Instant::ZERO, key).unwrap();
        let [high, low] = wire.to_be_bytes();
        let reply = [0, 0, 0, 0, high, low, 0, 5, 1, 2];
        let (flow, packet) = pings.answer(true, key.2, 60, &reply).unwrap();
        let parsed = parse(&packet).unwrap();
        assert_eq!((flow, parsed.source, parsed.destination, parsed.ttl), (1, key.2, key.1, 59));
        assert_eq!((parsed.content, &packet[24..30]), (Content::Reply, &[0, 77, 0, 5, 1, 2][..]));
        assert_eq!(pings.answer(true, key.1, 60, &reply), None, "from somebody else");
        assert_eq!(pings.answer(true, key.2, 1, &reply), None, "it has passed too many");
        let router = "198.51.100.9".parse().unwrap();
        let own: IpAddr = "198.51.100.1".parse().unwrap();
        let sent = icmp((own, key.2), 1, vec![8, 0, 0, 0, high, low, 0, 5]).unwrap();
        let error = icmp_error((router, own), (11, 0, 0), &sent).unwrap();
        let (_, packet) = pings.answer(true, router, 60, &error[20..]).unwrap();
        let parsed = parse(&packet).unwrap();
        assert_eq!((parsed.source, parsed.destination), (router, key.1));
        assert_eq!(parsed.content, Content::Error(Some((key.1, key.2))));
        let quoted = parse(&packet[28..]).unwrap();
        assert_eq!((quoted.source, quoted.destination), (key.1, key.2));
        assert!(matches!(quoted.content, Content::Request(echo) if echo.identifier == 77));
    }

    #[test]
    fn sequences_of_a_peer_are_bounded_over_all_its_flows_and_idle_ones_go() {
        let (peer, other) = (PublicKey::from([1; 32]), PublicKey::from([2; 32]));
        let peers = BTreeMap::from([(1, peer), (2, peer), (3, other)]);
        let mut pings = Pings { peers, ..Pings::default() };
        let key = |flow, number| (flow, request(0).0.1, request(0).0.2, number);
        for number in 0..MAX_OF_PEER as u16 {
            assert!(
                pings.identifier(Instant::ZERO, key(1 + u64::from(number % 2), number)).is_some()
            );
        }
        let one_more = key(2, 60_000);
        assert_eq!(pings.identifier(Instant::ZERO, one_more), None);
        assert_eq!(pings.identifier(Instant::ZERO, key(1, 60_000)), None);
        assert!(pings.identifier(Instant::ZERO, key(2, 3)).is_some(), "it is known");
        assert!(pings.identifier(Instant::ZERO, key(3, 3)).is_some(), "of another peer");
        assert!(pings.identifier(Instant::ZERO + IDLE, one_more).is_some());
        assert_eq!((pings.identifiers.len(), pings.sequences.len()), (1, 1));
    }

    #[test]
    fn a_peer_has_a_rate_over_all_its_flows_and_saves_up_no_more_than_a_second() {
        let (peer, other) = (PublicKey::from([1; 32]), PublicKey::from([2; 32]));
        let peers = BTreeMap::from([(1, peer), (2, peer), (3, other)]);
        let pings = Pings { peers, ..Pings::default() };
        let ms = |time| Instant::ZERO + Duration::from_millis(time);
        let sent = |at, flow| (0..2000).filter(|_| pings.is_within_rate(at, flow)).count();
        assert_eq!(sent(ms(0), 1), 512);
        assert_eq!(sent(ms(0), 2), 0, "of the same peer");
        assert_eq!(sent(ms(0), 3), 512, "of another one");
        assert_eq!(sent(ms(500), 2), 256);
        assert_eq!(sent(ms(90_000), 1), 512);
        assert_eq!(sent(ms(90_000), 4), 0, "a flow that is gone");
    }

    #[test]
    fn a_peer_has_no_more_by_several_engine_loops() {
        let peer = PublicKey::from([1; 32]);
        let allowances = SharedAllowances::default();
        let of_loop = |index| Pings {
            seat: Some((index, 2)),
            peers: BTreeMap::from([(1, peer)]),
            allowances: allowances.clone(),
            ..Pings::default()
        };
        let mut loops = [0, 1].map(of_loop);
        let ms = |time| Instant::ZERO + Duration::from_millis(time);
        // The second loop was started 5 ms later.
        let sent = |at| {
            let turns = (0..4000).map(|turn| turn % 2);
            let is_sent =
                |index: &usize| loops[*index].is_within_rate(ms(at + 5 * (1 - *index as u64)), 1);
            turns.filter(is_sent).count()
        };
        assert_eq!(sent(0), 512);
        assert_eq!(sent(500), 256);
        let key = |number| (1, request(0).0.1, request(0).0.2, number);
        let begins = |pings: &mut Pings, number| pings.identifier(ms(0), key(number)).is_some();
        let begun = loops.iter_mut().map(|it| (0..1000).filter(|one| begins(it, *one)).count());
        assert_eq!(begun.sum::<usize>(), MAX_OF_PEER);
    }

    #[test]
    fn engine_loops_have_identifiers_of_their_own() {
        let of_loop = |index| {
            let mut pings = Pings { seat: Some((index, 3)), last: 65_530, ..Pings::default() };
            let take = |number| pings.identifier(Instant::ZERO, request(number).0).unwrap();
            (0..20).map(take).collect::<Vec<u16>>()
        };
        let all: std::collections::BTreeSet<u16> = (0..3).flat_map(of_loop).collect();
        assert_eq!(all.len(), 60);
    }

    #[test]
    fn nothing_from_the_network_makes_it_panic() {
        let mut pings = Pings::default();
        let wire = pings.identifier(Instant::ZERO, request(77).0).unwrap();
        let [high, low] = wire.to_be_bytes();
        let message = [
            11, 0, 0, 0, 0, 0, 0, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 192, 0, 2,
            1, 8, 0, 0, 0, high, low, 0, 5,
        ];
        for length in 0..=message.len() {
            for kind in 0..=255 {
                let mut cut = message[..length].to_vec();
                if let Some(first) = cut.first_mut() {
                    *first = kind;
                }
                let _ = pings.answer(true, LEAST, 9, &cut);
                let _ = pings.answer(false, LEAST, 9, &cut);
            }
        }
    }
}
