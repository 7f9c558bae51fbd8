//! Whose turn it is to send: the flows that have something to send, in two queues.
//!
//! ```text
//! urgent: a b a b ...          before all others, but after a run of them the others have one turn
//! others: c c c d e c c c ...  in turn; a flow of weight 3 sends three messages in its turn
//! ```

use crate::table::FlowId;
use alloc::collections::VecDeque;

/// Messages of urgent flows between two of the others, where these have any: however much the urgent
/// ones send, the others keep a ninth.
const URGENT_RUN: u32 = 8;

/// A flow's part of what the association can send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Messages that it sends in its turn; 0 counts as 1. Flows of the same urgency share the
    /// association in proportion to this, as far as their messages are full.
    pub weight: u16,
    /// Whether it goes before flows that are not. They keep a small part.
    pub urgent: bool,
}

impl Default for Share {
    /// Weight 1, not urgent.
    fn default() -> Self {
        Self { weight: 1, urgent: false }
    }
}

/// The flows that have something to send. Some may be gone: whoever takes one looks.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    urgent: VecDeque<FlowId>,
    others: VecDeque<FlowId>,
    /// Turns of urgent flows since another one had one.
    run: u32,
}

impl Rotation {
    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.others.is_empty()
    }

    /// A flow waits for its turn.
    pub(super) fn push(&mut self, id: FlowId, share: Share) {
        self.queue(share).push_back(id);
    }

    /// A flow has not used up its turn.
    pub(super) fn keep(&mut self, id: FlowId, share: Share) {
        self.queue(share).push_front(id);
    }

    /// The flow whose turn it is.
    pub(super) fn next(&mut self) -> Option<FlowId> {
        let others_are_due = self.run >= URGENT_RUN && !self.others.is_empty();
        if !others_are_due && let Some(id) = self.urgent.pop_front() {
            self.run += 1;
            return Some(id);
        }
        self.run = 0;
        self.others.pop_front()
    }

    fn queue(&mut self, share: Share) -> &mut VecDeque<FlowId> {
        if share.urgent { &mut self.urgent } else { &mut self.others }
    }
}
