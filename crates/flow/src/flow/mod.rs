//! One flow: its addresses, its phase and its two directions.

mod recv;
mod send;

pub(crate) use recv::Recv;
pub(crate) use send::{End, Invitation, Send};

use crate::lanes::{LaneKey, Opener};
use crate::message::{Beyond, Body, Control};
use crate::share::{Share, Turn};
use crate::status::{FlowState, FlowStatus};
use alloc::boxed::Box;
use core::net::SocketAddr;

/// How far a flow has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Wanted here, until the peer has said whether it relays. Nothing of it has gone out.
    Held,
    /// Opened here, not answered yet. Its data may go out already.
    Opening,
    /// Opened by the peer, not answered yet. Its data may come already.
    Incoming,
    /// Accepted. Also when one or both directions have ended in order.
    Open,
    /// Refused or reset by the peer; nothing more is sent or received.
    Dead,
}

/// Unordered messages that wait to be sent; each is made from the state at that time.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Hints {
    /// The flow is in the mux's queue of hints.
    pub(crate) queued: bool,
    pub(crate) credit: bool,
    /// The credit message asks for unused credit.
    pub(crate) reclaim: bool,
    pub(crate) want: bool,
    pub(crate) give_back: bool,
    pub(crate) probe: bool,
}

/// One flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) key: LaneKey,
    pub(crate) generation: u32,
    pub(crate) phase: Phase,
    pub(crate) destination: SocketAddr,
    pub(crate) source: SocketAddr,
    /// What lies beyond the acceptor, if that is the destination.
    pub(crate) beyond: Option<Box<Beyond>>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) send: Send,
    pub(crate) recv: Recv,
    pub(crate) hints: Hints,
    /// The flow is in the mux's rotation of flows with something to send.
    pub(crate) scheduled: bool,
    pub(crate) share: Share,
    pub(crate) turn: Turn,
    /// Its part of [`FlowMux::backlog`](crate::FlowMux::backlog).
    pub(crate) backlog: usize,
    /// The `Closed` event is on its way.
    pub(crate) closing: bool,
}

impl Flow {
    /// A flow that begins, with what may be sent at once and what may come.
    pub(crate) fn new(
        (key, generation): (LaneKey, u32),
        (destination, source): (SocketAddr, SocketAddr),
        send_window: u32,
        recv: Recv,
    ) -> Self {
        let phase = match key.opener {
            Opener::Us => Phase::Opening,
            Opener::Peer => Phase::Incoming,
        };
        Self {
            key,
            generation,
            phase,
            destination,
            source,
            beyond: None,
            local: None,
            send: Send::new(send_window),
            recv,
            hints: Hints::default(),
            scheduled: false,
            share: Share::default(),
            turn: Turn::default(),
            backlog: 0,
            closing: false,
        }
    }

    /// Whether data or FINISH can be sent now.
    pub(crate) fn is_sendable(&self) -> bool {
        match self.phase {
            Phase::Opening | Phase::Open => self.send.is_ready(),
            Phase::Held | Phase::Incoming | Phase::Dead => false,
        }
    }

    /// Whether it is to have a place among those that send: also one that will be asked to write.
    pub(crate) fn wants_turn(&self) -> bool {
        self.is_sendable() || (self.phase == Phase::Open && self.send.expects_more())
    }

    /// A control message of this flow.
    pub(crate) fn control(&self, body: Body) -> Control {
        let from_opener = self.key.opener == Opener::Us;
        Control { from_opener, generation: self.generation, body }
    }

    fn state(&self) -> FlowState {
        let sent_end = self.send.end != End::None;
        match self.phase {
            Phase::Held | Phase::Opening => FlowState::Opening,
            Phase::Incoming => FlowState::Incoming,
            Phase::Dead => FlowState::Closing,
            Phase::Open => match (sent_end, self.recv.has_ended()) {
                (false, false) => FlowState::Open,
                (true, false) => FlowState::HalfClosedLocal,
                (false, true) => FlowState::HalfClosedRemote,
                (true, true) => FlowState::Closing,
            },
        }
    }

    pub(crate) fn status(&self) -> FlowStatus {
        FlowStatus {
            state: self.state(),
            stream: self.key.stream,
            generation: self.generation,
            opened_here: self.key.opener == Opener::Us,
            destination: self.destination,
            source: self.source,
            local: self.local,
            bytes_out: self.send.sent(),
            bytes_in: self.recv.received(),
            queued: self.send.queued(),
            buffered: self.recv.buffered(),
            send_credit: self.send.credit(),
            receive_credit: self.recv.credit(),
            receive_window: self.recv.window(),
            round_trip: self.recv.round_trip(),
            waiting_there: self.recv.waiting_there(),
            credit_stalls: self.send.stalls(),
            share: self.share,
        }
    }
}
