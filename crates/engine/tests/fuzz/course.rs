//! An association between two truthful endpoints over a network that loses, repeats, delays and damages
//! packets: every message arrives once, whole and in the order of its stream, or is reported as given
//! up, or the association ends at both ends with a reason. What the fuzz target `association` checks.

use crate::network::{Choices, Fate, Network};
use crate::protection::{self, Protection};
use bytes::Bytes;
use manypath_engine::{
    AssociationId, CloseReason, Config, Duration, EcnUse, Event, Experiment, Message, NrSack,
    Outgoing, Ppid, Reliability, SendError, StreamDirection, StreamId,
};
use std::collections::{BTreeMap, VecDeque};

const PORTS: [u16; 2] = [5001, 5002];
const STREAMS: u16 = 4;
/// The smallest receive buffer.
const RECEIVE_BUFFER: u32 = 8000;

/// A message that was accepted.
struct Sent {
    number: u32,
    len: usize,
    /// It may be given up.
    perishable: bool,
}

/// One direction.
#[derive(Default)]
struct Direction {
    next: u32,
    ordered: BTreeMap<u16, VecDeque<Sent>>,
    unordered: BTreeMap<u32, Sent>,
    /// What has arrived of messages that are not complete, by their first TSNs.
    parts: BTreeMap<u32, Vec<u8>>,
}

struct Course {
    network: Network,
    ids: [Option<AssociationId>; 2],
    /// What the end of this number has sent.
    directions: [Direction; 2],
    /// The largest message.
    largest: usize,
    /// Addresses may come and go.
    movable: bool,
    /// Packets are protected.
    protection: Protection,
    aborted: bool,
    shut_down: bool,
}

/// Runs the course that the bytes describe.
pub(crate) fn check(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let mut course = Course::new(&mut choices);
    while let Some(what) = choices.next() {
        course.step(what, &mut choices);
        course.compare();
    }
    course.finish();
}

fn config(node: usize, options: u8, size: u8) -> Config {
    let bit = |bit: u8| options & 1 << bit != 0;
    Config {
        port: PORTS[node],
        accept: node == 1,
        streams: STREAMS,
        multipath: bit(0),
        ecn: EcnUse::On,
        interleaving: bit(1),
        partial_reliability: bit(2),
        reconfiguration: bit(3),
        accept_stream_resets: bit(3),
        accept_association_resets: bit(3),
        accept_added_streams: bit(3),
        max_streams: 2 * STREAMS,
        nr_sack: if bit(4) { NrSack::Case2 } else { NrSack::Off },
        receive_buffer: RECEIVE_BUFFER << (size & 7),
        send_buffer: 6000 << (size >> 3 & 7),
        partial_delivery_point: if size & 0x40 == 0 { u32::MAX } else { 700 },
        authentication: bit(7),
        address_reconfiguration: bit(7),
        // Long losses end an association: it is to be seen that both ends learn of it.
        association_max_retransmits: if bit(6) { 2 } else { 50 },
        experiment: Experiment { delayed_ack_cmt: bit(5), ..Experiment::default() },
        ..Config::default()
    }
}

impl Course {
    fn new(choices: &mut Choices<'_>) -> Self {
        let (paths, sizes) = (choices.byte(), choices.byte());
        let mut configs = [0, 1].map(|node| config(node, choices.byte(), sizes));
        let protection = Protection::new(paths & 2 != 0, paths & 4 != 0);
        if protection.is_wanted() {
            configs.iter_mut().for_each(|it| it.key_management = Some(protection::offer()));
        }
        let movable = configs.iter().all(|config| config.address_reconfiguration);
        let mut network = Network::new(1 + usize::from(paths & 1), configs);
        let (now, remote) = (network.now, crate::network::address(1, 0));
        let id = network.nodes[0].endpoint.connect(now, remote, PORTS[1]).ok();
        Self {
            network,
            ids: [id, None],
            directions: [Direction::default(), Direction::default()],
            // One that fits, or one that must be delivered in parts.
            largest: (RECEIVE_BUFFER << (sizes & 7)) as usize * if sizes < 0x80 { 1 } else { 16 }
                / 8,
            movable,
            protection,
            aborted: false,
            shut_down: false,
        }
    }

    fn step(&mut self, what: u8, choices: &mut Choices<'_>) {
        let node = usize::from(what >> 4 & 1);
        match what & 0x0F {
            0..=4 => self.send(node, choices),
            5 | 6 => self.pass(Duration::from_millis(choices.byte().into())),
            7 => self.pass(Duration::from_millis(100 * u64::from(choices.byte()))),
            8 | 9 => self.fate(node, choices),
            10 => self.network.up[node] = !self.network.up[node],
            11 => self.network.nodes[node].reads = false,
            12 => self.network.nodes[node].resume(),
            13 => self.reconfigure(node, choices.byte()),
            14 if choices.byte() == 14 => self.end(node, what),
            _ => self.pass(Duration::from_millis(1)),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.network.drive(time, |_| false);
        self.learn();
        self.protection.begin(&mut self.network, self.ids);
    }

    /// The end that was connected to learns its association, which may be over already.
    fn learn(&mut self) {
        let node = &self.network.nodes[1];
        let told = node.events.first().map(|(id, _)| *id);
        let lives = || node.endpoint.associations().first().copied();
        self.ids[1] = self.ids[1].or(told).or_else(lives);
    }

    fn fate(&mut self, node: usize, choices: &mut Choices<'_>) {
        let (count, kind) = (choices.byte(), choices.byte());
        let fate = match kind % 8 {
            0..=2 => Fate::Lost,
            3 => Fate::Twice,
            4 | 5 => Fate::Late(Duration::from_millis(u64::from(kind) * 2)),
            6 => Fate::Damaged(choices.byte()),
            _ => Fate::Arrives,
        };
        let fates = &mut self.network.fates[node];
        fates.extend(std::iter::repeat_n(fate, usize::from(count % 16)));
    }

    fn send(&mut self, node: usize, choices: &mut Choices<'_>) {
        let Some(id) = self.ids[node] else { return };
        let (labels, size) = (choices.byte(), choices.byte());
        let stream = u16::from(labels & 3);
        let unordered = labels & 4 != 0;
        let len = match size & 3 {
            0 => 8 + usize::from(size >> 2),
            1 => 8 + 64 * usize::from(size >> 2),
            2 => 8 + 300 * usize::from(size >> 2),
            _ => 8 + 2000 * usize::from(size >> 2),
        };
        let len = len.min(self.largest);
        let reliability = match labels >> 4 {
            1 => Reliability::Lifetime(Duration::from_millis(u64::from(size) * 4)),
            2 => Reliability::Retransmissions(u32::from(size & 3)),
            3 => Reliability::Priority(size.into()),
            _ => Reliability::Reliable,
        };
        let direction = &mut self.directions[node];
        let number = direction.next;
        let message = Outgoing {
            stream: StreamId(stream),
            ppid: Ppid(number),
            unordered,
            payload: payload(number, len),
        };
        let endpoint = &mut self.network.nodes[node].endpoint;
        let sent = endpoint.send_with(self.network.now, id, message, reliability);
        if sent.is_err() {
            assert_ne!(sent, Err(SendError::Empty));
            return;
        }
        direction.next += 1;
        let sent = Sent { number, len, perishable: reliability != Reliability::Reliable };
        if unordered {
            direction.unordered.insert(number, sent);
        } else {
            direction.ordered.entry(stream).or_default().push_back(sent);
        }
    }

    fn reconfigure(&mut self, node: usize, kind: u8) {
        if kind & 0x40 != 0 {
            self.protection.rekey(&mut self.network, self.ids);
        }
        if kind & 8 != 0 {
            return self.change_address(node, kind);
        }
        let Some(id) = self.ids[node] else { return };
        let now = self.network.now;
        let endpoint = &mut self.network.nodes[node].endpoint;
        let stream = [StreamId(u16::from(kind >> 4 & 3))];
        let streams = if kind & 0x80 == 0 { &stream[..] } else { &[] };
        // What is refused changes nothing.
        let _refused = match kind & 7 {
            0..=2 => endpoint.reset_streams(now, id, &[StreamDirection::Outgoing], streams),
            3 => endpoint.reset_streams(now, id, &[StreamDirection::Incoming], streams),
            4 => endpoint.add_streams(now, id, 1, 0),
            5 => endpoint.add_streams(now, id, 0, 1),
            _ => endpoint.reset_association(now, id),
        };
    }

    /// Addresses come, go or are preferred. Only those of the end that connects move: when both do at
    /// once, neither can tell the other.
    fn change_address(&mut self, node: usize, kind: u8) {
        let (true, [Some(a), Some(z)]) = (self.movable, self.ids) else { return };
        let (now, path) = (self.network.now, usize::from(kind >> 4 & 1));
        let ip = |node, path| crate::network::address(node, path).ip();
        let chosen = &mut self.network.nodes[node].endpoint;
        // What is refused changes nothing.
        let _refused = match kind & 7 {
            0 => chosen.request_peer_primary(now, [a, z][node], ip(node, path)).is_err(),
            1 => !chosen.set_primary(now, [a, z][node], ip(1 - node, path)),
            _ => false,
        };
        let (local, moving) = (crate::network::local(0, path), &mut self.network.nodes[0].endpoint);
        let _refused = match kind & 7 {
            2 => moving.add_address(now, a, ip(0, path)).is_err(),
            3 => moving.remove_address(now, a, ip(0, path)).is_err(),
            _ => false,
        };
        // With 6 and 7, an only address becomes another one.
        if matches!(kind & 7, 4 | 6 | 7) {
            moving.announce_local_address(now, local);
        }
        if matches!(kind & 7, 5..=7) {
            moving.remove_local_address(now, ip(0, if kind & 7 == 5 { path } else { 1 - path }));
        }
    }

    fn end(&mut self, node: usize, what: u8) {
        let Some(id) = self.ids[node] else { return };
        let (now, endpoint) = (self.network.now, &mut self.network.nodes[node].endpoint);
        if what & 0x80 == 0 {
            self.shut_down = true;
            endpoint.shutdown(now, id);
        } else {
            self.aborted = true;
            endpoint.abort(now, id, b"enough");
        }
    }

    /// What was received since the last time must be what was sent.
    fn compare(&mut self) {
        if self.is_revived() {
            return;
        }
        for node in [0, 1] {
            for message in std::mem::take(&mut self.network.nodes[node].received) {
                self.directions[1 - node].accept(message);
            }
            self.compare_aborted(node);
            let bad = self.network.nodes[node].events.iter().find(|(_, event)| match event {
                Event::Closed(CloseReason::ProtocolViolation(_)) => true,
                Event::Closed(CloseReason::PeerAborted(code)) => {
                    // Protocol Violation, No User Data.
                    matches!(code, Some(13 | 9))
                }
                _ => false,
            });
            assert!(bad.is_none(), "{bad:?}");
        }
    }

    /// Each message of which the rest does not come is told of once, and parts of it were read.
    fn compare_aborted(&mut self, node: usize) {
        let parts = &mut self.directions[1 - node].parts;
        self.network.nodes[node].events.retain(|(_, event)| match event {
            Event::PartialDeliveryAborted(message) => {
                assert!(parts.remove(&message.tsn.0).is_some(), "{message:?}");
                false
            }
            _ => true,
        });
    }

    /// The network recovers: everything arrives, or both ends learn that it does not.
    fn finish(mut self) {
        self.network.fates = [Vec::new(), Vec::new()];
        self.network.up = [true; 2];
        self.network.nodes.iter_mut().for_each(crate::network::Node::resume);
        if self.movable {
            let local = crate::network::local(0, 0);
            self.network.nodes[0].endpoint.announce_local_address(self.network.now, local);
        }
        self.settle();
        let alive = self.closed(0).is_none() && self.ids[1].is_some() && self.closed(1).is_none();
        if alive {
            assert!(self.directions.iter().all(Direction::is_done), "messages are missing");
            self.shut_down = true;
            let (now, id) = (self.network.now, self.ids[0].expect("it exists"));
            self.network.nodes[0].endpoint.shutdown(now, id);
            self.settle();
        }
        if self.is_revived() {
            return;
        }
        assert!(self.directions.iter().all(|it| it.parts.is_empty()), "parts without an end");
        let left = |node: &crate::network::Node| node.endpoint.associations().len();
        assert_eq!(self.network.nodes.iter().map(left).sum::<usize>(), 0, "no end");
        self.check_end();
    }

    /// Whether a copy of the COOKIE ECHO has come after the end that it belonged to, while its cookie
    /// was still good: RFC 9260 section 5.1.5 makes an association of it, with the tags of the old one,
    /// and the other end cannot tell the two apart.
    fn is_revived(&self) -> bool {
        let mut told = self.network.nodes[1].events.iter();
        self.ids[1].is_some() && told.any(|(id, _)| Some(*id) != self.ids[1])
    }

    /// Waits until all has arrived and nothing goes on, or until the association is over. An end that
    /// moved away before any address of its new path was confirmed believes no ABORT from there, and
    /// finds out by 51 timeouts of at most a minute.
    fn settle(&mut self) {
        for _ in 0..120 {
            self.pass(Duration::from_secs(30));
            self.compare();
            let over =
                self.network.nodes.iter().all(|node| node.endpoint.associations().is_empty());
            // An end that only one of them knows of is still to be noticed by the other.
            let lives = self.ids[1].is_some() && (0..2).all(|node| self.closed(node).is_none());
            let all = self.directions.iter().all(Direction::is_done);
            let done = lives && !self.shut_down && all;
            if over || done {
                return;
            }
        }
    }

    fn closed(&self, node: usize) -> Option<&CloseReason> {
        let mut events = self.network.nodes[node].events.iter();
        events.find_map(|(id, event)| match event {
            Event::Closed(reason) if Some(*id) == self.ids[node] => Some(reason),
            _ => None,
        })
    }

    /// An association that ends gracefully at both ends has delivered everything; otherwise there is a
    /// reason that explains it.
    fn check_end(&self) {
        let reasons = [self.closed(0), self.closed(1)];
        if reasons == [Some(&CloseReason::Graceful); 2] {
            // An abort after the end gives up what was not read.
            let all_read = self.directions.iter().all(Direction::is_done);
            assert!(all_read || self.aborted, "lost in a graceful end");
            return;
        }
        for reason in reasons.into_iter().flatten() {
            let explained = match reason {
                CloseReason::LocalAbort => self.aborted,
                CloseReason::Graceful => self.shut_down,
                CloseReason::PeerAborted(_)
                | CloseReason::TooManyFailures
                | CloseReason::NoAnswer => true,
                // Nothing else can happen between truthful ends, whatever the network does.
                _ => false,
            };
            assert!(explained, "{reasons:?}");
        }
    }
}

impl Direction {
    fn accept(&mut self, mut message: Message) {
        if message.more || self.parts.contains_key(&message.tsn.0) {
            let parts = self.parts.entry(message.tsn.0).or_default();
            parts.extend_from_slice(&message.payload);
            if message.more {
                return;
            }
            message.payload = self.parts.remove(&message.tsn.0).unwrap_or_default().into();
        }
        let number = message.ppid.0;
        let sent = if message.unordered {
            self.unordered.remove(&number)
        } else {
            self.next_ordered(message.stream.0, number)
        };
        let Some(sent) = sent else { unreachable!("{number} on {} twice?", message.stream.0) };
        assert_eq!(message.payload, payload(number, sent.len), "{number}");
    }

    /// Takes out the message with this number. Those before it must be ones that may be given up.
    fn next_ordered(&mut self, stream: u16, number: u32) -> Option<Sent> {
        let waiting = self.ordered.get_mut(&stream)?;
        loop {
            let sent = waiting.pop_front()?;
            if sent.number == number {
                return Some(sent);
            }
            assert!(sent.perishable, "{number} on {stream} came before {}", sent.number);
        }
    }

    /// Whether all that must arrive has.
    fn is_done(&self) -> bool {
        let ordered = self.ordered.values().flatten();
        ordered.chain(self.unordered.values()).all(|sent| sent.perishable)
    }
}

/// A message of `len` bytes that tells its number.
fn payload(number: u32, len: usize) -> Bytes {
    number.to_be_bytes().into_iter().cycle().take(len).collect()
}
