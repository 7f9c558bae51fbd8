//! Flows on associations: who uses them, and their ends.

use super::{Association, Base, FlowUse, Setup};
use manypath_engine::{
    AssociationId, Duration, Endpoint, InitRepetition, Instant, Reliability, StreamClass, StreamId,
    StreamOptions,
};
use manypath_flow::{Datagrams, FlowId, Refusal, Share};
use manypath_rules::{Class, Options};
use std::collections::BTreeMap;

/// Bytes that may wait unsent in the engine beyond what connections may have there: datagrams do not
/// wait behind these.
const ROOM: usize = 64 << 10;

impl Base {
    pub(crate) fn flow_use(&self, id: AssociationId, flow: FlowId) -> Option<FlowUse> {
        self.all.get(&id)?.flows.get(&flow).copied()
    }

    pub(crate) fn set_flow_use(&mut self, id: AssociationId, flow: FlowId, used: FlowUse) {
        if let Some(association) = self.all.get_mut(&id) {
            association.flows.insert(flow, used);
        }
        if let FlowUse::Attempt(_) = used {
            self.core.hurry_init(id);
        }
    }

    /// Resets a flow that nobody uses any more. The mux says nothing about it afterwards.
    pub(crate) fn reset_flow(&mut self, id: AssociationId, flow: FlowId) {
        if let Some(association) = self.all.get_mut(&id) {
            association.mux.reset(flow);
            self.touch(id);
            self.forget_flow(id, flow);
            self.end_broken_setup(id);
        }
    }

    /// Nobody waits any more for an association whose peer has answered the INIT and then no more. One that has never
    /// answered may do so late, and is known then: it is asked rarely, because a web page may name dozens of hosts.
    fn end_broken_setup(&mut self, id: AssociationId) {
        let connecting = |one: &Association| one.setup == Setup::Connecting && one.is_unused();
        if !self.all.get(&id).is_some_and(connecting) {
            return;
        }
        if self.core.packets_received(id) == 0 {
            self.core.repeat_init(id, InitRepetition::Rare);
            return;
        }
        if let Some(association) = self.all.get_mut(&id) {
            // What ends it is no news of the peer.
            association.setup = Setup::Ending;
        }
        self.retire(id);
        self.core.count("setups_given_up");
        self.core.abort(id, b"nobody waits for it");
    }

    /// The flow is gone. Returns who used it.
    pub(crate) fn forget_flow(&mut self, id: AssociationId, flow: FlowId) -> Option<FlowUse> {
        let now = self.core.now;
        let association = self.all.get_mut(&id)?;
        let used = association.flows.remove(&flow);
        association.idle.since = now;
        if association.is_unused() && association.setup == Setup::Over {
            self.remove(id);
        } else if association.is_unused() && (association.is_ours() || association.mux.is_direct())
        {
            self.watch_idle(id);
        }
        used
    }

    /// Forgets an association that has ended, or keeps it until these flows have been read.
    pub(crate) fn keep_to_be_read(&mut self, id: AssociationId, flows: BTreeMap<FlowId, FlowUse>) {
        if flows.is_empty() {
            return self.remove(id);
        }
        if let Some(association) = self.all.get_mut(&id) {
            (association.setup, association.flows) = (Setup::Over, flows);
        }
    }

    pub(crate) fn refuse(
        &mut self,
        id: AssociationId,
        flow: FlowId,
        refusal: Refusal,
        counter: &'static str,
    ) {
        self.core.count(counter);
        if let Some(association) = self.all.get_mut(&id) {
            association.mux.refuse(flow, refusal);
            association.flows.remove(&flow);
            self.touch(id);
        }
    }

    /// Lets a flow have the class and weight that a rule says, and every path if it says so: its share
    /// among the flows of the association, and the place of its stream among the streams on a path. A
    /// stream may have been used by another flow before.
    pub(crate) fn treat(&mut self, id: AssociationId, flow: FlowId, options: &Options) {
        let Some(association) = self.all.get_mut(&id) else { return };
        let weight = options.weight.unwrap_or(1);
        let urgent = options.class == Some(Class::Interactive);
        association.mux.set_share(flow, Share { weight, urgent });
        let Some(status) = association.mux.status(flow) else { return };
        let class = if urgent { StreamClass::Interactive } else { StreamClass::Bulk };
        let redundant = options.redundant == Some(true);
        let stream = StreamOptions { weight, class, redundant, ..StreamOptions::default() };
        let endpoint = self.core.driver.endpoint_mut();
        endpoint.set_stream_options(self.core.now, id, StreamId(status.stream), stream);
    }

    /// Calls `with` for the datagrams of an association that carries them.
    pub(crate) fn with_datagrams<T>(
        &mut self,
        id: AssociationId,
        with: impl FnOnce(&mut Datagrams) -> T,
    ) -> Option<T> {
        let result = with(self.get_mut(&id)?.mux.datagrams_mut()?);
        self.touch(id);
        Some(result)
    }
}

/// Hands messages about datagrams to the engine, and datagrams as long as it has room. False if some
/// are left.
pub(super) fn pump_datagrams(
    now: Instant,
    endpoint: &mut Endpoint,
    id: AssociationId,
    datagrams: &mut Datagrams,
    limit: usize,
) -> bool {
    while let Some(message) = datagrams.poll_control() {
        // Small and few; where they do not fit the association is about to end.
        let _ = endpoint.send(now, id, message);
    }
    let time = Duration::from_nanos(now.as_nanos());
    while endpoint.unsent(id) < limit + ROOM {
        let Some((message, left)) = datagrams.poll_datagram(time) else { return true };
        let reliability = Reliability::Lifetime(left);
        if endpoint.send_with(now, id, message.clone(), reliability).is_err() {
            datagrams.on_given_up(&message);
        }
    }
    !datagrams.has_messages()
}
