//! What becomes of an attempt over SCTP.

use super::open::errno_of;
use super::{Attempts, ByRelay, Open, Sctp, Tcp, unspecified_like};
use crate::base::{Base, FlowUse, protection};
use crate::core::Core;
use crate::ids::{AttemptId, Client};
use crate::log;
use crate::peers::Peers;
use crate::timers::Timer;
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Transport, Way};
use manypath_engine::{AssociationId, Instant};
use manypath_flow::{FlowId, Refusal};
use std::net::{IpAddr, SocketAddr};
use tracing::debug;

impl Attempts {
    /// The peer has accepted the flow of an attempt.
    pub(crate) fn on_opened(
        &mut self,
        base: &mut Base,
        id: AttemptId,
        association: AssociationId,
        flow: FlowId,
    ) {
        let Some(attempt) = self.all.get_mut(&id) else { return };
        attempt.sctp = Sctp::Opened { association, flow };
        let tcp = std::mem::replace(&mut attempt.tcp, Tcp::NotStarted);
        let (client, open, options) = (attempt.client, attempt.open, attempt.options);
        let is_told = attempt.early;
        attempt.stop_clocks(&mut base.core.timers, id);
        let is_relayed = attempt.by_relay.is_some();
        // First of all: the program waits for it.
        if !is_told {
            let local = base.core.local_name(association, &open);
            self.promise(base, id, client, Transport::Sctp, local, open.destination);
        }
        if !is_relayed {
            self.peers.remember_carried(base.core.now, open.destination);
        }
        // One that waited for its relay's answer had no stream before.
        base.treat(association, flow, &options);
        super::race::drop_tcp(&mut base.core, tcp);
        debug!(target: log::CONNECTION, "{}: over association {}", open.destination, association.0);
    }

    /// The launcher is told to complete the connection, and hands over the program's socket. It may take its time: it or
    /// this process may be suspended meanwhile, and to the program and its peer the connection exists. The end of the
    /// launcher's line ends it.
    pub(super) fn promise(
        &self,
        base: &mut Base,
        attempt: AttemptId,
        client: Client,
        transport: Transport,
        local: SocketAddr,
        peer: SocketAddr,
    ) {
        let waits = self.all.get(&attempt).is_some_and(|attempt| attempt.open.waiting);
        if waits && base.core.control.is_redirector(client.control) {
            let way = self.way_promised(base, attempt);
            base.core.reply(client.control, Reply::Way { id: client.id, way });
        }
        base.core.reply(client.control, Reply::Accepted { id: client.id, transport, local, peer });
    }

    /// The way of a connection that the launcher was told to complete.
    pub(crate) fn way_promised(&self, base: &Base, id: AttemptId) -> Option<Way> {
        let attempt = self.all.get(&id)?;
        match (&attempt.sctp, &attempt.tcp) {
            (Sctp::Opened { association, flow }, _) => base.way_of_flow(*association, *flow),
            (_, Tcp::Promised(far)) => far.way().ok(),
            (Sctp::Opening { association, flow, .. }, _) if attempt.early => {
                base.way_of_flow(*association, *flow)
            }
            (Sctp::Opening { .. } | Sctp::Failed, _) => None,
        }
    }

    /// The peer has refused the flow.
    pub(crate) fn on_refused(
        &mut self,
        base: &mut Base,
        association: AssociationId,
        flow: FlowId,
        why: Refusal,
    ) {
        let Some(FlowUse::Attempt(id)) = base.flow_use(association, flow) else {
            return;
        };
        base.set_flow_use(association, flow, FlowUse::Closing);
        let Some(attempt) = self.all.get(&id) else { return };
        let destination = attempt.open.destination;
        let is_relay = attempt.by_relay.is_some();
        match refusal(&mut self.peers, base.core.now, (destination, is_relay), why) {
            Ok(reason) => self.give_up_sctp(base, id, reason),
            Err(errno) => self.fail(base, id, errno),
        }
    }

    /// The association of the flow has ended.
    pub(crate) fn on_flow_lost(&mut self, base: &mut Base, id: AttemptId, reason: FallbackReason) {
        match self.all.get(&id).map(|attempt| attempt.sctp) {
            Some(Sctp::Opening { association, .. }) => {
                let goes_on = self.go_back(base, id, association)
                    || self.try_directly(base, id, association, reason);
                if !goes_on {
                    let reason = self.note_direct_failure(base, id, association, reason);
                    self.give_up_sctp(base, id, reason);
                }
            }
            // The program was told that it is connected: it sees the connection break.
            Some(Sctp::Opened { .. }) => self.fail(base, id, libc::ECONNRESET),
            Some(Sctp::Failed) | None => {}
        }
    }

    /// SCTP cannot be used for the connect: plain TCP it is.
    pub(super) fn give_up_sctp(&mut self, base: &mut Base, id: AttemptId, reason: FallbackReason) {
        let Some(attempt) = self.all.get(&id) else { return };
        if attempt.sctp == Sctp::Failed || self.try_next_relay(base, id, reason) {
            return;
        }
        let Some(attempt) = self.all.get_mut(&id) else { return };
        attempt.sctp = Sctp::Failed;
        attempt.fallback = Some(reason);
        attempt.stop_clocks(&mut base.core.timers, id);
        self.use_tcp(base, id);
    }

    /// Goes on by plain TCP, as soon as there is a route, or fails if that is forbidden.
    pub(super) fn use_tcp(&mut self, base: &mut Base, id: AttemptId) {
        if self.waits_for_route(base, id) {
            return;
        }
        let is_forbidden = self.is_tcp_forbidden(base, id);
        let Some(attempt) = self.all.get(&id) else { return };
        let Some(reason) = attempt.fallback else { return };
        if is_forbidden {
            let destination = attempt.open.destination;
            base.core.note_refused(destination, reason);
            return self.fail(base, id, errno_of(destination, reason));
        }
        let (client, open, options) = (attempt.client, attempt.open, attempt.options);
        // Whoever asks for a name finds out its address then.
        let is_named = attempt.by_relay.as_ref().is_some_and(ByRelay::is_named);
        let may_go_back = (open.blocking && !attempt.raced) || !attempt.pending;
        if is_named || (may_go_back && !attempt.early) {
            self.forget(base, id);
            super::open::go_direct(&mut base.core, client, open.destination, reason);
        } else {
            base.core.counters.count_fallback(reason);
            debug!(target: log::CONNECTION, "{}: plain TCP: {reason}", open.destination);
            self.tell_plain(base, client, &open, &options);
            self.start_tcp(base, id);
            self.settle_race(base, id);
        }
    }

    /// The peer was there, and has not answered yet: its service may take its time. If it has died
    /// since, nothing on the way would tell, so it is asked now and then.
    fn wait_on(&mut self, base: &mut Base, id: AttemptId, association: AssociationId) {
        let heard = base.core.packets_received(association);
        let end = base.core.now + base.core.patience_with(association);
        let Some(attempt) = self.all.get_mut(&id) else { return };
        if let Sctp::Opening { received, .. } = &mut attempt.sctp {
            *received = heard;
        }
        attempt.patience.1 = end;
        self.end_race(base, id);
        base.core.timers.set(end, Timer::Fallback(id));
        base.core.ask_everywhere(association);
    }

    /// Gives up SCTP once the peer was silent for too long.
    pub(crate) fn on_fallback_timer(&mut self, base: &mut Base, id: AttemptId) {
        let Some(attempt) = self.all.get(&id) else { return };
        let Sctp::Opening { association, flow, received } = attempt.sctp else { return };
        if base.core.now < attempt.patience.1 {
            return;
        }
        if self.is_relay_mute(base, id, association) {
            base.reset_flow(association, flow);
            return self.give_up_sctp(base, id, FallbackReason::RelayUnknown);
        }
        if base.core.packets_received(association) > received {
            return self.wait_on(base, id, association);
        }
        if self.is_tcp_undecided(id) {
            // A long way looks like silence. Waiting for SCTP until TCP has an answer costs nothing.
            if self.waits_for_route(base, id) {
                return;
            }
            self.start_tcp(base, id);
            if self.is_tcp_undecided(id) {
                return;
            }
        }
        let Some(attempt) = self.all.get(&id) else { return };
        // An established association is judged by its own failure detection.
        let relay = attempt.by_relay.as_ref().and_then(ByRelay::current);
        let peer = relay.map_or(attempt.open.destination.ip(), |relay| relay.addr);
        let (acceptor, limits) = (base.acceptor_of(association), attempt.options.path_limits());
        let established = base.is_established(association);
        let reason = match established {
            true => FallbackReason::Silent,
            false => acceptor.reason(FallbackReason::Silent),
        };
        if base.is_direct(association) {
            self.note_direct_failure(base, id, association, reason);
        } else if !established && limits.is_none() && protection::speaks_for_peer(base, association)
        {
            self.peers.remember_peer(base.core.now, peer, acceptor, reason);
        }
        base.reset_flow(association, flow);
        self.give_up_sctp(base, id, reason);
    }
}

/// Why a connection that the peer has refused goes on elsewhere, or what its program is told; `is_relay`: the peer is not
/// asked for a service of its own.
pub(crate) fn refusal(
    peers: &mut Peers,
    now: Instant,
    (destination, is_relay): (SocketAddr, bool),
    why: Refusal,
) -> Result<FallbackReason, i32> {
    match why {
        Refusal::Errno(errno) => Err(i32::from(errno)),
        Refusal::NotAllowed if !is_relay => {
            let reason = FallbackReason::NotAllowed;
            peers.remember_service(now, destination, reason);
            Ok(reason)
        }
        Refusal::NoSuchName => Err(libc::EHOSTUNREACH),
        Refusal::NotRelay => Ok(FallbackReason::NotRelay),
        Refusal::Circle => Ok(FallbackReason::RelayCircle),
        Refusal::OverQuota => Ok(FallbackReason::OverQuota),
        Refusal::DestinationClosed => Ok(FallbackReason::NotRelayed),
        Refusal::NotAllowed | Refusal::Busy | Refusal::NoStream | Refusal::Other(_) => {
            Ok(FallbackReason::Busy)
        }
    }
}

impl Core {
    /// What the program shall see as its own address: the one of the path to the destination. The
    /// port is the program's if it chose one; 0 leaves it to the launcher.
    pub(crate) fn local_name(&self, association: AssociationId, open: &Open) -> SocketAddr {
        let port = open.source.map_or(0, |source| source.port());
        let bound = open.source.map(|source| source.ip()).filter(|ip| !ip.is_unspecified());
        let ip = bound.or_else(|| self.local_towards(association, open.destination.ip()));
        SocketAddr::new(ip.unwrap_or(unspecified_like(open.destination).ip()), port)
    }

    fn local_towards(&self, association: AssociationId, remote: IpAddr) -> Option<IpAddr> {
        let paths = self.status_of(association)?.paths;
        let direct = paths.iter().find(|path| path.addr.remote.ip() == remote);
        let path = direct.or_else(|| paths.iter().find(|path| path.primary))?;
        // A relay may be at addresses of another family than the destination.
        Some(path.addr.local.ip()).filter(|local| local.is_ipv4() == remote.is_ipv4())
    }
}
