//! A launcher asks for a connection: whether it is carried, and how it begins.

use super::via::RelayAt;
use super::{Attempt, Attempts, ByRelay, Open, Sctp};
use crate::base::{Association, Base, FlowUse, by_key};
use crate::core::Core;
use crate::ids::{AttemptId, Client};
use crate::log;
use crate::parameters;
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Duration};
use manypath_flow::FlowId;
use manypath_rules::{Encrypt, Form, Options, Policy};
use manypath_trust::is_key_address;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tracing::{debug, info, warn};

/// The shortest silence that counts on an established association. It has other paths and
/// retransmits on them. With another look at a peer that seemed to live, and a round trip of plain TCP,
/// a program is connected within a second all the same.
const ESTABLISHED_SILENCE: Duration = Duration::from_millis(600);
/// The same where nothing else may be used: there is nothing to hurry to.
const ONLY_SILENCE: Duration = Duration::from_secs(1);
/// How much longer a service that was reached over SCTP before may be silent: two lost INITs, or a
/// long way, are more likely than a peer that has lost its stack.
const USUAL_PATIENCE: u32 = 3;

impl Attempts {
    /// A launcher asks for a connection.
    pub(crate) fn on_open(&mut self, base: &mut Base, client: Client, open: Open) {
        let (policy, mut options) = base.core.rules.connect(open.destination);
        options.encrypt = Some(base.core.encrypt_demanded(client, &options));
        let by_key = is_key_address(open.destination.ip());
        if by_key {
            options = by_key::options(options);
        }
        let source = open.source.map(|source| source.ip());
        base.core.hold_to_uplinks(&mut options, open.destination.ip(), source);
        let relays = self.relays.of(&base.core, open.destination, &options);
        let begun = match (policy, relays) {
            (Policy::Enable, Some(relays)) => {
                self.begin_by_relay(base, client, open, options, ByRelay::new(relays, None))
            }
            (Policy::Enable, None) => self.begin(base, client, open, options),
            (Policy::Disable, _) => Err(FallbackReason::Rule),
        };
        match begun {
            Ok(()) => {}
            // Nobody but the host with the key is at its address, so there is no plain TCP to it.
            Err(reason) if by_key || must_fail(&options, reason) => {
                refuse_open(&mut base.core, client, open.destination, reason);
            }
            Err(reason) if open.waiting => self.relay_plainly(base, client, open, options, reason),
            Err(reason) => go_direct(&mut base.core, client, open.destination, reason),
        }
    }

    /// SCTP is out of the question, and the program's socket cannot go back: plain TCP of our own.
    fn relay_plainly(
        &mut self,
        base: &mut Base,
        client: Client,
        open: Open,
        options: Options,
        reason: FallbackReason,
    ) {
        base.core.counters.count_fallback(reason);
        debug!(target: log::CONNECTION, "{}: plain TCP: {reason}", open.destination);
        let id = AttemptId(base.core.next_id());
        let mut attempt = Attempt::new(client, open, options, Sctp::Failed, base.core.now);
        attempt.fallback = Some(reason);
        self.all.insert(id, attempt);
        base.core.control.remember(client, id);
        if !base.core.control.is_redirector(client.control) {
            // It goes on without asking as long as nothing is left to the kernel.
            let destination = open.destination;
            base.core.reply(client.control, Reply::Plain { destination, for_ms: 0 });
        }
        self.tell_pending(base, id);
        self.tell_plain(base, client, &open, &options);
        self.start_tcp(base, id);
        self.settle_race(base, id);
    }

    /// Lets the kernel leave the next connects to the same service alone. Nothing is said where only
    /// SCTP may be used, or plain TCP over some uplinks alone: such a peer is asked again each time.
    pub(super) fn tell_plain(
        &self,
        base: &mut Base,
        client: Client,
        open: &Open,
        options: &Options,
    ) {
        let redirected = base.core.control.is_redirector(client.control);
        let relayed = self.relays.of(&base.core, open.destination, options).is_some();
        let wanted = redirected && open.waiting && base.core.config.carrying.peer_cache;
        let wanted = wanted && !options.may_need_sctp() && !relayed;
        let near = super::aside::may_step_aside(&base.core, options);
        let acceptor = base.core.acceptor_for(open.destination, options);
        let left = self.peers.plain_for(base.core.now, open.destination, acceptor, near);
        let left = left.filter(|_| wanted);
        if let Some(left) = left {
            let (destination, for_ms) = (open.destination, left.as_millis());
            let for_ms = u64::try_from(for_ms).unwrap_or(u64::MAX);
            base.core.reply(client.control, Reply::Plain { destination, for_ms });
        }
    }

    fn begin(
        &mut self,
        base: &mut Base,
        client: Client,
        open: Open,
        options: Options,
    ) -> Result<(), FallbackReason> {
        let destination = open.destination;
        base.core.check_suitable(&open)?;
        if super::aside::may_step_aside(&base.core, &options)
            && self.is_near(base, destination, &options)
        {
            return Err(FallbackReason::NothingToGain);
        }
        if let Some(reason) = self.remembered(base, destination, &options) {
            return Err(reason);
        }
        let (association, flow) = self.carrier_for(base, &open, &options, None)?;
        let trusted = base.core.config.carrying.peer_cache
            && self.peers.is_carried(base.core.now, destination);
        // A port of the program's own only its own socket can have.
        let has_port = open.source.is_some_and(|source| source.port() != 0);
        let may_race = base.core.config.carrying.tcp_race
            && !(trusted || has_port || options.is_sctp_only() || is_met(base, association));
        if may_race && !base.is_direct(association) && self.grace.is_crowd(base.core.now) {
            base.reset_flow(association, flow);
            return Err(FallbackReason::OneOfMany);
        }
        base.treat(association, flow, &options);
        let id = AttemptId(base.core.next_id());
        let received = base.core.packets_received(association);
        let sctp = Sctp::Opening { association, flow, received };
        let mut attempt = Attempt::new(client, open, options, sctp, base.core.now);
        let waits_for_peer = open.blocking && !may_race;
        if !waits_for_peer {
            attempt.routed_until = super::route::routed_until(base, &open, association);
        }
        self.all.insert(id, attempt);
        base.set_flow_use(association, flow, FlowUse::Attempt(id));
        base.core.control.remember(client, id);
        let alone = open.blocking || trusted || options.is_sctp_only();
        self.start_clocks(base, id, association, alone);
        super::aside::await_answer(base, association, &options);
        if waits_for_peer {
            self.begun.push(id);
            return Ok(());
        }
        // The launcher goes on while TCP begins.
        self.tell_pending_soon(base, id);
        if may_race {
            self.race(base, id);
        }
        Ok(())
    }

    /// The packets of this turn have left. The program of a blocking connect waits for their answer alone: the rest of
    /// its beginning comes now.
    pub(crate) fn follow_begun(&mut self, base: &mut Base) {
        for id in std::mem::take(&mut self.begun) {
            let Some(attempt) = self.all.get_mut(&id) else { continue };
            let Sctp::Opening { association, .. } = attempt.sctp else { continue };
            attempt.routed_until = super::route::routed_until(base, &attempt.open, association);
            self.tell_pending_soon(base, id);
        }
    }

    /// Why `destination` is not to be tried now, as far as is remembered. Without a fallback the peer is asked again
    /// each time. What the user can mend is said each time.
    fn remembered(
        &self,
        base: &Base,
        destination: SocketAddr,
        options: &Options,
    ) -> Option<FallbackReason> {
        let acceptor = base.core.acceptor_for(destination, options);
        let known = self.peers.lookup(base.core.now, destination, acceptor);
        let reason =
            known.filter(|_| base.core.config.carrying.peer_cache && !options.is_sctp_only())?;
        debug!(target: log::CONNECTION, "{destination}: remembered: {reason}");
        let is_told = reason == FallbackReason::UnprovenPort;
        Some(if is_told { reason } else { FallbackReason::Remembered })
    }

    /// The association and flow for a connection. With a relay they lead to the one that is tried now; without, they have
    /// the form of the rule, and are direct only to peers that are known to have no manypath.
    pub(super) fn carrier_for(
        &self,
        base: &mut Base,
        open: &Open,
        options: &Options,
        by: Option<&ByRelay>,
    ) -> Result<(AssociationId, FlowId), FallbackReason> {
        let manner = parameters::manner(&base.core.config, options);
        let RelayAt { addr: peer, acceptor } =
            by.and_then(ByRelay::current).unwrap_or_else(|| RelayAt {
                addr: open.destination.ip(),
                acceptor: base.core.acceptor_for(open.destination, options),
            });
        let is_native = || {
            base.core.config.carrying.peer_cache
                && self.peers.is_native(base.core.now, peer, acceptor)
        };
        let encrypt = if by.is_some() { Encrypt::Require } else { base.core.encrypt_for(options) };
        let is_direct = || options.form.map_or_else(is_native, |form| form == Form::Direct);
        if manner.limits.is_none() && is_direct() {
            if encrypt == Encrypt::Require {
                return Err(FallbackReason::NotEncrypted);
            }
            let source = open.source_or_unspecified();
            return base.begin_direct(open.destination, source, manner.profile, acceptor);
        }
        let source = open.source.map(|source| source.ip());
        let at = SocketAddr::new(peer, open.destination.port());
        let association = base.association_for(at, source, manner, acceptor, encrypt)?;
        let flow = open_flow(base, association, open, by)?;
        Ok((association, flow))
    }

    /// `alone`: plain TCP is not tried beside it.
    pub(super) fn start_clocks(
        &mut self,
        base: &mut Base,
        id: AttemptId,
        association: AssociationId,
        alone: bool,
    ) {
        let attempt = self.all.get(&id);
        let only = attempt.is_some_and(|attempt| attempt.options.is_sctp_only());
        let (now, remembers) = (base.core.now, base.core.config.carrying.peer_cache);
        let known = attempt.filter(|_| remembers);
        let usual = known.is_some_and(|known| self.peers.is_carried(now, known.open.destination));
        // Whether the host says that nobody listens, of this association or of the one beside which it was begun.
        let is_doubted = |id| base.get(&id).is_some_and(Association::is_doubted);
        let beside = base.get(&association).and_then(|one| one.beside);
        let in_doubt = is_doubted(association) || beside.is_some_and(is_doubted);
        let patience = if in_doubt && !self.is_by_relay(id) {
            base.core.patience_with(association)
        } else if attempt.is_some_and(|one| is_key_address(one.open.destination.ip())) {
            by_key::PATIENCE
        } else if base.is_established(association) {
            let silence = if only { ONLY_SILENCE } else { ESTABLISHED_SILENCE };
            base.core.patience_with(association).max(silence)
        } else {
            fallback_patience(&base.core, self.is_by_relay(id) || usual)
        };
        let head_start = base.core.config.limits.tcp_head_start.min(patience);
        let ends = (base.core.now + head_start, base.core.now + patience);
        if let Some(attempt) = self.all.get_mut(&id) {
            attempt.stop_clocks(&mut base.core.timers, id);
            attempt.patience = ends;
        }
        base.core.timers.set(ends.1, Timer::Fallback(id));
        if !alone {
            base.core.timers.set(ends.0, Timer::HeadStart(id));
        }
    }

    /// The peer's host says that nobody listens there: who waits for an answer over the association
    /// waits only as for a peer of which nothing was ever heard. `received` is the number of packets
    /// that the peer has sent so far.
    pub(crate) fn hurry_on(&mut self, base: &mut Base, association: AssociationId, received: u64) {
        let end = base.core.now + base.core.patience_with(association);
        for (id, attempt) in &mut self.all {
            match &mut attempt.sctp {
                Sctp::Opening { association: its, received: before, .. } if *its == association => {
                    *before = received;
                }
                Sctp::Opening { .. } | Sctp::Opened { .. } | Sctp::Failed => continue,
            }
            base.core.timers.unset(attempt.patience.1, Timer::Fallback(*id));
            if attempt.patience.1 <= base.core.now || attempt.patience.1 > end {
                attempt.patience.1 = end;
            }
            base.core.timers.set(attempt.patience.1, Timer::Fallback(*id));
        }
    }
}

/// Whether a blocking connect has begun in this turn, whose question is to leave.
pub(crate) const fn has_begun(attempts: &Attempts) -> bool {
    !attempts.begun.is_empty()
}

/// How long a peer without an association may leave unanswered what it is asked: longer if it is usual that it answers,
/// and with carriers, of which some take round trips before anything is asked by them. For connections and datagrams.
pub(crate) fn fallback_patience(core: &Core, is_usual: bool) -> Duration {
    let is_long = is_usual || !core.locals.tried.is_empty();
    core.config.limits.fallback_timeout * if is_long { USUAL_PATIENCE } else { 1 }
}

/// How long a relay may leave unanswered what it is asked now.
pub(crate) fn patience_with_relay(base: &Base, association: AssociationId) -> Duration {
    match base.is_established(association) {
        true => base.core.patience_with(association).max(ESTABLISHED_SILENCE),
        false => fallback_patience(&base.core, true),
    }
}

/// A flow to the peer, or beyond it once that has said that it relays.
pub(super) fn open_flow(
    base: &mut Base,
    id: AssociationId,
    open: &Open,
    by: Option<&ByRelay>,
) -> Result<FlowId, FallbackReason> {
    let association = base.get_mut(&id).ok_or(FallbackReason::AssociationLost)?;
    let source = open.source_or_unspecified();
    let opened = match by {
        Some(by) => association.mux.open_beyond(by.beyond(open), source),
        None => association.mux.open(open.destination, source),
    };
    base.touch(id);
    base.extend_streams(id);
    opened.map_err(|error| {
        warn!(target: log::CONNECTION, "association {}: {error}", id.0);
        FallbackReason::Busy
    })
}

/// Whether the peer has ever answered on the association.
fn is_met(base: &Base, association: AssociationId) -> bool {
    base.is_established(association) || base.core.packets_received(association) > 0
}

/// Tells the launcher to use plain TCP on the program's own socket.
pub(super) fn go_direct(
    core: &mut Core,
    client: Client,
    destination: SocketAddr,
    reason: FallbackReason,
) {
    core.counters.count_fallback(reason);
    info!(
        target: log::CONNECTION, carrier = "tcp",
        "connection to {destination}: left to the kernel as plain TCP: {reason}"
    );
    core.reply(client.control, Reply::Direct { id: client.id, reason });
}

/// Tells the launcher that the destination cannot be reached, because only SCTP may be used.
pub(super) fn refuse_open(
    core: &mut Core,
    client: Client,
    destination: SocketAddr,
    reason: FallbackReason,
) {
    core.note_refused(destination, reason);
    let errno = errno_of(destination, reason);
    core.reply(client.control, Reply::Failed { id: client.id, errno });
}

impl Core {
    /// Whether a connection can be carried to its destination.
    pub(crate) fn check_suitable(&self, open: &Open) -> Result<(), FallbackReason> {
        self.check_ends(open)?;
        let destination = open.destination.ip();
        match is_key_address(destination) || self.locals.has_family_of(destination) {
            true => Ok(()),
            false => Err(FallbackReason::NoLocalAddress),
        }
    }

    /// The same without regard to how the destination is reached.
    pub(crate) fn check_ends(&self, open: &Open) -> Result<(), FallbackReason> {
        let destination = open.destination.ip();
        if !self.phase.takes_work() {
            return Err(FallbackReason::Busy);
        }
        if destination.is_loopback() && !self.config.loopback_paths {
            return Err(FallbackReason::Loopback);
        }
        if !is_unicast(destination) || open.destination.port() == 0 {
            return Err(FallbackReason::NotUnicast);
        }
        if self.locals.is_own(destination) {
            return Err(FallbackReason::LocalAddress);
        }
        let source = open.source.map(|source| source.ip()).filter(|ip| !ip.is_unspecified());
        if source.is_some() && !self.config.carrying.force_bindall {
            return Err(FallbackReason::BoundAddress);
        }
        match source.is_some_and(|ip| !self.locals.is_own(ip)) {
            true => Err(FallbackReason::NoLocalAddress),
            false => Ok(()),
        }
    }

    /// A connection cannot be.
    pub(super) fn note_refused(&mut self, destination: SocketAddr, reason: FallbackReason) {
        self.count("opens_without_fallback");
        if reason.is_about_encryption() {
            self.count("opens_refused_unencrypted");
        }
        info!(
            target: log::CONNECTION,
            "connection to {destination}: refused: {reason}, and only SCTP may be used"
        );
    }

    /// How long a peer with an association may leave unanswered what it is asked now.
    pub(super) fn patience_with(&self, association: AssociationId) -> Duration {
        self.config.limits.fallback_timeout.max(self.longest_round_trip(association) * 2)
    }
}

/// Whether what is not carried must not fall back to plain TCP or UDP. Some things are never carried, whatever the rules
/// say: they do not leave the host, or a rule wants them as they are.
pub(crate) fn must_fail(options: &Options, reason: FallbackReason) -> bool {
    use FallbackReason as R;
    let demanded = options.encrypt == Some(Encrypt::Require)
        || options.path_limits().is_strict() && options.is_sctp_only();
    let is_usual = matches!(reason, R::Rule | R::Loopback | R::LocalAddress | R::NotUnicast);
    !is_usual && if reason == R::BoundAddress { demanded } else { options.is_sctp_only() }
}

/// What a program hears that must not fall back to TCP: as near to the truth as connect() can be.
pub(crate) fn errno_of(destination: SocketAddr, reason: FallbackReason) -> i32 {
    use FallbackReason as R;
    match reason {
        // No relay leads there.
        R::Refused if is_key_address(destination.ip()) => libc::EHOSTUNREACH,
        R::Silent => libc::ETIMEDOUT,
        R::Refused | R::NotManypath | R::NotAllowed | R::Remembered | R::UnprovenPort => {
            libc::ECONNREFUSED
        }
        R::NotEncrypted
        | R::NoLongerEncrypted
        | R::KeyChanged
        | R::KeyRevoked
        | R::KeyExchangeFailed
        | R::EncryptionRequired
        | R::NotAuthorized
        | R::RelayUnknown
        | R::NotRelay
        | R::NotRelayed
        | R::RelayCircle
        | R::OverQuota => libc::ECONNREFUSED,
        R::NoDatagrams => libc::EPROTONOSUPPORT,
        R::NoLocalAddress => libc::ENETUNREACH,
        R::RelayUnresolved | R::AssociationLost | R::Busy | R::NothingToGain | R::OneOfMany => {
            libc::EHOSTUNREACH
        }
        R::Rule | R::BoundAddress | R::Loopback | R::LocalAddress | R::NotUnicast => libc::EACCES,
    }
}

fn is_unicast(addr: IpAddr) -> bool {
    let broadcast = addr == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(addr.is_unspecified() || addr.is_multicast() || broadcast)
}
