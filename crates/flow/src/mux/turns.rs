//! Flows take turns: deficit round robin (Shreedhar and Varghese, 1996), with those before it that have
//! little to send, and turns as long as the association is fast.
//!
//! A turn of a packet would be fair, too. But then each packet carries another flow, and whoever
//! receives a hundred of them at once has a hundred small writes to a hundred programs to make. So a turn has up to
//! 16 KiB; less where a round of all flows would take long with that.

use crate::flow::Flow;
use crate::table::FlowId;
use alloc::collections::VecDeque;
use core::time::Duration;

/// A flow with no more than this to send, which is a packet or three, does not wait for a round.
const LITTLE: usize = 4 << 10;
/// Most bytes of a turn, for weight 1.
const MOST: usize = 16 << 10;
/// A round that takes longer halves the turns; one that takes less than half doubles them.
const LONG_ROUND: Duration = Duration::from_millis(500);

/// What a flow has used of its turns.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Turn {
    /// Bytes that it may still send in its turn.
    left: i64,
    /// The round that this is about.
    round: u32,
    /// It goes before the flows that wait for their turns.
    early: bool,
}

/// The flows of one urgency that have something to send.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Those with little.
    early: VecDeque<FlowId>,
    /// The one whose turn has begun and is not over.
    current: Option<FlowId>,
    /// The others, in the order of their turns.
    waiting: VecDeque<FlowId>,
    round: u32,
    /// Flows that have their turn before the round is over.
    to_come: usize,
    begun: Duration,
    /// Bytes of a turn, unless a message has more.
    bytes: usize,
    fragment_size: usize,
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.current.is_none() && self.waiting.is_empty()
    }

    /// A flow has something to send, and had nothing before.
    pub(super) fn enter(&mut self, now: Duration, id: FlowId, flow: &mut Flow) {
        if self.waiting.is_empty() && self.current.is_none() {
            // Nobody waits whom it could keep from their turn.
            (self.round, self.to_come, self.begun) = (self.round.wrapping_add(1), 0, now);
        }
        if flow.turn.round != self.round {
            flow.turn.left = 0;
            self.give(flow);
        }
        flow.turn.early = flow.turn.left > 0 && flow.send.queued() <= LITTLE;
        self.wait(id, flow);
    }

    /// Whose message is next.
    pub(super) fn next(&mut self, now: Duration, fragment_size: usize) -> Option<FlowId> {
        self.fragment_size = fragment_size;
        let begun = self.early.pop_front().or_else(|| self.current.take());
        begun.or_else(|| self.next_turn(now))
    }

    /// The flow has sent a message of `bytes`. It goes on while its turn lasts, or waits for the next one.
    pub(super) fn on_sent(&mut self, id: FlowId, flow: &mut Flow, bytes: usize) {
        flow.turn.left = flow.turn.left.saturating_sub_unsigned(bytes as u64);
        let in_turn = !flow.turn.early;
        if in_turn {
            flow.turn.round = self.round;
        }
        flow.turn.early &= flow.turn.left > 0 && flow.send.queued() <= LITTLE;
        if !flow.scheduled {
            return;
        }
        if in_turn && flow.turn.left > 0 {
            self.current = Some(id);
        } else {
            self.wait(id, flow);
        }
    }

    fn wait(&mut self, id: FlowId, flow: &mut Flow) {
        if flow.turn.early {
            return self.early.push_back(id);
        }
        if flow.turn.left <= 0 {
            self.give(flow);
        }
        self.waiting.push_back(id);
    }

    /// The flow may send a turn's bytes more. A message that was larger than what was left is made up for.
    fn give(&self, flow: &mut Flow) {
        let bytes =
            self.bytes.max(self.fragment_size).max(1) * usize::from(flow.share.weight.max(1));
        flow.turn.left = flow.turn.left.saturating_add_unsigned(bytes as u64).max(1);
        flow.turn.round = self.round;
    }

    fn next_turn(&mut self, now: Duration) -> Option<FlowId> {
        let id = self.waiting.pop_front()?;
        if self.to_come == 0 {
            self.begin_round(now);
        }
        self.to_come = self.to_come.saturating_sub(1);
        Some(id)
    }

    /// All that are waiting, and the one that waits no more, have one turn until the round is over.
    fn begin_round(&mut self, now: Duration) {
        let took = now.saturating_sub(self.begun);
        if took > LONG_ROUND {
            self.bytes /= 2;
        } else if took < LONG_ROUND / 2 {
            self.bytes = (self.bytes.max(self.fragment_size) * 2).min(MOST);
        }
        (self.round, self.to_come, self.begun) =
            (self.round.wrapping_add(1), self.waiting.len() + 1, now);
    }
}
