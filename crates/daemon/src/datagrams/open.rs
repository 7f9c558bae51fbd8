//! A program wants to send datagrams: whether they are carried.
//!
//! Its call waits meanwhile, at most for the patience with an unknown peer. A service that was reached
//! before is taken to be there.

use super::relay::{Program, Relay, Side};
use super::{Attempt, DatagramId, Step};
use crate::attempt::{Client, Open};
use crate::base::Base;
use crate::core::Core;
use crate::log;
use crate::parameters;
use crate::privileged::Acceptor;
use crate::stack::Stack;
use crate::timers::Timer;
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Transport};
use manypath_engine::AssociationId;
use manypath_flow::{DatagramError, DatagramFlow, Refusal};
use manypath_rules::{Options, Policy};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tracing::{debug, info, warn};

/// How much longer a peer may take that has shown to be alive.
const PATIENCE_WITH_THE_LIVING: Duration = Duration::from_secs(1);

impl Stack {
    pub(crate) fn on_open_datagrams(
        &mut self,
        client: Client,
        destination: SocketAddr,
        source: SocketAddr,
    ) {
        let (policy, options) = self.base.core.rules.datagrams(destination);
        let begun = match policy {
            Policy::Enable => self.begin_datagrams(client, destination, source, options),
            Policy::Disable => Err(FallbackReason::Rule),
        };
        match begun {
            Ok(id) => {
                self.base.core.reply(client.control, Reply::Pending { id: client.id });
                self.ask_for_flow(id);
            }
            Err(reason) => leave_datagrams(&mut self.base.core, client, destination, reason),
        }
    }

    fn begin_datagrams(
        &mut self,
        client: Client,
        destination: SocketAddr,
        source: SocketAddr,
        options: Options,
    ) -> Result<DatagramId, FallbackReason> {
        self.base.core.check_suitable(&Open {
            destination,
            source: Some(source),
            blocking: true,
            waiting: false,
        })?;
        let acceptor = self.base.core.acceptor_for(destination, &options);
        if self.base.core.config.peer_cache
            && self.is_known_without_datagrams(destination, acceptor)
        {
            return Err(FallbackReason::Remembered);
        }
        let profile = parameters::profile(&self.base.core.config, &options);
        let from = Some(source.ip());
        let association = self.base.association_for(destination, from, profile, acceptor)?;
        let id = DatagramId(self.base.core.next_id());
        let received = self.base.core.packets_received(association);
        let (step, until) =
            (Step::Connecting, self.base.core.now + self.base.core.config.fallback_timeout);
        let attempt = Attempt {
            client,
            destination,
            source,
            options,
            association,
            step,
            received,
            until,
            early: Vec::new(),
        };
        self.datagrams.attempts.insert(id, attempt);
        self.datagrams.clients.insert(client, id);
        self.base.core.timers.set(until, Timer::DatagramFallback(id));
        Ok(id)
    }

    fn is_known_without_datagrams(&self, destination: SocketAddr, acceptor: Acceptor) -> bool {
        let peer = destination.ip();
        self.peers.lookup_peer(self.base.core.now, peer, acceptor).is_some()
            || self.peers.is_native(self.base.core.now, peer, acceptor)
            || self.datagrams.services.lookup(self.base.core.now, destination, acceptor).is_some()
    }

    /// Goes on as soon as there is an association.
    pub(super) fn ask_for_flow(&mut self, id: DatagramId) {
        let Some(attempt) = self.datagrams.attempts.get(&id) else { return };
        let (association, destination) = (attempt.association, attempt.destination);
        if !self.base.is_established(association) {
            return;
        }
        if !crate::datagrams::agree::datagrams_agreed(&self.base, association) {
            return self.give_up_datagrams(id, FallbackReason::NoDatagrams);
        }
        if self.base.core.config.peer_cache
            && self.datagrams.services.is_carried(self.base.core.now, destination)
        {
            return self.promise_datagrams(id, None);
        }
        let (source, options) = (attempt.source, attempt.options);
        match open_datagrams(&mut self.base, association, destination, source, &options) {
            Ok(flow) => {
                if let Some(attempt) = self.datagrams.attempts.get_mut(&id) {
                    attempt.step = Step::Opening(flow);
                }
                use_datagrams(&mut self.base, association, flow, id);
            }
            Err(_) => self.give_up_datagrams(id, FallbackReason::Busy),
        }
    }

    /// The peer carries them.
    pub(super) fn promise_datagrams(&mut self, id: DatagramId, flow: Option<DatagramFlow>) {
        let now = self.base.core.now;
        let Some(attempt) = self.datagrams.attempts.get_mut(&id) else { return };
        attempt.step = Step::Promised(flow);
        let (client, peer, association) =
            (attempt.client, attempt.destination, attempt.association);
        let source = attempt.source;
        self.datagrams.services.remember_carried(now, peer);
        self.datagrams.services.forget_unsaved();
        let open = Open { destination: peer, source: Some(source), blocking: true, waiting: false };
        let local = self.base.core.local_name(association, &open);
        let transport = Transport::Sctp;
        self.base
            .core
            .reply(client.control, Reply::Accepted { id: client.id, transport, local, peer });
    }

    /// The peer has had its time to answer.
    pub(crate) fn on_datagram_fallback(&mut self, id: DatagramId) {
        let Some(attempt) = self.datagrams.attempts.get(&id) else { return };
        if matches!(attempt.step, Step::Promised(_)) || self.base.core.now < attempt.until {
            return;
        }
        let (association, peer) = (attempt.association, attempt.destination.ip());
        let until = self.base.core.now + PATIENCE_WITH_THE_LIVING;
        if attempt.received != u64::MAX
            && self.base.core.packets_received(association) > attempt.received
        {
            if let Some(attempt) = self.datagrams.attempts.get_mut(&id) {
                // Once.
                (attempt.received, attempt.until) = (u64::MAX, until);
            }
            return self.base.core.timers.set(until, Timer::DatagramFallback(id));
        }
        let (acceptor, mut reason) = (self.base.acceptor_of(association), FallbackReason::Silent);
        if !self.base.is_established(association) {
            reason = acceptor.reason(reason);
            self.peers.remember_peer(self.base.core.now, peer, acceptor, reason);
        }
        self.give_up_datagrams(id, reason);
    }

    /// The peer does not want the flow.
    pub(super) fn on_datagrams_refused(&mut self, id: DatagramId, why: Option<Refusal>) {
        let attempt = self.datagrams.attempts.get(&id).map(|attempt| attempt.destination);
        let relay = self.datagrams.relays.get(&id).map(|relay| relay.destination);
        let Some(destination) = attempt.or(relay) else { return };
        let reason = match why {
            Some(Refusal::NotAllowed) => FallbackReason::NotAllowed,
            Some(_) | None => FallbackReason::Busy,
        };
        // What was refused for now may be asked for again.
        if reason == FallbackReason::NotAllowed {
            self.datagrams.services.remember_service(self.base.core.now, destination, reason);
            self.datagrams.services.forget_unsaved();
        }
        self.give_up_datagrams(id, reason);
    }

    /// The launcher hands over the way to the program's socket.
    pub(crate) fn on_attach_datagrams(&mut self, client: Client, program: Program, fd: OwnedFd) {
        let Some(id) = self.datagrams.clients.get(&client).copied() else {
            return self.base.core.count("attaches_too_late");
        };
        let Some(attempt) = self.datagrams.attempts.remove(&id) else {
            return self.replace_socket(id, client, program, fd);
        };
        let Attempt { destination, source, options, association, step, early, .. } = attempt;
        let flow = match step {
            Step::Promised(flow) => flow,
            Step::Opening(flow) => Some(flow),
            Step::Connecting => None,
        };
        debug!(target: log::CONNECTION,
            "datagrams to {destination}: over association {}", association.0);
        let side = Side::Program { client, program };
        let made = Relay::new(fd, (&self.base.core.registry, id), side, destination, source);
        match made {
            Ok(relay) => {
                let carrier = flow.map(|flow| (association, flow));
                self.start_datagrams(id, Relay { carrier, options, ..relay });
                early.iter().for_each(|payload| self.forward_datagram(id, payload));
            }
            Err(error) => {
                warn!(target: log::CONNECTION, "datagrams could not be taken over: {error}");
                self.base.core.count("attaches_failed");
                self.base.core.reply(client.control, Reply::Closed { id: client.id });
                self.datagrams.clients.remove(&client);
                crate::datagrams::end::close_flow(&mut self.base, association, flow);
            }
        }
    }

    /// The program's socket has got another address.
    fn replace_socket(&mut self, id: DatagramId, client: Client, program: Program, fd: OwnedFd) {
        let Some(relay) = self.datagrams.relays.get(&id) else { return };
        let (destination, source) = (relay.destination, relay.source);
        let side = Side::Program { client, program };
        let made = Relay::new(fd, (&self.base.core.registry, id), side, destination, source);
        match (made, self.datagrams.relays.get_mut(&id)) {
            (Ok(new), Some(relay)) => (relay.socket, relay.side) = (new.socket, side),
            _ => self.base.core.count("attaches_failed"),
        }
    }
}

pub(super) fn open_datagrams(
    base: &mut Base,
    association: AssociationId,
    destination: SocketAddr,
    source: SocketAddr,
    options: &Options,
) -> Result<DatagramFlow, DatagramError> {
    let lifetime = lifetime(&base.core, options);
    let redundant = options.redundant == Some(true);
    let opened = base.with_datagrams(association, |datagrams| {
        let flow = datagrams.open(destination, source, lifetime)?;
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

/// The program sends plain UDP.
fn leave_datagrams(
    core: &mut Core,
    client: Client,
    destination: SocketAddr,
    reason: FallbackReason,
) {
    core.counters.count_fallback(reason);
    info!(
        target: log::CONNECTION, carrier = "udp",
        "datagrams to {destination}: left to the kernel as plain UDP: {reason}"
    );
    core.reply(client.control, Reply::Direct { id: client.id, reason });
}

pub(super) fn lifetime(core: &Core, options: &Options) -> Duration {
    let said = options.lifetime.map(|ms| Duration::from_millis(ms.into()));
    said.unwrap_or(core.config.datagram_lifetime)
}
