//! Two endpoints and what lies between them: time, paths, and a network that does what the bytes of an
//! input say. The fuzz targets `association` and `hostile_peer` use this file as well.

use bytes::Bytes;
use manypath_engine::{
    AssociationId, Config, Duration, Ecn, Endpoint, Event, Instant, LocalAddress, Message,
    PacketBatch, PathAddr,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// More steps than this without the end of a pause mean that the endpoints talk in circles.
const MAX_STEPS: usize = 20_000;
/// How often timers may be handled before time passes.
const MOST_AT_ONCE: usize = 4;

/// Choices made by the bytes of an input. When they are used up, all numbers are 0.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl<'a> Choices<'a> {
    /// The next byte, while there is one.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// At most so many of the bytes that follow.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Arrives,
    Lost,
    Twice,
    /// So much later.
    Late(Duration),
    /// This byte is another one.
    Damaged(u8),
}

/// One end.
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) events: Vec<(AssociationId, Event)>,
    pub(crate) received: Vec<Message>,
    /// Whether messages are read as soon as they are there.
    pub(crate) reads: bool,
}

struct Flying {
    to: usize,
    path: PathAddr,
    bytes: Bytes,
}

/// Both ends, 0 and 1, and the packets between them.
pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) nodes: [Node; 2],
    /// What becomes of the next packets from each end; then all arrive.
    pub(crate) fates: [Vec<Fate>; 2],
    /// Whether paths work, by number.
    pub(crate) up: [bool; 2],
    /// The last packet that each end has sent.
    pub(crate) last: [Bytes; 2],
    /// Packets and bytes that each end has sent.
    pub(crate) sent: [(usize, usize); 2],
    flying: BTreeMap<(Instant, u64), Flying>,
    sequence: u64,
    batch: PacketBatch,
}

const DELAY: Duration = Duration::from_millis(10);

pub(crate) fn address(node: usize, path: usize) -> SocketAddr {
    SocketAddr::from(([10, path as u8, 0, 1 + node as u8], 9899))
}

/// An address of `node` as its host tells it.
pub(crate) fn local(node: usize, path: usize) -> LocalAddress {
    LocalAddress { addr: address(node, path), prefix_len: 24, interface: 0, mtu: 1500 }
}

/// From `node` to the other.
pub(crate) fn path(node: usize, path: usize) -> PathAddr {
    PathAddr { local: address(node, path), remote: address(1 - node, path) }
}

fn node(number: usize, paths: usize, config: Config) -> Node {
    let mut endpoint = Endpoint::new(config, [number as u8; 32]);
    (0..paths).for_each(|path| endpoint.add_local_address(local(number, path)));
    Node { endpoint, events: Vec::new(), received: Vec::new(), reads: true }
}

impl Network {
    pub(crate) fn new(paths: usize, [a, z]: [Config; 2]) -> Self {
        Self {
            now: Instant::ZERO,
            nodes: [node(0, paths, a), node(1, paths, z)],
            fates: [Vec::new(), Vec::new()],
            up: [true; 2],
            last: [Bytes::new(), Bytes::new()],
            sent: [(0, 0); 2],
            flying: BTreeMap::new(),
            sequence: 0,
            batch: PacketBatch::new(4),
        }
    }

    /// Lets time pass, until `done` if that comes first. Whether it did.
    pub(crate) fn drive(&mut self, time: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + time;
        for _ in 0..MAX_STEPS {
            self.drain();
            if done(self) {
                return true;
            }
            match self.next_event() {
                Some(at) if at <= end => self.advance(at),
                Some(_) | None => {
                    self.now = end;
                    return false;
                }
            }
        }
        unreachable!("no end after {MAX_STEPS} steps");
    }

    /// Takes over what the endpoints have to say.
    pub(crate) fn drain(&mut self) {
        for number in [0, 1] {
            self.nodes[number].listen();
            while self.transmit(number) {}
            self.nodes[number].listen();
        }
    }

    fn transmit(&mut self, number: usize) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        let transmit = self.nodes[number].endpoint.poll_transmit(self.now, &mut batch);
        if let Some(run) = transmit {
            let packets = batch.bytes().chunks(run.segment_size);
            assert_eq!(packets.len(), run.packets);
            for packet in packets {
                self.launch(number, run.path, Bytes::copy_from_slice(packet));
            }
        }
        self.batch = batch;
        transmit.is_some()
    }

    fn launch(&mut self, from: usize, addr: PathAddr, bytes: Bytes) {
        self.sent[from].0 += 1;
        self.sent[from].1 += bytes.len();
        self.last[from] = bytes.clone();
        let fate = self.fates[from].pop().unwrap_or(Fate::Arrives);
        let path = PathAddr { local: addr.remote, remote: addr.local };
        let SocketAddr::V4(remote) = addr.remote else { return };
        let number = usize::from(remote.ip().octets()[1]);
        if !self.up.get(number).is_some_and(|up| *up) {
            return;
        }
        let at = self.now + DELAY;
        let mut arrive = |at, bytes| {
            self.sequence += 1;
            self.flying.insert((at, self.sequence), Flying { to: 1 - from, path, bytes });
        };
        match fate {
            Fate::Arrives => arrive(at, bytes),
            Fate::Lost => {}
            Fate::Twice => {
                arrive(at, bytes.clone());
                arrive(at, bytes);
            }
            Fate::Late(later) => arrive(at + later, bytes),
            Fate::Damaged(which) => {
                let mut damaged = bytes.to_vec();
                let at_byte = usize::from(which) % damaged.len();
                damaged[at_byte] ^= 1 << (which % 8);
                arrive(at, damaged.into());
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let timers = self.nodes.iter().filter_map(|node| node.endpoint.poll_timeout());
        timers.chain(arrival).min()
    }

    fn advance(&mut self, at: Instant) {
        self.now = self.now.max(at);
        let now = self.now;
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= now) {
            let Flying { to, path, bytes } = entry.remove();
            // A queue that marks one packet in eight, whatever it says of itself.
            let ecn =
                if bytes.get(8).is_some_and(|crc| crc & 7 == 0) { Ecn::Ce } else { Ecn::Ect0 };
            self.nodes[to].endpoint.handle_marked_packet(now, path, &mut bytes.to_vec(), ecn);
        }
        let is_due = |node: &Node| node.endpoint.poll_timeout().is_some_and(|at| at <= now);
        // What leaves may make another timer due at once, but not again and again.
        for _ in 0..MOST_AT_ONCE {
            self.nodes.iter_mut().for_each(|node| node.endpoint.handle_timeout(now));
            self.drain();
            if !self.nodes.iter().any(is_due) {
                break;
            }
        }
        assert!(!self.nodes.iter().any(is_due), "a timer does not let time pass");
    }
}

impl Node {
    fn listen(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            if event == Event::Readable && self.reads {
                self.read_all(id);
            }
            self.events.push((id, event));
        }
    }

    pub(crate) fn read_all(&mut self, id: AssociationId) {
        while let Some(message) = self.endpoint.read(id) {
            self.received.push(message);
        }
    }

    /// Reads what was not read while it should not be.
    pub(crate) fn resume(&mut self) {
        self.reads = true;
        let ended = self.events.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        for id in self.endpoint.associations().into_iter().chain(ended) {
            self.read_all(id);
        }
    }
}
