//! Reasons that the users of peers gave for aborts (RFC 9260 section 9.1).

use crate::event::AssociationId;
use alloc::collections::VecDeque;
use bytes::Bytes;

/// Most reasons that are kept for users who do not ask.
const MOST: usize = 64;
/// Most bytes of a reason that are kept.
const MAX_REASON: usize = 256;

/// The latest reasons.
#[derive(Debug, Default)]
pub(crate) struct AbortReasons(VecDeque<(AssociationId, Bytes)>);

impl AbortReasons {
    /// The peer's user has aborted an association because of `reason`.
    pub(crate) fn keep(&mut self, id: AssociationId, reason: &[u8]) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        let reason = &reason[..reason.len().min(MAX_REASON)];
        self.0.push_back((id, Bytes::copy_from_slice(reason)));
    }

    /// The reason for the end of an association, if one was given.
    pub(crate) fn take(&mut self, id: AssociationId) -> Option<Bytes> {
        let at = self.0.iter().position(|(of, _)| *of == id)?;
        self.0.remove(at).map(|(_, reason)| reason)
    }
}
