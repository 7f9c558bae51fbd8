//! Connections by a relay: a flow to it that leads on to the destination.
//!
//! ```text
//! relays in order ─▶ association, encrypted ─▶ flow beyond it ─┬─▶ accepted, or failed as the relay's own connect
//!        ▲                                                     └─▶ no relay, no answer, or closed to the destination
//!        └─────────────────────────────────── the next one ◀───────────┘
//! none is left: plain TCP, or refused where the rules allow nothing else
//! ```
//!
//! A relay of an earlier version never answers whether it is one, so it has a moment to do so. That a host is no relay is
//! remembered here and not with the peers, so that connections to its own services are still carried.

use super::{Attempt, Attempts, Open, Sctp};
use crate::base::Base;
use crate::core::Core;
use crate::ids::{AttemptId, Client, Control};
use crate::log;
use crate::names::{Asker, Party};
use crate::peers::Peers;
use crate::privileged::Acceptor;
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Duration, Instant};
use manypath_flow::{Beyond, Destination, FlowId, HostName};
use manypath_rules::{Encrypt, Form, Options, Policy, RelayHost, StepAside, Via};
use manypath_trust::is_key_address;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use tracing::{debug, warn};

/// How long a relay may leave unanswered whether it is one, beyond four of its round trips.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How long connections go elsewhere when a relay with an association was silent: it may be moving between networks.
const SILENT_PAUSE: Duration = Duration::from_secs(5);

/// How often names of relays are looked up, and when one has no address.
const AGAIN: Duration = Duration::from_secs(300);
const SOON_AGAIN: Duration = Duration::from_secs(10);

/// A relay at one of its addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RelayAt {
    pub(crate) addr: IpAddr,
    pub(crate) acceptor: Acceptor,
}

/// The relays by which a connection may go.
#[derive(Debug)]
pub(super) struct ByRelay {
    relays: Vec<RelayAt>,
    /// How many have been tried; the last of them is tried now.
    tried: usize,
    /// Since when the present one could have said that it relays.
    asked: Option<Instant>,
    /// The destination, where its address is not known here.
    name: Option<HostName>,
}

impl ByRelay {
    pub(super) const fn new(relays: Vec<RelayAt>, name: Option<HostName>) -> Self {
        Self { relays, tried: 0, asked: None, name }
    }

    /// The relay that is tried.
    pub(super) fn current(&self) -> Option<RelayAt> {
        self.relays.get(self.tried.checked_sub(1)?).copied()
    }

    /// Whether the relay resolves the destination.
    pub(super) const fn is_named(&self) -> bool {
        self.name.is_some()
    }

    fn next(&mut self) -> Option<RelayAt> {
        let next = self.relays.get(self.tried).copied()?;
        self.tried += 1;
        Some(next)
    }

    /// The relay has not been asked over this association before.
    pub(super) const fn ask_anew(&mut self) {
        self.asked = None;
    }

    pub(super) fn beyond(&self, open: &Open) -> Beyond {
        let destination = match &self.name {
            Some(name) => Destination::Name(name.clone(), open.destination.port()),
            None => open.destination.into(),
        };
        Beyond { destination, passed: open.passed }
    }
}

/// Where relays are, and which of them are not to be asked now.
#[derive(Debug, Default)]
pub(crate) struct RelayHosts {
    addresses: BTreeMap<&'static str, Vec<IpAddr>>,
    down: BTreeMap<RelayAt, Instant>,
    /// When names are looked up again; a timer that comes sooner has been overtaken.
    again: Instant,
}

impl RelayHosts {
    /// The relays for a connection; `None` if it uses none.
    pub(super) fn of(
        &self,
        core: &Core,
        destination: SocketAddr,
        options: &Options,
    ) -> Option<Vec<RelayAt>> {
        // What leads to a host that is known by its key is an association with that host.
        let is_named = |via: &Via| !via.is_off() && !is_key_address(destination.ip());
        let via = options.via.or(core.config.via).filter(is_named)?;
        let relays = via.relays().flat_map(|host| self.at(core, host));
        let relays: Vec<_> = relays.filter(|relay| !core.locals.is_own(relay.addr)).collect();
        let is_relay = relays.iter().any(|relay| relay.addr == destination.ip());
        (!is_relay && core.config.gateway.is_none()).then_some(relays)
    }

    fn at(&self, core: &Core, host: RelayHost<'static>) -> Vec<RelayAt> {
        let usual = core.config.peer_port();
        let port = host.port.filter(|port| usual != 0 && *port != usual);
        let acceptor = port.map_or(Acceptor::Anyone, Acceptor::At);
        let known = || self.addresses.get(host.host).cloned().unwrap_or_default();
        let addresses = host.host.parse().map_or_else(|_| known(), |addr| vec![addr]);
        addresses.into_iter().map(|addr| RelayAt { addr, acceptor }).collect()
    }

    /// Whether the relay was of no use a short while ago.
    fn passes_over(&self, core: &Core, peers: &Peers, relay: RelayAt) -> bool {
        let gone = || peers.lookup_peer(core.now, relay.addr, relay.acceptor).is_some();
        core.config.carrying.peer_cache && (self.is_down(core.now, relay) || gone())
    }

    fn is_down(&self, now: Instant, relay: RelayAt) -> bool {
        self.down.get(&relay).is_some_and(|until| *until > now)
    }

    /// Whether a connection of this host to `destination` uses a relay.
    pub(crate) fn lead_to(&self, core: &Core, destination: SocketAddr) -> bool {
        let (policy, options) = core.rules.connect(destination);
        policy == Policy::Enable && self.of(core, destination, &options).is_some()
    }

    /// A relay was of no use, to a connection or to datagrams.
    pub(crate) fn note_failure(&mut self, core: &Core, relay: RelayAt, reason: FallbackReason) {
        use FallbackReason as R;
        debug!(target: log::CONNECTION, "relay {}: {reason}", relay.addr);
        if matches!(reason, R::NotRelay | R::RelayUnknown | R::Silent) {
            let silent = reason == R::Silent;
            let pause = if silent { SILENT_PAUSE } else { core.config.limits.negative_cache };
            self.down.insert(relay, core.now + pause);
        }
    }

    /// Finds the addresses of relays that have names, and again after a while.
    pub(crate) fn find(&mut self, core: &mut Core, how: Lookup) {
        let own = [core.config.via, core.config.carrying.register];
        let all = core.rules.relays().into_iter().chain(own.into_iter().flatten());
        let hosts = all.flat_map(Via::relays).map(|relay| relay.host);
        let names: BTreeSet<_> = hosts.filter(|host| host.parse::<IpAddr>().is_err()).collect();
        for name in &names {
            match how {
                Lookup::Now => {
                    let found = (*name, 0).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
                    let found = found.unwrap_or_default().into_iter().map(|it| it.ip());
                    self.note(core, name, found.collect());
                }
                Lookup::Beside => drop(core.names.ask(Asker::Relay(name), Party::Own, name)),
            }
        }
        if !names.is_empty() {
            let missing = names.iter().any(|name| !self.addresses.contains_key(name));
            let pause = if missing { SOON_AGAIN } else { AGAIN };
            self.again = core.now + pause;
            core.after(pause, Timer::RelayNames);
        }
    }

    pub(crate) fn on_names_timer(&mut self, core: &mut Core) {
        if self.again <= core.now {
            self.find(core, Lookup::Beside);
        }
    }

    /// Addresses of a relay were looked for. Those that were known are kept if there are none now.
    pub(crate) fn note(&mut self, core: &mut Core, name: &'static str, found: Vec<IpAddr>) {
        if found.is_empty() {
            core.count("relay_names_unresolved");
            warn!(target: log::STACK, "relay {name}: no address is found for this name");
            return;
        }
        let found = found.into_iter().map(|addr| addr.to_canonical()).collect();
        self.addresses.insert(name, found);
    }
}

impl Attempts {
    /// Somebody asks for a connection to a host by its name, which the relay resolves. Rules are asked about the port
    /// alone. `Reply::Direct` says that it cannot be: then the name is resolved here, and asked for by its address.
    pub(crate) fn on_open_named(
        &mut self,
        base: &mut Base,
        client: Client,
        open: Open,
        name: HostName,
    ) {
        let (policy, mut options) = base.core.rules.connect(open.destination);
        options.encrypt = Some(base.core.encrypt_demanded(client, &options));
        let relays = self.relays.of(&base.core, open.destination, &options);
        let begun = match (policy, relays) {
            (Policy::Enable, Some(relays)) => {
                let by = ByRelay::new(relays, Some(name));
                self.begin_by_relay(base, client, open, options, by)
            }
            _ => Err(FallbackReason::Rule),
        };
        match begun {
            Ok(()) => {}
            Err(reason) if super::must_fail(&options, reason) => {
                super::open::refuse_open(&mut base.core, client, open.destination, reason);
            }
            Err(reason) => base.core.reply(client.control, Reply::Direct { id: client.id, reason }),
        }
    }

    pub(super) fn begin_by_relay(
        &mut self,
        base: &mut Base,
        client: Client,
        open: Open,
        options: Options,
        mut by: ByRelay,
    ) -> Result<(), FallbackReason> {
        match by.is_named() {
            true if !base.core.phase.takes_work() => return Err(FallbackReason::Busy),
            true => {}
            false => base.core.check_ends(&open)?,
        }
        // However near the relay is, the destination is not; and a relay has no direct form.
        let (step_aside, form) = (Some(StepAside::Never), Some(Form::Mux));
        let options = Options { step_aside, form, ..options };
        let (association, flow) = self.ask_next(base, &open, &options, &mut by)?;
        let id = AttemptId(base.core.next_id());
        let mut attempt = Attempt::new(client, open, options, Sctp::Failed, base.core.now);
        attempt.by_relay = Some(by);
        self.all.insert(id, attempt);
        base.core.control.remember(client, id);
        base.core.count("opens_by_relay");
        self.ask_over(base, id, association, flow);
        self.tell_pending(base, id);
        Ok(())
    }

    /// A flow by the next relay that can be asked now, or why there is none.
    fn ask_next(
        &self,
        base: &mut Base,
        open: &Open,
        options: &Options,
        by: &mut ByRelay,
    ) -> Result<(AssociationId, FlowId), FallbackReason> {
        let mut why = FallbackReason::RelayUnresolved;
        while let Some(relay) = by.next() {
            if self.relays.passes_over(&base.core, &self.peers, relay) {
                why = FallbackReason::Remembered;
                continue;
            }
            match self.carrier_for(base, open, options, Some(by)) {
                Ok(opened) => return Ok(opened),
                Err(reason) => why = reason,
            }
        }
        Err(why)
    }

    /// The relay cannot be used: the next one is asked. False if there is none.
    pub(super) fn try_next_relay(
        &mut self,
        base: &mut Base,
        id: AttemptId,
        reason: FallbackReason,
    ) -> bool {
        let Some(attempt) = self.all.get_mut(&id) else { return false };
        let Some(mut by) = attempt.by_relay.take() else { return false };
        let (open, options) = (attempt.open, attempt.options);
        if let Some(relay) = by.current() {
            self.relays.note_failure(&base.core, relay, reason);
        }
        let opened = self.ask_next(base, &open, &options, &mut by);
        if let Some(attempt) = self.all.get_mut(&id) {
            (attempt.by_relay, attempt.moved) = (Some(by), false);
        }
        let Ok((association, flow)) = opened else { return false };
        base.core.count("relays_passed_over");
        base.core.count("opens_by_relay");
        self.ask_over(base, id, association, flow);
        true
    }

    pub(super) fn is_by_relay(&self, id: AttemptId) -> bool {
        self.all.get(&id).is_some_and(|attempt| attempt.by_relay.is_some())
    }

    /// Whether the relay has had its time to say that it is one, and has said nothing.
    pub(super) fn is_relay_mute(
        &mut self,
        base: &Base,
        id: AttemptId,
        association: AssociationId,
    ) -> bool {
        let Some(by) = self.all.get_mut(&id).and_then(|one| one.by_relay.as_mut()) else {
            return false;
        };
        let answered = base.get(&association).is_none_or(|one| one.mux.peer_relays().is_some());
        if answered || !base.is_established(association) || base.keys.holds(association) {
            return false;
        }
        let since = *by.asked.get_or_insert(base.core.now);
        base.core.now.since(since) >= base.core.answer_patience(association)
    }
}

/// How names are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    /// At once, before the loop begins.
    Now,
    /// By a thread beside the loop.
    Beside,
}

impl Core {
    /// How long a relay may leave unanswered whether it is one.
    pub(crate) fn answer_patience(&self, association: AssociationId) -> Duration {
        ANSWER_PATIENCE.max(self.longest_round_trip(association) * 4)
    }

    /// What is demanded of a connection's encryption. That a relay takes encrypted associations alone says nothing of
    /// the destinations of its peers: to most of them it connects by plain TCP.
    pub(super) fn encrypt_demanded(&self, client: Client, options: &Options) -> Encrypt {
        match client.control == Control::Onward {
            true => options.encrypt.unwrap_or_default(),
            false => self.encrypt_for(options),
        }
    }
}

/// Whether a relay is to resolve names of destinations at this port, instead of this host.
pub(crate) fn sends_names(core: &Core, port: u16) -> bool {
    let (policy, options) = core.rules.connect(SocketAddr::from(([0; 4], port)));
    let via = options.via.or(core.config.via).is_some_and(|via| !via.is_off());
    policy == Policy::Enable && via
}

/// The relays at `via` with an address, last those that were of no use a short while ago.
pub(crate) fn relays_at(attempts: &Attempts, core: &Core, via: Via) -> Vec<RelayAt> {
    let relays = via.relays().flat_map(|host| attempts.relays.at(core, host));
    let mut relays: Vec<_> = relays.filter(|relay| !core.locals.is_own(relay.addr)).collect();
    relays.sort_by_key(|relay| attempts.relays.passes_over(core, &attempts.peers, *relay));
    relays
}

/// The relays by which datagrams may go that can be asked now, or why there is none of them; `None` if they use no relay.
pub(crate) fn usable_relays(
    attempts: &Attempts,
    core: &Core,
    destination: SocketAddr,
    options: &Options,
) -> Option<Result<Vec<RelayAt>, FallbackReason>> {
    let mut relays = attempts.relays.of(core, destination, options)?;
    if relays.is_empty() {
        return Some(Err(FallbackReason::RelayUnresolved));
    }
    relays.retain(|relay| !attempts.relays.passes_over(core, &attempts.peers, *relay));
    Some(if relays.is_empty() { Err(FallbackReason::Remembered) } else { Ok(relays) })
}
