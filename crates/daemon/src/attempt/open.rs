//! A launcher asks for a connection: whether it is carried, and how it begins.

use super::{Attempt, AttemptId, Client, Open, Sctp, sctp_only};
use crate::association::{Association, FlowUse};
use crate::base::Base;
use crate::core::Core;
use crate::log;
use crate::parameters;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_control::Reply;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Duration};
use manypath_flow::FlowId;
use manypath_rules::{Form, Options, Policy};
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

impl Stack {
    /// A launcher asks for a connection.
    pub(crate) fn on_open(&mut self, client: Client, open: Open) {
        let (policy, options) = self.base.core.rules.connect(open.destination);
        let begun = match policy {
            Policy::Enable => self.begin(client, open, options),
            Policy::Disable => Err(FallbackReason::Rule),
        };
        match begun {
            Ok(()) => {}
            Err(reason) if sctp_only(&options) && !is_for_the_kernel(reason) => {
                refuse_open(&mut self.base.core, client, open.destination, reason);
            }
            Err(reason) if open.waiting => self.relay_plainly(client, open, options, reason),
            Err(reason) => go_direct(&mut self.base.core, client, open.destination, reason),
        }
    }

    /// SCTP is out of the question, and the program's socket cannot go back: plain TCP of our own.
    fn relay_plainly(
        &mut self,
        client: Client,
        open: Open,
        options: Options,
        reason: FallbackReason,
    ) {
        self.base.core.counters.count_fallback(reason);
        debug!(target: log::CONNECTION, "{}: plain TCP: {reason}", open.destination);
        let id = AttemptId(self.base.core.next_id());
        let mut attempt = Attempt::new(client, open, options, Sctp::Failed, self.base.core.now);
        attempt.fallback = Some(reason);
        self.attempts.insert(id, attempt);
        self.base.core.control.remember(client, id);
        self.tell_pending(id);
        self.tell_plain(client, &open, &options);
        self.start_tcp(id);
        self.settle_race(id);
    }

    /// Lets the kernel leave the next connects to the same service alone. Nothing is said where only
    /// SCTP may be used: such a peer is asked again each time.
    pub(super) fn tell_plain(&mut self, client: Client, open: &Open, options: &Options) {
        let wanted = open.waiting && self.base.core.config.peer_cache && !sctp_only(options);
        let near = crate::attempt::aside::may_step_aside(&self.base.core, options);
        let acceptor = self.base.core.acceptor_for(open.destination, options);
        let left = self.peers.plain_for(self.base.core.now, open.destination, acceptor, near);
        let left = left.filter(|_| wanted);
        if let Some(left) = left {
            let (destination, for_ms) = (open.destination, left.as_millis());
            let for_ms = u64::try_from(for_ms).unwrap_or(u64::MAX);
            self.base.core.reply(client.control, Reply::Plain { destination, for_ms });
        }
    }

    fn begin(
        &mut self,
        client: Client,
        open: Open,
        options: Options,
    ) -> Result<(), FallbackReason> {
        let destination = open.destination;
        self.base.core.check_suitable(&open)?;
        if crate::attempt::aside::may_step_aside(&self.base.core, &options)
            && self.is_near(destination, &options)
        {
            return Err(FallbackReason::NothingToGain);
        }
        if let Some(reason) = self.remembered(destination, &options) {
            return Err(reason);
        }
        let (association, flow) = self.carrier_for(&open, &options)?;
        self.base.treat(association, flow, &options);
        let id = AttemptId(self.base.core.next_id());
        let received = self.base.core.packets_received(association);
        let sctp = Sctp::Opening { association, flow, received };
        let mut attempt = Attempt::new(client, open, options, sctp, self.base.core.now);
        attempt.routed_until = crate::attempt::route::routed_until(&self.base, &open, association);
        self.attempts.insert(id, attempt);
        self.base.set_flow_use(association, flow, FlowUse::Attempt(id));
        self.base.core.control.remember(client, id);
        let trusted = self.base.core.config.peer_cache
            && self.peers.is_carried(self.base.core.now, destination);
        let alone = open.blocking || trusted || sctp_only(&options);
        self.start_clocks(id, association, alone);
        crate::attempt::aside::await_answer(&mut self.base, association, &options);
        // The launcher goes on while TCP begins.
        self.tell_pending_soon(id);
        // A port of the program's own only its own socket can have.
        let has_port = open.source.is_some_and(|source| source.port() != 0);
        if self.base.core.config.tcp_race
            && !trusted
            && !has_port
            && !is_met(&self.base, association)
        {
            self.race(id);
        }
        Ok(())
    }

    /// Why `destination` is not to be tried now, as far as is remembered. Without a fallback the peer is asked again
    /// each time. What the user can mend is said each time.
    fn remembered(&self, destination: SocketAddr, options: &Options) -> Option<FallbackReason> {
        let acceptor = self.base.core.acceptor_for(destination, options);
        let known = self.peers.lookup(self.base.core.now, destination, acceptor);
        let reason = known.filter(|_| self.base.core.config.peer_cache && !sctp_only(options))?;
        debug!(target: log::CONNECTION, "{destination}: remembered: {reason}");
        let is_told = reason == FallbackReason::UnprovenPort;
        Some(if is_told { reason } else { FallbackReason::Remembered })
    }

    /// The association and flow for a connection, in the form that a rule says; otherwise direct only
    /// to peers that are known to have no manypath.
    fn carrier_for(
        &mut self,
        open: &Open,
        options: &Options,
    ) -> Result<(AssociationId, FlowId), FallbackReason> {
        let profile = parameters::profile(&self.base.core.config, options);
        let acceptor = self.base.core.acceptor_for(open.destination, options);
        let peer = open.destination.ip();
        let is_native = || {
            self.base.core.config.peer_cache
                && self.peers.is_native(self.base.core.now, peer, acceptor)
        };
        if options.form.map_or_else(is_native, |form| form == Form::Direct) {
            return self.base.begin_direct(open, profile, acceptor);
        }
        let source = open.source.map(|source| source.ip());
        let association = self.base.association_for(open.destination, source, profile, acceptor)?;
        let flow = open_flow(&mut self.base, association, open)?;
        Ok((association, flow))
    }

    fn is_reached_usually(&self, id: AttemptId) -> bool {
        let attempt = self.attempts.get(&id).filter(|_| self.base.core.config.peer_cache);
        attempt.is_some_and(|attempt| {
            self.peers.is_carried(self.base.core.now, attempt.open.destination)
        })
    }

    /// `alone`: plain TCP is not tried beside it.
    pub(super) fn start_clocks(&mut self, id: AttemptId, association: AssociationId, alone: bool) {
        let only = self.attempts.get(&id).is_some_and(|attempt| sctp_only(&attempt.options));
        let patience = if self.base.get(&association).is_some_and(Association::is_doubted) {
            self.base.core.patience_with(association)
        } else if self.base.is_established(association) {
            let silence = if only { ONLY_SILENCE } else { ESTABLISHED_SILENCE };
            self.base.core.patience_with(association).max(silence)
        } else if self.is_reached_usually(id) {
            self.base.core.config.fallback_timeout * USUAL_PATIENCE
        } else {
            self.base.core.config.fallback_timeout
        };
        let head_start = self.base.core.config.tcp_head_start.min(patience);
        let ends = (self.base.core.now + head_start, self.base.core.now + patience);
        self.base.core.timers.set(ends.1, Timer::Fallback(id));
        if !alone {
            self.base.core.timers.set(ends.0, Timer::HeadStart(id));
        }
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.patience = ends;
        }
    }

    /// The peer's host says that nobody listens there: who waits for an answer over the association
    /// waits only as for a peer of which nothing was ever heard. `received` is the number of packets
    /// that the peer has sent so far.
    pub(crate) fn hurry_attempts(&mut self, association: AssociationId, received: u64) {
        let end = self.base.core.now + self.base.core.patience_with(association);
        for (id, attempt) in &mut self.attempts {
            match &mut attempt.sctp {
                Sctp::Opening { association: its, received: before, .. } if *its == association => {
                    *before = received;
                }
                Sctp::Opening { .. } | Sctp::Opened { .. } | Sctp::Failed => continue,
            }
            if attempt.patience.1 <= self.base.core.now || attempt.patience.1 > end {
                attempt.patience.1 = end;
            }
            self.base.core.timers.set(attempt.patience.1, Timer::Fallback(*id));
        }
    }
}

fn open_flow(base: &mut Base, id: AssociationId, open: &Open) -> Result<FlowId, FallbackReason> {
    let association = base.get_mut(&id).ok_or(FallbackReason::AssociationLost)?;
    let opened = association.mux.open(open.destination, open.source_or_unspecified());
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
fn refuse_open(core: &mut Core, client: Client, destination: SocketAddr, reason: FallbackReason) {
    core.count("opens_without_fallback");
    log_refused(destination, reason);
    let errno = errno_of(reason);
    core.reply(client.control, Reply::Failed { id: client.id, errno });
}

impl Core {
    pub(crate) fn check_suitable(&self, open: &Open) -> Result<(), FallbackReason> {
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
        if source.is_some() && !self.config.force_bindall {
            return Err(FallbackReason::BoundAddress);
        }
        if !self.locals.has_family_of(destination)
            || source.is_some_and(|ip| !self.locals.is_own(ip))
        {
            return Err(FallbackReason::NoLocalAddress);
        }
        Ok(())
    }

    /// How long a peer with an association may leave unanswered what it is asked now.
    pub(super) fn patience_with(&self, association: AssociationId) -> Duration {
        self.config.fallback_timeout.max(self.longest_round_trip(association) * 2)
    }
}

/// The one line of a connection that cannot be.
pub(super) fn log_refused(destination: SocketAddr, reason: FallbackReason) {
    info!(
        target: log::CONNECTION,
        "connection to {destination}: refused: {reason}, and only SCTP may be used"
    );
}

/// Connections that are never carried, whatever the rules say.
fn is_for_the_kernel(reason: FallbackReason) -> bool {
    use FallbackReason as R;
    matches!(reason, R::Rule | R::BoundAddress | R::Loopback | R::LocalAddress | R::NotUnicast)
}

/// What a program hears that must not fall back to TCP: as near to the truth as connect() can be.
pub(super) fn errno_of(reason: FallbackReason) -> i32 {
    use FallbackReason as R;
    match reason {
        R::Silent => libc::ETIMEDOUT,
        R::Refused | R::NotManypath | R::NotAllowed | R::Remembered | R::UnprovenPort => {
            libc::ECONNREFUSED
        }
        R::NoDatagrams => libc::EPROTONOSUPPORT,
        R::NoLocalAddress => libc::ENETUNREACH,
        R::AssociationLost | R::Busy | R::NothingToGain => libc::EHOSTUNREACH,
        R::Rule | R::BoundAddress | R::Loopback | R::LocalAddress | R::NotUnicast => libc::EACCES,
    }
}

fn is_unicast(addr: IpAddr) -> bool {
    let broadcast = addr == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(addr.is_unspecified() || addr.is_multicast() || broadcast)
}
