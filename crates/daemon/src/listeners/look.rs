//! Sockets that listen already and were not announced yet.
//!
//! A redirector hears of `listen` when it has happened. A peer that comes meanwhile must not be told that
//! the service is out of reach, which it would remember: its flow waits until every redirector has looked,
//! about a millisecond.

use super::kernel_table;
use crate::allow;
use crate::dial::Incoming;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_engine::{Duration, Instant};
use manypath_rules::Policy;
use std::net::SocketAddr;

/// How long redirectors may take.
const LIMIT: Duration = Duration::from_millis(500);
/// Flows that wait at most; further ones are answered by what is known.
const MAX_LOOKS: usize = 256;

/// A flow that waits.
#[derive(Debug)]
pub(super) struct Look {
    id: u64,
    until: Instant,
    incoming: Incoming,
    /// Redirectors that have not answered.
    asked: Vec<u64>,
}

impl Stack {
    /// Whether a flow waits now until redirectors have looked: nobody vouches for a socket that could get
    /// its connection.
    pub(crate) fn look_first(&mut self, incoming: Incoming) -> bool {
        let service = allow::canonical(incoming.destination);
        let asked = self.control.redirectors();
        if asked.is_empty() || self.listeners.looks.len() >= MAX_LOOKS || !self.may_lead(service) {
            return false;
        }
        let takers = kernel_table::takers(service).unwrap_or_default();
        if takers.iter().all(|inode| self.listeners.knows(*inode)) {
            return false;
        }
        self.counters.count("listeners_looked_for");
        let (id, until) = (self.next_id(), self.now + LIMIT);
        for redirector in &asked {
            self.reply(*redirector, Reply::Look { id });
        }
        self.timers.set(until, Timer::Look);
        self.listeners.looks.push(Look { id, until, incoming, asked });
        true
    }

    /// A redirector has announced everything that listens.
    pub(crate) fn on_looked(&mut self, redirector: u64, id: u64) {
        if let Some(look) = self.listeners.looks.iter_mut().find(|look| look.id == id) {
            look.asked.retain(|one| *one != redirector);
        }
        self.answer_looked();
    }

    /// A redirector has gone.
    pub(crate) fn drop_looks(&mut self, redirector: u64) {
        for look in &mut self.listeners.looks {
            look.asked.retain(|one| *one != redirector);
        }
        self.answer_looked();
    }

    /// Answers the flows for which everybody has looked, or had the time to.
    pub(crate) fn answer_looked(&mut self) {
        let now = self.now;
        let over = |look: &Look| look.asked.is_empty() || now >= look.until;
        let looks = std::mem::take(&mut self.listeners.looks);
        let (over, waiting): (Vec<_>, Vec<_>) = looks.into_iter().partition(over);
        self.listeners.looks = waiting;
        for Look { incoming, .. } in over {
            let known = self.associations.get(&incoming.association);
            if known.is_none_or(|known| known.mux.status(incoming.flow).is_none()) {
                self.counters.count("dials_dropped");
            } else {
                self.answer_incoming(incoming);
            }
        }
    }

    /// Whether a socket of programs in a cgroup may listen there some day. A peer that hears that the service
    /// is out of reach would not ask again for a while.
    pub(crate) fn may_listen_later(&self, destination: SocketAddr) -> bool {
        let service = allow::canonical(destination);
        let free = || kernel_table::takers(service).is_ok_and(|takers| takers.is_empty());
        !self.control.redirectors().is_empty() && self.may_lead(service) && free()
    }

    fn may_lead(&self, service: SocketAddr) -> bool {
        self.rules.listener(service).0 == Policy::Enable
    }
}
