//! How many connections a peer may have, and whether it may have more, where a rule says so.

use super::Services;
use crate::allow::Denied;
use crate::base::Base;
use crate::base::proven::PeerId;
use crate::relays::Relays;
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
        check_quota(base, id, options)?;
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

/// Whether the peer has anything left of its quota. Rules with one are about peers that have shown a key.
fn check_quota(base: &Base, id: AssociationId, options: &Options) -> Result<(), Denied> {
    let Some(quota) = options.quota else { return Ok(()) };
    let key = base.keys.fingerprint_of(id).ok_or(Denied::NotEncrypted)?;
    match base.core.quotas.is_used_up(&key, base.keys.name_of(id), quota) {
        true => Err(Denied::OverQuota),
        false => Ok(()),
    }
}
