//! Whose turn it is to send: the flows that have something to send, urgent ones and others.
//!
//! ```text
//! urgent: a b a b ...          before all others, but after a run of them the others send one message
//! others: s                    flows with little to send, as far as they have sent little in this round
//!         ccc d e ccc ...      the rest in turn; a flow of weight 3 sends three times as much in its turn
//! ```
//!
//! That flows with little to send go first is what the lists of new and old flows do in RFC 8290 section 4.2, but the
//! measure is how much a flow has to send, not that it has begun to.

use super::turns::Turns;
use crate::flow::Flow;
use crate::id::FlowId;
use crate::share::Share;
use core::time::Duration;

/// Messages of urgent flows between two of the others, where these have any: however much the urgent
/// ones send, the others keep a ninth.
const URGENT_RUN: u32 = 8;

/// The flows that have something to send. Some may be gone: whoever takes one looks.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    urgent: Turns,
    others: Turns,
    /// Messages of urgent flows since another one had one.
    run: u32,
}

impl Rotation {
    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.others.is_empty()
    }

    /// A flow has something to send, and had nothing before.
    pub(super) fn enter(&mut self, now: Duration, id: FlowId, flow: &mut Flow) {
        self.turns(flow.share).enter(now, id, flow);
    }

    /// The flow that sends the next message, which has at most `fragment_size` bytes. `wait`: not the one that is
    /// [`Self::first`].
    pub(super) fn next(
        &mut self,
        now: Duration,
        fragment_size: usize,
        wait: bool,
    ) -> Option<FlowId> {
        let others_are_due = self.run >= URGENT_RUN && !self.others.is_empty() && !wait;
        if !others_are_due && let Some(id) = self.urgent.next(now, fragment_size) {
            self.run += 1;
            return Some(id);
        }
        if wait {
            return None;
        }
        self.run = 0;
        self.others.next(now, fragment_size)
    }

    /// The flow has sent a message of `bytes`.
    pub(super) fn on_sent(&mut self, id: FlowId, flow: &mut Flow, bytes: usize) {
        self.turns(flow.share).on_sent(id, flow, bytes);
    }

    /// Bytes that the flow is to write at most if so many wait for their turns that it cannot have two of them soon.
    pub(super) fn most_to_write(&self, flow: &Flow) -> Option<usize> {
        self.others.is_busy().then(|| self.others.turn_of(flow))
    }

    /// Whether the flow is to be asked for more later: urgent ones never.
    pub(super) fn defers(&self, flow: &Flow) -> bool {
        !flow.share.urgent && self.others.defers(flow)
    }

    /// A flow whose turn is near and that was not looked at before.
    pub(super) fn look_ahead(&mut self) -> Option<FlowId> {
        self.others.look_ahead()
    }

    /// The flow that is not urgent whose turn begins next, if no other's has begun.
    pub(super) fn first(&self) -> Option<FlowId> {
        self.others.first()
    }

    /// Whether urgent flows have something to send.
    pub(super) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    fn turns(&mut self, share: Share) -> &mut Turns {
        if share.urgent { &mut self.urgent } else { &mut self.others }
    }
}
