//! Flows that wait for a moment before they are answered.
//!
//! A peer's first flow may come before its second path is confirmed, or while its only path is being probed: it waits
//! until a path of its association changes. One for which the kernel's table of listening sockets must be read waits
//! while that was just done, so that many flows cost few looks at it.

use super::Services;
use crate::allow::Denied;
use crate::base::Base;
use crate::relays::Relays;
use crate::services::dial::Incoming;
use crate::timers::Timer;
use manypath_engine::{AssociationId, Duration, Instant};
use manypath_flow::{FlowId, Refusal};
use std::net::IpAddr;

/// How long after the beginning of an association its paths are being confirmed.
const SETTLING: Duration = Duration::from_secs(1);
/// How long a flow waits for a path that is being probed. The peer's program has plain TCP soon after.
const PROBING: Duration = Duration::from_millis(500);
/// Flows that wait for paths, or until redirectors have looked for listeners, at most; and those of them that peers at
/// one address may have.
const MAX_WAITING: (usize, usize) = (256, 32);
/// The same of connections that wait until launchers have taken note of them. As many can come at a time as an
/// association has streams.
const MAX_DELAYED: (usize, usize) = (4096, 1024);

/// A flow that waits until some time, or until a path of its association changes.
#[derive(Debug)]
struct Waiting {
    until: Instant,
    incoming: Incoming,
    /// None when it only waits for the table, which is soon over.
    peer: Option<IpAddr>,
}

/// Flows that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingFlows(Vec<Waiting>);

impl Services {
    /// Lets a flow wait for a path of its association to be confirmed, or to be active; later refuses it with what
    /// makes the peer use plain TCP for this connection alone.
    pub(crate) fn wait_for_paths(&mut self, base: &mut Base, incoming: Incoming, denied: Denied) {
        let until = if denied == Denied::NoClientAddress {
            incoming.arrived + PROBING
        } else {
            settles_at(base, incoming.association)
        };
        let Incoming { association: id, flow, .. } = incoming;
        let peer = base.core.peer_ip(id);
        if base.core.now >= until {
            base.refuse(id, flow, Refusal::Busy, denied.counter());
        } else if self.is_room_to_wait(peer) {
            self.wait(base, Waiting { until, incoming, peer });
        } else {
            refuse_to_wait(base, id, flow);
        }
    }

    /// Lets a flow wait until the kernel's table may be read.
    pub(crate) fn wait_for_the_table(
        &mut self,
        base: &mut Base,
        incoming: Incoming,
        until: Instant,
    ) {
        self.wait(base, Waiting { until, incoming, peer: None });
    }

    fn wait(&mut self, base: &mut Base, waiting: Waiting) {
        base.core.timers.set(waiting.until, Timer::Waiting);
        self.waiting.0.push(waiting);
    }

    /// Whether another flow of a peer may wait. Peers at one address must not take the room of all.
    pub(crate) fn is_room_to_wait(&self, peer: Option<IpAddr>) -> bool {
        let own = self.waiting.0.iter().map(|one| one.peer);
        let all = own.filter(Option::is_some).chain(self.listeners.peers_looked_for());
        is_room(all, peer, MAX_WAITING)
    }

    /// The same for a connection that waits for launchers.
    pub(crate) fn is_room_to_delay(&self, peer: Option<IpAddr>) -> bool {
        is_room(self.listeners.peers_delayed(), peer, MAX_DELAYED)
    }

    /// Answers the flows whose time has come.
    pub(crate) fn on_waiting_timer(&mut self, base: &mut Base, relays: &mut Relays) {
        let now = base.core.now;
        self.answer_waiting(base, relays, |one| one.until <= now);
    }

    /// Answers the flows of an association one of whose paths has changed.
    pub(crate) fn answer_waiting_of(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        id: AssociationId,
    ) {
        self.answer_waiting(base, relays, |one| one.incoming.association == id);
    }

    fn answer_waiting(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        due: impl Fn(&Waiting) -> bool,
    ) {
        let all = std::mem::take(&mut self.waiting.0);
        let (due, waiting): (Vec<_>, Vec<_>) = all.into_iter().partition(due);
        self.waiting.0 = waiting;
        for Waiting { incoming, .. } in due {
            if is_still_asked(base, &incoming) {
                self.admit_incoming(base, relays, incoming);
            }
        }
    }
}

/// Until when paths of an association that are not confirmed are waited for.
pub(crate) fn settles_at(base: &Base, id: AssociationId) -> Instant {
    let begun = base.get(&id).map(|association| association.begun);
    begun.unwrap_or(base.core.now) + SETTLING
}

pub(crate) fn refuse_to_wait(base: &mut Base, id: AssociationId, flow: FlowId) {
    base.refuse(id, flow, Refusal::Busy, "dial_denied_too_many_waiting");
}

/// Whether the peer still wants the flow.
pub(crate) fn is_still_asked(base: &mut Base, incoming: &Incoming) -> bool {
    let association = base.get(&incoming.association);
    let asked = association.is_some_and(|known| known.mux.status(incoming.flow).is_some());
    if !asked {
        base.core.count("dials_dropped");
    }
    asked
}

fn is_room(
    all: impl Iterator<Item = Option<IpAddr>>,
    peer: Option<IpAddr>,
    (most, most_of_peer): (usize, usize),
) -> bool {
    let (mut count, mut of_peer) = (0, 0);
    for other in all {
        count += 1;
        of_peer += usize::from(other == peer);
    }
    count < most && of_peer < most_of_peer
}
