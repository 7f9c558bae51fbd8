//! What the engine reports about associations, and they about their flows: which room hears of it.

use super::Stack;
use crate::attempt::{go_on_plainly, refusal};
use crate::base::proven::key_of_peer;
use crate::base::{Association, FlowUse, Setup, Up, protection};
use crate::datagrams::on_given_up;
use crate::ids::RelayId;
use crate::keys::NOT_AUTHORIZED;
use crate::log;
use crate::relays::RelayEnd;
use crate::services::{Incoming, cancel_chain};
use crate::status::path_state_name;
use crate::uplinks::on_address_answer;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, CloseReason, Event, PathId, PathState};
use manypath_flow::{FlowEvent, FlowId, Refusal};
use manypath_rules::Encrypt;
use tracing::info;

impl Stack {
    /// Handles what the engine has to tell; whether that was anything.
    pub(super) fn drain_endpoint(&mut self) -> bool {
        let mut any = false;
        while let Some((id, event)) = self.base.core.driver.endpoint_mut().poll_event() {
            self.on_association_event(id, event);
            any = true;
        }
        protection::follow_offers(&mut self.base);
        any
    }

    fn on_association_event(&mut self, id: AssociationId, event: Event) {
        match event {
            Event::Connected { initiated, adaptation, outbound_streams, inbound_streams } => {
                let streams = outbound_streams.min(inbound_streams);
                self.on_connected(id, &Up { initiated, adaptation, streams, outbound_streams });
            }
            Event::Readable => {
                if self.base.read_messages(id) {
                    self.datagrams.rendezvous.on_protected(&mut self.base, id);
                    self.base.adopt_peer_addresses(&mut self.attempts.peers, id);
                }
            }
            Event::PeerDoubted => self.attempts.move_on(&mut self.base, id),
            Event::Writable => protection::on_writable(&mut self.base, id),
            Event::SenderDry => self.base.touch(id),
            Event::KeysWanted => protection::on_keys_wanted(&mut self.base, id),
            Event::RekeyDue => protection::on_rekey_due(&mut self.base, id),
            Event::SendFailed { message, .. } => on_given_up(&mut self.base, id, &message),
            Event::StreamsAdded { outcome, outbound_streams, inbound_streams } => {
                self.base.on_streams_added(id, outcome, (outbound_streams, inbound_streams));
            }
            // Only datagrams are unreliable, and nobody resets streams.
            Event::PartialDeliveryAborted(_)
            | Event::Undelivered { .. }
            | Event::PeerError { .. }
            | Event::StreamsReset { .. }
            | Event::AssociationReset { .. }
            | Event::Authentication { .. }
            | Event::PathPolicy { .. } => {}
            Event::LocalAddress { address, change, outcome } => {
                on_address_answer(&mut self.base.core, id, address, (change, outcome));
            }
            Event::PeerAddress { address, change } => {
                self.base.on_peer_address(&mut self.attempts.peers, id, address, change)
            }
            Event::PathChanged { path, state } => self.on_path_changed(id, path, state),
            Event::Restarted => self.on_restarted(id),
            Event::PeerShutdown => self.base.on_peer_shutdown(id),
            Event::Closed(reason) => self.on_closed(id, &reason),
        }
    }

    fn on_connected(&mut self, id: AssociationId, up: &Up) {
        if self.base.is_direct(id) {
            return self.base.on_direct_connected(id, up);
        }
        if up.adaptation != Some(manypath_flow::ADAPTATION) {
            self.base.core.count("associations_without_flows_aborted");
            self.base.core.abort(id, b"no flows here");
            return;
        }
        if !up.initiated
            && key_of_peer(&self.base.core, id).is_some()
            && self.base.core.driver.endpoint().key_agreement(id).is_none()
        {
            self.base.core.count("associations_by_key_unencrypted");
            return self.base.core.abort(id, b"not encrypted as it must be");
        }
        if !up.initiated {
            let memory = self.base.memory().clone();
            let association =
                Association::new(None, Setup::Established, self.base.core.now, up.streams, &memory);
            self.base.insert(id, association);
        }
        let Some(association) = self.base.get_mut(&id) else { return };
        association.setup = Setup::Established;
        association.streams = up.streams;
        association.mux.limit_streams(up.streams);
        if up.initiated {
            self.attempts.note_answer();
        }
        self.base.touch(id);
        self.datagrams.agree(&mut self.base, id);
        self.base.extend_streams(id);
        self.base.adopt_peer_addresses(&mut self.attempts.peers, id);
        self.base.watch_idle(id);
        let word = if up.initiated { "established" } else { "accepted" };
        let peer = self.base.core.peer_name(id);
        info!(target: log::ASSOCIATION, "association {} with {peer}: {word}", id.0);
    }

    fn on_path_changed(&mut self, id: AssociationId, path: PathId, state: PathState) {
        match state {
            PathState::Active => self.base.adopt_peer_addresses(&mut self.attempts.peers, id),
            PathState::Inactive => {
                self.base.disown_failed_addresses(id);
                self.datagrams.rendezvous.leave_failed_relay(&mut self.base, id);
            }
            PathState::Unconfirmed | PathState::PotentiallyFailed => {}
        }
        self.datagrams.rendezvous.tell_seen_again(&mut self.base, id);
        self.attempts.move_on(&mut self.base, id);
        self.services.answer_waiting_of(&mut self.base, &mut self.relays, id);
        self.watch.tell_watchers(&mut self.base);
        let mut paths = self.base.core.paths_of(id).into_iter();
        if let Some(path) = paths.find(|one| one.id == path) {
            let (local, remote) = (path.addr.local.ip(), path.addr.remote);
            let interface = self.base.core.locals.interface(local);
            let state = path_state_name(state);
            info!(target: log::PATH,
                "association {}: path {local} ({interface}) to {remote} is {state}",
                id.0
            );
        }
    }

    /// Everything in flight is lost, and with it every flow; the association itself goes on.
    fn on_restarted(&mut self, id: AssociationId) {
        self.base.core.count("associations_restarted");
        self.end_flows(id, FallbackReason::AssociationLost);
        let (now, memory) = (self.base.core.now, self.base.memory().clone());
        let Some(association) = self.base.get_mut(&id) else { return };
        if let Some(flow) = association.mux.direct() {
            let (peer, streams) = (flow.peer(), flow.streams());
            return self.base.on_direct_restarted(id, peer, streams);
        }
        let Association { begun_with, acceptor, encrypt, streams, .. } = *association;
        let fresh = Association::new(begun_with, Setup::Established, now, streams, &memory);
        *association = fresh.asked(acceptor, encrypt);
        self.datagrams.rendezvous.forget_guest(id);
        self.datagrams.agree(&mut self.base, id);
        info!(target: log::ASSOCIATION, "association {}: the peer has restarted", id.0);
        protection::follow_restart(&mut self.base, id);
    }

    fn on_closed(&mut self, id: AssociationId, reason: &CloseReason) {
        let told = self.base.core.driver.endpoint_mut().take_abort_reason(id);
        let Some(association) = self.base.get(&id) else {
            return self.base.keys.forget(id);
        };
        let connecting = association.setup == Setup::Connecting;
        let fallback = association.acceptor.reason(fallback_reason(reason, connecting));
        let demanded = connecting && association.encrypt == Encrypt::Require;
        let fallback = association.rejected.unwrap_or(match () {
            () if told.is_some_and(|told| told == NOT_AUTHORIZED) => FallbackReason::NotAuthorized,
            () if demanded && wants_authentication(reason) => FallbackReason::NotEncrypted,
            () => fallback,
        });
        if connecting
            && protection::speaks_for_peer(&self.base, id)
            && !fallback.is_about_encryption()
        {
            let (peers, native) = (&mut self.attempts.peers, speaks_sctp(reason));
            self.base.remember_failed_connect(peers, id, fallback, native);
        }
        protection::return_from(&mut self.base, &mut self.attempts.peers, id);
        let graceful = *reason == CloseReason::Graceful;
        if graceful {
            self.base.on_direct_peer_end(id);
        }
        let association = self.base.get_mut(&id).filter(|_| graceful);
        let whole = association.map(Association::take_whole_flows).unwrap_or_default();
        // What is lost with it must not be asked for on it again.
        self.base.retire(id);
        self.end_flows(id, fallback);
        self.base.keep_to_be_read(id, whole);
        self.base.core.count(close_counter(reason));
        info!(target: log::ASSOCIATION, "association {}: closed ({reason:?})", id.0);
    }

    /// Ends everything that uses a flow of the association.
    fn end_flows(&mut self, id: AssociationId, reason: FallbackReason) {
        self.datagrams.end_on(&mut self.base, id, reason);
        let Some(association) = self.base.get_mut(&id) else { return };
        for used in std::mem::take(&mut association.flows).into_values() {
            self.lose(used, reason, RelayEnd::AssociationLost);
        }
    }

    pub(super) fn drain_flow_events(&mut self) {
        for id in self.base.touched() {
            while let Some(event) = self.base.get_mut(&id).and_then(|one| one.mux.poll_event()) {
                self.on_flow_event(id, event);
            }
            self.datagrams.drain_events(&mut self.base, &mut self.services, id);
        }
        for (peer, moved) in self.datagrams.take_ended_onward() {
            self.services.onward.note_end_of(peer, moved);
        }
        for (relay, reason) in self.datagrams.take_failed_relays() {
            self.attempts.relays.note_failure(&self.base.core, relay, reason);
        }
        self.services.serve_onward(&mut self.base, &mut self.attempts, &mut self.relays);
    }

    fn on_flow_event(&mut self, id: AssociationId, event: FlowEvent) {
        match event {
            FlowEvent::Incoming { flow, destination, source } => {
                let (association, arrived) = (id, self.base.core.now);
                let incoming = Incoming { association, flow, destination, source, arrived };
                self.services.on_incoming(&mut self.base, &mut self.relays, incoming);
            }
            FlowEvent::IncomingBeyond(flow) => {
                let (base, attempts) = (&mut self.base, &mut self.attempts);
                self.services.on_incoming_beyond(base, attempts, &mut self.relays, (id, flow));
            }
            FlowEvent::Opened { flow, local: _ } => self.on_flow_opened(id, flow),
            FlowEvent::Refused { flow, refusal } => match self.base.flow_use(id, flow) {
                Some(FlowUse::Relay(relay)) => self.on_early_refused(id, flow, relay, refusal),
                _ => self.attempts.on_refused(&mut self.base, id, flow, refusal),
            },
            FlowEvent::Readable(flow) | FlowEvent::Writable(flow) => {
                if let Some(FlowUse::Relay(relay)) = self.base.flow_use(id, flow) {
                    self.relays.touch(relay);
                }
            }
            FlowEvent::Finished(flow) => self.relays.on_flow_finished(&self.base, id, flow),
            FlowEvent::Reset(flow) => self.on_flow_reset(id, flow),
            FlowEvent::Closed(flow) => self.on_flow_closed(id, flow),
        }
    }

    fn on_flow_opened(&mut self, id: AssociationId, flow: FlowId) {
        let (base, relays) = (&mut self.base, &mut self.relays);
        match base.flow_use(id, flow) {
            Some(FlowUse::Attempt(attempt)) => self.attempts.on_opened(base, attempt, id, flow),
            Some(FlowUse::Caller(caller)) => {
                self.clients.callers.on_call_answered(base, relays, caller, id, flow);
            }
            Some(FlowUse::Relay(relay)) => {
                if let Some(destination) = relays.confirm(relay) {
                    self.attempts.peers.remember_carried(base.core.now, destination);
                }
            }
            Some(FlowUse::Dial(_) | FlowUse::Closing) | None => {}
        }
    }

    /// The peer has refused the flow of a connection that did not wait for its answer.
    fn on_early_refused(&mut self, id: AssociationId, flow: FlowId, relay: RelayId, why: Refusal) {
        let base = &mut self.base;
        base.set_flow_use(id, flow, FlowUse::Closing);
        let Some(destination) = self.relays.destination_of(relay) else { return };
        let (peers, now) = (&mut self.attempts.peers, base.core.now);
        let plain = refusal(peers, now, (destination, false), why);
        self.go_on_or_end(relay, plain.ok(), RelayEnd::ResetByPeer);
    }

    /// Lets a connection whose peer has accepted nothing go on as plain TCP, or ends it.
    fn go_on_or_end(&mut self, relay: RelayId, plain: Option<FallbackReason>, end: RelayEnd) {
        let (base, relays) = (&mut self.base, &mut self.relays);
        let goes_on =
            plain.is_some_and(|reason| go_on_plainly(base, relays, relay, reason).is_ok());
        if !goes_on {
            let ended = self.relays.reset(&mut self.base, relay, end);
            self.services.on_relay_over(&mut self.base, ended);
        }
    }

    fn on_flow_reset(&mut self, id: AssociationId, flow: FlowId) {
        let Some(used) = self.base.flow_use(id, flow) else { return };
        self.base.set_flow_use(id, flow, FlowUse::Closing);
        self.lose(used, FallbackReason::AssociationLost, RelayEnd::ResetByPeer);
    }

    fn on_flow_closed(&mut self, id: AssociationId, flow: FlowId) {
        match self.base.forget_flow(id, flow) {
            Some(FlowUse::Relay(id)) => self.relays.on_flow_closed(id),
            Some(used) => {
                self.lose(used, FallbackReason::AssociationLost, RelayEnd::ResetByPeer);
            }
            None => {}
        }
    }

    /// Whoever has used a flow has it no longer.
    fn lose(&mut self, used: FlowUse, reason: FallbackReason, end: RelayEnd) {
        let base = &mut self.base;
        match used {
            FlowUse::Attempt(attempt) => self.attempts.on_flow_lost(base, attempt, reason),
            FlowUse::Caller(id) => self.clients.callers.on_call_lost(base, id, reason),
            FlowUse::Dial(dial) => {
                cancel_chain(base, &mut self.attempts, dial);
                self.services.drop_dial(base, dial);
            }
            FlowUse::Relay(relay) => {
                // RESET takes the place of the answer, and who does not take the key of this host takes no data from it.
                let is_unread =
                    reason == FallbackReason::NotAuthorized || end == RelayEnd::ResetByPeer;
                let plain = (is_unread || self.relays.has_said_nothing(relay)).then_some(reason);
                self.go_on_or_end(relay, plain, end);
            }
            FlowUse::Closing => {}
        }
    }
}

/// Whether a peer has refused an INIT that offers ASCONF without AUTH (RFC 5061 section 6). Those that can protect packets
/// know that DTLS chunks take the place of AUTH.
const fn wants_authentication(reason: &CloseReason) -> bool {
    const PROTOCOL_VIOLATION: u16 = 13;
    matches!(reason, CloseReason::PeerAborted(Some(PROTOCOL_VIOLATION)))
}

/// The peer takes encrypted associations only (draft-ietf-tsvwg-sctp-dtls-chunk).
const MISSING_DTLS_SUPPORT: u16 = 100;

/// What the end of an association means for connections that were being opened.
const fn fallback_reason(reason: &CloseReason, connecting: bool) -> FallbackReason {
    match reason {
        CloseReason::NoAdaptation | CloseReason::NoAuthentication => FallbackReason::NotManypath,
        CloseReason::NoProtection => FallbackReason::NotEncrypted,
        CloseReason::PeerAborted(Some(MISSING_DTLS_SUPPORT)) => FallbackReason::EncryptionRequired,
        CloseReason::NoAnswer if connecting => FallbackReason::Silent,
        CloseReason::Unreachable | CloseReason::PeerAborted(_) if connecting => {
            FallbackReason::Refused
        }
        CloseReason::Graceful
        | CloseReason::NoAnswer
        | CloseReason::Unreachable
        | CloseReason::PeerAborted(_)
        | CloseReason::LocalAbort
        | CloseReason::TooManyFailures
        | CloseReason::ProtocolViolation(_) => FallbackReason::AssociationLost,
    }
}

/// Whether an answer to an INIT shows that its sender speaks SCTP, and may do so with us in another
/// form. Who has no room for another association has none for that one either.
const fn speaks_sctp(reason: &CloseReason) -> bool {
    const OUT_OF_RESOURCE: u16 = 4;
    match reason {
        CloseReason::NoAdaptation => true,
        CloseReason::PeerAborted(cause) => {
            !matches!(cause, Some(OUT_OF_RESOURCE | MISSING_DTLS_SUPPORT))
        }
        CloseReason::Graceful
        | CloseReason::NoAnswer
        | CloseReason::Unreachable
        | CloseReason::NoAuthentication
        | CloseReason::NoProtection
        | CloseReason::LocalAbort
        | CloseReason::TooManyFailures
        | CloseReason::ProtocolViolation(_) => false,
    }
}

const fn close_counter(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::Graceful => "associations_closed_gracefully",
        CloseReason::NoAnswer => "associations_without_answer",
        CloseReason::Unreachable => "associations_unreachable",
        CloseReason::PeerAborted(_) => "associations_aborted_by_peer",
        CloseReason::LocalAbort => "associations_aborted_here",
        CloseReason::TooManyFailures => "associations_lost",
        CloseReason::ProtocolViolation(_) => "associations_with_protocol_violation",
        CloseReason::NoAdaptation => "associations_refused_not_manypath",
        CloseReason::NoAuthentication => "associations_refused_without_authentication",
        CloseReason::NoProtection => "associations_refused_without_protection",
    }
}
