//! Datagrams by a relay: an authorized peer's for hosts beyond this one, and the way of this host's to such a relay.

use super::relay::{Relay, Side};
use super::serve::refuse_datagrams;
use super::{Datagrams, Step};
use crate::attempt::{RelayAt, must_fail, patience_with_relay};
use crate::base::Base;
use crate::budgets::Counter;
use crate::ids::DatagramId;
use crate::log;
use crate::packets::PACKETS;
use crate::parameters;
use crate::services::Services;
use manypath_control::status::FallbackReason;
use manypath_engine::AssociationId;
use manypath_flow::{DatagramFlow, Refusal, RelayAnswer};
use manypath_keys::PublicKey;
use manypath_rules::{Encrypt, Options, Policy};
use manypath_trust::is_key_address;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use tracing::{debug, info};

/// Bytes from and to destinations.
pub(crate) type Moved = (u64, u64);

impl Datagrams {
    /// A peer asks for a flow beyond this host.
    pub(super) fn on_incoming_beyond(
        &mut self,
        base: &mut Base,
        services: &mut Services,
        id: AssociationId,
        flow: DatagramFlow,
        destination: SocketAddr,
    ) {
        if is_key_address(destination.ip()) {
            return self.rendezvous.join(base, services, (id, flow), destination);
        }
        // They are led on by no other relay, so that they do not come back.
        let peer = match services.onward.admit(base, id, Some(())) {
            Ok((peer, ())) => peer,
            Err((why, counter)) => return refuse_datagrams(base, id, flow, why, counter),
        };
        if let Err((why, counter)) = self.send_on(base, services, (id, flow), peer, destination) {
            debug!(target: log::CONNECTION, "association {}: datagrams to {destination}: {counter}", id.0);
            services.onward.end_datagrams(peer, why == Refusal::DestinationClosed);
            refuse_datagrams(base, id, flow, why, counter);
        }
    }

    fn send_on(
        &mut self,
        base: &mut Base,
        services: &mut Services,
        (association, flow): (AssociationId, DatagramFlow),
        peer: PublicKey,
        destination: SocketAddr,
    ) -> Result<(), (Refusal, &'static str)> {
        if destination == PACKETS {
            return self.send_packets_on(base, (association, flow), peer);
        }
        let (policy, options) = base.core.rules.datagrams(destination);
        // Datagrams are not led on by another relay.
        let bound = policy == Policy::Enable && must_fail(&options, FallbackReason::NotRelayed);
        match services.onward.is_open(base, destination) {
            None => return Err((Refusal::Busy, "onward_addresses_unknown")),
            Some(open) if !open || bound => {
                return Err((Refusal::DestinationClosed, "onward_denied_destination"));
            }
            Some(_) => {}
        }
        let id = DatagramId(base.core.next_id());
        let client = base.core.peer_ip(association).unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let (client, side) = (SocketAddr::new(client, 0), Side::Beyond(peer));
        let relay = socket_to(crate::allow::canonical(destination))
            .and_then(|fd| Relay::new(fd, (&base.core.registry, id), side, destination, client));
        let relay = relay.map_err(|error| match error.raw_os_error() {
            Some(errno @ (libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES)) => {
                (Refusal::Errno(errno.unsigned_abs() as u16), "onward_dials_failed")
            }
            Some(_) | None => (Refusal::Busy, "datagrams_impossible"),
        })?;
        base.with_datagrams(association, |datagrams| datagrams.accept(flow));
        let by = base.keys.who(association).map_or_else(String::new, |who| format!(" by {who}"));
        info!(target: log::CONNECTION, carrier = "sctp",
            "datagrams from {client} on to {destination}{by}: over association {}", association.0);
        let quota = quota_of(base, association);
        self.start(base, id, Relay { carrier: Some((association, flow)), quota, ..relay });
        Ok(())
    }

    /// Packets, each of which is judged by itself.
    fn send_packets_on(
        &mut self,
        base: &mut Base,
        (association, flow): (AssociationId, DatagramFlow),
        peer: PublicKey,
    ) -> Result<(), (Refusal, &'static str)> {
        let id = DatagramId(base.core.next_id());
        let client = base.core.peer_ip(association).unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let (client, side) = (SocketAddr::new(client, 0), Side::Beyond(peer));
        let relay = self
            .pings
            .begin(&base.core.registry, id.0, peer)
            .and_then(|fd| Relay::new(fd, (&base.core.registry, id), side, PACKETS, client));
        let relay = relay.map_err(|_| {
            self.pings.end(base.core.now, id.0);
            (Refusal::DestinationClosed, "packets_impossible")
        })?;
        base.with_datagrams(association, |datagrams| datagrams.accept(flow));
        info!(target: log::CONNECTION, carrier = "sctp",
            "packets from {client}: over association {}", association.0);
        let quota = quota_of(base, association);
        self.start(base, id, Relay { carrier: Some((association, flow)), quota, ..relay });
        Ok(())
    }

    /// A socket for packets of peers may have something.
    pub(crate) fn on_packets(&mut self, base: &mut Base, services: &mut Services, id: u64) {
        self.pings.on_socket(base, services, id);
    }

    /// Opens what sends packets of peers on, if this host relays.
    pub(crate) fn begin_packets(&mut self, base: &mut Base) {
        if base.core.config.relay.is_some() {
            self.pings.open(base);
        }
    }

    /// What has been moved beyond this host for peers: flows that have ended since the last call.
    pub(crate) fn take_ended_onward(&mut self) -> Vec<(PublicKey, Moved)> {
        self.ended_onward.extend(self.rendezvous.take_ended());
        std::mem::take(&mut self.ended_onward)
    }

    /// The same of flows that are there, and of those that have ended and were not taken yet.
    pub(crate) fn moved_onward(&self) -> impl Iterator<Item = (PublicKey, Moved)> {
        let beyond = |relay: &Relay| match relay.side {
            Side::Beyond(peer) => Some((peer, relay.moved)),
            Side::Program { .. } | Side::Service => None,
        };
        let ended = self.ended_onward.iter().copied();
        self.relays.values().filter_map(beyond).chain(ended).chain(self.rendezvous.moved())
    }

    /// Relays that were of no use since the last call, and why.
    pub(crate) fn take_failed_relays(&mut self) -> Vec<(RelayAt, FallbackReason)> {
        self.failed_relays.extend(self.rendezvous.take_silent());
        std::mem::take(&mut self.failed_relays)
    }

    /// The peer may have said meanwhile that it relays.
    pub(super) fn follow_answer(&mut self, base: &mut Base, id: AssociationId) {
        for attempt in self.attempts_waiting_for(id) {
            self.ask_for_flow(base, attempt);
        }
    }

    /// The relay is of no use: whether there is another one to be asked.
    pub(super) fn try_next_relay(
        &mut self,
        base: &mut Base,
        id: DatagramId,
        reason: FallbackReason,
    ) -> bool {
        let Some(attempt) = self.attempts.get_mut(&id) else { return false };
        if matches!(attempt.step, Step::Promised(_)) {
            return false;
        }
        let (source, options, association) =
            (attempt.source.ip(), attempt.options, attempt.association);
        let Ok((next, by)) = first_relay(base, &mut attempt.relays, source, &options) else {
            return false;
        };
        let step = std::mem::replace(&mut attempt.step, Step::Connecting);
        (attempt.association, attempt.by) = (next, Some(by));
        attempt.received = base.core.packets_received(next);
        attempt.until = base.core.now + patience_with_relay(base, next);
        base.core.timers.set(attempt.until, crate::timers::Timer::DatagramFallback(id));
        if let Step::Opening(flow) = step {
            super::end::close_flow(base, association, Some(flow));
        }
        debug!(target: log::CONNECTION, "a relay of datagrams: {reason}");
        base.core.count("relays_passed_over");
        self.ask_for_flow(base, id);
        true
    }
}

/// The association with the first relay of those, the best of which is the last, that one can be begun with.
pub(super) fn first_relay(
    base: &mut Base,
    relays: &mut Vec<RelayAt>,
    source: IpAddr,
    options: &Options,
) -> Result<(AssociationId, RelayAt), FallbackReason> {
    let mut why = FallbackReason::Remembered;
    while let Some(relay) = relays.pop() {
        match association_with(base, relay, source, options) {
            Ok(association) => return Ok((association, relay)),
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

/// Where what the peer of an association moves by this relay counts, if it has a quota.
pub(super) fn quota_of(base: &mut Base, id: AssociationId) -> Option<Counter> {
    let quota = base.core.config.relay.as_ref()?.quota?;
    let key = base.keys.fingerprint_of(id)?;
    let counter = base.core.quotas.counter(&key, base.keys.name_of(id), quota);
    base.core.quotas.follow(base.core.now, &mut base.core.timers);
    Some(counter)
}

pub(super) fn association_with(
    base: &mut Base,
    relay: RelayAt,
    source: IpAddr,
    options: &Options,
) -> Result<AssociationId, FallbackReason> {
    let manner = parameters::manner(&base.core.config, options);
    let at = SocketAddr::new(relay.addr, 0);
    let id = base.association_for(at, Some(source), manner, relay.acceptor, Encrypt::Require)?;
    base.core.hurry_init(id);
    Ok(id)
}

/// Whether the peer relays. Nothing is known before it has been asked.
pub(super) fn relays(base: &mut Base, id: AssociationId) -> Option<bool> {
    let association = base.get_mut(&id)?;
    let answer = association.mux.peer_relays();
    if answer.is_none() {
        association.mux.ask_whether_peer_relays();
        base.touch(id);
    }
    answer.map(|answer| answer == RelayAnswer::Relays)
}

/// A socket that is deaf to everybody but its destination from the moment on that it has a port.
pub(crate) fn socket_to(destination: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(destination), Type::DGRAM, Some(Protocol::UDP))?;
    socket.connect(&destination.into())?;
    Ok(socket.into())
}

/// Two ends of a way on this host: what others have sent before it was theirs alone is thrown away.
pub(crate) fn private_pair() -> io::Result<(UdpSocket, OwnedFd)> {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (near, far) = (bind()?, bind()?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    for end in [&near, &far] {
        end.set_nonblocking(true)?;
        while end.recv(&mut []).is_ok() {}
    }
    Ok((near, far.into()))
}
