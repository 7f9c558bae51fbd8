//! A program wants to send datagrams: whether they are carried.
//!
//! Its call waits meanwhile, at most for the patience with an unknown peer. A service that was reached
//! before is taken to be there.

use super::relay::{Program, Relay, Side};
use super::{Attempt, Datagrams, Step};
use crate::attempt::{
    Attempts, Open, RelayAt, errno_of, fallback_patience, must_fail, patience_with_relay,
    usable_relays,
};
use crate::base::{Base, by_key, protection};
use crate::core::Core;
use crate::ids::{Client, Control, DatagramId};
use crate::log;
use crate::packets::PACKETS;
use crate::parameters;
use crate::peers::Peers;
use crate::privileged::Acceptor;
use crate::timers::Timer;
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Transport};
use manypath_engine::AssociationId;
use manypath_flow::{DatagramError, DatagramFlow, Refusal};
use manypath_rules::{Options, Policy};
use manypath_trust::is_key_address;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tracing::{debug, info, warn};

/// How much longer a peer may take that has shown to be alive.
const PATIENCE_WITH_THE_LIVING: Duration = Duration::from_secs(1);

impl Datagrams {
    pub(crate) fn on_open(
        &mut self,
        base: &mut Base,
        attempts: &Attempts,
        client: Client,
        destination: SocketAddr,
        source: SocketAddr,
    ) {
        let (policy, options) = self.decide(base, attempts, client, destination, source);
        let begun = match policy {
            Policy::Enable => self.begin(base, attempts, client, destination, source, options),
            Policy::Disable => Err(FallbackReason::Rule),
        };
        match begun {
            Ok(id) => {
                base.core.reply(client.control, Reply::Pending { id: client.id });
                self.ask_for_flow(base, id);
            }
            Err(reason) => leave_datagrams(&mut base.core, client, destination, &options, reason),
        }
    }

    /// Whether they are carried, and how.
    fn decide(
        &self,
        base: &Base,
        attempts: &Attempts,
        client: Client,
        destination: SocketAddr,
        source: SocketAddr,
    ) -> (Policy, Options) {
        let core = &base.core;
        let (policy, mut options) = match (destination == PACKETS, client.control) {
            (true, Control::Doors) => (Policy::Enable, Options::default()),
            // Programs send datagrams, and no packets.
            (true, _) => (Policy::Disable, Options::default()),
            (false, _) => core.rules.datagrams(destination),
        };
        options.encrypt = Some(core.encrypt_for(&options));
        if destination == PACKETS {
            return (policy, options);
        }
        if is_key_address(destination.ip()) {
            options = by_key::options(options);
        }
        let by_relay = client.control == Control::Doors
            && core.config.carrying.door_datagrams
            && !core.rules.decides_datagrams(destination)
            && usable_relays(attempts, core, destination, &options).is_some();
        core.hold_to_uplinks(&mut options, destination.ip(), Some(source.ip()));
        (if by_relay { Policy::Enable } else { policy }, options)
    }

    fn begin(
        &mut self,
        base: &mut Base,
        attempts: &Attempts,
        client: Client,
        destination: SocketAddr,
        source: SocketAddr,
        options: Options,
    ) -> Result<DatagramId, FallbackReason> {
        let open = Open::from(source, destination);
        let relays = usable_relays(attempts, &base.core, destination, &options).transpose()?;
        let (association, by, relays) = if let Some(mut relays) = relays {
            if destination != PACKETS {
                base.core.check_ends(&open)?;
            }
            relays.reverse();
            let (association, by) =
                super::onward::first_relay(base, &mut relays, source.ip(), &options)?;
            (association, Some(by), relays)
        } else {
            // Packets, too, have no other way.
            base.core.check_suitable(&open)?;
            let acceptor = base.core.acceptor_for(destination, &options);
            if base.core.config.carrying.peer_cache
                && !options.is_sctp_only()
                && self.is_known_without_datagrams(base, &attempts.peers, destination, acceptor)
            {
                return Err(FallbackReason::Remembered);
            }
            (association_to(base, destination, source, &options)?, None, Vec::new())
        };
        let id = DatagramId(base.core.next_id());
        let received = base.core.packets_received(association);
        let patience = match by {
            Some(_) => patience_with_relay(base, association),
            None if is_key_address(destination.ip()) => by_key::PATIENCE,
            None => fallback_patience(&base.core, false),
        };
        let (step, until) = (Step::Connecting, base.core.now + patience);
        let attempt = Attempt {
            client,
            destination,
            source,
            options,
            association,
            by,
            relays,
            step,
            received,
            until,
            early: Vec::new(),
        };
        self.attempts.insert(id, attempt);
        self.clients.insert(client, id);
        base.core.timers.set(until, Timer::DatagramFallback(id));
        Ok(id)
    }

    fn is_known_without_datagrams(
        &self,
        base: &Base,
        peers: &Peers,
        destination: SocketAddr,
        acceptor: Acceptor,
    ) -> bool {
        let peer = destination.ip();
        peers.lookup_peer(base.core.now, peer, acceptor).is_some()
            || peers.is_native(base.core.now, peer, acceptor)
            || self.services.lookup(base.core.now, destination, acceptor).is_some()
    }

    /// Goes on as soon as there is an association.
    pub(super) fn ask_for_flow(&mut self, base: &mut Base, id: DatagramId) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let (association, destination, by) = (attempt.association, attempt.destination, attempt.by);
        if !base.is_established(association) {
            return;
        }
        if by.is_some() {
            match super::onward::relays(base, association) {
                None => return,
                Some(true) => base.core.count("opens_by_relay"),
                Some(false) => return self.give_up(base, id, FallbackReason::NotRelay),
            }
        }
        if !super::agree::datagrams_agreed(base, association) {
            return self.give_up(base, id, FallbackReason::NoDatagrams);
        }
        let usual = by.is_none()
            && base.core.config.carrying.peer_cache
            && self.services.is_carried(base.core.now, destination);
        if usual {
            return self.promise(base, id, None);
        }
        let (source, options) = (attempt.source, attempt.options);
        match open_datagrams(base, association, (destination, source), by, &options) {
            Ok(flow) => {
                if let Some(attempt) = self.attempts.get_mut(&id) {
                    attempt.step = Step::Opening(flow);
                }
                use_datagrams(base, association, flow, id);
            }
            Err(_) => self.give_up(base, id, FallbackReason::Busy),
        }
    }

    /// The peer carries them.
    pub(super) fn promise(&mut self, base: &mut Base, id: DatagramId, flow: Option<DatagramFlow>) {
        let now = base.core.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.step = Step::Promised(flow);
        let (client, peer, association) =
            (attempt.client, attempt.destination, attempt.association);
        let source = attempt.source;
        if attempt.by.is_none() {
            self.services.remember_carried(now, peer);
            self.services.forget_unsaved();
        }
        let local = base.core.local_name(association, &Open::from(source, peer));
        let transport = Transport::Sctp;
        base.core.reply(client.control, Reply::Accepted { id: client.id, transport, local, peer });
    }

    /// The peer has had its time to answer.
    pub(crate) fn on_fallback_timer(&mut self, base: &mut Base, peers: &mut Peers, id: DatagramId) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        if matches!(attempt.step, Step::Promised(_)) || base.core.now < attempt.until {
            return;
        }
        let (association, by) = (attempt.association, attempt.by);
        let peer = by.map_or(attempt.destination.ip(), |relay| relay.addr);
        let limited = !attempt.options.path_limits().is_none();
        let heard = base.core.packets_received(association);
        if heard > attempt.received {
            let begins = !base.is_established(association) || base.keys.holds(association);
            let (patience, again) = match by {
                Some(_) => (base.core.answer_patience(association), begins),
                None => (PATIENCE_WITH_THE_LIVING, false),
            };
            let until = base.core.now + patience;
            if let Some(attempt) = self.attempts.get_mut(&id) {
                // Once, beyond the handshake with a relay.
                (attempt.received, attempt.until) = (if again { heard } else { u64::MAX }, until);
            }
            return base.core.timers.set(until, Timer::DatagramFallback(id));
        }
        let (acceptor, mut reason) = (base.acceptor_of(association), FallbackReason::Silent);
        if !base.is_established(association) {
            reason = acceptor.reason(reason);
            if !limited && protection::speaks_for_peer(base, association) {
                peers.remember_peer(base.core.now, peer, acceptor, reason);
            }
        } else if by.is_some() && super::onward::relays(base, association).is_none() {
            reason = FallbackReason::RelayUnknown;
        }
        self.give_up(base, id, reason);
    }

    /// The peer does not want the flow.
    pub(super) fn on_refused(&mut self, base: &mut Base, id: DatagramId, why: Option<Refusal>) {
        let attempt = self.attempts.get(&id).map(|it| (it.destination, it.by));
        let relay = self.relays.get(&id).map(|it| (it.destination, it.by));
        let Some((destination, by)) = attempt.or(relay) else { return };
        let reason = match why {
            Some(Refusal::Errno(errno)) => return self.fail(base, id, errno),
            Some(Refusal::NotAllowed) if by.is_none() => FallbackReason::NotAllowed,
            Some(Refusal::NotRelay) => FallbackReason::NotRelay,
            Some(Refusal::DestinationClosed) => FallbackReason::NotRelayed,
            Some(Refusal::OverQuota) => FallbackReason::OverQuota,
            Some(_) | None => FallbackReason::Busy,
        };
        // What was refused for now may be asked for again.
        if reason == FallbackReason::NotAllowed {
            self.services.remember_service(base.core.now, destination, reason);
            self.services.forget_unsaved();
        }
        self.give_up(base, id, reason);
    }

    /// The program's calls fail as those of the relay did.
    fn fail(&mut self, base: &mut Base, id: DatagramId, errno: u16) {
        let client = match (self.attempts.get(&id), self.relays.get(&id).map(|it| it.side)) {
            (Some(attempt), _) => attempt.client,
            (None, Some(Side::Program { client, .. })) => client,
            _ => return,
        };
        self.cancel(base, client);
        self.drop_relay(base, id);
        base.core.count("datagrams_failed_at_relay");
        let errno = i32::from(errno);
        base.core.reply(client.control, Reply::Failed { id: client.id, errno });
    }

    /// The launcher hands over the way to the program's socket.
    pub(crate) fn on_attach(
        &mut self,
        base: &mut Base,
        client: Client,
        program: Program,
        fd: OwnedFd,
    ) {
        let Some(id) = self.clients.get(&client).copied() else {
            return base.core.count("attaches_too_late");
        };
        let Some(attempt) = self.attempts.remove(&id) else {
            return self.replace_socket(base, id, client, program, fd);
        };
        let Attempt { destination, source, options, association, by, step, early, .. } = attempt;
        let flow = match step {
            Step::Promised(flow) => flow,
            Step::Opening(flow) => Some(flow),
            Step::Connecting => None,
        };
        debug!(target: log::CONNECTION,
            "datagrams to {destination}: over association {}", association.0);
        let side = Side::Program { client, program };
        let made = Relay::new(fd, (&base.core.registry, id), side, destination, source);
        match made {
            Ok(relay) => {
                let carrier = flow.map(|flow| (association, flow));
                self.start(base, id, Relay { carrier, by, options, ..relay });
                early.iter().for_each(|payload| self.forward(base, id, payload));
            }
            Err(error) => {
                warn!(target: log::CONNECTION, "datagrams could not be taken over: {error}");
                base.core.count("attaches_failed");
                base.core.reply(client.control, Reply::Closed { id: client.id });
                self.clients.remove(&client);
                super::end::close_flow(base, association, flow);
            }
        }
    }

    /// The program's socket has got another address.
    fn replace_socket(
        &mut self,
        base: &mut Base,
        id: DatagramId,
        client: Client,
        program: Program,
        fd: OwnedFd,
    ) {
        let Some(relay) = self.relays.get(&id) else { return };
        let (destination, source) = (relay.destination, relay.source);
        let side = Side::Program { client, program };
        let made = Relay::new(fd, (&base.core.registry, id), side, destination, source);
        match (made, self.relays.get_mut(&id)) {
            (Ok(new), Some(relay)) => (relay.socket, relay.side) = (new.socket, side),
            _ => base.core.count("attaches_failed"),
        }
    }
}

/// The association for datagrams that go to the peer itself.
pub(super) fn association_to(
    base: &mut Base,
    destination: SocketAddr,
    source: SocketAddr,
    options: &Options,
) -> Result<AssociationId, FallbackReason> {
    let manner = parameters::manner(&base.core.config, options);
    let acceptor = base.core.acceptor_for(destination, options);
    let (encrypt, from) = (base.core.encrypt_for(options), Some(source.ip()));
    let id = base.association_for(destination, from, manner, acceptor, encrypt)?;
    base.core.hurry_init(id);
    Ok(id)
}

pub(super) fn open_datagrams(
    base: &mut Base,
    association: AssociationId,
    (destination, source): (SocketAddr, SocketAddr),
    by: Option<RelayAt>,
    options: &Options,
) -> Result<DatagramFlow, DatagramError> {
    if by.is_some() && super::onward::relays(base, association) != Some(true) {
        return Err(DatagramError::NotAgreed);
    }
    let lifetime = lifetime(&base.core, options);
    let redundant = options.redundant == Some(true);
    let opened = base.with_datagrams(association, |datagrams| {
        let flow = match by {
            Some(_) => datagrams.open_beyond(destination, source, lifetime)?,
            None => datagrams.open(destination, source, lifetime)?,
        };
        datagrams.set_redundant(flow, redundant);
        Ok(flow)
    });
    opened.unwrap_or(Err(DatagramError::NotAgreed))
}

pub(super) fn use_datagrams(
    base: &mut Base,
    association: AssociationId,
    flow: DatagramFlow,
    id: DatagramId,
) {
    if let Some(association) = base.get_mut(&association) {
        association.datagrams.insert(flow, id);
    }
}

/// The program sends plain UDP, or nothing if the options forbid that.
pub(super) fn leave_datagrams(
    core: &mut Core,
    client: Client,
    destination: SocketAddr,
    options: &Options,
    reason: FallbackReason,
) {
    if must_fail(options, reason) {
        return refuse_datagrams(core, client, destination, reason);
    }
    note_left(core, destination, reason);
    core.reply(client.control, Reply::Direct { id: client.id, reason });
}

pub(super) fn note_left(core: &mut Core, destination: SocketAddr, reason: FallbackReason) {
    core.counters.count_fallback(reason);
    info!(
        target: log::CONNECTION, carrier = "udp",
        "datagrams to {destination}: left to the kernel as plain UDP: {reason}"
    );
}

/// The program's calls fail.
pub(super) fn refuse_datagrams(
    core: &mut Core,
    client: Client,
    destination: SocketAddr,
    reason: FallbackReason,
) {
    core.count("datagrams_without_fallback");
    info!(target: log::CONNECTION, "datagrams to {destination}: refused: {reason}");
    core.reply(
        client.control,
        Reply::Failed { id: client.id, errno: errno_of(destination, reason) },
    );
}

pub(super) fn lifetime(core: &Core, options: &Options) -> Duration {
    let said = options.lifetime.map(|ms| Duration::from_millis(ms.into()));
    said.unwrap_or(core.config.limits.datagram_lifetime)
}
