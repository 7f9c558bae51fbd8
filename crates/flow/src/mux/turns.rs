//! Flows take turns: deficit round robin (Shreedhar and Varghese, 1996), with those before it that have
//! little to send, and turns as long as the association is fast.
//!
//! A turn of a packet would be fair, too. But then each packet carries another flow, and whoever
//! receives a hundred of them at once has a hundred small writes to a hundred programs to make. So a turn has up to
//! 16 KiB; less where a round of all flows would take long with that, and up to 128 KiB where they are gone in a
//! moment: with a thousand flows nothing of one is in a cache any more when its next turn comes, so that all that
//! is done once a turn, by either host, costs most of what there is to do.
//!
//! Turns like that of a thousand flows would be a hundred megabytes that wait. So a flow that has written all that it may
//! is not asked for more as its turn goes on: it keeps its place among the waiting, and is asked when it is one
//! of the next.
//!
//! ```text
//!   early ─▶ current ─▶ a b c d e f g h │ i j k l m n o p ...
//!                       asked to write   │ keep their places, with nothing written
//! ```

use crate::flow::Flow;
use crate::id::FlowId;
use alloc::collections::VecDeque;
use core::time::Duration;

/// A flow with no more than this to send, which is a packet or three, does not wait for a round; nor does one with
/// no more than a sixteenth of a turn.
const LITTLE: usize = 4 << 10;
/// Most bytes of a turn, for weight 1, where it would take longer than a moment to send more.
const USUAL: usize = 16 << 10;
/// Most bytes of a turn, for weight 1.
const MOST: usize = 128 << 10;
/// What a turn of more than `USUAL` may take. They grow where they take less than half of it.
const MOMENT: Duration = Duration::from_millis(1);
/// A round that takes longer halves the turns; one that takes less than half doubles them.
const LONG_ROUND: Duration = Duration::from_millis(500);
/// Turns ahead of its own that a flow is asked to write for it.
const AHEAD: usize = 8;

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
    /// Turns of this round; 0 if it did not follow another one.
    turns: usize,
    /// How many of the waiting, from the first one on, were looked at to be asked.
    asked: usize,
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
            self.turns = 0;
        }
        if flow.turn.round != self.round {
            flow.turn.left = 0;
            self.give(flow);
        }
        let little = flow.send.queued() <= self.little() && !flow.send.has_more();
        flow.turn.early = flow.turn.left > 0 && little;
        self.wait(id, flow);
    }

    /// Whether so many wait that whoever has written all that it may is asked for more only when its turn is near.
    pub(super) fn is_busy(&self) -> bool {
        self.waiting.len() >= AHEAD && self.bytes > USUAL
    }

    /// Whether the flow, of which there should be more soon, is to write it for a later turn and not for this one.
    pub(super) fn defers(&self, flow: &Flow) -> bool {
        let enough = flow.send.queued() + self.bytes / 2;
        self.is_busy() && flow.send.has_more() && flow.turn.left < enough as i64
    }

    /// One of the next, which was not looked at before.
    pub(super) fn look_ahead(&mut self) -> Option<FlowId> {
        let id = *self.waiting.get(self.asked).filter(|_| self.asked < AHEAD)?;
        self.asked += 1;
        Some(id)
    }

    /// Whose turn is the next to begin, if no other has begun.
    pub(super) fn first(&self) -> Option<FlowId> {
        let begun = !self.early.is_empty() || self.current.is_some();
        self.waiting.front().copied().filter(|_| !begun)
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
        flow.turn.early &= flow.turn.left > 0 && flow.send.queued() <= self.little();
        if !flow.scheduled {
            return;
        }
        let ready = flow.send.is_ready();
        if in_turn && flow.turn.left > 0 && ready {
            self.current = Some(id);
        } else {
            if !ready {
                flow.turn.left = flow.turn.left.min(0);
            }
            self.wait(id, flow);
        }
    }

    fn little(&self) -> usize {
        LITTLE.max(self.bytes / 16)
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
        let bytes = self.turn_of(flow) as u64;
        flow.turn.left = flow.turn.left.saturating_add_unsigned(bytes).max(1);
        flow.turn.round = self.round;
    }

    /// Bytes of a turn of the flow: whole messages. A short one at its end would end the run of packets of one size that
    /// the kernel takes at once.
    pub(super) fn turn_of(&self, flow: &Flow) -> usize {
        let message = self.fragment_size.max(1);
        let one = self.bytes.max(message);
        (one - one % message) * usize::from(flow.share.weight.max(1))
    }

    fn next_turn(&mut self, now: Duration) -> Option<FlowId> {
        let id = self.waiting.pop_front()?;
        self.asked = self.asked.saturating_sub(1);
        if self.to_come == 0 {
            self.begin_round(now);
        }
        self.to_come = self.to_come.saturating_sub(1);
        Some(id)
    }

    /// All that are waiting, and the one that waits no more, have one turn until the round is over.
    fn begin_round(&mut self, now: Duration) {
        if let Ok(turns @ 1..) = u32::try_from(self.turns) {
            self.bytes = self.suitable(now.saturating_sub(self.begun), turns);
        }
        (self.to_come, self.turns) = (self.waiting.len() + 1, self.waiting.len() + 1);
        (self.round, self.begun) = (self.round.wrapping_add(1), now);
    }

    /// Bytes of a turn after a round of so many turns that took so long.
    fn suitable(&self, took: Duration, turns: u32) -> usize {
        let turn = took / turns;
        let slow = if turn > MOMENT { self.bytes.min(USUAL) } else { self.bytes };
        if took > LONG_ROUND {
            slow.min(self.bytes / 2)
        } else if took < LONG_ROUND / 2 {
            let most = if turn < MOMENT / 2 { MOST } else { slow.max(USUAL) };
            (slow.max(self.fragment_size) * 2).min(most)
        } else {
            slow
        }
    }
}
