//! What flows report, and the relays that they feed.

use crate::association::{FlowUse, RelayId};
use crate::relays::RelayEnd;
use crate::services::Incoming;
use crate::stack::Stack;
use manypath_control::status::FallbackReason;
use manypath_engine::AssociationId;
use manypath_flow::{FlowEvent, FlowId};
use mio::event::Event;

impl Stack {
    pub(crate) fn drain_flow_events(&mut self) {
        for id in self.base.touched() {
            while let Some(event) = self.base.get_mut(&id).and_then(|one| one.mux.poll_event()) {
                self.on_flow_event(id, event);
            }
            self.datagrams.drain_events(&mut self.base, &mut self.services, id);
        }
    }

    fn on_flow_event(&mut self, id: AssociationId, event: FlowEvent) {
        match event {
            FlowEvent::Incoming { flow, destination, source } => {
                let (association, arrived) = (id, self.base.core.now);
                let incoming = Incoming { association, flow, destination, source, arrived };
                self.services.on_incoming(&mut self.base, &mut self.relays, incoming);
            }
            FlowEvent::Opened { flow, local: _ } => self.on_opened(id, flow),
            FlowEvent::Refused { flow, refusal } => {
                self.attempts.on_refused(&mut self.base, id, flow, refusal);
            }
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
    pub(crate) fn lose(&mut self, used: FlowUse, reason: FallbackReason, end: RelayEnd) {
        let base = &mut self.base;
        match used {
            FlowUse::Attempt(attempt) => self.attempts.on_flow_lost(base, attempt, reason),
            FlowUse::Caller(id) => self.callers.on_call_lost(base, id, reason),
            FlowUse::Dial(dial) => self.services.drop_dial(base, dial),
            FlowUse::Relay(relay) => self.relays.reset_relay(base, &mut self.services, relay, end),
            FlowUse::Closing => {}
        }
    }

    /// The plain TCP connection of a relay, or of an attempt that has not decided yet.
    pub(crate) fn on_far_event(&mut self, id: u64, event: &Event) {
        if !self.relays.on_far_event(RelayId(id), event) {
            self.attempts.on_race_event(&mut self.base, id, event);
        }
    }
}
