//! The relay: two flows of datagrams, each of an association with an authorized peer, become one.

use super::super::onward::quota_of;
use super::super::open::use_datagrams;
use super::super::serve::refuse_datagrams;
use super::{Carrier, LIFETIME, Rendezvous, keep};
use crate::base::Base;
use crate::base::by_key::PORT;
use crate::budgets::Counter;
use crate::ids::DatagramId;
use crate::log;
use crate::services::Services;
use manypath_engine::{AssociationId, Duration, Instant};
use manypath_flow::{Refusal, SeenAt};
use manypath_keys::PublicKey;
use manypath_trust::Fingerprint;
use std::net::{IpAddr, SocketAddr};
use tracing::info;

/// Associations with one key by which it stays registered: that of a host that has moved, and the one before.
const MAX_GUESTS_OF_KEY: usize = 2;

/// One of two flows that are joined.
#[derive(Debug)]
pub(super) struct Half {
    carrier: Carrier,
    other: DatagramId,
    /// Who has opened it, at that end, and what has been moved from and to the far end.
    opener: Option<PublicKey>,
    moved: (u64, u64),
    /// Where that counts, if the opener has a quota.
    quota: Option<Counter>,
    /// Where it was told that the other end is seen.
    told: SeenAt,
    last: Instant,
}

impl Half {
    pub(super) fn moved(&self) -> Option<(PublicKey, (u64, u64))> {
        self.opener.map(|opener| (opener, self.moved))
    }
}

impl Rendezvous {
    /// A peer asks for the host that has a key.
    pub(in super::super) fn join(
        &mut self,
        base: &mut Base,
        services: &mut Services,
        (id, flow): Carrier,
        destination: SocketAddr,
    ) {
        let peer = match services.onward.admit(base, id, Some(())) {
            Ok((peer, ())) => peer,
            Err((why, counter)) => return refuse_datagrams(base, id, flow, why, counter),
        };
        let source = SocketAddr::new(Fingerprint::of(&peer).address().into(), PORT);
        // There is nothing else at such an address than its host's association.
        let far = Some(destination).filter(|destination| destination.port() == PORT);
        let far = far.and_then(|destination| self.guest(base, destination.ip()));
        let far = far.filter(|far| *far != id);
        let opened = far.and_then(|far| {
            let opened = base
                .with_datagrams(far, |datagrams| datagrams.open(destination, source, LIFETIME))?;
            Some((far, opened.ok()?))
        });
        let Some(far) = opened else {
            services.onward.end_datagrams(peer, false);
            let why = Refusal::Errno(libc::EHOSTUNREACH.unsigned_abs() as u16);
            return refuse_datagrams(base, id, flow, why, "onward_hosts_not_registered");
        };
        let (near_id, far_id) = (base.core.next_id(), base.core.next_id());
        let (near_id, far_id) = (DatagramId(near_id), DatagramId(far_id));
        let last = base.core.now;
        let half = |carrier, other, opener| {
            let (moved, told, quota) = ((0, 0), SeenAt::default(), None);
            Half { carrier, other, opener, moved, quota, told, last }
        };
        let quota = quota_of(base, id);
        let near = Half { quota, ..half((id, flow), far_id, Some(peer)) };
        self.halves.insert(near_id, near);
        self.halves.insert(far_id, half(far, near_id, None));
        use_datagrams(base, id, flow, near_id);
        use_datagrams(base, far.0, far.1, far_id);
        base.with_datagrams(id, |datagrams| datagrams.set_lifetime(flow, LIFETIME));
        let names = [id, far.0].map(|id| base.keys.who(id).unwrap_or_default());
        info!(target: log::CONNECTION, "{} and {} meet here", names[0], names[1]);
        base.core.count("flows_joined");
        self.tell_seen(base, near_id);
        self.watch(base);
    }

    /// The peer of an association may have asked to be registered here.
    pub(in super::super) fn follow_guest(&mut self, base: &mut Base, id: AssociationId) {
        let asks = base.get(&id).is_some_and(|one| one.mux.peer_registers());
        if asks && !self.guests.contains(&id) {
            self.guests.retain(|guest| base.get(guest).is_some());
            self.keep_guest(base, id);
            self.guests.insert(id);
            base.core.count("hosts_registered");
            let who = base.keys.who(id).unwrap_or_default();
            info!(target: log::ASSOCIATION, "association {}: {who} is registered here", id.0);
        }
    }

    /// An association has begun anew: its peer has to ask again.
    pub(crate) fn forget_guest(&mut self, id: AssociationId) {
        self.guests.remove(&id);
    }

    /// The latest associations with a key stay for as long as their peers answer: those before them end when they are idle.
    fn keep_guest(&self, base: &mut Base, id: AssociationId) {
        let key = base.keys.peer_of(id);
        let of_key = |guest: &AssociationId| base.keys.peer_of(*guest) == key;
        let earlier = self.guests.iter().rev().copied().filter(of_key);
        let earlier: Vec<_> = earlier.skip(MAX_GUESTS_OF_KEY - 1).collect();
        earlier.into_iter().for_each(|guest| keep(base, guest, false));
        keep(base, id, true);
    }

    /// The far end takes part: so does this side.
    pub(in super::super) fn on_far_accepted(&mut self, base: &mut Base, id: DatagramId) -> bool {
        let Some(half) = self.halves.get_mut(&id) else {
            self.on_joined(id);
            return self.legs.contains_key(&id);
        };
        // What it was told may have overtaken what has opened the flow there.
        half.told = SeenAt::default();
        self.tell_half(base, id);
        let Some(half) = self.halves.get(&id) else { return true };
        if let Some(near) = self.halves.get(&half.other) {
            let (association, flow) = near.carrier;
            base.with_datagrams(association, |datagrams| datagrams.accept(flow));
        }
        true
    }

    /// Tells both ends where the other one is seen.
    fn tell_seen(&mut self, base: &mut Base, id: DatagramId) {
        let Some(other) = self.halves.get(&id).map(|half| half.other) else { return };
        self.tell_half(base, id);
        self.tell_half(base, other);
    }

    /// Tells one end where the other one is seen, unless that is what it was told last.
    fn tell_half(&mut self, base: &mut Base, id: DatagramId) {
        let Some(other) = self.halves.get(&id).map(|half| half.other) else { return };
        let Some((far, _)) = self.halves.get(&other).map(|half| half.carrier) else { return };
        let seen = super::seen(base, far);
        let Some(half) = self.halves.get_mut(&id).filter(|half| half.told != seen) else { return };
        half.told.clone_from(&seen);
        let (association, flow) = half.carrier;
        base.with_datagrams(association, |datagrams| datagrams.tell_seen(flow, seen));
    }

    /// The peer of an association may have moved.
    pub(crate) fn tell_seen_again(&mut self, base: &mut Base, id: AssociationId) {
        let of = |(_, half): &(&DatagramId, &Half)| half.carrier.0 == id;
        let all = self.halves.iter().filter(of).map(|(id, _)| *id);
        for half in all.collect::<Vec<_>>() {
            self.tell_seen(base, half);
        }
    }

    /// A datagram of one half goes on over the other one. False if there is no such.
    pub(super) fn pass_over(&mut self, base: &mut Base, id: DatagramId, payload: &[u8]) -> bool {
        let now = base.core.now;
        let bytes = payload.len() as u64;
        let Some(half) = self.halves.get_mut(&id) else { return false };
        (half.last, half.moved.1) = (now, half.moved.1 + bytes);
        half.quota.iter().for_each(|quota| quota.add(bytes));
        let other = half.other;
        let Some(other) = self.halves.get_mut(&other) else { return true };
        other.moved.0 += bytes;
        other.quota.iter().for_each(|quota| quota.add(bytes));
        let (association, flow) = other.carrier;
        let time = Duration::from_nanos(now.as_nanos());
        base.with_datagrams(association, |datagrams| datagrams.send(time, flow, payload));
        true
    }

    /// One half is over, and so is the other one. False if there is no such.
    pub(super) fn end_half(
        &mut self,
        base: &mut Base,
        id: DatagramId,
        why: Option<Refusal>,
    ) -> bool {
        let Some(half) = self.halves.remove(&id) else { return false };
        let other = self.halves.remove(&half.other);
        for one in [Some(&half), other.as_ref()].into_iter().flatten() {
            self.ended.extend(one.moved());
            let (association, flow) = one.carrier;
            base.with_datagrams(association, |datagrams| datagrams.close(flow, why));
            super::super::end::forget_datagrams(base, association, flow);
        }
        true
    }

    pub(super) fn end_idle_halves(&mut self, base: &mut Base) {
        let now = base.core.now;
        let halves = &self.halves;
        let rested = |half: &Half| super::has_rested(now, half.last);
        let is_idle = |(_, half): &(&DatagramId, &Half)| {
            rested(half) && halves.get(&half.other).is_none_or(rested)
        };
        let idle: Vec<DatagramId> = halves.iter().filter(is_idle).map(|(id, _)| *id).collect();
        for id in idle {
            self.end_half(base, id, None);
        }
    }
}

impl Rendezvous {
    /// The association with the host that has the key for which an address stands, if it is registered here. Of several
    /// the latest: the others may be dead.
    fn guest(&self, base: &Base, key: IpAddr) -> Option<AssociationId> {
        let fits = |id: &AssociationId| {
            let peer = base.keys.peer_of(*id);
            let address = peer.map(|peer| IpAddr::from(Fingerprint::of(&peer).address()));
            // One that has restarted has to ask again.
            let registers = base.get(id).is_some_and(|one| one.mux.peer_registers());
            address == Some(key) && registers && base.is_established(*id)
        };
        self.guests.iter().copied().filter(fits).max_by_key(|id| id.0)
    }
}
