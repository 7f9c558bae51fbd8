//! The search for a relay that leads to a host: those of the rule in turn, until one of them has joined the two.
//!
//! ```text
//! packet for a host ─▶ next relay ─▶ association ─▶ is it a relay? ─▶ flow ─┬─▶ joined: what waits has gone that way
//!                        ▲                │               │                 └─▶ the host is not there
//!                        └── no answer ───┴─── it is none ┴──────────────────────────┘
//! ```

use super::super::agree::datagrams_agreed;
use super::super::onward::{association_with, relays};
use super::{LIFETIME, MAX_HOSTS, Rendezvous};
use crate::attempt::{Attempts, RelayAt, patience_with_relay, relays_at};
use crate::base::Base;
use crate::base::by_key::{PATIENCE, PORT};
use crate::ids::DatagramId;
use crate::log;
use crate::timers::Timer;
use manypath_control::status::{FallbackReason, RelayTried, SearchStatus};
use manypath_engine::{AssociationId, Instant, PathAddr};
use manypath_flow::Refusal;
use manypath_net::Parcel;
use manypath_rules::{Options, Via};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tracing::{debug, info};

/// Packets that wait for a way to their host: a handshake has no more under way.
const MAX_HELD: usize = 16;
/// Searches that status tells of: those in which a relay was of no use.
const MAX_TOLD: usize = 16;

/// Why a relay was of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    NotRegistered,
    Failed(FallbackReason),
}

impl Outcome {
    const NO_ANSWER: Self = Self::Failed(FallbackReason::Silent);

    const fn of(why: Option<Refusal>) -> Self {
        match why {
            Some(Refusal::Errno(_)) => Self::NotRegistered,
            Some(Refusal::NotRelay) => Self::Failed(FallbackReason::NotRelay),
            Some(Refusal::OverQuota) => Self::Failed(FallbackReason::OverQuota),
            Some(_) => Self::Failed(FallbackReason::Refused),
            None => Self::NO_ANSWER,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::NotRegistered => "not-registered",
            Self::NO_ANSWER => "no-answer",
            Self::Failed(reason) => reason.name(),
        }
    }
}

/// A host to which a way is looked for.
#[derive(Debug)]
pub(super) struct Search {
    /// The relays that have not been tried, the best last.
    relays: Vec<RelayAt>,
    /// The one that is tried, the association with it, and the flow by it that it has not joined yet.
    current: Option<RelayAt>,
    association: Option<AssociationId>,
    leg: Option<DatagramId>,
    /// When the next one is tried if this one has not answered.
    moves_on: Instant,
    /// Packets that go by each relay that is tried.
    held: Vec<Parcel>,
    until: Instant,
    tried: Vec<(RelayAt, Outcome)>,
}

/// What is to be done next.
enum Step {
    Wait,
    Next,
    PassOver(Outcome),
    Open(AssociationId),
    GiveUp,
}

impl Search {
    const fn new(relays: Vec<RelayAt>, now: Instant, until: Instant) -> Self {
        Self {
            relays,
            current: None,
            association: None,
            leg: None,
            moves_on: now,
            held: Vec::new(),
            until,
            tried: Vec::new(),
        }
    }

    /// Whether this flow is the one that the relay has not joined yet.
    pub(super) fn has_leg(&self, id: DatagramId) -> bool {
        self.leg == Some(id)
    }

    /// Keeps a packet, if there is room.
    pub(super) fn hold(&mut self, parcel: Parcel) -> bool {
        let has_room = self.held.len() < MAX_HELD;
        if has_room {
            self.held.push(parcel);
        }
        has_room
    }

    fn step(&self, base: &mut Base) -> Step {
        let now = base.core.now;
        let Some(id) = self.association else {
            return if self.relays.is_empty() { Step::GiveUp } else { Step::Next };
        };
        if now >= self.until || base.get(&id).is_none() {
            return Step::PassOver(Outcome::NO_ANSWER);
        }
        let answer = match self.leg {
            Some(_) => None,
            None => relays(base, id),
        };
        match answer {
            Some(false) => Step::PassOver(Outcome::Failed(FallbackReason::NotRelay)),
            Some(true) if datagrams_agreed(base, id) => Step::Open(id),
            _ if now >= self.moves_on && !self.relays.is_empty() => {
                Step::PassOver(Outcome::NO_ANSWER)
            }
            _ => Step::Wait,
        }
    }

    /// Begins with the next relay. Returns why nothing has begun.
    fn begin_next(&mut self, base: &mut Base) -> Option<Outcome> {
        let relay = self.relays.pop()?;
        self.current = Some(relay);
        let unbound = Ipv4Addr::UNSPECIFIED.into();
        match association_with(base, relay, unbound, &Options::default()) {
            Ok(association) => {
                self.association = Some(association);
                self.wait(base, association);
                None
            }
            Err(reason) => Some(Outcome::Failed(reason)),
        }
    }

    /// The relay has some time to answer.
    fn wait(&mut self, base: &mut Base, association: AssociationId) {
        self.moves_on = base.core.now + patience_with_relay(base, association);
        base.core.timers.set(self.moves_on, Timer::Search);
    }

    /// The relay that is tried is of no use. Returns the flow by it that is to be closed.
    pub(super) fn pass_over(&mut self, outcome: Outcome) -> Option<DatagramId> {
        self.tried.extend(self.current.take().map(|relay| (relay, outcome)));
        self.association = None;
        self.leg.take()
    }

    fn status(&self, host: IpAddr, relay: Option<RelayAt>) -> SearchStatus {
        let tried = |(relay, outcome): &(RelayAt, Outcome)| RelayTried {
            relay: relay.addr,
            outcome: outcome.name().to_owned(),
        };
        SearchStatus {
            host,
            relay: relay.map(|relay| relay.addr),
            tried: self.tried.iter().map(tried).collect(),
        }
    }
}

impl Rendezvous {
    pub(super) fn hold_parcel(&mut self, base: &mut Base, attempts: &Attempts, parcel: Parcel) {
        let remote = parcel.path.remote;
        let is_known = self.searches.contains_key(&remote) || self.search(base, attempts, remote);
        let search = self.searches.get_mut(&remote).filter(|_| is_known);
        if !search.is_some_and(|search| search.hold(parcel)) {
            base.core.count("parcels_without_way");
        }
    }

    /// Begins to look for a way. False if that cannot be.
    fn search(&mut self, base: &mut Base, attempts: &Attempts, remote: SocketAddr) -> bool {
        let Some(via) = relays_towards(base, remote) else { return false };
        if self.searches.len() >= MAX_HOSTS {
            return false;
        }
        let mut relays = relays_at(attempts, &base.core, via);
        relays.reverse();
        let (now, until) = (base.core.now, base.core.now + PATIENCE);
        base.core.timers.set(until, Timer::Search);
        self.searches.insert(remote, Search::new(relays, now, until));
        true
    }

    /// Tries relays as far as that can be done now.
    pub(super) fn look_for_way(&mut self, base: &mut Base, remote: SocketAddr) {
        while let Some(search) = self.searches.get_mut(&remote) {
            match search.step(base) {
                Step::Wait => return,
                Step::Next => {
                    if let Some(outcome) = search.begin_next(base) {
                        self.leave_relay(base, remote, outcome);
                    }
                }
                Step::PassOver(outcome) => self.leave_relay(base, remote, outcome),
                Step::Open(association) => self.open_leg(base, association, remote),
                Step::GiveUp => return self.give_up_way(base, remote),
            }
        }
    }

    /// The relay that is tried for a host is of no use.
    fn leave_relay(&mut self, base: &mut Base, remote: SocketAddr, outcome: Outcome) {
        let Some(search) = self.searches.get_mut(&remote) else { return };
        let late = base.core.now >= search.until;
        // Where the host does not answer the relay has: others may be reached by it.
        let is_silent = outcome == Outcome::NO_ANSWER && search.leg.is_none() && !late;
        let silent = search.current.filter(|_| is_silent);
        self.silent.extend(silent.map(|relay| (relay, FallbackReason::Silent)));
        if late {
            search.relays.clear();
        }
        let leg = search.pass_over(outcome);
        base.core.count("relays_passed_over");
        leg.into_iter().for_each(|leg| self.end_leg(base, leg));
    }

    fn open_leg(&mut self, base: &mut Base, association: AssociationId, remote: SocketAddr) {
        let opened = base.core.scopes.own_key().and_then(|own| {
            let own = SocketAddr::new(own, PORT);
            base.with_datagrams(association, |datagrams| {
                datagrams.open_beyond(remote, own, LIFETIME)
            })
        });
        let Some(Ok(flow)) = opened else {
            return self.leave_relay(base, remote, Outcome::Failed(FallbackReason::Refused));
        };
        debug!(target: log::PATH, "{remote}: asked for at the relay of association {}", association.0);
        let id = self.begin_leg(base, (association, flow), remote);
        let Some(search) = self.searches.get_mut(&remote) else { return };
        search.leg = Some(id);
        search.wait(base, association);
        for parcel in search.held.clone() {
            self.send_parcel(base, id, &parcel);
        }
    }

    /// The relay has joined the two.
    pub(super) fn on_joined(&mut self, id: DatagramId) {
        let Some(leg) = self.legs.get(&id) else { return };
        let remote = leg.remote;
        if self.searches.get(&remote).is_some_and(|search| search.has_leg(id))
            && let Some(search) = self.searches.remove(&remote)
        {
            self.tell(&search, remote, search.current);
        }
    }

    /// The host has called meanwhile: what waits goes that way.
    pub(super) fn on_called(&mut self, base: &mut Base, id: DatagramId, remote: SocketAddr) {
        let Some(search) = self.searches.remove(&remote) else { return };
        search.held.iter().for_each(|parcel| self.send_parcel(base, id, parcel));
    }

    /// The relay has ended a flow that it had not joined. False if it was no such.
    pub(super) fn on_not_joined(
        &mut self,
        base: &mut Base,
        id: DatagramId,
        remote: SocketAddr,
        why: Option<Refusal>,
    ) -> bool {
        let search = self.searches.get_mut(&remote);
        let Some(search) = search.filter(|search| search.has_leg(id)) else { return false };
        search.leg = None;
        self.leave_relay(base, remote, Outcome::of(why));
        true
    }

    /// The association with a relay is over.
    pub(in super::super) fn on_relay_lost(
        &mut self,
        base: &mut Base,
        id: AssociationId,
        reason: FallbackReason,
    ) {
        let by_it = self.searches.iter().filter(|(_, search)| search.association == Some(id));
        let remotes: Vec<SocketAddr> = by_it.map(|(remote, _)| *remote).collect();
        // Nobody is there. "Refused" is what a relay says. One that has ended the association may be there again.
        let is_away = reason == FallbackReason::Refused;
        let outcome = if is_away { Outcome::NO_ANSWER } else { Outcome::Failed(reason) };
        for remote in remotes {
            self.leave_relay(base, remote, outcome);
        }
    }

    /// No relay leads to the host.
    fn give_up_way(&mut self, base: &mut Base, remote: SocketAddr) {
        let Some(search) = self.searches.remove(&remote) else { return };
        base.core.count("hosts_without_way");
        let tried = search.tried.iter();
        let tried: Vec<_> =
            tried.map(|(relay, outcome)| format!("{}: {}", relay.addr, outcome.name())).collect();
        let tried = if tried.is_empty() { "none has an address".into() } else { tried.join(", ") };
        info!(target: log::PATH, "{}: no relay leads to this host ({tried})", remote.ip());
        self.tell(&search, remote, None);
        refuse_parcels(base, remote);
    }

    /// Keeps what has come of a search for those who ask.
    fn tell(&mut self, search: &Search, remote: SocketAddr, relay: Option<RelayAt>) {
        let host = remote.ip();
        self.told.retain(|told| told.host != host);
        if search.tried.is_empty() && relay.is_some() {
            return;
        }
        if self.told.len() >= MAX_TOLD {
            self.told.pop_front();
        }
        self.told.push_back(search.status(host, relay));
    }

    /// Searches in which relays were of no use, the oldest first.
    pub(crate) fn searches(&self) -> Vec<SearchStatus> {
        self.told.iter().cloned().collect()
    }
}

/// The relays at which a host may be asked for. None at one that waits to be called: it finds no other way by itself.
pub(super) fn relays_towards(base: &Base, remote: SocketAddr) -> Option<Via> {
    let via = base.core.rules.connect(remote).1.via.or(base.core.config.via);
    via.filter(|via| !via.is_off())
}

fn refuse_parcels(base: &mut Base, remote: SocketAddr) {
    if let Some(own) = base.core.scopes.own_key() {
        let path = PathAddr { local: SocketAddr::new(own, PORT), remote };
        base.core.driver.refuse_parcels(base.core.now, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Locals, StackConfig};
    use crate::privileged::Acceptor;
    use crate::stack::Stack;

    /// Why relays are avoided for a while after a search whose relay was lost like that.
    fn avoided(reason: FallbackReason) -> Vec<FallbackReason> {
        let locals = Locals::List(vec![Ipv4Addr::LOCALHOST.into()]);
        let config = StackConfig { locals, loopback_paths: true, ..StackConfig::default() };
        let mut stack = Stack::new(config).unwrap();
        let base = &mut stack.base;
        let (now, id) = (base.core.now, AssociationId(1));
        let relay = RelayAt { addr: Ipv4Addr::LOCALHOST.into(), acceptor: Acceptor::Anyone };
        let begun = Search::new(Vec::new(), now, now + PATIENCE);
        let search = Search { current: Some(relay), association: Some(id), ..begun };
        let rendezvous = &mut stack.datagrams.rendezvous;
        rendezvous.searches.insert(SocketAddr::new(relay.addr, PORT), search);
        rendezvous.on_relay_lost(base, id, reason);
        rendezvous.take_silent().into_iter().map(|(_, why)| why).collect()
    }

    #[test]
    fn a_relay_that_restarts_during_a_search_is_not_avoided_and_one_that_is_not_there_is() {
        assert_eq!(avoided(FallbackReason::AssociationLost), []);
        assert_eq!(avoided(FallbackReason::NotAuthorized), []);
        assert_eq!(avoided(FallbackReason::Refused), [FallbackReason::Silent]);
        assert_eq!(avoided(FallbackReason::Silent), [FallbackReason::Silent]);
    }
}
