//! Messages in both directions, and the reference model of what must come out: on every stream the
//! ordered messages in their order, the unordered ones in any, each exactly once.

use manypath_engine::{
    AssociationId, CloseReason, Event, Message, Outgoing, Ppid, SendError, StreamId,
};
use manypath_sim::world::HostId;
use manypath_sim::{Rng, World};
use std::collections::{BTreeMap, VecDeque};

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
    pub(crate) received: u64,
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
            received: 0,
            closed: None,
        }
    }

    /// Will send these messages.
    pub(crate) fn will_send(&mut self, messages: &[Outgoing]) {
        self.to_send.extend(messages.iter().cloned());
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
        self.unordered.is_empty() && self.ordered.values().all(VecDeque::is_empty)
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
            Event::Restarted => panic!("nobody has restarted"),
            Event::Connected { .. }
            | Event::Readable
            | Event::Writable
            | Event::PathChanged { .. }
            | Event::SendFailed { .. }
            | Event::StreamsReset { .. }
            | Event::AssociationReset { .. }
            | Event::StreamsAdded { .. }
            | Event::Authentication { .. }
            | Event::LocalAddress { .. }
            | Event::PeerAddress { .. }
            | Event::PeerShutdown => {}
        }
    }

    fn send(&mut self, world: &mut World, id: AssociationId) {
        let now = world.now();
        while let Some(message) = self.to_send.front() {
            match world.endpoint(self.host).send(now, id, message.clone()) {
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
            return;
        }
        let next = self.ordered.get_mut(&got.stream.0).and_then(VecDeque::pop_front);
        assert!(next.as_ref().is_some_and(same), "not the next of its stream: {}", shown(got));
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
