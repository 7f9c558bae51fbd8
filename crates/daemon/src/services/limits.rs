//! How many connections a peer may have, where a rule says so.

use crate::allow::Denied;
use crate::base::Base;
use crate::proven::PeerId;
use crate::relays::Relays;
use crate::services::Services;
use manypath_engine::AssociationId;
use manypath_rules::Options;
use std::collections::BTreeMap;

impl Services {
    /// Whether a peer may have another connection by a rule with these options. Rules with the same limit share it.
    pub(crate) fn check_limit(
        &self,
        base: &Base,
        relays: &Relays,
        id: AssociationId,
        options: &Options,
    ) -> Result<(), Denied> {
        let Some(most) = options.connections else { return Ok(()) };
        let dials = self.dials.values().map(|dial| (dial.flow().0, &dial.options));
        let relays = relays.values().map(|relay| (relay.association, &relay.options));
        let mut counts: BTreeMap<AssociationId, usize> = BTreeMap::new();
        for (id, other) in dials.chain(relays).chain(self.listeners.delayed_of()) {
            if other.connections == Some(most) {
                *counts.entry(id).or_default() += 1;
            }
        }
        let peer = PeerId::of(base, id);
        let of_peer = counts.iter().filter(|(id, _)| PeerId::of(base, **id) == peer);
        let count: usize = of_peer.map(|(_, count)| count).sum();
        if u32::try_from(count).is_ok_and(|count| count < most) {
            Ok(())
        } else {
            Err(Denied::TooMany)
        }
    }
}
