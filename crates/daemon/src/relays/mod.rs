//! Connections that are being carried: between local sockets and flows, or plain TCP.

mod connection;
mod early;
mod rates;
mod relay;
mod socket_options;
mod tcp_relay;
mod traffic;

pub(crate) use connection::{Carrier, Ends, RelayEnd};
pub(crate) use early::Early;
pub(crate) use relay::{Progress, Relay};
pub(crate) use tcp_relay::TcpRelay;
pub(crate) use traffic::{Moved, Totals};

use crate::base::proven::PeerId;
use crate::base::{Base, FlowUse};
use crate::core::Core;
use crate::ids::RelayId;
use crate::scratch::Scratch;
use crate::timers::Timer;
use crate::token::Source;
use connection::Connection;
use manypath_control::Way;
use manypath_engine::AssociationId;
use manypath_flow::FlowId;
use mio::event::Event;
use rates::Rates;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// From so many relays on the kernel is to keep less for another one: a hundred megabytes of what waits are in no cache.
const MANY_RELAYS: usize = 64;

/// Bytes that all relays together move in one turn: some milliseconds of copying, after which the
/// UDP sockets are looked at again.
const BYTES_PER_TURN: u64 = 8 << 20;

/// A relay that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) id: RelayId,
    /// What its connection has moved, if the log knew of one.
    pub(crate) moved: Option<Moved>,
}

/// The relays, and whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    sctp: BTreeMap<RelayId, Relay>,
    tcp: BTreeMap<RelayId, TcpRelay>,
    /// What the log will tell of them.
    connections: BTreeMap<RelayId, Connection>,
    /// Those that can move something.
    ready: BTreeSet<RelayId>,
    /// Those that have used up their turn.
    unfinished: BTreeSet<RelayId>,
    /// Those that have begun in this turn and whose sockets are not watched yet.
    unwatched: Vec<RelayId>,
    /// The one whose turn it is.
    next: RelayId,
    /// Bytes that they may still move in this turn.
    budget: u64,
    /// What connections that have ended have moved.
    totals: Totals,
    rates: Rates,
}

impl Relays {
    pub(crate) fn get(&self, id: &RelayId) -> Option<&Relay> {
        self.sctp.get(id)
    }

    /// Those over SCTP.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Relay> {
        self.sctp.values()
    }

    pub(crate) fn ids(&self) -> Vec<RelayId> {
        self.sctp.keys().chain(self.tcp.keys()).copied().collect()
    }

    /// The client whose connection a relay carries to a service.
    pub(crate) fn client_of(&self, id: RelayId) -> Option<SocketAddr> {
        self.connections.get(&id)?.client()
    }

    /// What the local program of a connection has sent and received.
    pub(crate) fn bytes_of(&self, id: RelayId) -> Option<(u64, u64)> {
        let flow = self.sctp.get(&id).map(Relay::bytes);
        flow.or_else(|| self.tcp.get(&id).map(TcpRelay::bytes))
    }

    /// What all connections have moved, those that have ended included.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.totals;
        self.sctp.values().for_each(|relay| totals.add(relay.bytes()));
        totals
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// A relay may have something to move.
    pub(crate) fn touch(&mut self, id: RelayId) {
        self.ready.insert(id);
    }

    pub(crate) fn begin_turn(&mut self) {
        self.budget = BYTES_PER_TURN;
    }

    pub(crate) fn end_turn(&mut self) {
        self.ready.append(&mut self.unfinished);
    }

    /// Whether the connection to the other host is that of a relay.
    pub(crate) fn on_far_event(&mut self, id: RelayId, event: &Event) -> bool {
        let Some(relay) = self.tcp.get_mut(&id) else { return false };
        relay.far.on_event(event);
        self.ready.insert(id);
        true
    }

    /// Joins two plain TCP connections.
    pub(crate) fn start_plain(&mut self, id: RelayId, relay: TcpRelay) {
        self.tcp.insert(id, relay);
        self.ready.insert(id);
    }

    /// The flow of a relay over SCTP is gone.
    pub(crate) fn on_flow_closed(&mut self, id: RelayId) {
        if let Some(relay) = self.sctp.get_mut(&id) {
            relay.on_flow_closed();
            self.ready.insert(id);
        }
    }

    pub(crate) fn on_flow_finished(&mut self, base: &Base, id: AssociationId, flow: FlowId) {
        let Some(FlowUse::Relay(id)) = base.flow_use(id, flow) else { return };
        if let Some(relay) = self.sctp.get_mut(&id) {
            relay.on_finished();
            self.ready.insert(id);
        }
    }

    /// Joins a connected socket with a flow. It is watched under the relay's token, now or by `watch_begun`.
    pub(crate) fn start(&mut self, base: &mut Base, id: RelayId, mut relay: Relay) {
        base.set_flow_use(relay.association, relay.flow, FlowUse::Relay(id));
        let association = base.get(&relay.association);
        // The peer may have been so quick that its end has come before there was a relay.
        if association.is_some_and(|association| association.mux.has_finished(relay.flow)) {
            relay.on_finished();
        }
        if self.sctp.len() >= MANY_RELAYS && !self.unwatched.contains(&id) {
            relay.socket.keep_little();
        }
        let (now, peer) = (base.core.now, || PeerId::of(base, relay.association));
        relay.share = relay.options.rate.map(|rate| self.rates.join(now, peer(), rate));
        if let Some((key, quota)) =
            base.keys.fingerprint_of(relay.association).zip(relay.options.quota)
        {
            let name = base.keys.name_of(relay.association);
            relay.quota = Some(base.core.quotas.counter(&key, name, quota));
            base.core.quotas.follow(now, &mut base.core.timers);
        }
        self.sctp.insert(id, relay);
        base.core.count("relays_started");
        self.ready.insert(id);
    }

    /// The socket of a relay that starts now is watched once the packets of this turn have left.
    pub(crate) fn watch_later(&mut self, id: RelayId) {
        self.unwatched.push(id);
    }

    /// Whether a relay has started whose peer has not been told yet.
    pub(crate) const fn has_begun(&self) -> bool {
        !self.unwatched.is_empty()
    }

    /// The packets of this turn have left. `over` hears of relays that have ended.
    pub(crate) fn watch_begun(&mut self, base: &mut Base, mut over: impl FnMut(&mut Base, Ended)) {
        let many = self.sctp.len() > MANY_RELAYS;
        for id in std::mem::take(&mut self.unwatched) {
            let Some(relay) = self.sctp.get_mut(&id) else { continue };
            match relay.socket.watch(&base.core.registry, Source::Relay(id.0).token()) {
                Ok(()) if many => relay.socket.keep_little(),
                Ok(()) => {}
                Err(_) => {
                    let ended = self.break_off(base, id, RelayEnd::ResetHere);
                    over(base, ended);
                }
            }
        }
    }

    pub(crate) fn on_relay_event(&mut self, id: RelayId, event: &Event) {
        if let Some(relay) = self.sctp.get_mut(&id) {
            relay.socket.on_event(event);
            self.ready.insert(id);
        }
    }

    /// Lets the relays move bytes, one after the other, until the turn's budget is used up. The
    /// next turn begins where this one has stopped. `over` hears of those that have ended.
    pub(crate) fn service(
        &mut self,
        base: &mut Base,
        scratch: &mut Scratch,
        mut over: impl FnMut(&mut Base, Ended),
    ) {
        let mut before = std::mem::take(&mut self.ready);
        let after = before.split_off(&self.next);
        for id in after.into_iter().chain(before) {
            if self.budget == 0 {
                self.unfinished.insert(id);
            } else {
                if let Some(ended) = self.service_relay(base, scratch, id) {
                    over(base, ended);
                }
                self.next = RelayId(id.0 + 1);
            }
        }
    }

    fn service_relay(
        &mut self,
        base: &mut Base,
        scratch: &mut Scratch,
        id: RelayId,
    ) -> Option<Ended> {
        let before = self.moved_by(id);
        let progress = match self.sctp.contains_key(&id) {
            true => self.service_flow_relay(base, scratch, id),
            false => self.tcp.get_mut(&id).map(|relay| relay.service(scratch)),
        };
        self.budget = self.budget.saturating_sub(self.moved_by(id) - before);
        match progress {
            Some(Progress::Waiting) | None => None,
            Some(Progress::More) => {
                self.unfinished.insert(id);
                None
            }
            Some(Progress::Done) => Some(self.finish(base, id)),
            Some(Progress::Broken) => Some(self.break_off(base, id, RelayEnd::ResetHere)),
        }
    }

    fn moved_by(&self, id: RelayId) -> u64 {
        let flow = self.sctp.get(&id).map(Relay::moved);
        flow.or_else(|| self.tcp.get(&id).map(TcpRelay::moved)).unwrap_or_default()
    }

    fn service_flow_relay(
        &mut self,
        base: &mut Base,
        scratch: &mut Scratch,
        id: RelayId,
    ) -> Option<Progress> {
        let relay = self.sctp.get_mut(&id)?;
        let (now, before) = (base.core.now, relay.moved());
        let allowed = |share| self.rates.allowance(now, share, id);
        // One that is broken ends at once.
        let share = relay.share.as_mut().filter(|_| !relay.socket.is_broken());
        let most = match share.map_or(Ok(u64::MAX), allowed) {
            Ok(most) => usize::try_from(most).unwrap_or(usize::MAX),
            Err(due) => {
                due.into_iter().for_each(|at| base.core.timers.set(at, Timer::Rates));
                return Some(Progress::Waiting);
            }
        };
        base.touch(relay.association);
        let association = base.get_mut(&relay.association);
        let flows = association.map(|association| {
            association.mux.advance_time(now);
            &mut association.mux
        });
        let progress = relay.service(flows, most, scratch);
        let moved = relay.moved() - before;
        if let Some(share) = &mut relay.share {
            self.rates.spend(share, moved);
        }
        relay.quota.iter().for_each(|counter| counter.add(moved));
        Some(progress)
    }

    /// Relays may go on that have waited for the rate of their peer.
    pub(crate) fn on_rates_timer(&mut self, core: &mut Core) {
        let (grants, next) = self.rates.release(core.now);
        for grant in grants {
            let relay = self.sctp.get_mut(&grant.relay);
            if let Some(share) = relay.and_then(|relay| relay.share.as_mut()) {
                share.give(&grant);
                self.ready.insert(grant.relay);
            }
        }
        next.into_iter().for_each(|at| core.timers.set(at, Timer::Rates));
    }

    fn remove_sctp(&mut self, id: RelayId) -> Option<Relay> {
        let relay = self.sctp.remove(&id)?;
        if let Some(share) = &relay.share {
            self.rates.leave(share, id);
        }
        Some(relay)
    }

    /// Both directions have ended in good order.
    fn finish(&mut self, base: &mut Base, id: RelayId) -> Ended {
        let ended = self.count_end(base, id, RelayEnd::Finished);
        if let Some(relay) = self.remove_sctp(id) {
            let (id, flow) = (relay.association, relay.flow);
            if let Some(FlowUse::Relay(_)) = base.flow_use(id, flow) {
                base.set_flow_use(id, flow, FlowUse::Closing);
            }
            relay.socket.close(&base.core.registry);
        }
        if let Some(relay) = self.tcp.remove(&id) {
            relay.near.close(&base.core.registry);
            relay.far.close(&base.core.registry);
        }
        ended
    }

    /// What comes from the local side: the flow is reset too.
    #[must_use]
    pub(crate) fn break_off(&mut self, base: &mut Base, id: RelayId, end: RelayEnd) -> Ended {
        if let Some(relay) = self.sctp.get(&id) {
            let (association, flow) = (relay.association, relay.flow);
            if base.flow_use(association, flow) == Some(FlowUse::Relay(id)) {
                base.reset_flow(association, flow);
            }
        }
        self.reset(base, id, end)
    }

    /// Resets the local side. `end` says why.
    #[must_use]
    pub(crate) fn reset(&mut self, base: &mut Base, id: RelayId, end: RelayEnd) -> Ended {
        let ended = self.count_end(base, id, end);
        if let Some(relay) = self.remove_sctp(id) {
            relay.socket.reset(&base.core.registry);
        }
        if let Some(relay) = self.tcp.remove(&id) {
            relay.near.reset(&base.core.registry);
            relay.far.reset(&base.core.registry);
        }
        ended
    }

    fn count_end(&mut self, base: &mut Base, id: RelayId, end: RelayEnd) -> Ended {
        base.core.count(end.counter());
        let moved = self.bytes_of(id).unwrap_or_default();
        Ended { id, moved: self.end_connection(base, id, end, moved) }
    }

    pub(crate) fn on_near_event(&mut self, id: RelayId, event: &Event) {
        if let Some(relay) = self.tcp.get_mut(&id) {
            relay.near.on_event(event);
            self.ready.insert(id);
        }
    }

    pub(crate) fn way_of(&self, base: &Base, id: RelayId) -> Option<Way> {
        if let Some(relay) = self.tcp.get(&id) {
            return relay.far.way().ok();
        }
        let relay = self.sctp.get(&id)?;
        base.way_of_flow(relay.association, relay.flow)
    }

    pub(crate) fn resume_after_suspension(&mut self, base: &mut Base) {
        for id in base.ids() {
            base.core.driver.endpoint_mut().resume(base.core.now, id);
        }
        // What a program waits for has not been silent for that long.
        let now = base.core.now;
        let patience = self.sctp.values_mut().filter_map(|relay| relay.patience.as_mut());
        patience.for_each(|patience| patience.begin_anew(now));
    }

    pub(crate) fn flow_count(&self, base: &Base) -> usize {
        let flows = base.values().map(|association| association.flows.len());
        flows.sum::<usize>() + self.tcp.len()
    }

    /// A number that changes when bytes have moved between programs and peers. Heartbeats and
    /// retransmissions do not change it.
    pub(crate) fn progress_mark(&self, base: &Base) -> u64 {
        let statuses = base.ids().into_iter().filter_map(|id| base.core.status_of(id));
        let left: usize = statuses.map(|status| status.unsent + status.outstanding).sum();
        let moved = self.sctp.values().map(|relay| relay.moved());
        let moved_tcp = self.tcp.values().map(|relay| relay.moved());
        let moved: u64 = moved.chain(moved_tcp).sum();
        // The shift keeps the two numbers from making up for each other.
        moved.wrapping_add((left as u64).rotate_left(32))
    }
}
