//! What `manypath status` shows of datagrams.

use super::Datagrams;
use crate::base::Association;
use manypath_control::status::DatagramStatus;

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
