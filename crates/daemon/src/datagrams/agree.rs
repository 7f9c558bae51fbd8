//! What both sides of an association must know: whether datagrams are carried, and which were given
//! up.

use super::Datagrams;
use super::Step;
use crate::base::Base;
use crate::core::Core;
use crate::ids::DatagramId;
use manypath_control::status::FallbackReason;
use manypath_engine::{AssociationId, Outgoing, StreamClass, StreamId, StreamOptions};
use manypath_flow::{DATAGRAM_STREAMS, Datagrams as Flows, REDUNDANT_STREAMS};

impl Datagrams {
    /// The association is up: a peer that gives messages up (RFC 3758) carries datagrams, too, on the
    /// last streams.
    pub(crate) fn agree(&mut self, base: &mut Base, id: AssociationId) {
        let status = base.core.status_of(id);
        let agreed = status.is_some_and(|status| status.partial_reliability);
        let Some(association) = base.get_mut(&id) else { return };
        let first = association.streams.checked_sub(DATAGRAM_STREAMS).filter(|first| *first > 0);
        if let Some((first, datagrams)) =
            first.filter(|_| agreed).zip(association.mux.datagrams_mut())
        {
            datagrams.agree(first);
            association.mux.limit_streams(first);
            hurry_datagrams(&mut base.core, id, first);
        }
        for attempt in self.attempts_waiting_for(id) {
            self.ask_for_flow(base, attempt);
        }
    }

    pub(super) fn attempts_waiting_for(&self, id: AssociationId) -> Vec<DatagramId> {
        let all = self.attempts.iter();
        let waiting = all.filter(|(_, one)| one.association == id && one.step == Step::Connecting);
        waiting.map(|(attempt, _)| *attempt).collect()
    }

    /// How the association's datagrams came to their end is known: nothing is tried again by itself.
    pub(crate) fn end_on(&mut self, base: &mut Base, id: AssociationId, reason: FallbackReason) {
        self.rendezvous.on_relay_lost(base, id, reason);
        let Some(association) = base.get_mut(&id) else { return };
        let used = std::mem::take(&mut association.datagrams);
        let waiting = self.attempts.iter().filter(|(_, one)| one.association == id);
        let waiting: Vec<DatagramId> = waiting.map(|(attempt, _)| *attempt).collect();
        for one in waiting.into_iter().chain(used.into_values()) {
            self.give_up(base, one, reason);
        }
    }
}

pub(super) fn datagrams_agreed(base: &Base, id: AssociationId) -> bool {
    let datagrams = base.get(&id).and_then(|one| one.mux.datagrams());
    datagrams.is_some_and(Flows::are_agreed)
}

/// The association has given up a message because its time was over.
pub(crate) fn on_given_up(base: &mut Base, id: AssociationId, message: &Outgoing) {
    if base.with_datagrams(id, |datagrams| datagrams.on_given_up(message)) != Some(true) {
        base.core.count("messages_given_up");
    }
}

/// Late is lost: what chooses paths by class, or repeats on several, does so for datagrams. Some streams
/// are there for flows that a rule sends over every path.
fn hurry_datagrams(core: &mut Core, id: AssociationId, first: u16) {
    let end = first + DATAGRAM_STREAMS;
    for stream in first..end {
        let redundant = stream >= end - REDUNDANT_STREAMS;
        let class = StreamClass::Realtime;
        let options = StreamOptions { class, redundant, ..StreamOptions::default() };
        let endpoint = core.driver.endpoint_mut();
        endpoint.set_stream_options(core.now, id, StreamId(stream), options);
    }
}
