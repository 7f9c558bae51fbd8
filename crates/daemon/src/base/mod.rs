//! What the rooms of the stack stand on: the associations, and the flows on them.

mod association;
pub(crate) mod by_key;
mod direct;
mod flows;
pub(crate) mod presence;
pub(crate) mod protection;
pub(crate) mod proven;
mod route;
mod streams;
mod way;

pub(crate) use association::{Association, FlowUse, Setup, Up};
use flows::pump_datagrams;
pub(crate) use route::PeerKey;
use route::{check_route, udp_address};

use crate::core::Core;
use crate::keys::Keys;
use crate::log;
use crate::parameters::{self, Manner, STREAMS};
use crate::peers::Peers;
use crate::privileged::Acceptor;
use crate::timers::Timer;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, ConnectError, Duration, Instant, SendError};
use manypath_flow::{Fed, feed, unsent_limit};
use manypath_rules::Encrypt;
use manypath_trust::is_key_address;
use manypath_window::Budget;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tracing::info;

/// At least between two looks whether an association is in use.
const LOOK: Duration = Duration::from_secs(1);

/// The associations, the core below them, and what is to be done for them.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) core: Core,
    all: BTreeMap<AssociationId, Association>,
    /// Which association to use for a peer's address, among those that this side began.
    by_peer: BTreeMap<PeerKey, AssociationId>,
    /// Those whose flows may have events or messages.
    dirty: BTreeSet<AssociationId>,
    /// Those with messages that wait for room in the engine.
    waiting: BTreeSet<AssociationId>,
    /// Those whose messages wait for the answer to the INIT: it may show that plain TCP is better.
    unanswered: BTreeSet<AssociationId>,
    pub(crate) keys: Keys,
    /// What the windows of all flows take their memory from.
    memory: Budget,
}

impl Base {
    pub(crate) fn new(core: Core, keys: Keys, memory: u64) -> Self {
        let (all, by_peer, dirty, waiting, unanswered) = Default::default();
        Self { core, all, by_peer, dirty, waiting, unanswered, keys, memory: Budget::new(memory) }
    }

    pub(crate) fn get(&self, id: &AssociationId) -> Option<&Association> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &AssociationId) -> Option<&mut Association> {
        self.all.get_mut(id)
    }

    pub(crate) fn insert(&mut self, id: AssociationId, association: Association) {
        self.all.insert(id, association);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AssociationId, &Association)> {
        self.all.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Association> {
        self.all.values()
    }

    pub(crate) fn ids(&self) -> Vec<AssociationId> {
        self.all.keys().copied().collect()
    }

    /// Its flows may have events or messages.
    pub(crate) fn touch(&mut self, id: AssociationId) {
        self.dirty.insert(id);
    }

    /// Whether this side began it.
    pub(crate) fn is_ours(&self, id: AssociationId) -> bool {
        self.all.get(&id).is_some_and(Association::is_ours)
    }

    pub(crate) fn touched(&self) -> Vec<AssociationId> {
        self.dirty.iter().copied().collect()
    }

    /// The association to use for these connections.
    pub(crate) fn association_with(&self, key: &PeerKey) -> Option<AssociationId> {
        let find = |acceptor| {
            let id = self.by_peer.get(&PeerKey { acceptor, ..*key }).copied();
            id.filter(|id| !protection::is_in_doubt(self, *id))
        };
        let proven = find(Acceptor::Privileged);
        match key.acceptor {
            Acceptor::Privileged => proven,
            Acceptor::At(_) => find(key.acceptor),
            Acceptor::Anyone => {
                proven.filter(|id| self.is_established(*id)).or_else(|| find(Acceptor::Anyone))
            }
        }
    }

    /// Connections to one of its addresses are not its own any more.
    pub(crate) fn disown(&mut self, id: AssociationId, addr: IpAddr) {
        self.by_peer.retain(|key, used| *used != id || key.addr != addr);
    }

    /// Connections to come do not use it.
    pub(crate) fn retire(&mut self, id: AssociationId) {
        self.by_peer.retain(|_, used| *used != id);
    }

    pub(crate) const fn memory(&self) -> &Budget {
        &self.memory
    }

    /// Whether nothing is left to be done for any of them at once.
    pub(crate) fn is_settled(&self) -> bool {
        self.dirty.is_empty() && !self.can_pump()
    }

    /// Whether messages wait for room in the engine.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lets its messages wait for the answer to the INIT.
    pub(crate) fn hold(&mut self, id: AssociationId) {
        self.unanswered.insert(id);
    }

    /// Its messages wait no longer.
    pub(crate) fn let_go(&mut self, id: AssociationId) {
        self.unanswered.remove(&id);
    }

    /// Those whose messages wait for the answer to the INIT.
    pub(crate) const fn unanswered(&self) -> &BTreeSet<AssociationId> {
        &self.unanswered
    }

    /// The association to use for `destination`, begun now if there is none that is beyond doubt, for a program that has
    /// bound the address `source` if there is one.
    pub(crate) fn association_for(
        &mut self,
        destination: SocketAddr,
        source: Option<IpAddr>,
        manner: Manner,
        acceptor: Acceptor,
        encrypt: Encrypt,
    ) -> Result<AssociationId, FallbackReason> {
        let encrypt = protection::feasible(self, encrypt)?;
        if is_key_address(destination.ip()) {
            by_key::begin(self)?;
        }
        let realm = self.core.scopes.realm_towards(destination.ip(), source);
        let key = PeerKey { addr: destination.ip(), manner, acceptor, encrypt, realm };
        if let Some(id) = self.association_with(&key) {
            let kept = self.keys.note_use(id, key.addr);
            protection::note_kept(self, kept);
            return Ok(id);
        }
        let doubted = self.by_peer.get(&key).copied();
        match begin_association(self, key) {
            Ok(id) => {
                self.all.get_mut(&id).into_iter().for_each(|one| one.beside = doubted);
                Ok(id)
            }
            Err(reason) => doubted.ok_or(reason),
        }
    }

    /// Whether the association is established and takes flows.
    pub(crate) fn is_established(&self, id: AssociationId) -> bool {
        let association = self.all.get(&id);
        association.is_some_and(|association| association.setup == Setup::Established)
    }

    /// Lets connections to every address where the peer has proved to be use the association, and
    /// clears their entries in the negative cache.
    pub(crate) fn adopt_peer_addresses(&mut self, peers: &mut Peers, id: AssociationId) {
        let Some(association) = self.all.get(&id) else { return };
        // A native program at an address says nothing of a manypath there.
        let Some(manner) = association.begun_with.filter(|_| !association.mux.is_direct()) else {
            return;
        };
        if self.keys.holds(id) {
            return;
        }
        let (encrypt, near) = (association.encrypt, self.core.gains_nothing(id));
        let realm = self.core.driver.endpoint().realm(id);
        let mut living = self.living_acceptors(id);
        living.retain(|(addr, _)| self.keys.may_lead_to(id, *addr));
        for (addr, acceptor) in living {
            peers.forget_peer(self.core.now, addr, acceptor);
            if !near {
                peers.forget_near_and_tell(&mut self.core, Some(addr));
            }
            let key = PeerKey { addr, manner, acceptor, encrypt, realm };
            let used = self.by_peer.get(&key).filter(|used| !protection::is_in_doubt(self, **used));
            if used.is_none() {
                self.by_peer.insert(key, id);
            }
        }
    }

    /// New connections to an address that has failed are not the peer's any more: another host may have it by now. One
    /// that answers again is adopted again; until then plain TCP, or an association of its own, finds who is there.
    pub(crate) fn disown_failed_addresses(&mut self, id: AssociationId) {
        if !self.is_established(id) {
            return;
        }
        let living = self.living_acceptors(id);
        self.by_peer.retain(|key, used| *used != id || living.contains(&(key.addr, key.acceptor)));
    }

    pub(crate) fn on_peer_shutdown(&mut self, id: AssociationId) {
        if let Some(association) = self.all.get_mut(&id) {
            association.setup = Setup::Ending;
        }
        self.retire(id);
        self.on_direct_peer_end(id);
    }

    pub(crate) fn remove(&mut self, id: AssociationId) {
        if let Some(gone) = self.all.remove(&id) {
            self.core.counters.add_flows(gone.mux.counters().entries());
            let datagrams = gone.mux.datagrams().map(|datagrams| datagrams.counters().entries());
            self.core.counters.add_datagrams(datagrams.unwrap_or_default());
            self.limit_added_streams();
        }
        self.retire(id);
        self.core.path_policies.forget(id);
        self.dirty.remove(&id);
        self.waiting.remove(&id);
        self.unanswered.remove(&id);
        self.keys.forget(id);
    }

    /// `native`: it speaks SCTP, if not with manypath's port and form.
    pub(crate) fn remember_failed_connect(
        &self,
        peers: &mut Peers,
        id: AssociationId,
        reason: FallbackReason,
        native: bool,
    ) {
        // What does not answer over some uplinks may over others.
        let tells = |key: &PeerKey| key.manner.limits.is_none();
        let keys = self.by_peer.iter().filter(|(key, used)| **used == id && tells(key));
        let keys: Vec<_> = keys.map(|(key, _)| (key.addr, key.acceptor)).collect();
        for (peer, acceptor) in keys {
            match native {
                true => peers.remember_native(self.core.now, peer, acceptor),
                false => peers.remember_peer(self.core.now, peer, acceptor, reason),
            }
        }
    }

    /// Whether the association is encrypted from now on.
    pub(crate) fn read_messages(&mut self, id: AssociationId) -> bool {
        if self.is_direct(id) {
            self.read_direct(id);
            return false;
        }
        let Some(association) = self.all.get_mut(&id) else { return false };
        association.mux.advance_time(self.core.now);
        let mut is_new = false;
        while let Some(message) = self.core.driver.endpoint_mut().read(id) {
            match protection::take_message(self, id, message) {
                Ok(news) => is_new |= news,
                Err(protection::Ended) => return false,
            }
        }
        self.touch(id);
        is_new
    }

    /// Hands messages of the flows to the engine, as many as it should hold.
    pub(crate) fn pump_messages(&mut self) {
        let mut ids = std::mem::take(&mut self.dirty);
        ids.append(&mut self.waiting);
        for id in ids {
            self.pump(id);
        }
    }

    /// Whether the engine has sent so much that it can be given more.
    pub(crate) fn can_pump(&self) -> bool {
        let endpoint = self.core.driver.endpoint();
        self.waiting.iter().any(|id| endpoint.unsent(*id) < unsent_limit(endpoint, *id))
    }

    fn pump(&mut self, id: AssociationId) {
        if self.unanswered.contains(&id) || self.keys.holds(id) {
            return;
        }
        self.note_activity(id);
        self.read_direct(id);
        let Some(association) = self.all.get_mut(&id) else { return };
        association.spoken = true;
        let endpoint = self.core.driver.endpoint_mut();
        association.mux.advance_time(self.core.now);
        if let Some(datagrams) = association.mux.datagrams_mut() {
            let limit = unsent_limit(endpoint, id);
            if !pump_datagrams(self.core.now, endpoint, id, datagrams, limit) {
                self.waiting.insert(id);
            }
        }
        let (fed, taken) =
            feed(self.core.now, endpoint, id, &mut association.mux, &mut association.held);
        // Flows whose messages were taken may have room now, and some may be about to write for their turn.
        if taken > 0 || association.mux.has_events() {
            self.touch(id);
        }
        match fed {
            Fed::Enough => drop(self.waiting.insert(id)),
            Fed::Drained => self.end_direct(id),
            // `Event::Writable` brings us back; an association that ends says so itself.
            Fed::Full | Fed::Refused(SendError::UnknownAssociation | SendError::ShuttingDown) => {}
            // The peer may use a stream before it has told us that we may, too.
            Fed::Refused(SendError::InvalidStream) if self.has_added_streams(id) => {}
            Fed::Refused(_) => {
                self.core.count("messages_rejected_by_engine");
                self.core.abort(id, b"stream out of range");
            }
        }
    }

    /// Looks after the association when it has been without flows for some time.
    pub(crate) fn watch_idle(&mut self, id: AssociationId) {
        let now = self.core.now;
        let Some(association) = self.all.get_mut(&id) else { return };
        association.idle.since = now;
        let timeout = self.core.idle_timeout(self.is_ours(id));
        look_for_idle(self, id, now + timeout);
    }

    pub(crate) fn on_idle_timer(&mut self, id: AssociationId) {
        let (now, timeout) = (self.core.now, self.core.idle_timeout(self.is_ours(id)));
        let Some(association) = self.all.get_mut(&id) else { return };
        if association.idle.look.is_some_and(|look| look > now) {
            return;
        }
        association.idle.look = None;
        if association.setup != Setup::Established {
            return;
        }
        let is_in_use = !association.is_unused() || association.is_kept;
        let due = association.idle.since + timeout;
        if is_in_use {
            // Those of this host are watched anew when their last flow ends, or when they are not kept any more.
            if !association.is_ours() {
                look_for_idle(self, id, now + timeout.max(LOOK));
            }
            return;
        }
        if now < due {
            return look_for_idle(self, id, due);
        }
        association.setup = Setup::Ending;
        if !association.is_ours() {
            self.core.count("idle_peer_associations_ended");
        }
        self.retire(id);
        self.core.driver.endpoint_mut().shutdown(self.core.now, id);
    }
}

/// Begins the association for these connections.
fn begin_association(base: &mut Base, key: PeerKey) -> Result<AssociationId, FallbackReason> {
    let PeerKey { addr, manner, acceptor, encrypt, realm } = key;
    let Manner { profile, limits, announce } = manner;
    let remote = udp_address(&base.core, addr, acceptor)?;
    if !is_key_address(remote.ip()) {
        check_route(&base.core, remote.ip())?;
    }
    let (now, port) = (base.core.now, manypath_flow::SCTP_PORT);
    let (config, own) = (&base.core.config, (profile, encrypt, announce));
    let usual = (config.profile, base.core.encrypt_of_peers(), config.carrying.announce);
    let is_usual = own == usual && realm.is_none() && !base.keys.is_unkept();
    let own = base.core.scopes.within(realm, parameters::with(config, manner, encrypt))?;
    let rules = (!limits.is_none()).then(|| base.core.limited_rules(limits));
    let endpoint = base.core.driver.endpoint_mut();
    let connected = match is_usual && rules.is_none() {
        true => endpoint.connect_from_free_port(now, remote, port),
        false => endpoint.connect_with(now, remote, port, own, rules),
    };
    let id = connected.map_err(unconnected)?;
    base.core.path_policies.limit(id, limits);
    let association =
        Association::new(Some(manner), Setup::Connecting, base.core.now, STREAMS, &base.memory);
    base.all.insert(id, association.asked(acceptor, encrypt));
    base.by_peer.insert(key, id);
    if encrypt != Encrypt::Off {
        let ticket = base.keys.offer(now, id, (key.addr, remote));
        base.core.driver.endpoint_mut().offer_ticket(now, id, &ticket);
    }
    info!(target: log::ASSOCIATION, "association {} to {remote}: trying", id.0);
    Ok(id)
}

/// One look is enough, which decides when the next one is: timers are not taken back.
fn look_for_idle(base: &mut Base, id: AssociationId, at: Instant) {
    let Some(association) = base.all.get_mut(&id) else { return };
    if association.idle.look.is_none_or(|look| look > at) {
        association.idle.look = Some(at);
        base.core.timers.set(at, Timer::Idle(id));
    }
}

/// Why no association was begun.
const fn unconnected(error: ConnectError) -> FallbackReason {
    match error {
        ConnectError::NoLocalAddress | ConnectError::InvalidPort => FallbackReason::NoLocalAddress,
        ConnectError::TooMany | ConnectError::AlreadyConnected => FallbackReason::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Locals, StackConfig};
    use crate::stack::Stack;
    use manypath_rules::Options;

    const ID: AssociationId = AssociationId(1);

    /// An association of this host, or of its peer, with nothing in it.
    fn stack_with_one(is_ours: bool) -> Stack {
        let locals = Locals::List(vec![std::net::Ipv4Addr::LOCALHOST.into()]);
        let config = StackConfig { locals, loopback_paths: true, ..StackConfig::default() };
        let mut stack = Stack::new(config).unwrap();
        let base = &mut stack.base;
        let manner = parameters::manner(&base.core.config, &Options::default());
        let begun_with = is_ours.then_some(manner);
        let memory = base.memory.clone();
        let association =
            Association::new(begun_with, Setup::Established, base.core.now, STREAMS, &memory);
        base.insert(ID, association);
        base.watch_idle(ID);
        stack
    }

    /// Lets time pass, and looks when that is due.
    fn pass(base: &mut Base, seconds: u64) {
        for _ in 0..seconds {
            base.core.now = base.core.now + Duration::from_secs(1);
            while let Some(timer) = base.core.timers.pop(base.core.now) {
                if let Timer::Idle(id) = timer {
                    base.on_idle_timer(id);
                }
            }
        }
    }

    fn has_ended(base: &Base) -> bool {
        base.get(&ID).unwrap().setup == Setup::Ending
    }

    #[test]
    fn an_association_that_is_kept_stays_however_often_its_flows_end_and_has_one_timer() {
        for is_ours in [false, true] {
            let mut stack = stack_with_one(is_ours);
            let base = &mut stack.base;
            base.get_mut(&ID).unwrap().is_kept = true;
            for _ in 0..1000 {
                base.watch_idle(ID);
                pass(base, 3);
                assert!(base.core.timers.count(Timer::Idle(ID)) <= 1);
            }
            assert!(!has_ended(base));
            base.get_mut(&ID).unwrap().is_kept = false;
            base.watch_idle(ID);
            let timeout = base.core.idle_timeout(is_ours).as_secs();
            pass(base, timeout - 1);
            assert!(!has_ended(base));
            pass(base, 1);
            assert!(has_ended(base));
        }
    }
}
