//! What `manypath status` shows of datagrams.

use crate::association::Association;
use crate::base::Base;
use crate::datagrams::Datagrams;
use manypath_control::status::DatagramStatus;
use std::collections::BTreeMap;

impl Datagrams {
    pub(crate) fn statuses(&self, association: &Association) -> Vec<DatagramStatus> {
        let Some(datagrams) = association.mux.datagrams() else { return Vec::new() };
        let flows = association.datagrams.iter();
        flows
            .filter_map(|(flow, user)| {
                let status = datagrams.status(*flow)?;
                let relay = self.relays.get(user);
                Some(DatagramStatus {
                    number: flow.number,
                    initiated: flow.opened_here,
                    accepted: status.accepted,
                    destination: status.destination,
                    source: relay.map_or(status.source, |relay| relay.source),
                    lifetime_ms: u64::try_from(status.lifetime.as_millis()).unwrap_or(u64::MAX),
                    redundant: status.redundant,
                    sent: status.sent,
                    sent_bytes: status.sent_bytes,
                    expired: status.expired,
                    dropped_for_newer: status.dropped,
                    dropped_by_kernel: relay.map_or(0, |relay| relay.dropped_by_kernel),
                    dropped_too_long: relay.map_or(0, |relay| relay.too_long),
                    waiting: status.queued as u64,
                    received: status.received,
                    received_bytes: status.received_bytes,
                    delivered: relay.map_or(0, |relay| relay.delivered),
                    undelivered: relay.map_or(0, |relay| relay.undelivered),
                })
            })
            .collect()
    }
}

/// Counts of all datagrams, of associations that are gone too.
pub(crate) fn datagram_counters(base: &Base) -> BTreeMap<&'static str, u64> {
    let mut all = base.core.counters.past_datagrams().clone();
    let carrying = base.values().filter_map(|one| one.mux.datagrams());
    for (name, count) in carrying.flat_map(|datagrams| datagrams.counters().entries()) {
        *all.entry(name).or_default() += count;
    }
    all
}
