//! Messages of associations that are over, until they have been read.

use super::AssociationId;
use crate::event::Message;
use crate::recv::Receiver;
use alloc::collections::BTreeMap;

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

    /// Forgets what `id` has left.
    pub(super) fn remove(&mut self, id: AssociationId) {
        let gone = self.receivers.remove(&id);
        self.charged -= gone.map_or(0, |receiver| receiver.charge());
    }

    /// Forgets what the oldest association has left.
    pub(super) fn drop_oldest(&mut self) {
        if let Some(id) = self.receivers.keys().next().copied() {
            self.remove(id);
        }
    }
}
