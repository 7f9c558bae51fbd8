//! The direct form: one association carries one connection, as bytes in stream 0.
//!
//! It is what SCTP programs without manypath speak, so there are no control messages: the association
//! itself opens and ends the connection. Between two sides that both announced [`DIRECT_ADAPTATION`]
//! a message with [`PPID_END`] ends one direction before the other; towards other peers that cannot
//! be, because SHUTDOWN ends both. RFC 9260 section 1.5.1: "SCTP does not support a half-open state".
//!
//! Flow control is the association's: what is not read from it closes its receive window.

mod framing;
mod messages;
mod receive;
mod send;

use crate::event::FlowEvent;
use crate::id::FlowId;
use crate::status::{FlowCounters, FlowState, FlowStatus};
use alloc::collections::VecDeque;
use core::net::SocketAddr;
pub use framing::Framing;
use receive::Receive;
use send::Send;

#[cfg(doc)]
use crate::{DIRECT_ADAPTATION, PPID_END};

/// The name of the only flow.
const FLOW: FlowId = FlowId::SOLE;

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectPeer {
    /// A program that knows nothing of manypath: the end of one direction is the end of both.
    Native,
    /// Another manypath, with which each direction has an end of its own.
    Manypath,
}

/// What is to be done with the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectEnd {
    /// Nothing more is to be sent: SHUTDOWN.
    Shutdown,
    /// The connection was reset: ABORT.
    Abort,
    /// The bytes written are not of the protocol that they were said to be, for this reason: ABORT, when what was given
    /// before has been delivered.
    Malformed(&'static str),
}

/// How far the flow has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Our association is being set up.
    Opening,
    /// The peer's association is there; whether it is wanted is not decided.
    Incoming,
    Open,
    /// Both directions have ended in order, and everything was read.
    Closed,
    /// Reset or refused here.
    Reset,
}

/// The flow of an association in the direct form, sans-IO. Its calls are those of
/// [`FlowMux`](crate::FlowMux) as far as they make sense for one flow; those that the association's
/// events make are its own.
#[derive(Debug)]
pub struct DirectFlow {
    ours: bool,
    peer: DirectPeer,
    phase: Phase,
    destination: SocketAddr,
    source: SocketAddr,
    local: Option<SocketAddr>,
    send: Send,
    receive: Receive,
    events: VecDeque<FlowEvent>,
    /// Somebody reads. Before, nobody would hear of the end.
    has_reader: bool,
    /// The association is shutting down.
    ended: bool,
    closed: bool,
    framing: Framing,
    /// Streams towards the peer.
    streams: u16,
    /// What was wrong with the bytes written.
    fault: Option<&'static str>,
    counters: FlowCounters,
}

impl DirectFlow {
    /// A flow of ours whose association is being set up, and its name.
    pub fn opening(destination: SocketAddr, source: SocketAddr) -> (Self, FlowId) {
        let counters = FlowCounters { opened: 1, ..FlowCounters::default() };
        let flow = Self::new(true, Phase::Opening, (destination, source), counters);
        (flow, FLOW)
    }

    /// The flow of an association that the peer has set up. An `Incoming` event asks for the answer.
    pub fn incoming(destination: SocketAddr, source: SocketAddr, peer: DirectPeer) -> Self {
        let counters = FlowCounters { incoming: 1, ..FlowCounters::default() };
        let mut flow = Self::new(false, Phase::Incoming, (destination, source), counters);
        flow.peer = peer;
        flow.events.push_back(FlowEvent::Incoming { flow: FLOW, destination, source });
        flow
    }

    fn new(
        ours: bool,
        phase: Phase,
        (destination, source): (SocketAddr, SocketAddr),
        counters: FlowCounters,
    ) -> Self {
        Self {
            ours,
            peer: DirectPeer::Native,
            phase,
            destination,
            source,
            local: None,
            send: Send::default(),
            receive: Receive::default(),
            events: VecDeque::new(),
            has_reader: false,
            ended: false,
            closed: false,
            framing: Framing::Pieces,
            streams: 1,
            fault: None,
            counters,
        }
    }

    /// The same with messages of a protocol towards the peer.
    pub fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// The association has so many streams towards the peer.
    pub fn set_streams(&mut self, streams: u16) {
        self.streams = streams;
    }

    /// Streams towards the peer.
    pub const fn streams(&self) -> u16 {
        self.streams
    }

    /// Our association is established.
    pub fn established(&mut self, peer: DirectPeer) {
        if self.phase == Phase::Opening {
            (self.peer, self.phase) = (peer, Phase::Open);
            self.counters.accepted_by_peer += 1;
            self.events.push_back(FlowEvent::Opened { flow: FLOW, local: self.destination });
        }
    }

    /// Who is at the other end, as far as is known.
    pub const fn peer(&self) -> DirectPeer {
        self.peer
    }

    /// The peer's flow is wanted: it is connected, from `local` on this host.
    pub fn accept(&mut self, id: FlowId, local: SocketAddr) {
        if self.is(id) && self.phase == Phase::Incoming {
            (self.phase, self.local) = (Phase::Open, Some(local));
            self.counters.accepted += 1;
        }
    }

    /// The peer's flow is not wanted: its association is aborted.
    pub fn refuse(&mut self, id: FlowId) {
        if self.is(id) && self.phase == Phase::Incoming {
            self.counters.refused += 1;
            self.vanish();
        }
    }

    /// Ends both directions at once: the association is aborted.
    pub fn reset(&mut self, id: FlowId) {
        if self.is(id) {
            self.counters.resets += 1;
            self.vanish();
        }
    }

    fn vanish(&mut self) {
        self.phase = Phase::Reset;
        self.counters.unsent_bytes += self.send.clear() as u64;
        self.events.clear();
    }

    /// What is to be done with the association now that everything was taken by `poll_message`; said
    /// once.
    pub fn poll_end(&mut self) -> Option<DirectEnd> {
        let end = match self.phase {
            Phase::Reset => DirectEnd::Abort,
            Phase::Open | Phase::Closed if self.is_over_here() => {
                self.fault.map_or(DirectEnd::Shutdown, DirectEnd::Malformed)
            }
            Phase::Opening | Phase::Incoming | Phase::Open | Phase::Closed => return None,
        };
        (!core::mem::replace(&mut self.ended, true)).then_some(end)
    }

    /// What is wrong with the bytes written, if anything is: nothing more of them is taken.
    pub const fn fault(&self) -> Option<&'static str> {
        self.fault
    }

    /// Both sides may end an association; that which began it does, so that only one does.
    fn is_over_here(&self) -> bool {
        match self.peer {
            _ if self.fault.is_some() => true,
            DirectPeer::Native => self.send.is_ended(),
            DirectPeer::Manypath => self.ours && self.send.is_ended() && self.receive.has_end(),
        }
    }

    /// The next notification.
    pub fn poll_event(&mut self) -> Option<FlowEvent> {
        let event = self.events.pop_front()?;
        if event == FlowEvent::Closed(FLOW) {
            self.phase = Phase::Closed;
        }
        Some(event)
    }

    /// Whether `poll_event` has something to give.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What happened so far.
    pub const fn counters(&self) -> &FlowCounters {
        &self.counters
    }

    /// A snapshot of the flow.
    pub fn status(&self, id: FlowId) -> Option<FlowStatus> {
        if !self.is(id) {
            return None;
        }
        Some(FlowStatus {
            round_trip: None,
            waiting_there: 0,
            state: self.state(),
            stream: 0,
            generation: 1,
            opened_here: self.ours,
            destination: self.destination,
            source: self.source,
            local: self.local,
            bytes_out: self.send.sent(),
            bytes_in: self.receive.received(),
            queued: self.send.queued(),
            buffered: self.receive.unconsumed() as u64,
            send_credit: 0,
            receive_credit: self.receive.room() as u64,
            receive_window: 0,
            credit_stalls: 0,
            share: crate::Share::default(),
        })
    }

    fn state(&self) -> FlowState {
        match (self.phase, self.send.is_ending(), self.receive.has_end()) {
            (Phase::Opening, _, _) => FlowState::Opening,
            (Phase::Incoming, _, _) => FlowState::Incoming,
            (Phase::Closed | Phase::Reset, _, _) | (Phase::Open, true, true) => FlowState::Closing,
            (Phase::Open, true, false) => FlowState::HalfClosedLocal,
            (Phase::Open, false, true) => FlowState::HalfClosedRemote,
            (Phase::Open, false, false) => FlowState::Open,
        }
    }

    fn is(&self, id: FlowId) -> bool {
        id == FLOW && self.is_alive()
    }

    fn is_alive(&self) -> bool {
        !matches!(self.phase, Phase::Closed | Phase::Reset)
    }

    /// Tells the reader of the end once it has read everything, and reports a flow that is done.
    fn report_end(&mut self) {
        if !self.is_alive() || !self.has_reader {
            return;
        }
        if self.receive.should_finish() {
            self.events.push_back(FlowEvent::Finished(FLOW));
        }
        if self.receive.is_finished() && self.send.is_ended() && !self.closed {
            self.closed = true;
            self.events.push_back(FlowEvent::Closed(FLOW));
        }
    }
}
