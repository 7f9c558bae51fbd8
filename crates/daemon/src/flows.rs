//! What flows report, and the relays that they feed.

use crate::association::{FlowUse, RelayId};
use crate::connection::RelayEnd;
use crate::dial::Incoming;
use crate::relay::{Progress, Relay};
use crate::stack::Stack;
use crate::tcp_relay::TcpRelay;
use manypath_control::status::FallbackReason;
use manypath_engine::AssociationId;
use manypath_flow::{FlowEvent, FlowId};
use mio::event::Event;

/// From so many relays on the kernel is to keep less for another one: a hundred megabytes of what waits are in no cache.
const MANY_RELAYS: usize = 64;

impl Stack {
    pub(crate) fn drain_flow_events(&mut self) {
        for id in self.base.touched() {
            while let Some(event) = self.base.get_mut(&id).and_then(|one| one.mux.poll_event()) {
                self.on_flow_event(id, event);
            }
            self.drain_datagram_events(id);
        }
    }

    fn on_flow_event(&mut self, id: AssociationId, event: FlowEvent) {
        match event {
            FlowEvent::Incoming { flow, destination, source } => {
                let (association, arrived) = (id, self.base.core.now);
                let incoming = Incoming { association, flow, destination, source, arrived };
                self.on_incoming(incoming);
            }
            FlowEvent::Opened { flow, local: _ } => self.on_opened(id, flow),
            FlowEvent::Refused { flow, refusal } => self.on_refused(id, flow, refusal),
            FlowEvent::Readable(flow) | FlowEvent::Writable(flow) => {
                if let Some(FlowUse::Relay(relay)) = self.base.flow_use(id, flow) {
                    self.ready.insert(relay);
                }
            }
            FlowEvent::Finished(flow) => self.on_flow_finished(id, flow),
            FlowEvent::Reset(flow) => self.on_flow_reset(id, flow),
            FlowEvent::Closed(flow) => self.on_flow_closed(id, flow),
        }
    }

    fn on_flow_finished(&mut self, id: AssociationId, flow: FlowId) {
        let Some(FlowUse::Relay(id)) = self.base.flow_use(id, flow) else { return };
        if let Some(relay) = self.relays.get_mut(&id) {
            relay.on_finished();
            self.ready.insert(id);
        }
    }

    fn on_flow_reset(&mut self, id: AssociationId, flow: FlowId) {
        let Some(used) = self.base.flow_use(id, flow) else { return };
        self.base.set_flow_use(id, flow, FlowUse::Closing);
        match used {
            FlowUse::Attempt(attempt) => self.on_attempt_flow_reset(attempt),
            FlowUse::Caller(id) => self.on_call_lost(id, FallbackReason::AssociationLost),
            FlowUse::Dial(dial) => self.drop_dial(dial),
            FlowUse::Relay(relay) => self.reset_relay(relay, RelayEnd::ResetByPeer),
            FlowUse::Closing => {}
        }
    }

    fn on_flow_closed(&mut self, id: AssociationId, flow: FlowId) {
        match self.base.forget_flow(id, flow) {
            Some(FlowUse::Relay(id)) => {
                if let Some(relay) = self.relays.get_mut(&id) {
                    relay.on_flow_closed();
                    self.ready.insert(id);
                }
            }
            Some(FlowUse::Attempt(attempt)) => self.on_attempt_flow_reset(attempt),
            Some(FlowUse::Caller(id)) => self.on_call_lost(id, FallbackReason::AssociationLost),
            Some(FlowUse::Dial(dial)) => self.drop_dial(dial),
            Some(FlowUse::Closing) | None => {}
        }
    }

    /// Joins a connected socket, watched under the relay's token, with a flow.
    pub(crate) fn start_relay(&mut self, id: RelayId, mut relay: Relay) {
        self.base.set_flow_use(relay.association, relay.flow, FlowUse::Relay(id));
        let association = self.base.get(&relay.association);
        // The peer may have been so quick that its end has come before there was a relay.
        if association.is_some_and(|association| association.mux.has_finished(relay.flow)) {
            relay.on_finished();
        }
        if self.relays.len() >= MANY_RELAYS {
            relay.socket.keep_little();
        }
        self.relays.insert(id, relay);
        self.base.core.count("relays_started");
        self.ready.insert(id);
    }

    pub(crate) fn on_relay_event(&mut self, id: RelayId, event: &Event) {
        if let Some(relay) = self.relays.get_mut(&id) {
            relay.socket.on_event(event);
            self.ready.insert(id);
        }
    }

    /// Lets the relays move bytes, one after the other, until the turn's budget is used up. The
    /// next turn begins where this one has stopped.
    pub(crate) fn service_relays(&mut self) {
        let mut before = std::mem::take(&mut self.ready);
        let after = before.split_off(&self.next_relay);
        for id in after.into_iter().chain(before) {
            if self.turn_budget == 0 {
                self.unfinished.insert(id);
            } else {
                self.service_relay(id);
                self.next_relay = RelayId(id.0 + 1);
            }
        }
    }

    fn service_relay(&mut self, id: RelayId) {
        let before = self.moved_by(id);
        let progress = match self.relays.contains_key(&id) {
            true => self.service_flow_relay(id),
            false => self.tcp_relays.get_mut(&id).map(|relay| relay.service(&mut self.scratch)),
        };
        self.turn_budget = self.turn_budget.saturating_sub(self.moved_by(id) - before);
        match progress {
            Some(Progress::Waiting) | None => {}
            Some(Progress::More) => {
                self.unfinished.insert(id);
            }
            Some(Progress::Done) => self.finish_relay(id),
            Some(Progress::Broken) => self.break_relay(id, RelayEnd::ResetHere),
        }
    }

    fn moved_by(&self, id: RelayId) -> u64 {
        let flow = self.relays.get(&id).map(Relay::moved);
        flow.or_else(|| self.tcp_relays.get(&id).map(TcpRelay::moved)).unwrap_or_default()
    }

    fn service_flow_relay(&mut self, id: RelayId) -> Option<Progress> {
        let relay = self.relays.get_mut(&id)?;
        self.base.touch(relay.association);
        let now = self.base.core.now;
        let association = self.base.get_mut(&relay.association);
        let flows = association.map(|association| {
            association.mux.advance_time(now);
            &mut association.mux
        });
        Some(relay.service(flows, &mut self.scratch))
    }

    /// Both directions have ended in good order.
    fn finish_relay(&mut self, id: RelayId) {
        self.count_end(id, RelayEnd::Finished);
        if let Some(relay) = self.relays.remove(&id) {
            let (id, flow) = (relay.association, relay.flow);
            if let Some(FlowUse::Relay(_)) = self.base.flow_use(id, flow) {
                self.base.set_flow_use(id, flow, FlowUse::Closing);
            }
            relay.socket.close(&self.base.core.registry);
        }
        if let Some(relay) = self.tcp_relays.remove(&id) {
            relay.near.close(&self.base.core.registry);
            relay.far.close(&self.base.core.registry);
        }
        self.report_closed(id);
    }

    /// What comes from the local side: the flow is reset too.
    pub(crate) fn break_relay(&mut self, id: RelayId, end: RelayEnd) {
        if let Some(relay) = self.relays.get(&id) {
            let (association, flow) = (relay.association, relay.flow);
            if self.base.flow_use(association, flow) == Some(FlowUse::Relay(id)) {
                self.base.reset_flow(association, flow);
            }
        }
        self.reset_relay(id, end);
    }

    /// Resets the local side. `end` says why.
    pub(crate) fn reset_relay(&mut self, id: RelayId, end: RelayEnd) {
        self.count_end(id, end);
        if let Some(relay) = self.relays.remove(&id) {
            relay.socket.reset(&self.base.core.registry);
        }
        if let Some(relay) = self.tcp_relays.remove(&id) {
            relay.near.reset(&self.base.core.registry);
            relay.far.reset(&self.base.core.registry);
        }
        self.report_closed(id);
    }

    fn count_end(&mut self, id: RelayId, end: RelayEnd) {
        self.base.core.count(end.counter());
        let flow = self.relays.get(&id).map(Relay::bytes);
        let moved = flow.or_else(|| self.tcp_relays.get(&id).map(TcpRelay::bytes));
        self.end_connection(id, end, moved.unwrap_or_default());
    }

    pub(crate) fn on_near_event(&mut self, id: RelayId, event: &Event) {
        if let Some(relay) = self.tcp_relays.get_mut(&id) {
            relay.near.on_event(event);
            self.ready.insert(id);
        }
    }

    /// The plain TCP connection of a relay, or of an attempt that has not decided yet.
    pub(crate) fn on_far_event(&mut self, id: u64, event: &Event) {
        let relay = RelayId(id);
        match self.tcp_relays.get_mut(&relay) {
            Some(found) => {
                found.far.on_event(event);
                self.ready.insert(relay);
            }
            None => self.on_race_event(id, event),
        }
    }
}
