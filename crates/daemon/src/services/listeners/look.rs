//! Sockets that listen already and were not announced yet.
//!
//! A redirector hears of `listen` when it has happened. A peer that comes meanwhile must not be told that
//! the service is out of reach, which it would remember: its flow waits until every redirector has looked,
//! about a millisecond.

use crate::allow;
use crate::base::{Base, proven};
use crate::core::Core;
use crate::relays::Relays;
use crate::services::Services;
use crate::services::dial::Incoming;
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_engine::{Duration, Instant};
use manypath_rules::{Client, Policy};
use std::net::{IpAddr, SocketAddr};

/// How long redirectors may take.
const LIMIT: Duration = Duration::from_millis(500);
/// A flow that waits.
#[derive(Debug)]
pub(super) struct Look {
    id: u64,
    until: Instant,
    incoming: Incoming,
    pub(super) peer: Option<IpAddr>,
    /// Redirectors that have not answered.
    asked: Vec<u64>,
}

impl Services {
    /// Whether a flow waits now until redirectors have looked, or was refused because too many wait: nobody
    /// vouches for a socket that could get its connection.
    pub(crate) fn look_first(&mut self, base: &mut Base, incoming: Incoming) -> bool {
        let service = incoming.destination;
        let asked = base.core.control.redirectors();
        if asked.is_empty()
            || !may_lead(&base.core, service, &proven::client_of(base, incoming.association))
        {
            return false;
        }
        let found =
            self.listeners.table.matching_listeners(base.core.now, service).unwrap_or_default();
        if found.iter().all(|inode| self.listeners.knows(*inode)) {
            return false;
        }
        let peer = base.core.peer_ip(incoming.association);
        if !self.is_room_to_wait(peer) {
            super::super::waiting::refuse_to_wait(base, incoming.association, incoming.flow);
            return true;
        }
        base.core.count("listeners_looked_for");
        let (id, until) = (base.core.next_id(), base.core.now + LIMIT);
        for redirector in &asked {
            base.core.reply(*redirector, Reply::Look { id });
        }
        base.core.timers.set(until, Timer::Look);
        self.listeners.looks.push(Look { id, until, incoming, peer, asked });
        true
    }

    /// When the kernel's table may be read to answer a flow, if it must be read and not now.
    pub(crate) fn next_look_at_the_table(
        &self,
        base: &Base,
        incoming: &Incoming,
    ) -> Option<Instant> {
        let at = self.listeners.table.next_reading(base.core.now)?;
        let service = allow::canonical(incoming.destination);
        let needed = !base.core.control.redirectors().is_empty()
            || self.listeners.concern(service)
            || !base.core.locals.is_own(service.ip());
        needed.then_some(at)
    }

    /// A redirector has announced everything that listens.
    pub(crate) fn on_looked(
        &mut self,
        base: &mut Base,
        relays: &mut Relays,
        redirector: u64,
        id: u64,
    ) {
        if let Some(look) = self.listeners.looks.iter_mut().find(|look| look.id == id) {
            look.asked.retain(|one| *one != redirector);
        }
        self.answer_looked(base, relays);
    }

    /// A redirector has gone.
    pub(crate) fn drop_looks(&mut self, base: &mut Base, relays: &mut Relays, redirector: u64) {
        for look in &mut self.listeners.looks {
            look.asked.retain(|one| *one != redirector);
        }
        self.answer_looked(base, relays);
    }

    /// Answers the flows for which everybody has looked, or had the time to.
    pub(crate) fn answer_looked(&mut self, base: &mut Base, relays: &mut Relays) {
        let now = base.core.now;
        let over = |look: &Look| look.asked.is_empty() || now >= look.until;
        let looks = std::mem::take(&mut self.listeners.looks);
        let (over, waiting): (Vec<_>, Vec<_>) = looks.into_iter().partition(over);
        self.listeners.looks = waiting;
        for Look { incoming, .. } in over {
            if super::super::waiting::is_still_asked(base, &incoming) {
                self.answer_incoming(base, relays, incoming);
            }
        }
    }

    /// Whether a socket of programs in a cgroup may listen there some day. A peer that hears that the service
    /// is out of reach would not ask again for a while.
    pub(crate) fn may_listen_later(
        &mut self,
        base: &Base,
        service: SocketAddr,
        client: &Client,
    ) -> bool {
        if base.core.control.redirectors().is_empty() || !may_lead(&base.core, service, client) {
            return false;
        }
        let found = self.listeners.table.matching_listeners(base.core.now, service);
        found.is_some_and(|found| found.is_empty())
    }
}

fn may_lead(core: &Core, service: SocketAddr, client: &Client) -> bool {
    core.rules.listener(service, Some(client)).0 == Policy::Enable
}
