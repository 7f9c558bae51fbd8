//! Datagrams of programs, and of peers for services here.
//!
//! ```text
//! program ◀─▶ relay (loopback UDP) ◀─▶ flow of datagrams ◀─▶ relay (UDP) ◀─▶ service
//! ```
//!
//! `open`: a program wants to send, and its peer is asked. `relay`: datagrams between sockets and flows. `line`: what a
//! redirector has taken from sockets. `serve`: a peer's datagrams for a service of this host. `onward`: datagrams by a
//! relay, and those that this host relays. `end`: idle flows, sockets that are gone, lost associations. `agree`: what needs the peer's consent. `pings`: those that a relay sends for hosts behind gateways. `rendezvous`: packets of associations with hosts that
//! a relay alone can reach. A flow ends when it is idle, and begins anew with the next datagram of its program.

mod agree;
mod end;
mod line;
mod onward;
mod open;
mod pings;
mod relay;
pub(crate) mod rendezvous;
mod serve;
mod status;

pub(crate) use agree::on_given_up;
pub(crate) use onward::{private_pair, socket_to};
pub(crate) use relay::Program;

use crate::attempt::RelayAt;
use crate::ids::{Client, DatagramId};
use crate::peers::{Lifetimes, Peers};
use line::Lines;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Instant};
use manypath_flow::DatagramFlow;
use manypath_keys::PublicKey;
use manypath_rules::Options;
use pings::Pings;
use relay::Relay;
use rendezvous::Rendezvous;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// What a program wants, until its socket is attached.
#[derive(Debug)]
struct Attempt {
    client: Client,
    destination: SocketAddr,
    source: SocketAddr,
    options: Options,
    association: AssociationId,
    /// The relay by which they go, and those that are tried after it, the best last.
    by: Option<RelayAt>,
    relays: Vec<RelayAt>,
    step: Step,
    /// Packets that the peer had sent before: any more of them show that it is alive.
    received: u64,
    /// Before this the silence of the peer means nothing.
    until: Instant,
    /// What has come over the line already.
    early: Vec<Vec<u8>>,
}

/// How far an attempt is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The association is being set up.
    Connecting,
    /// The peer was asked for a flow.
    Opening(DatagramFlow),
    /// The launcher was told to attach the program's socket; the flow that was opened to ask, if any.
    Promised(Option<DatagramFlow>),
}

/// All datagrams of the stack.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    attempts: BTreeMap<DatagramId, Attempt>,
    relays: BTreeMap<DatagramId, Relay>,
    clients: BTreeMap<Client, DatagramId>,
    /// Relays whose socket may have something.
    ready: BTreeSet<DatagramId>,
    lines: Lines,
    /// What is known about services that are reached by datagrams. What is known about their hosts is
    /// the same for connections.
    pub(crate) services: Peers,
    /// Whether idle flows are being looked for.
    watching: bool,
    /// Flows beyond this host that have ended, and what they had moved.
    ended_onward: Vec<(PublicKey, onward::Moved)>,
    /// Packets of peers.
    pings: Pings,
    /// Relays that were of no use, and why.
    failed_relays: Vec<(RelayAt, FallbackReason)>,
    pub(crate) rendezvous: Rendezvous,
}

impl Datagrams {
    pub(crate) fn new(lifetimes: Lifetimes) -> Self {
        Self { services: Peers::new(lifetimes, None), ..Self::default() }
    }

    /// Whether there is nothing to be carried.
    pub(crate) fn is_empty(&self) -> bool {
        self.attempts.is_empty() && self.relays.is_empty()
    }

    /// Whether a socket was left with something to be read.
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.lines.have_work()
    }
}
