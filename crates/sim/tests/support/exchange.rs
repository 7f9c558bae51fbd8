//! Messages in both directions, and the reference model of what must come out: on every stream the
//! ordered messages in their order, the unordered ones in any, each exactly once. Of messages with
//! partial reliability those may be missing that their sender has said to have given up.

use manypath_engine::{
    AssociationId, CloseReason, Duration, Event, Message, Outgoing, Ppid, Reliability, SendError,
    StreamId,
};
use manypath_sim::world::HostId;
use manypath_sim::{Rng, World};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Payload protocol identifiers from here on are nobody's, and are not dissected further by tshark.
const UNASSIGNED_PPIDS: u32 = 0x4D50_0000;

/// What one side sends and what it must get.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) host: HostId,
    pub(crate) association: Option<AssociationId>,
    to_send: VecDeque<Outgoing>,
    ordered: BTreeMap<u16, VecDeque<Outgoing>>,
    unordered: Vec<Outgoing>,
    /// Chooses how reliable each message is; without it all are.
    policies: Option<Rng>,
    /// Payload protocol identifiers, which are unique, of what was given up, and whether a part of it
    /// had been sent.
    pub(crate) given_up: BTreeMap<u32, bool>,
    /// Those of ordered messages that later ones of their stream have passed.
    passed: Vec<u32>,
    /// Those of all messages that were delivered.
    delivered: BTreeSet<u32>,
    pub(crate) received: u64,
    /// Addresses of the peer that have come or gone.
    pub(crate) changes: u64,
    pub(crate) closed: Option<CloseReason>,
}

impl Side {
    pub(crate) fn new(host: HostId) -> Self {
        Self {
            host,
            association: None,
            to_send: VecDeque::new(),
            ordered: BTreeMap::new(),
            unordered: Vec::new(),
            policies: None,
            given_up: BTreeMap::new(),
            passed: Vec::new(),
            delivered: BTreeSet::new(),
            received: 0,
            changes: 0,
            closed: None,
        }
    }

    /// Will send these messages.
    pub(crate) fn will_send(&mut self, messages: &[Outgoing]) {
        self.to_send.extend(messages.iter().cloned());
    }

    /// Takes no trouble over some of its messages.
    pub(crate) fn is_partially_reliable(&mut self, rng: Rng) {
        self.policies = Some(rng);
    }

    /// Must get these messages.
    pub(crate) fn must_get(&mut self, messages: &[Outgoing]) {
        for message in messages {
            if message.unordered {
                self.unordered.push(message.clone());
            } else {
                self.ordered.entry(message.stream.0).or_default().push_back(message.clone());
            }
        }
    }

    pub(crate) fn has_got_everything(&self) -> bool {
        self.has_got_all_but(&BTreeMap::new())
    }

    /// Whether nothing is missing that was not given up by its sender.
    pub(crate) fn has_got_all_but(&self, given_up: &BTreeMap<u32, bool>) -> bool {
        let mut missing = self.unordered.iter().chain(self.ordered.values().flatten());
        let passed = self.passed.iter().all(|ppid| given_up.contains_key(ppid));
        passed && missing.all(|message| given_up.contains_key(&message.ppid.0))
    }

    /// What was given up before any part of it was sent cannot have been delivered.
    pub(crate) fn check_given_up(&self, given_up: &BTreeMap<u32, bool>) {
        for (ppid, sent) in given_up {
            assert!(*sent || !self.delivered.contains(ppid), "message {ppid} was never sent");
        }
    }

    pub(crate) fn has_sent_everything(&self) -> bool {
        self.to_send.is_empty()
    }

    /// Messages that are still missing.
    pub(crate) fn missing(&self) -> usize {
        self.unordered.len() + self.ordered.values().map(VecDeque::len).sum::<usize>()
    }

    /// Looks at the events, sends what there is room for and, if `read`, takes what has come.
    pub(crate) fn step(&mut self, world: &mut World, read: bool) {
        while let Some((id, event)) = world.endpoint(self.host).poll_event() {
            self.handle(id, event);
        }
        let Some(id) = self.association else { return };
        self.send(world, id);
        while read && let Some(message) = world.endpoint(self.host).read(id) {
            self.check(&message);
        }
    }

    fn handle(&mut self, id: AssociationId, event: Event) {
        if let Event::Connected { .. } = event {
            self.association.get_or_insert(id);
        }
        if self.association != Some(id) {
            return;
        }
        match event {
            Event::Closed(reason) => self.closed = Some(reason),
            Event::PeerAddress { .. } => self.changes += 1,
            Event::Restarted => panic!("nobody has restarted"),
            Event::SendFailed { message, sent, .. } => {
                assert!(self.policies.is_some(), "a reliable message was given up");
                let before = self.given_up.insert(message.ppid.0, sent);
                assert_eq!(before, None, "a message was given up twice");
            }
            Event::Connected { .. }
            | Event::Readable
            | Event::Writable
            | Event::PathChanged { .. }
            | Event::PartialDeliveryAborted(_)
            | Event::Undelivered { .. }
            | Event::PeerError { .. }
            | Event::StreamsReset { .. }
            | Event::AssociationReset { .. }
            | Event::StreamsAdded { .. }
            | Event::Authentication { .. }
            | Event::KeysWanted
            | Event::RekeyDue
            | Event::PeerDoubted
            | Event::SenderDry
            | Event::LocalAddress { .. }
            | Event::PathPolicy { .. }
            | Event::PeerShutdown => {}
        }
    }

    fn send(&mut self, world: &mut World, id: AssociationId) {
        let now = world.now();
        while let Some(message) = self.to_send.front() {
            let reliability = self.policies.as_mut().map_or(Reliability::Reliable, random_policy);
            match world.endpoint(self.host).send_with(now, id, message.clone(), reliability) {
                Ok(()) => drop(self.to_send.pop_front()),
                Err(SendError::BufferFull) => return,
                Err(error) => panic!("cannot send: {error:?}, closed: {:?}", self.closed),
            }
        }
    }

    fn check(&mut self, got: &Message) {
        self.received += got.payload.len() as u64;
        let same = |sent: &Outgoing| {
            (sent.stream, sent.ppid, sent.unordered) == (got.stream, got.ppid, got.unordered)
                && sent.payload == got.payload
        };
        if got.unordered {
            let found = self.unordered.iter().position(same);
            let found = found.unwrap_or_else(|| panic!("never sent, or twice: {}", shown(got)));
            self.unordered.swap_remove(found);
            self.delivered.insert(got.ppid.0);
            return;
        }
        let queue = self.ordered.entry(got.stream.0).or_default();
        let at = queue.iter().position(same);
        let at = at.unwrap_or_else(|| panic!("not of its stream, or passed: {}", shown(got)));
        assert!(at == 0 || self.policies.is_some(), "not the next of its stream: {}", shown(got));
        self.passed.extend(queue.drain(..at).map(|message| message.ppid.0));
        queue.pop_front();
        self.delivered.insert(got.ppid.0);
    }
}

fn random_policy(rng: &mut Rng) -> Reliability {
    match rng.below(6) {
        0 => Reliability::Lifetime(Duration::from_millis(rng.below(400))),
        1 => Reliability::Retransmissions(rng.below(3) as u32),
        2 => Reliability::Priority(rng.below(4) as u32),
        _ => Reliability::Reliable,
    }
}

fn shown(message: &Message) -> String {
    let Message { stream, ppid, unordered, payload, .. } = message;
    format!("{stream:?} {ppid:?} unordered {unordered} of {} bytes", payload.len())
}

/// Messages of random size and kind on `streams` streams, `bytes` of payload in all.
pub(crate) fn random_messages(
    rng: &mut Rng,
    streams: u16,
    bytes: usize,
    largest: usize,
) -> Vec<Outgoing> {
    let mut messages = Vec::new();
    let mut left = bytes;
    while left > 0 {
        // Small ones are as common as large ones: the size is random on a logarithmic scale.
        let most = largest >> rng.below(u64::from(largest.max(2).ilog2()));
        let len = (1 + rng.below(most as u64) as usize).min(left);
        let stream = StreamId(rng.below(u64::from(streams)) as u16);
        messages.push(Outgoing {
            stream,
            ppid: Ppid(UNASSIGNED_PPIDS + messages.len() as u32),
            unordered: rng.ppm(300_000),
            payload: random_bytes(rng, len).into(),
        });
        left -= len;
    }
    messages
}

pub(crate) fn random_bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
