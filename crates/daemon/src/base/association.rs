//! One association and what it carries.

use super::presence::{Doubt, Quiet};
use super::streams::Streams;
use crate::config::MAX_FLOWS;
use crate::ids::{AttemptId, DatagramId, DialId, RelayId};
use crate::parameters::Manner;
use crate::privileged::Acceptor;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Instant, Outgoing, Profile};
use manypath_flow::{DatagramFlow, DirectFlow, FlowConfig, FlowId, FlowMux, FlowState, Flows};
use manypath_rules::Encrypt;
use manypath_window::Budget;
use std::collections::BTreeMap;

/// Who uses a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlowUse {
    /// A program's connect, until the launcher has handed over its connection.
    Attempt(AttemptId),
    /// A TCP client of a gateway.
    Caller(RelayId),
    /// A connection being made to a local service.
    Dial(DialId),
    /// A local socket.
    Relay(RelayId),
    /// Nobody any more: the mux still delivers the rest, and reports the end.
    Closing,
}

/// How far the association is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Setup {
    /// We have begun it and the handshake is not complete.
    Connecting,
    Established,
    /// It carries nothing new: one side has asked for its end.
    Ending,
    /// It is gone; what had arrived on it before its graceful end is still being read.
    Over,
}

/// What there is to know about an association that came up.
pub(crate) struct Up {
    pub(crate) initiated: bool,
    pub(crate) adaptation: Option<u32>,
    /// Usable in both directions.
    pub(crate) streams: u16,
    /// Usable towards the peer.
    pub(crate) outbound_streams: u16,
}

/// How long nothing has used an association.
#[derive(Debug)]
pub(crate) struct Idle {
    /// When it was last found without flows.
    pub(crate) since: Instant,
    /// When it is looked at next, if it is.
    pub(crate) look: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Association {
    /// The profile with which this side began it; none if the peer began it.
    pub(crate) begun_with: Option<Manner>,
    /// The profile that a rule gives the key of its peer, if the peer began it.
    pub(crate) profile_by_key: Option<Profile>,
    /// Who was asked, if this side began it.
    pub(crate) acceptor: Acceptor,
    /// Whether this side has offered or demanded to encrypt it.
    pub(crate) encrypt: Encrypt,
    /// The one with the same peer that was in doubt when this one began.
    pub(crate) beside: Option<AssociationId>,
    /// Why it is not used, although the peer has answered.
    pub(crate) rejected: Option<FallbackReason>,
    pub(crate) setup: Setup,
    pub(crate) begun: Instant,
    pub(crate) idle: Idle,
    /// Whether it stays without flows: a host is registered by it at a relay.
    pub(crate) is_kept: bool,
    /// Streams that both sides had in each direction when it began.
    pub(crate) streams: u16,
    /// What was added to them.
    pub(crate) added: Streams,
    pub(crate) mux: Flows,
    /// The peer sends nothing more than what has arrived.
    pub(crate) input_over: bool,
    pub(crate) flows: BTreeMap<FlowId, FlowUse>,
    /// Who uses which flow of datagrams.
    pub(crate) datagrams: BTreeMap<DatagramFlow, DatagramId>,
    /// A message that the engine did not take although it had room: goes first next time.
    pub(crate) held: Option<Outgoing>,
    /// Messages may have been given to the engine.
    pub(crate) spoken: bool,
    /// The peer's host has said that nobody listens there any more, and nothing has come since.
    pub(crate) doubted: Option<Doubt>,
    pub(crate) quiet: Quiet,
}

impl Association {
    /// One that carries many, whose windows take their memory from `memory`.
    pub(crate) fn new(
        begun_with: Option<Manner>,
        setup: Setup,
        begun: Instant,
        streams: u16,
        memory: &Budget,
    ) -> Self {
        let (first, memory) = (begun_with.is_some(), memory.clone());
        let limits = FlowConfig { max_flows: usize::from(MAX_FLOWS), ..FlowConfig::default() };
        let mux = FlowMux::within(first, streams, limits, memory);
        Self::carrying(Flows::Mux(Box::new(mux)), begun_with, setup, begun, streams)
    }

    /// One that carries a single connection in the direct form.
    pub(crate) fn direct(
        begun_with: Option<Manner>,
        setup: Setup,
        begun: Instant,
        flow: DirectFlow,
    ) -> Self {
        Self::carrying(Flows::Direct(Box::new(flow)), begun_with, setup, begun, 1)
    }

    fn carrying(
        mux: Flows,
        begun_with: Option<Manner>,
        setup: Setup,
        begun: Instant,
        streams: u16,
    ) -> Self {
        let (flows, datagrams) = (BTreeMap::new(), BTreeMap::new());
        let (idle, held, doubted) = (Idle { since: begun, look: None }, None, None);
        let (input_over, spoken, is_kept) = (false, false, false);
        Self {
            begun_with,
            profile_by_key: None,
            acceptor: Acceptor::Anyone,
            encrypt: Encrypt::Off,
            beside: None,
            rejected: None,
            input_over,
            setup,
            begun,
            idle,
            is_kept,
            streams,
            added: Streams::default(),
            mux,
            flows,
            datagrams,
            held,
            spoken,
            doubted,
            quiet: Quiet::new(begun),
        }
    }

    /// The same, begun with this acceptor, and encrypted as said.
    pub(crate) fn asked(self, acceptor: Acceptor, encrypt: Encrypt) -> Self {
        Self { acceptor, encrypt, ..self }
    }

    /// Whether the peer's host says that nobody listens there, and nobody has proved it wrong yet.
    pub(crate) const fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }

    /// Whether it carries nothing.
    pub(crate) fn is_unused(&self) -> bool {
        self.flows.is_empty() && self.datagrams.is_empty()
    }

    /// Whether programs would lose connections with it, or what they have written before they closed them. A connect
    /// that the peer has accepted is such a connection, also while its launcher takes its time.
    pub(crate) fn carries_connections(&self) -> bool {
        let is_answered =
            |flow| self.mux.status(flow).is_some_and(|it| it.state != FlowState::Opening);
        self.flows.iter().any(|(flow, used)| match used {
            FlowUse::Relay(_) | FlowUse::Closing => true,
            FlowUse::Attempt(_) => is_answered(*flow),
            FlowUse::Caller(_) | FlowUse::Dial(_) => false,
        })
    }

    /// It has ended in good order: takes out the flows whose bytes have all come, in both directions, of which programs
    /// may not have read all.
    pub(crate) fn take_whole_flows(&mut self) -> BTreeMap<FlowId, FlowUse> {
        let Self { mux, flows, .. } = self;
        let is_over = |flow| mux.status(flow).is_some_and(|it| it.state == FlowState::Closing);
        let is_whole = |(flow, used): &(FlowId, FlowUse)| match used {
            FlowUse::Closing => false,
            FlowUse::Relay(_) => mux.is_direct() || is_over(*flow),
            FlowUse::Attempt(_) | FlowUse::Caller(_) | FlowUse::Dial(_) => mux.is_direct(),
        };
        let whole;
        (whole, *flows) = std::mem::take(flows).into_iter().partition(is_whole);
        whole
    }

    /// Whether this side began it.
    pub(crate) const fn is_ours(&self) -> bool {
        self.begun_with.is_some()
    }
}
