//! The client side: a program's connect, until it is a relay or has been sent elsewhere.
//!
//! ```text
//! Open ──▶ Direct                       unsuitable, remembered, at a limit: decided at once
//!      └─▶ Pending ──▶ Accepted(SCTP)    the flow was opened ──▶ Attach ──▶ relay
//!                  │                      or plain TCP has reached the service (`early`)
//!                  ├─▶ Failed(errno)     the peer tried the destination and failed
//!                  └─▶ SCTP not possible: blocking ──▶ Direct
//!                                         non-blocking ──▶ our own TCP connection ──▶ Accepted(TCP), Failed
//!                                         (waiting: this in the place of every Direct)
//! ```
//!
//! Plain TCP may be better than SCTP, too (`aside`): that is known when the peer has answered. A connect
//! waits for that as long as it may be so, and before `Pending` even a non-blocking one can go back.
//!
//! A non-blocking connect cannot go back to the program's own socket once it is pending, so plain
//! TCP is raced against SCTP: it starts after a head start, at once when SCTP has failed, and is
//! used only when SCTP cannot be; the loser is closed.

mod answer;
mod aside;
mod beside;
mod direct;
mod early;
mod end;
mod open;
mod race;
mod route;
mod via;

pub(crate) use answer::refusal;
use early::Reached;
pub(crate) use early::{follow_reached, go_on_plainly};
pub(crate) use open::{errno_of, fallback_patience, has_begun, must_fail, patience_with_relay};
use race::Grace;
pub(crate) use via::Lookup;
use via::{ByRelay, RelayHosts};
pub(crate) use via::{RelayAt, relays_at, sends_names, usable_relays};

use crate::ids::{AttemptId, Client};
use crate::peers::Peers;
use crate::socket::Socket;
use crate::timers::{Timer, Timers};
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Instant};
use manypath_flow::{FlowId, Passed};
use manypath_rules::Options;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What a launcher asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) destination: SocketAddr,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) blocking: bool,
    /// The program's socket cannot go back: whatever becomes of it is relayed.
    pub(crate) waiting: bool,
    /// By which relays it has come here.
    pub(crate) passed: Passed,
}

impl Open {
    /// As of a program at `source` that waits for it.
    pub(crate) fn from(source: SocketAddr, destination: SocketAddr) -> Self {
        Self { source: Some(source), blocking: true, ..Self::to(destination) }
    }

    /// Of nobody in particular, who does not wait for it.
    pub(crate) fn to(destination: SocketAddr) -> Self {
        let (blocking, waiting, passed) = (false, false, Passed::default());
        Self { destination, source: None, blocking, waiting, passed }
    }

    /// The address of the program, as far as it has one.
    pub(crate) fn source_or_unspecified(&self) -> SocketAddr {
        self.source.unwrap_or_else(|| unspecified_like(self.destination))
    }
}

/// How far SCTP is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sctp {
    /// The flow is being opened. `received` is the number of packets that the peer had sent us
    /// before: any more of them show that it is alive.
    Opening { association: AssociationId, flow: FlowId, received: u64 },
    /// The launcher was told; its `Attach` is awaited.
    Opened { association: AssociationId, flow: FlowId },
    /// It cannot be, and plain TCP is to be used.
    Failed,
}

/// How far plain TCP is.
#[derive(Debug)]
enum Tcp {
    NotStarted,
    Connecting(Socket),
    Connected(Socket),
    /// The launcher was told that this connection is used; its `Attach` is awaited.
    Promised(Socket),
    Failed(i32),
}

#[derive(Debug)]
pub(crate) struct Attempt {
    client: Client,
    open: Open,
    /// The launcher was told that the connect goes on: one that does not block cannot go back any more.
    pending: bool,
    pub(crate) options: Options,
    sctp: Sctp,
    tcp: Tcp,
    begun: Instant,
    /// Plain TCP was tried beside SCTP from the start.
    raced: bool,
    /// The service hears of plain TCP beside SCTP only once it is used.
    quiet: bool,
    /// It has begun over an association that came into doubt, and asks over another one.
    moved: bool,
    /// The launcher was told to complete it before the peer has answered.
    early: bool,
    /// Before these times the silence of the peer means nothing: for TCP to be tried beside SCTP, and
    /// for SCTP to be given up.
    patience: (Instant, Instant),
    /// Why SCTP was given up.
    fallback: Option<FallbackReason>,
    /// Until then plain TCP waits for a route, because there was one when the connect began.
    routed_until: Option<Instant>,
    /// By which relays it goes.
    by_relay: Option<ByRelay>,
}

impl Attempt {
    fn new(client: Client, open: Open, options: Options, sctp: Sctp, now: Instant) -> Self {
        Self {
            client,
            open,
            pending: false,
            options,
            sctp,
            tcp: Tcp::NotStarted,
            begun: now,
            raced: false,
            quiet: false,
            moved: false,
            early: false,
            patience: (now, now),
            fallback: None,
            routed_until: None,
            by_relay: None,
        }
    }

    /// The silence of the peer means nothing any more.
    fn stop_clocks(&self, timers: &mut Timers, id: AttemptId) {
        let (tcp, give_up) = self.patience;
        timers.unset(tcp, Timer::HeadStart(id));
        timers.unset(give_up, Timer::Fallback(id));
    }
}

/// The client side: programs' connects that are under way, and what is known of peers.
#[derive(Debug)]
pub(crate) struct Attempts {
    all: BTreeMap<AttemptId, Attempt>,
    /// Blocking connects that have begun in this turn, for whose packets nothing else has to happen before.
    begun: Vec<AttemptId>,
    reached: Reached,
    grace: Grace,
    pub(crate) peers: Peers,
    pub(crate) relays: RelayHosts,
}

impl Attempts {
    pub(crate) fn new(peers: Peers) -> Self {
        let (all, begun, reached, grace, relays) = Default::default();
        Self { all, begun, reached, grace, peers, relays }
    }

    pub(crate) fn get(&self, id: &AttemptId) -> Option<&Attempt> {
        self.all.get(id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A host has answered an INIT.
    pub(crate) const fn note_answer(&mut self) {
        self.grace.note_answer();
    }
}

/// The unspecified address of the same family.
pub(crate) fn unspecified_like(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], 0)),
    }
}
