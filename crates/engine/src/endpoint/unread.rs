//! Messages of associations that are over, until they have been read.

use super::AssociationId;
use crate::event::{Message, PartialMessage};
use crate::recv::Receiver;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What the associations have left.
#[derive(Debug, Default)]
pub(super) struct Unread {
    receivers: BTreeMap<AssociationId, Receiver>,
    charged: usize,
}

impl Unread {
    /// Number of associations that have left something.
    pub(super) fn len(&self) -> usize {
        self.receivers.len()
    }

    /// Bytes that are held.
    pub(super) fn charged(&self) -> usize {
        self.charged
    }

    /// `id` is over and leaves this.
    pub(super) fn insert(&mut self, id: AssociationId, receiver: Receiver) {
        self.charged += receiver.charge();
        self.receivers.insert(id, receiver);
    }

    /// Whether `id` has left something.
    pub(super) fn holds(&self, id: AssociationId) -> bool {
        self.receivers.contains_key(&id)
    }

    /// The next message of `id`.
    pub(super) fn read(&mut self, id: AssociationId) -> Option<Message> {
        let receiver = self.receivers.get_mut(&id)?;
        let before = receiver.charge();
        let message = receiver.read();
        self.charged -= before - receiver.charge();
        if !receiver.is_readable() {
            self.remove(id);
        }
        message
    }

    /// Forgets what `id` has left, and tells of which messages that was the rest.
    pub(super) fn remove(&mut self, id: AssociationId) -> Vec<PartialMessage> {
        let Some(mut receiver) = self.receivers.remove(&id) else { return Vec::new() };
        self.charged -= receiver.charge();
        receiver.end_partial_delivery(false);
        receiver.take_aborted_parts()
    }

    /// The first association that has left something.
    pub(super) fn oldest(&self) -> Option<AssociationId> {
        self.receivers.keys().next().copied()
    }
}
