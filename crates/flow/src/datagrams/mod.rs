//! Datagrams of one association: flows without order, without credit, and without a second try once
//! their time is over (RFC 3758).
//!
//! ```text
//! open, accept, close, unreachable, send    user -> here
//! handle_control, handle_datagram           mux -> here
//! poll_control, poll_datagram               here -> association   (Endpoint::send, send_with)
//! poll_event                                here -> user
//! ```
//!
//! A flow stands for one socket that sends to one address. Every datagram is one message; its first
//! four bytes name the flow. What an association cannot take waits here, a bounded number per flow,
//! of which the oldest are dropped first.

mod early;
mod incoming;
mod queue;
mod status;
#[cfg(test)]
mod tests;

pub use status::{DatagramCounters, DatagramFlowStatus};

use crate::event::Refusal;
use crate::message::{Body, Control, DatagramBody, DatagramOpen, SeenAt};
use crate::{PPID_CONTROL, PPID_DATAGRAM_OF_ACCEPTOR, PPID_DATAGRAM_OF_OPENER};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;
use early::Early;
use manypath_engine::{Outgoing, StreamId};
use queue::Queue;

/// Streams that carry datagrams, the last ones of the association: flows of much keep their distance
/// from those of little.
pub const DATAGRAM_STREAMS: u16 = 16;
/// How many of them, the last ones, carry what is sent over every path.
pub const REDUNDANT_STREAMS: u16 = 4;
/// The longest payload of a UDP datagram over IPv4, in bytes.
pub const MAX_DATAGRAM: usize = 65_507;
/// Most flows opened here, and most flows opened by the peer, at a time.
const MAX_FLOWS: usize = 1024;
/// Bytes in front of a datagram: the number of its flow.
const HEADER: usize = 4;

/// Names a flow of datagrams of one association. Never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DatagramFlow {
    /// Whether it was opened here.
    pub opened_here: bool,
    /// Its number among those of its opener.
    pub number: u32,
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DatagramEvent {
    /// The peer asks for a flow. Answer with `accept` or `close`; datagrams may come before.
    Incoming {
        /// The new flow.
        flow: DatagramFlow,
        /// Where the peer's program sends to.
        destination: SocketAddr,
        /// The address of the peer's program.
        source: SocketAddr,
    },
    /// The same for a destination beyond this side.
    IncomingBeyond {
        /// The new flow.
        flow: DatagramFlow,
        /// Where the peer's program sends to.
        destination: SocketAddr,
    },
    /// The peer has accepted the flow.
    Accepted(DatagramFlow),
    /// A datagram has come.
    Received(DatagramFlow, Bytes),
    /// A datagram did not reach the destination's program, says its host: a Linux error number.
    Unreachable(DatagramFlow, u16),
    /// Where the peer, a relay that joins the flow with another one, sees the far end of that.
    SeenAt(DatagramFlow, SeenAt),
    /// The peer has ended the flow, or does not want it.
    Closed(DatagramFlow, Option<Refusal>),
}

/// Why a datagram, or a flow, was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramError {
    /// The peer does not carry datagrams.
    NotAgreed,
    /// Too many flows.
    TooMany,
    /// There is no such flow (any more).
    UnknownFlow,
    /// Longer than [`MAX_DATAGRAM`].
    TooLong,
}

#[derive(Debug)]
struct Flow {
    destination: SocketAddr,
    source: SocketAddr,
    lifetime: Duration,
    redundant: bool,
    accepted: bool,
    queue: Queue,
    sent: u64,
    sent_bytes: u64,
    expired: u64,
    received: u64,
    received_bytes: u64,
}

/// The datagrams of one association, sans-IO. Like the mux it ends with its association.
#[derive(Debug, Default)]
pub struct Datagrams {
    /// The first of the streams that carry them; none while nothing is agreed.
    first_stream: Option<u16>,
    flows: BTreeMap<DatagramFlow, Flow>,
    last_number: u32,
    /// The latest flow of the peer on each stream.
    latest: BTreeMap<u16, u32>,
    early: Early,
    control: VecDeque<Outgoing>,
    /// Flows with datagrams to send, in turn.
    turns: VecDeque<DatagramFlow>,
    events: VecDeque<DatagramEvent>,
    counters: DatagramCounters,
}

impl Datagrams {
    /// Both sides carry datagrams, on [`DATAGRAM_STREAMS`] streams from `first_stream` on.
    pub fn agree(&mut self, first_stream: u16) {
        self.first_stream = Some(first_stream);
    }

    /// Whether both sides carry datagrams.
    pub const fn are_agreed(&self) -> bool {
        self.first_stream.is_some()
    }

    /// Asks the peer for a flow. Datagrams may be sent at once.
    pub fn open(
        &mut self,
        destination: SocketAddr,
        source: SocketAddr,
        lifetime: Duration,
    ) -> Result<DatagramFlow, DatagramError> {
        self.open_as(DatagramBody::Open, destination, source, lifetime)
    }

    /// The same for a destination beyond the peer, which has said that it relays.
    pub fn open_beyond(
        &mut self,
        destination: SocketAddr,
        source: SocketAddr,
        lifetime: Duration,
    ) -> Result<DatagramFlow, DatagramError> {
        self.open_as(DatagramBody::OpenBeyond, destination, source, lifetime)
    }

    fn open_as(
        &mut self,
        body: fn(DatagramOpen) -> DatagramBody,
        destination: SocketAddr,
        source: SocketAddr,
        lifetime: Duration,
    ) -> Result<DatagramFlow, DatagramError> {
        if !self.are_agreed() {
            return Err(DatagramError::NotAgreed);
        }
        let ours = self.flows.keys().filter(|flow| flow.opened_here).count();
        if ours >= MAX_FLOWS || self.last_number == u32::MAX {
            return Err(DatagramError::TooMany);
        }
        self.last_number += 1;
        self.counters.opened += 1;
        let flow = DatagramFlow { opened_here: true, number: self.last_number };
        let lifetime_ms = u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX);
        self.flows.insert(flow, Flow::new(destination, source, lifetime));
        self.tell(flow, body(DatagramOpen { lifetime_ms, destination, source }));
        Ok(flow)
    }

    /// Accepts a flow of the peer.
    pub fn accept(&mut self, flow: DatagramFlow) {
        if let Some(known) = self.flows.get_mut(&flow) {
            known.accepted = true;
            self.counters.accepted += 1;
            self.tell(flow, DatagramBody::Accept);
        }
    }

    /// Ends a flow, or refuses it. No events of it follow.
    pub fn close(&mut self, flow: DatagramFlow, why: Option<Refusal>) {
        if self.forget(flow).is_some() {
            self.counters.refused += u64::from(why.is_some());
            self.tell(flow, DatagramBody::Close(why));
        }
    }

    /// Tells the peer that the destination of its flow has answered with an error.
    pub fn unreachable(&mut self, flow: DatagramFlow, errno: u16) {
        if self.flows.contains_key(&flow) {
            self.tell(flow, DatagramBody::Unreachable(errno));
        }
    }

    /// Tells the peer where this side sees the far end of the flow that it joins with this one.
    pub fn tell_seen(&mut self, flow: DatagramFlow, seen: SeenAt) {
        if self.flows.contains_key(&flow) {
            self.tell(flow, DatagramBody::SeenAt(seen));
        }
    }

    /// From now on datagrams of the flow sent here are given up after this time.
    pub fn set_lifetime(&mut self, flow: DatagramFlow, lifetime: Duration) {
        if let Some(known) = self.flows.get_mut(&flow) {
            known.lifetime = lifetime;
        }
    }

    /// From now on datagrams of the flow sent here go over every path that may carry data, or not.
    pub fn set_redundant(&mut self, flow: DatagramFlow, redundant: bool) {
        if let Some(known) = self.flows.get_mut(&flow) {
            known.redundant = redundant;
        }
    }

    /// Takes a datagram, which is worth something for the flow's lifetime from `now` on.
    pub fn send(
        &mut self,
        now: Duration,
        flow: DatagramFlow,
        payload: &[u8],
    ) -> Result<(), DatagramError> {
        if payload.len() > MAX_DATAGRAM {
            return Err(DatagramError::TooLong);
        }
        let known = self.flows.get_mut(&flow).ok_or(DatagramError::UnknownFlow)?;
        let was_empty = known.queue.is_empty();
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend_from_slice(&flow.number.to_be_bytes());
        message.extend_from_slice(payload);
        let until = now.saturating_add(known.lifetime);
        self.counters.dropped_for_newer += known.queue.push(until, message.into());
        if was_empty {
            self.turns.push_back(flow);
        }
        Ok(())
    }

    /// The next message about a flow, to be sent reliably and before any datagram.
    pub fn poll_control(&mut self) -> Option<Outgoing> {
        self.control.pop_front()
    }

    /// The next datagram and how long it is still worth something. Flows take turns.
    pub fn poll_datagram(&mut self, now: Duration) -> Option<(Outgoing, Duration)> {
        while let Some(id) = self.turns.pop_front() {
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            let expired = flow.queue.drop_expired(now);
            flow.expired += expired;
            self.counters.expired += expired;
            let Some((until, payload)) = flow.queue.pop() else { continue };
            flow.sent += 1;
            flow.sent_bytes += (payload.len() - HEADER) as u64;
            self.counters.sent += 1;
            let redundant = flow.redundant;
            if !flow.queue.is_empty() {
                self.turns.push_back(id);
            }
            let Some(stream) = self.stream_of_datagrams(id, redundant) else { continue };
            let ppid =
                if id.opened_here { PPID_DATAGRAM_OF_OPENER } else { PPID_DATAGRAM_OF_ACCEPTOR };
            let message = Outgoing { stream, ppid, unordered: true, payload };
            return Some((message, until.saturating_sub(now)));
        }
        None
    }

    /// The association has given up a message because its time was over. False if it is not one of
    /// these.
    pub fn on_given_up(&mut self, message: &Outgoing) -> bool {
        let opened_here = match message.ppid {
            PPID_DATAGRAM_OF_OPENER => true,
            PPID_DATAGRAM_OF_ACCEPTOR => false,
            _ => return false,
        };
        self.counters.expired += 1;
        // Of a long one that was given up half sent the begin may be missing.
        let number = message.payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let flow = number.map(|number| DatagramFlow { opened_here, number });
        if let Some(flow) = flow.and_then(|flow| self.flows.get_mut(&flow)) {
            flow.expired += 1;
        }
        true
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<DatagramEvent> {
        self.events.pop_front()
    }

    /// Whether anything waits to be sent.
    pub fn has_messages(&self) -> bool {
        !self.control.is_empty() || !self.turns.is_empty()
    }

    /// A snapshot of one flow.
    pub fn status(&self, flow: DatagramFlow) -> Option<DatagramFlowStatus> {
        self.flows.get(&flow).map(|known| known.status(flow))
    }

    /// What happened so far.
    pub const fn counters(&self) -> &DatagramCounters {
        &self.counters
    }

    fn forget(&mut self, flow: DatagramFlow) -> Option<Flow> {
        let gone = self.flows.remove(&flow)?;
        self.counters.dropped_at_end += gone.queue.len() as u64;
        Some(gone)
    }

    fn tell(&mut self, flow: DatagramFlow, body: DatagramBody) {
        let Some(stream) = self.stream_of(flow) else { return };
        let (from_opener, generation) = (flow.opened_here, flow.number);
        let body = Body::Datagram(body);
        let unordered = !body.is_ordered();
        let payload = Control { from_opener, generation, body }.encode();
        self.control.push_back(Outgoing { stream, ppid: PPID_CONTROL, unordered, payload });
    }

    /// The stream of what is said about a flow.
    fn stream_of(&self, flow: DatagramFlow) -> Option<StreamId> {
        let offset = flow.number % u32::from(DATAGRAM_STREAMS);
        Some(StreamId(self.first_stream? + u16::try_from(offset).unwrap_or_default()))
    }

    /// The stream of a flow's datagrams: how a stream is sent is the same for all that it carries.
    fn stream_of_datagrams(&self, flow: DatagramFlow, redundant: bool) -> Option<StreamId> {
        let plain = DATAGRAM_STREAMS - REDUNDANT_STREAMS;
        let (begin, count) = if redundant { (plain, REDUNDANT_STREAMS) } else { (0, plain) };
        let offset = u16::try_from(flow.number % u32::from(count)).unwrap_or_default();
        Some(StreamId(self.first_stream? + begin + offset))
    }
}

impl Flow {
    fn new(destination: SocketAddr, source: SocketAddr, lifetime: Duration) -> Self {
        Self {
            destination,
            source,
            lifetime,
            redundant: false,
            accepted: false,
            queue: Queue::default(),
            sent: 0,
            sent_bytes: 0,
            expired: 0,
            received: 0,
            received_bytes: 0,
        }
    }
}
