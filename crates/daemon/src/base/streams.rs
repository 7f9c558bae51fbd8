//! More streams for an association that carries many connections (RFC 6525).
//!
//! An association begins with [`STREAMS`], and each connection takes one. The side that opens them asks for three times as many
//! more when a quarter is in use, so that they are there before they are needed: a round trip later. What peers may add is
//! limited for all associations together, because a stream that was used once occupies memory until its association ends.

use super::{Base, Setup};
use crate::parameters::{MAX_STREAMS, STREAMS};
use manypath_engine::{
    AssociationId, Duration, Instant, ReconfigurationError, ReconfigurationOutcome,
};

/// Streams that all associations together may have beyond those with which they began.
const MAX_ADDED: usize = 1 << 17;
/// How long no more streams are asked for after the peer has refused to add some.
const PAUSE: Duration = Duration::from_secs(10);

/// The streams of an association, and whether more were asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streams {
    /// Beyond those with which it began.
    added: u16,
    /// How many there are when what was asked for has been done.
    asked: Option<u16>,
    /// Nothing is asked for before.
    not_before: Option<Instant>,
}

impl Base {
    /// Asks for more streams if connections may need them soon.
    pub(crate) fn extend_streams(&mut self, id: AssociationId) {
        let now = self.core.now;
        let Some(association) = self.all.get_mut(&id) else { return };
        let Some((streams, used)) = association.mux.use_of_streams() else { return };
        let all = association.streams.saturating_add(association.added.added);
        let more = all.saturating_mul(3).min(MAX_STREAMS.saturating_sub(all));
        let waits = association.added.asked.is_some() || association.added.not_before > Some(now);
        let idle = association.setup != Setup::Established || used * 4 < usize::from(streams);
        if waits || idle || more == 0 {
            return;
        }
        let asked = self.core.driver.endpoint_mut().add_streams(now, id, more, more);
        match asked {
            Ok(()) => association.added.asked = Some(all + more),
            Err(error) => {
                association.added.not_before = Some(now + PAUSE);
                self.core.count(match error {
                    ReconfigurationError::NotSupported => "stream_additions_unsupported",
                    ReconfigurationError::NotEstablished
                    | ReconfigurationError::InProgress
                    | ReconfigurationError::InvalidStreams => "stream_additions_failed",
                });
            }
        }
    }

    /// Streams were added in one direction or both, by whichever side, or the peer has refused to.
    pub(crate) fn on_streams_added(
        &mut self,
        id: AssociationId,
        outcome: ReconfigurationOutcome,
        (outbound, inbound): (u16, u16),
    ) {
        let others = added_streams(self) <= MAX_ADDED;
        let now = self.core.now;
        let Some(association) = self.all.get_mut(&id) else { return };
        // The peer uses a stream when it has both directions; our answers on it wait for ours.
        let all = if association.is_ours() { outbound.min(inbound) } else { inbound };
        let added = all.saturating_sub(association.streams);
        if outcome != ReconfigurationOutcome::Performed {
            association.added.asked = None;
            association.added.not_before = Some(now + PAUSE);
            return self.core.count("stream_additions_denied");
        }
        if added > association.added.added && (association.is_ours() || others) {
            association.added.added = added;
            association.mux.add_streams(association.streams, all);
            association.added.asked = association.added.asked.filter(|asked| *asked > all);
            self.core.count("stream_additions");
        }
        self.touch(id);
        self.limit_added_streams();
    }

    /// Whether the association has streams in one direction that it did not have at its beginning: those of the other
    /// one may follow.
    pub(crate) fn has_added_streams(&self, id: AssociationId) -> bool {
        self.all.get(&id).is_some_and(|association| association.added.added > 0)
    }

    /// Lets peers add streams as long as there are not too many.
    pub(crate) fn limit_added_streams(&mut self) {
        let accept = added_streams(self) < MAX_ADDED;
        self.core.driver.endpoint_mut().configure(|engine| engine.accept_added_streams = accept);
    }
}

fn added_streams(base: &Base) -> usize {
    base.values().map(|association| usize::from(association.added.added)).sum()
}

const _: () = assert!(STREAMS < MAX_STREAMS && (MAX_STREAMS as usize) < MAX_ADDED);
