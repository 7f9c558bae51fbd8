//! The streams on which hurried messages wait. There are few of them, if any: a packet of bulk data asks these instead
//! of all streams whether one goes first.

use super::stream::OutboundStream;
use alloc::collections::BTreeSet;
use manypath_wire::StreamId;

/// Streams of a hurried class with something to send.
#[derive(Debug, Default)]
pub(super) struct UrgentStreams(BTreeSet<StreamId>);

impl UrgentStreams {
    /// What waits on `stream`, or its class, may have changed.
    pub(super) fn update(&mut self, id: StreamId, stream: &OutboundStream) {
        if stream.options.class.is_hurried() && stream.head().is_some() {
            self.0.insert(id);
        } else {
            self.remove(id);
        }
    }

    /// Nothing waits on the stream.
    pub(super) fn remove(&mut self, id: StreamId) {
        self.0.remove(&id);
    }

    /// In the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = StreamId> {
        self.0.iter().copied()
    }
}
