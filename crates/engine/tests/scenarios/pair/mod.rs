//! Two endpoints, A and Z, on an emulated network in virtual time.
//!
//! The network is one link per path, each with its one-way delay; links can be cut, single packets
//! can be dropped by the chunk that they carry. Everything that is sent is written down as a ladder:
//!
//! ```text
//! A -> COOKIE_ECHO DATA -> Z
//! A <- COOKIE_ACK SACK /lost/ <- Z
//! ```
//!
//! With several paths, a `1` or `2` names the path of all lines that are not on path 1.

mod ladder;
mod uplinks;

use crate::chance::Chance;
use bytes::Bytes;
use manypath_engine::{
    AssociationId, Config, Delivery, Duration, Ecn, Endpoint, Event, Instant, LocalAddress,
    Outgoing, PacketBatch, PathAddr, PathMtu, Ppid, StreamId, Transmit,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

pub(crate) const PORT_A: u16 = 5001;
pub(crate) const PORT_Z: u16 = 5002;
const UDP_PORT: u16 = 9899;
/// More events than this in one drive mean that the endpoints talk in circles.
const MAX_STEPS: usize = 200_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Side {
    A,
    Z,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::A => Self::Z,
            Self::Z => Self::A,
        }
    }
}

/// One end: the endpoint and what it has told its user.
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) events: Vec<(AssociationId, Event)>,
    /// Whether messages are read as soon as they are there.
    pub(crate) reads: bool,
    pub(crate) received: Vec<(u16, Bytes)>,
}

/// A packet under way.
struct Flying {
    to: Side,
    path: PathAddr,
    bytes: Vec<u8>,
    delivery: Delivery,
}

struct DropRule {
    from: Side,
    chunk: &'static str,
    left: usize,
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) a: Node,
    pub(crate) z: Node,
    pub(crate) ladder: Vec<String>,
    pub(crate) links: BTreeMap<u8, Link>,
    /// What NATs in front of A make of its addresses. Z reaches no others then.
    pub(crate) nat: BTreeMap<SocketAddr, SocketAddr>,
    /// Z has one address: the links are those of the addresses of A.
    pub(crate) by_uplink: bool,
    /// Addresses that nothing leaves or reaches.
    pub(crate) gone: Vec<IpAddr>,
    /// No ladder is kept.
    pub(crate) quiet: bool,
    /// What chance does to packets.
    pub(crate) chaos: Option<Chaos>,
    /// What every packet may be turned into before it arrives.
    pub(crate) mangle: Option<fn(&mut Vec<u8>)>,
    /// Whether packets are kept in `recorded`.
    pub(crate) record: bool,
    pub(crate) recorded: Vec<(Side, PathAddr, Vec<u8>)>,
    /// Every run of packets that an endpoint handed out.
    pub(crate) runs: Vec<Transmit>,
    /// How many events the users of both ends have handled, if there are any: an endpoint transmits when its user
    /// has handled all, and has taken what was received.
    pub(crate) handled: Option<[usize; 2]>,
    /// The last packet that did not arrive.
    pub(crate) last_lost: Option<Vec<u8>>,
    flying: BTreeMap<(Instant, u64), Flying>,
    drops: Vec<DropRule>,
    marks: Vec<DropRule>,
    /// What the network does to ECN-capable packets.
    pub(crate) bits: Bits,
    sequence: u64,
    batch: PacketBatch,
}

/// What becomes of the ECN bits of ECN-capable packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bits {
    /// They arrive, with CE where a queue has marked them.
    Kept,
    /// They are cleared.
    Cleared,
    /// Each says CE.
    Marked,
    /// The packets are dropped.
    Dropped,
}

#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) up: bool,
    pub(crate) delay: Duration,
    /// Bits per second.
    pub(crate) rate: u64,
    /// Largest time that a packet waits for those before it; beyond it is dropped.
    pub(crate) queue: Duration,
    /// Largest SCTP packet that gets through, if IP may not fragment it.
    pub(crate) largest: usize,
    /// Whether the sender is told of packets that are too large.
    pub(crate) reports: bool,
    /// Whether packets say that they were delivered in order.
    pub(crate) in_order: bool,
    /// How often, and for how long, nothing is delivered: all that comes meanwhile arrives at the end.
    pub(crate) stalls: Option<(Duration, Duration)>,
    free_at: [Instant; 2],
}

/// What chance does to packets, in parts of 1000.
pub(crate) struct Chaos {
    pub(crate) loss: u64,
    pub(crate) copies: u64,
    pub(crate) damage: u64,
    /// Largest random addition to the delay, which changes the order.
    pub(crate) jitter: Duration,
    pub(crate) chance: Chance,
}

impl Chaos {
    /// What arrives in place of `bytes`, and how much later.
    fn strike(&mut self, bytes: Vec<u8>) -> Vec<(Duration, Vec<u8>)> {
        let mut arriving = Vec::new();
        let copies = 1 + usize::from(self.chance.hits(self.copies));
        for mut bytes in vec![bytes; copies] {
            if self.chance.hits(self.loss) {
                continue;
            }
            if self.chance.hits(self.damage) {
                let at = self.chance.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.chance.below(8);
            }
            let jitter = self.chance.below(1 + self.jitter.as_nanos() as u64);
            arriving.push((Duration::from_nanos(jitter), bytes));
        }
        arriving
    }
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The defaults of the tests: A connects, Z accepts. Packets are as large as the links take, so that
/// ladders show no search for that.
pub(crate) fn config(side: Side) -> Config {
    let (port, path_mtu) = (if side == Side::A { PORT_A } else { PORT_Z }, PathMtu::Interface);
    Config { port, accept: side == Side::Z, streams: 16, path_mtu, ..Config::default() }
}

/// An ordered message.
pub(crate) fn message(stream: u16, payload: &[u8]) -> Outgoing {
    Outgoing {
        stream: StreamId(stream),
        ppid: Ppid(0),
        unordered: false,
        payload: Bytes::copy_from_slice(payload),
    }
}

pub(crate) fn address(side: Side, path: u8) -> SocketAddr {
    let host = if side == Side::A { 1 } else { 2 };
    SocketAddr::from(([10, path, 0, host], UDP_PORT))
}

pub(crate) fn endpoint(side: Side, paths: u8, config: Config, seed: u8) -> Endpoint {
    let mut endpoint = Endpoint::new(config, [seed; 32]);
    for path in 1..=paths {
        let addr = address(side, path);
        endpoint.add_local_address(LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 });
    }
    endpoint
}

impl Pair {
    /// Both ends on `paths` paths of 10 ms each way.
    pub(crate) fn new(paths: u8) -> Self {
        Self::with(paths, config(Side::A), config(Side::Z))
    }

    pub(crate) fn with(paths: u8, a: Config, z: Config) -> Self {
        let node =
            |endpoint| Node { endpoint, events: Vec::new(), reads: true, received: Vec::new() };
        let link = Link {
            up: true,
            delay: millis(10),
            rate: 1_000_000_000,
            queue: Duration::MAX,
            largest: usize::MAX,
            reports: false,
            in_order: false,
            stalls: None,
            free_at: [Instant::ZERO; 2],
        };
        Self {
            now: Instant::ZERO,
            a: node(endpoint(Side::A, paths, a, 1)),
            z: node(endpoint(Side::Z, paths, z, 2)),
            ladder: Vec::new(),
            nat: BTreeMap::new(),
            by_uplink: false,
            gone: Vec::new(),
            links: (1..=paths).map(|path| (path, link)).collect(),
            quiet: false,
            chaos: None,
            mangle: None,
            runs: Vec::new(),
            record: false,
            recorded: Vec::new(),
            handled: None,
            last_lost: None,
            flying: BTreeMap::new(),
            drops: Vec::new(),
            marks: Vec::new(),
            bits: Bits::Kept,
            sequence: 0,
            batch: PacketBatch::new(16),
        }
    }

    pub(crate) fn node(&mut self, side: Side) -> &mut Node {
        match side {
            Side::A => &mut self.a,
            Side::Z => &mut self.z,
        }
    }

    /// A begins an association with Z.
    pub(crate) fn connect(&mut self) -> AssociationId {
        self.connect_from(Side::A)
    }

    pub(crate) fn connect_from(&mut self, side: Side) -> AssociationId {
        let port = if side == Side::A { PORT_Z } else { PORT_A };
        let (now, remote) = (self.now, address(side.other(), 1));
        self.node(side).endpoint.connect(now, remote, port).unwrap()
    }

    /// A connects and everything settles; the ladder starts afterwards.
    pub(crate) fn established(paths: u8) -> (Self, AssociationId, AssociationId) {
        Self::established_with(paths, config(Side::A), config(Side::Z))
    }

    pub(crate) fn established_with(
        paths: u8,
        a: Config,
        z: Config,
    ) -> (Self, AssociationId, AssociationId) {
        let mut pair = Self::with(paths, a, z);
        let a = pair.connect();
        pair.drive(millis(500));
        let z = pair.z.endpoint.associations()[0];
        pair.ladder.clear();
        pair.a.events.clear();
        pair.z.events.clear();
        (pair, a, z)
    }

    pub(crate) fn send(&mut self, side: Side, id: AssociationId, stream: u16, payload: &[u8]) {
        let now = self.now;
        self.node(side).endpoint.send(now, id, message(stream, payload)).unwrap();
    }

    /// Drops the next `count` packets from `from` that carry `chunk`.
    pub(crate) fn lose(&mut self, from: Side, chunk: &'static str, count: usize) {
        self.drops.push(DropRule { from, chunk, left: count });
    }

    /// Marks the next `count` ECN-capable packets from `from` that carry `chunk`.
    pub(crate) fn mark(&mut self, from: Side, chunk: &'static str, count: usize) {
        self.marks.push(DropRule { from, chunk, left: count });
    }

    pub(crate) fn cut(&mut self, path: u8) {
        self.links.get_mut(&path).unwrap().up = false;
    }

    pub(crate) fn restore(&mut self, path: u8) {
        self.links.get_mut(&path).unwrap().up = true;
    }

    pub(crate) fn restore_all(&mut self) {
        self.links.values_mut().for_each(|link| link.up = true);
    }

    /// Lets `time` pass.
    pub(crate) fn drive(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..MAX_STEPS {
            self.drain();
            match self.next_event() {
                Some(at) if at <= end => self.advance(at),
                Some(_) | None => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("no end after {MAX_STEPS} steps:\n{}", self.ladder.join("\n"));
    }

    /// Lets time pass until `done` says so, at most `limit`. Whether it did.
    pub(crate) fn drive_until(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + limit;
        for _ in 0..MAX_STEPS {
            self.drain();
            if done(self) {
                return true;
            }
            match self.next_event() {
                Some(at) if at <= end => self.advance(at),
                Some(_) | None => return false,
            }
        }
        panic!("no end after {MAX_STEPS} steps:\n{}", self.ladder.join("\n"));
    }

    /// Puts a packet on the network as if `from` had sent it.
    pub(crate) fn inject(&mut self, from: Side, path: u8, bytes: &[u8]) {
        let addr = PathAddr { local: address(from, path), remote: address(from.other(), path) };
        self.launch(from, addr, bytes, Ecn::NotEct);
    }

    /// Puts a packet on the network from and to any addresses.
    pub(crate) fn inject_from(&mut self, from: Side, addr: PathAddr, bytes: &[u8]) {
        self.launch(from, addr, bytes, Ecn::NotEct);
    }

    /// The tag that `side` expects, learned from what its peer sends.
    pub(crate) fn tag_of(&mut self, side: Side) -> u32 {
        self.record = true;
        let (now, id) = (self.now, self.node(side.other()).endpoint.associations()[0]);
        let sent = self.recorded.len();
        self.node(side.other()).endpoint.send(now, id, message(15, b"tag?")).unwrap();
        self.drive(millis(100));
        let probe = self.recorded[sent..].iter().find(|(from, _, _)| *from != side).unwrap();
        let tag = u32::from_be_bytes(probe.2[4..8].try_into().unwrap());
        self.ladder.clear();
        self.node(side).received.clear();
        self.node(side).events.clear();
        tag
    }

    /// Takes over everything that the endpoints want to say.
    pub(crate) fn drain(&mut self) {
        for side in [Side::A, Side::Z] {
            self.drain_events(side);
            while !self.waits_for_user(side) && self.transmit(side) {}
            self.drain_events(side);
        }
    }

    fn waits_for_user(&mut self, side: Side) -> bool {
        let Some(handled) = self.handled.map(|of| of[side as usize]) else { return false };
        let node = self.node(side);
        node.events.len() > handled || !node.received.is_empty()
    }

    fn drain_events(&mut self, side: Side) {
        let node = self.node(side);
        while let Some((id, event)) = node.endpoint.poll_event() {
            if event == Event::Readable && node.reads {
                node.read_all(id);
            }
            node.events.push((id, event));
        }
    }

    fn transmit(&mut self, side: Side) -> bool {
        let (now, mut batch) = (self.now, std::mem::take(&mut self.batch));
        let transmit = self.node(side).endpoint.poll_transmit(now, &mut batch);
        if let Some(run) = transmit {
            let packets: Vec<_> = batch.bytes().chunks(run.segment_size).collect();
            assert_eq!(packets.len(), run.packets, "a run of equal packets");
            assert!(run.packets <= batch.max_packets());
            self.runs.push(run);
            for packet in packets {
                if !run.may_fragment && self.is_too_big(side, run.path, packet) {
                    continue;
                }
                self.launch(side, run.path, packet, run.ecn);
            }
        }
        self.batch = batch;
        transmit.is_some()
    }

    /// Whether the link cannot take the packet. Its sender may be told.
    fn is_too_big(&mut self, from: Side, addr: PathAddr, bytes: &[u8]) -> bool {
        let number = self.link_of(from, &addr);
        let link = self.links.get(&number).filter(|link| bytes.len() > link.largest);
        let Some((reports, largest)) = link.map(|link| (link.reports, link.largest)) else {
            return false;
        };
        if self.record {
            self.recorded.push((from, addr, bytes.to_vec()));
        }
        if !self.quiet {
            self.ladder.push(ladder::line(from, number, bytes, true));
        }
        self.last_lost = Some(bytes.to_vec());
        if reports {
            let (now, mtu) = (self.now, u16::try_from(largest + 28).unwrap());
            self.node(from).endpoint.handle_icmp_too_big(now, addr, mtu, &bytes[..8]);
        }
        true
    }

    fn launch(&mut self, from: Side, addr: PathAddr, bytes: &[u8], ecn: Ecn) {
        if self.record {
            self.recorded.push((from, addr, bytes.to_vec()));
        }
        let translated = self.translate(from, addr);
        let addr = translated.unwrap_or(addr);
        let number = self.link_of(from, &addr);
        let now = self.now;
        let takes = |link: &Link| link.up && link.free_at[from as usize].since(now) <= link.queue;
        let eaten = self.bits == Bits::Dropped && ecn.is_capable();
        let gone = self.gone.iter().any(|ip| [addr.local.ip(), addr.remote.ip()].contains(ip));
        let taken = self.links.get(&number).is_some_and(takes) && !gone && translated.is_some();
        let lost = !taken || self.is_dropped(from, bytes) || eaten;
        let ecn = self.bits_on_arrival(from, bytes, ecn);
        if !self.quiet {
            let line = ladder::line(from, number, bytes, lost);
            self.ladder.push(if ecn == Ecn::Ce { format!("{line} /CE/") } else { line });
        }
        if lost {
            self.last_lost = Some(bytes.to_vec());
            return;
        }
        let at = self.arrival(from, number, bytes.len());
        let mut bytes = bytes.to_vec();
        if let Some(mangle) = self.mangle {
            mangle(&mut bytes);
        }
        let path = PathAddr { local: addr.remote, remote: addr.local };
        let in_order = self.links.get(&number).is_some_and(|link| link.in_order);
        let delivery = Delivery { ecn, in_order };
        let arriving = match &mut self.chaos {
            Some(chaos) => chaos.strike(bytes),
            None => vec![(Duration::ZERO, bytes)],
        };
        for (later, bytes) in arriving {
            self.sequence += 1;
            let flying = Flying { to: from.other(), path, bytes, delivery };
            self.flying.insert((at + later, self.sequence), flying);
        }
    }

    /// The number of the link that a packet takes.
    fn link_of(&self, from: Side, addr: &PathAddr) -> u8 {
        match from {
            Side::A if self.by_uplink => ladder::link_number(addr.local.ip()),
            Side::A | Side::Z => ladder::link_number(addr.remote.ip()),
        }
    }

    /// The addresses of a packet on the other side of the NATs.
    fn translate(&self, from: Side, mut addr: PathAddr) -> Option<PathAddr> {
        match from {
            _ if self.nat.is_empty() => {}
            Side::A => addr.local = self.nat.get(&addr.local).copied().unwrap_or(addr.local),
            Side::Z => {
                let mut mappings = self.nat.iter();
                addr.remote = *mappings.find(|(_, outside)| **outside == addr.remote)?.0;
            }
        }
        Some(addr)
    }

    fn arrival(&mut self, from: Side, number: u8, len: usize) -> Instant {
        let now = self.now;
        let link = self.links.get_mut(&number).unwrap();
        let free = &mut link.free_at[from as usize];
        *free = (*free).max(now) + Duration::from_nanos(len as u64 * 8_000_000_000 / link.rate);
        let at = *free + link.delay;
        let Some((period, stall)) = link.stalls else { return at };
        let since = Duration::from_nanos(at.as_nanos() % period.as_nanos() as u64);
        at + stall.saturating_sub(since)
    }

    fn is_dropped(&mut self, from: Side, bytes: &[u8]) -> bool {
        take_rule(&mut self.drops, from, bytes)
    }

    fn bits_on_arrival(&mut self, from: Side, bytes: &[u8], ecn: Ecn) -> Ecn {
        let marked = ecn.is_capable() && take_rule(&mut self.marks, from, bytes);
        match self.bits {
            Bits::Marked if ecn.is_capable() => Ecn::Ce,
            Bits::Cleared => Ecn::NotEct,
            Bits::Kept if marked => Ecn::Ce,
            Bits::Kept | Bits::Marked | Bits::Dropped => ecn,
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let timers = [self.a.endpoint.poll_timeout(), self.z.endpoint.poll_timeout()];
        timers.into_iter().chain([arrival]).flatten().min()
    }

    fn advance(&mut self, at: Instant) {
        self.now = self.now.max(at);
        let now = self.now;
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let Flying { to, path, mut bytes, delivery } = entry.remove();
            self.node(to).endpoint.handle_marked_packet(now, path, &mut bytes, delivery);
        }
        self.a.endpoint.handle_timeout(now);
        self.z.endpoint.handle_timeout(now);
        self.drain();
        for side in [Side::A, Side::Z] {
            let next = self.node(side).endpoint.poll_timeout();
            assert!(next.is_none_or(|at| at > now), "{side:?} does not let time pass");
        }
    }

    /// The ladder so far, which begins anew.
    pub(crate) fn take_ladder(&mut self) -> String {
        std::mem::take(&mut self.ladder).join("\n")
    }

    /// Compares the ladder with a picture of it.
    #[track_caller]
    pub(crate) fn expect(&mut self, picture: &str) {
        let wanted: Vec<_> = picture.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let seen = self.take_ladder();
        assert_eq!(seen.lines().collect::<Vec<_>>(), wanted, "the ladder was:\n{seen}\n");
    }
}

/// Whether a rule is about the packet; it is used up by one.
fn take_rule(rules: &mut [DropRule], from: Side, bytes: &[u8]) -> bool {
    let names = ladder::chunk_names(bytes);
    let fits =
        |rule: &&mut DropRule| rule.left > 0 && rule.from == from && names.contains(&rule.chunk);
    rules.iter_mut().find(fits).map(|rule| rule.left -= 1).is_some()
}

impl Node {
    pub(crate) fn read_all(&mut self, id: AssociationId) {
        while let Some(message) = self.endpoint.read(id) {
            self.received.push((message.stream.0, message.payload));
        }
    }

    /// The events of any association, without ids.
    pub(crate) fn heard(&self) -> Vec<&Event> {
        self.events.iter().map(|(_, event)| event).collect()
    }
}
