//! The forms in which an association carries connections, behind one face.

use crate::datagrams::Datagrams;
use crate::direct::DirectFlow;
use crate::error::{FlowError, OpenError, WriteError};
use crate::event::{FlowEvent, Refusal};
use crate::id::FlowId;
use crate::message::{Beyond, RelayAnswer, SeenAt};
use crate::mux::{FlowMux, relaying};
use crate::share::Share;
use crate::status::{FlowCounters, FlowStatus};
use alloc::boxed::Box;
use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;
use manypath_engine::{Instant, Message, Outgoing};

/// What an association carries. The calls are those of [`FlowMux`].
#[derive(Debug)]
pub enum Flows {
    /// Many connections.
    Mux(Box<FlowMux>),
    /// One, as bytes in stream 0.
    Direct(Box<DirectFlow>),
}

/// The same call to whatever there is.
macro_rules! either {
    ($flows:expr, $one:ident => $call:expr) => {
        match $flows {
            Flows::Mux($one) => $call,
            Flows::Direct($one) => $call,
        }
    };
}

impl Flows {
    /// See [`FlowMux::set_slowest_path`]. The direct form has no windows of its own.
    pub fn set_slowest_path(&mut self, round_trip: Duration) {
        match self {
            Self::Mux(mux) => mux.set_slowest_path(round_trip),
            Self::Direct(_) => {}
        }
    }

    /// The flow of the direct form, if it is that.
    pub fn direct(&mut self) -> Option<&mut DirectFlow> {
        match self {
            Self::Mux(_) => None,
            Self::Direct(flow) => Some(flow),
        }
    }

    /// Whether it is the direct form.
    pub const fn is_direct(&self) -> bool {
        matches!(self, Self::Direct(_))
    }

    /// The datagrams that it carries besides. In the direct form there are none.
    pub fn datagrams(&self) -> Option<&Datagrams> {
        match self {
            Self::Mux(mux) => Some(mux.datagrams()),
            Self::Direct(_) => None,
        }
    }

    /// The same, to be used.
    pub fn datagrams_mut(&mut self) -> Option<&mut Datagrams> {
        match self {
            Self::Mux(mux) => Some(mux.datagrams_mut()),
            Self::Direct(_) => None,
        }
    }

    /// See [`FlowMux::advance_time`]. The direct form has no windows of its own.
    pub fn advance_time(&mut self, now: Instant) {
        match self {
            Self::Mux(mux) => mux.advance_time(now),
            Self::Direct(_) => {}
        }
    }

    /// See [`FlowMux::open`]. The direct form has its flow already.
    pub fn open(
        &mut self,
        destination: SocketAddr,
        source: SocketAddr,
    ) -> Result<FlowId, OpenError> {
        match self {
            Self::Mux(mux) => mux.open(destination, source),
            Self::Direct(_) => Err(OpenError::NoStream),
        }
    }

    /// See [`FlowMux::open_beyond`]. The direct form has no words for it.
    pub fn open_beyond(&mut self, beyond: Beyond, source: SocketAddr) -> Result<FlowId, OpenError> {
        match self {
            Self::Mux(mux) => mux.open_beyond(beyond, source),
            Self::Direct(_) => Err(OpenError::NoStream),
        }
    }

    /// See [`FlowMux::set_relay_answer`]. Nothing is relayed in the direct form.
    pub fn set_relay_answer(&mut self, answer: RelayAnswer) {
        match self {
            Self::Mux(mux) => mux.set_relay_answer(answer),
            Self::Direct(_) => {}
        }
    }

    /// See [`FlowMux::peer_relays`].
    pub const fn peer_relays(&self) -> Option<RelayAnswer> {
        match self {
            Self::Mux(mux) => mux.peer_relays(),
            Self::Direct(_) => Some(RelayAnswer::NotRelay),
        }
    }

    /// Asks the peer, a relay, to lead flows of datagrams for the key of this side here. False if it was asked before.
    pub fn register(&mut self) -> bool {
        match self {
            Self::Mux(mux) => relaying::register(mux),
            Self::Direct(_) => false,
        }
    }

    /// Whether the peer has said that it does.
    pub const fn is_registered(&self) -> bool {
        matches!(self, Self::Mux(mux) if relaying::is_registered(mux))
    }

    /// Whether the peer has asked this side for that.
    pub const fn peer_registers(&self) -> bool {
        matches!(self, Self::Mux(mux) if relaying::peer_registers(mux))
    }

    /// Tells the peer at which addresses this side may be reached where no relay sees it. False if it was told the same
    /// before. They are no secret from the peer alone: the association has to be encrypted.
    pub fn tell_candidates(&mut self, addresses: SeenAt) -> bool {
        match self {
            Self::Mux(mux) => relaying::tell_candidates(mux, addresses),
            Self::Direct(_) => false,
        }
    }

    /// The addresses at which the peer says that it may be reached.
    pub fn peer_candidates(&self) -> SeenAt {
        match self {
            Self::Mux(mux) => relaying::peer_candidates(mux).clone(),
            Self::Direct(_) => SeenAt::default(),
        }
    }

    /// Whether they are others than at the last call.
    pub fn take_candidates_news(&mut self) -> bool {
        match self {
            Self::Mux(mux) => relaying::take_candidates_news(mux),
            Self::Direct(_) => false,
        }
    }

    /// See [`FlowMux::ask_whether_peer_relays`].
    pub fn ask_whether_peer_relays(&mut self) {
        match self {
            Self::Mux(mux) => mux.ask_whether_peer_relays(),
            Self::Direct(_) => {}
        }
    }

    /// See [`FlowMux::beyond`].
    pub fn beyond(&self, flow: FlowId) -> Option<&Beyond> {
        match self {
            Self::Mux(mux) => mux.beyond(flow),
            Self::Direct(_) => None,
        }
    }

    /// See [`FlowMux::accept`].
    pub fn accept(&mut self, flow: FlowId, local: SocketAddr) {
        either!(self, one => one.accept(flow, local));
    }

    /// See [`FlowMux::refuse`]. The direct form has no words for a reason.
    pub fn refuse(&mut self, flow: FlowId, refusal: Refusal) {
        match self {
            Self::Mux(mux) => mux.refuse(flow, refusal),
            Self::Direct(direct) => direct.refuse(flow),
        }
    }

    /// See [`FlowMux::writable`].
    pub fn writable(&self, flow: FlowId) -> usize {
        either!(self, one => one.writable(flow))
    }

    /// See [`FlowMux::has_events`].
    pub fn has_events(&self) -> bool {
        either!(self, one => one.has_events())
    }

    /// See [`FlowMux::write`].
    pub fn write(&mut self, flow: FlowId, bytes: Bytes) -> Result<(), WriteError> {
        either!(self, one => one.write(flow, bytes))
    }

    /// See [`FlowMux::set_share`]. A single flow has everything.
    pub fn set_share(&mut self, flow: FlowId, share: Share) {
        match self {
            Self::Mux(mux) => mux.set_share(flow, share),
            Self::Direct(_) => {}
        }
    }

    /// See [`FlowMux::read`].
    pub fn read(&mut self, flow: FlowId) -> Option<Bytes> {
        either!(self, one => one.read(flow))
    }

    /// See [`FlowMux::consumed`].
    pub fn consumed(&mut self, flow: FlowId, bytes: usize) {
        either!(self, one => one.consumed(flow, bytes));
    }

    /// See [`FlowMux::finish`].
    pub fn finish(&mut self, flow: FlowId) {
        either!(self, one => one.finish(flow));
    }

    /// See [`FlowMux::reset`].
    pub fn reset(&mut self, flow: FlowId) {
        either!(self, one => one.reset(flow));
    }

    /// See [`FlowMux::limit_streams`]. The direct form needs one, and every association has that.
    pub fn limit_streams(&mut self, streams: u16) {
        match self {
            Self::Mux(mux) => mux.limit_streams(streams),
            Self::Direct(_) => {}
        }
    }

    /// See [`FlowMux::add_streams`]. The direct form has no use for them.
    pub fn add_streams(&mut self, first: u16, end: u16) {
        match self {
            Self::Mux(mux) => mux.add_streams(first, end),
            Self::Direct(_) => {}
        }
    }

    /// Streams that may carry flows, and how many flows were opened here and have not ended. None in the direct form.
    pub fn use_of_streams(&self) -> Option<(u16, usize)> {
        match self {
            Self::Mux(mux) => Some((mux.streams(), mux.opened_here())),
            Self::Direct(_) => None,
        }
    }

    /// See [`FlowMux::handle_message`].
    pub fn handle_message(&mut self, message: Message) -> Result<(), FlowError> {
        either!(self, one => one.handle_message(message))
    }

    /// Whether messages are to be taken from the association now.
    pub fn wants_messages(&self) -> bool {
        match self {
            Self::Mux(_) => true,
            Self::Direct(direct) => direct.wants_messages(),
        }
    }

    /// See [`FlowMux::poll_message`].
    pub fn poll_message(&mut self, fragment_size: usize) -> Option<Outgoing> {
        either!(self, one => one.poll_message(fragment_size))
    }

    /// See [`FlowMux::backlog`].
    pub fn backlog(&self) -> usize {
        either!(self, one => one.backlog())
    }

    /// See [`FlowMux::poll_event`].
    pub fn poll_event(&mut self) -> Option<FlowEvent> {
        either!(self, one => one.poll_event())
    }

    /// See [`FlowMux::has_finished`]. The direct form gives the event to those who read only.
    pub fn has_finished(&self, flow: FlowId) -> bool {
        match self {
            Self::Mux(mux) => mux.has_finished(flow),
            Self::Direct(_) => false,
        }
    }

    /// See [`FlowMux::offered_window`]. In the direct form it is the association's receive buffer.
    pub fn offered_window(&self, flow: FlowId, least: u64) -> Option<u64> {
        match self {
            Self::Mux(mux) => Some(mux.offered_window(flow, least)),
            Self::Direct(_) => None,
        }
    }

    /// See [`FlowMux::status`].
    pub fn status(&self, flow: FlowId) -> Option<FlowStatus> {
        either!(self, one => one.status(flow))
    }

    /// See [`FlowMux::counters`].
    pub fn counters(&self) -> &FlowCounters {
        either!(self, one => one.counters())
    }
}
