//! Associations with what the endpoint keeps about each: keys, deadline, whether it may have
//! something to send.

use super::AssociationId;
use super::index::{AddressKey, Index, Keys, PeerKey};
use crate::association::Association;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};
use manypath_wire::VerificationTag;

/// Ended associations whose cookies are known to be used.
const MOST_ENDED: usize = 1024;

/// All associations of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: BTreeMap<AssociationId, Entry>,
    /// Deadlines of those that are not `ready`.
    deadlines: BTreeSet<(Instant, AssociationId)>,
    /// Those that may have something to send. Each change can move their deadline, so it is worked
    /// out only when somebody asks for it before they have become silent.
    ready: BTreeSet<AssociationId>,
    /// Those that became silent while a socket of theirs took no packets: they may have something for it.
    held_back: BTreeSet<AssociationId>,
    /// The one that sent last: the turn is with the next.
    last_sender: Option<AssociationId>,
    pub(super) index: Index,
    /// What all associations have been charged for received data.
    charged: usize,
    pub(super) ended: Ended,
    /// Those that send by parameters of their own, and follow the endpoint's in all else.
    pub(super) followers: BTreeSet<AssociationId>,
}

/// Tags of ours that no association has any more, the last one last.
#[derive(Debug, Default)]
pub(super) struct Ended(VecDeque<VerificationTag>);

impl Ended {
    /// Whether a cookie that bears this tag of ours has made an association that is over: it makes no second. A copy
    /// may come over a slow path when all has been said over a fast one, with the same data.
    pub(super) fn contains(&self, tag: VerificationTag) -> bool {
        self.0.contains(&tag)
    }

    /// No association has this tag any more.
    pub(super) fn add(&mut self, tag: VerificationTag) {
        if self.0.len() == MOST_ENDED {
            self.0.pop_front();
        }
        self.0.push_back(tag);
    }
}

#[derive(Debug)]
struct Entry {
    /// Boxed: it is large, and nodes of the map have room for more entries than they hold.
    association: Box<Association>,
    keys: Keys,
    /// Whether it is in `ready`.
    is_ready: bool,
    /// What is in `deadlines` for it.
    deadline: Option<Instant>,
    /// Its part of `charged`.
    charge: usize,
}

impl Registry {
    /// Takes in an association. [`Self::settle`] makes it findable.
    pub(super) fn insert(&mut self, id: AssociationId, association: Association) {
        let (keys, is_ready, deadline, charge) = (Keys::default(), false, None, 0);
        let association = Box::new(association);
        self.entries.insert(id, Entry { association, keys, is_ready, deadline, charge });
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn ids(&self) -> Vec<AssociationId> {
        self.entries.keys().copied().collect()
    }

    pub(super) fn get(&self, id: AssociationId) -> Option<&Association> {
        self.entries.get(&id).map(|entry| &*entry.association)
    }

    pub(super) fn get_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        self.entries.get_mut(&id).map(|entry| &mut *entry.association)
    }

    /// Brings everything kept about `id` up to date after a change. Returns the association if it
    /// is over and has been taken out.
    pub(super) fn settle(&mut self, id: AssociationId) -> Option<Box<Association>> {
        self.visit(id, |_| ()).and_then(|((), over)| over)
    }

    /// Runs `call` on association `id`, then does what [`Self::settle`] does. One look-up for both: this is done for
    /// every packet and every message.
    pub(super) fn visit<R>(
        &mut self,
        id: AssociationId,
        call: impl FnOnce(&mut Association) -> R,
    ) -> Option<(R, Option<Box<Association>>)> {
        let entry = self.entries.get_mut(&id)?;
        let result = call(&mut entry.association);
        entry.recharge(&mut self.charged);
        if entry.association.state.is_closed() {
            return Some((result, self.remove(id)));
        }
        if core::mem::take(&mut entry.association.keys_changed) {
            self.index.remove(id, &entry.keys);
            let before = core::mem::replace(&mut entry.keys, keys_of(&entry.association));
            self.index.insert(id, &entry.keys);
            // A restart has brought another tag.
            if before.tag != entry.keys.tag && before.tag != VerificationTag(0) {
                self.ended.add(before.tag);
            }
        }
        if !core::mem::replace(&mut entry.is_ready, true) {
            self.ready.insert(id);
            let deadline = entry.deadline.take();
            deadline.map(|at| self.deadlines.remove(&(at, id)));
        }
        Some((result, None))
    }

    /// Bytes that all associations hold for their readers.
    pub(super) fn charged(&self) -> usize {
        self.charged
    }

    /// Brings the account of what `id` holds up to date.
    pub(super) fn recharge(&mut self, id: AssociationId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.recharge(&mut self.charged);
        }
    }

    /// The association found `id` with nothing to send.
    pub(super) fn on_silent(&mut self, id: AssociationId) {
        if !self.ready.remove(&id) {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_ready = false;
            if entry.association.paths.has_blocked() {
                self.held_back.insert(id);
            }
            entry.deadline = entry.association.deadline();
            entry.deadline.map(|at| self.deadlines.insert((at, id)));
        }
    }

    /// Those that may have something for sockets that take packets again.
    pub(super) fn take_held_back(&mut self) -> BTreeSet<AssociationId> {
        core::mem::take(&mut self.held_back)
    }

    /// Whose turn it is to send, in a round over all that may have something.
    pub(super) fn next_sender(&mut self) -> Option<AssociationId> {
        if self.ready.len() <= 1 {
            self.last_sender = self.ready.first().copied().or(self.last_sender);
            return self.ready.first().copied();
        }
        let last = self.last_sender.unwrap_or(AssociationId(u64::MAX));
        let after = self.ready.range((Excluded(last), Unbounded)).next();
        let next = after.or_else(|| self.ready.first()).copied();
        self.last_sender = next.or(self.last_sender);
        next
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let ready = self.ready_deadlines().map(|(at, _)| at).min();
        let quiet = self.deadlines.first().map(|(at, _)| *at);
        ready.into_iter().chain(quiet).min()
    }

    /// Every association with a timer that has expired at `now`.
    pub(super) fn expired(&self, now: Instant) -> Vec<AssociationId> {
        let quiet = self.deadlines.iter().copied().take_while(|(at, _)| *at <= now);
        let ready = self.ready_deadlines().filter(|(at, _)| *at <= now);
        let mut expired: Vec<_> = quiet.chain(ready).collect();
        expired.sort_unstable();
        expired.into_iter().map(|(_, id)| id).collect()
    }

    fn ready_deadlines(&self) -> impl Iterator<Item = (Instant, AssociationId)> {
        self.ready.iter().filter_map(|id| Some((self.get(*id)?.deadline()?, *id)))
    }

    fn remove(&mut self, id: AssociationId) -> Option<Box<Association>> {
        let entry = self.entries.remove(&id)?;
        self.charged -= entry.charge;
        self.index.remove(id, &entry.keys);
        entry.deadline.map(|at| self.deadlines.remove(&(at, id)));
        self.ready.remove(&id);
        self.held_back.remove(&id);
        self.followers.remove(&id);
        // Also where we began: the peer may have begun at the same time, by a cookie with the same tag of ours.
        self.ended.add(entry.association.handshake.local_tag);
        Some(entry.association)
    }
}

impl Entry {
    /// Brings its part of what all associations are `charged` up to date.
    fn recharge(&mut self, charged: &mut usize) {
        let charge = self.association.peer.as_ref().map_or(0, |peer| peer.receiver.charge());
        *charged = *charged - self.charge + charge;
        self.charge = charge;
    }
}

fn keys_of(association: &Association) -> Keys {
    let ports = association.ports;
    let addresses = association.paths.confirmed_addresses().into_iter();
    Keys {
        tag: association.handshake.local_tag,
        addresses: addresses.map(|remote| AddressKey { remote, ports }).collect(),
        peer: association.peer_tag().map(|tag| PeerKey { tag, ports }),
    }
}
