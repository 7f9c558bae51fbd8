//! One outbound stream: what waits on it and what of it is under way.

use super::parts::Part;
use super::queue::{Fragment, Number};
use super::reliability::Terms;
use crate::config::StreamOptions;
use crate::path::{PathId, PathSet};
use crate::schedule::map::{StreamReport, StreamView};
use crate::schedule::stream::Head;
use crate::time::Duration;
use alloc::collections::VecDeque;
use bytes::Bytes;
use manypath_wire::{Fsn, Mid, Ppid, Ssn, StreamId};

/// Most ordered messages of a stream that may be sent and not acknowledged (RFC 9260 section 6.1).
pub(super) const MAX_ORDERED: u32 = (1 << 16) - 1;

/// An outbound stream.
#[derive(Debug, Default)]
pub(crate) struct OutboundStream {
    pub(super) waiting: VecDeque<Waiting>,
    /// Bytes in `waiting`.
    pub(super) unsent: usize,
    /// Bytes sent and not acknowledged for good.
    pub(super) unacked: usize,
    /// The path that it used last.
    pub(super) path: Option<PathId>,
    /// Bytes of its first message that have left.
    pub(super) departing: usize,
    /// The user's wishes.
    pub(super) options: StreamOptions,
    /// Bytes that the user has given since the last plan of the dynamic mapping, and whether at some
    /// time nothing of them waited.
    given: u64,
    emptied: bool,
    next_ssn: u16,
    /// Numbers of the next ordered and unordered message, and of the next fragment, with I-DATA.
    next_mids: [u32; 2],
    next_fsn: u32,
    /// Bytes of its first message, if a part of it has left: of those that were given.
    begun_len: usize,
    /// Whether a part of a message has left and its end has not.
    mid_message: bool,
    /// Ordered messages of which something was sent and not everything acknowledged.
    pub(super) ordered_under_way: u32,
}

/// A message, or what is left of it.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) arrival: u64,
    pub(super) ppid: Ppid,
    pub(super) unordered: bool,
    pub(super) begun: bool,
    /// What it is of its message.
    pub(super) part: Part,
    pub(super) rest: Bytes,
    pub(super) terms: Terms,
}

impl Waiting {
    /// Whether the message has its first byte here, and that has not left.
    fn begins(&self) -> bool {
        !self.begun && !self.part.continues
    }
}

impl OutboundStream {
    /// An unused stream.
    pub(super) fn new(options: StreamOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Bytes that wait.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Bytes sent and not acknowledged for good.
    pub(crate) fn unacked(&self) -> usize {
        self.unacked
    }

    /// When the last message that waits may be given up.
    #[cfg(test)]
    pub(super) fn last_terms(&self) -> Terms {
        self.waiting.back().map_or(Terms::Reliable, |waiting| waiting.terms)
    }

    pub(super) fn push(&mut self, message: Waiting) {
        self.unsent += message.rest.len();
        self.given += message.rest.len() as u64;
        self.waiting.push_back(message);
    }

    /// What it has to send first.
    pub(super) fn head(&self) -> Option<Head> {
        let first = self.waiting.front()?;
        Some(Head { arrival: first.arrival, len: first.rest.len() })
    }

    /// Whether it has `most` ordered messages under way: as many as there are numbers for them.
    pub(super) fn is_blocked(&self, most: u32) -> bool {
        let begins_ordered = |first: &Waiting| !first.unordered && first.begins();
        self.ordered_under_way >= most && self.waiting.front().is_some_and(begins_ordered)
    }

    /// The number of its first message in the order of all, if nothing of it was sent.
    pub(super) fn next_to_begin(&self) -> Option<u64> {
        self.waiting.front().filter(|first| first.begins()).map(|first| first.arrival)
    }

    /// Whether no message waits that was given before message `arrival`.
    pub(super) fn has_nothing_before(&self, arrival: u64) -> bool {
        !self.mid_message && self.waiting.front().is_none_or(|first| first.arrival >= arrival)
    }

    /// Whether its next messages are the first of their kinds.
    pub(super) fn is_fresh(&self) -> bool {
        self.next_ssn == 0 && self.next_mids == [0; 2] && !self.mid_message
    }

    /// Its messages are numbered from 0 again.
    pub(super) fn restart_numbers(&mut self) {
        self.next_ssn = 0;
        self.next_mids = [0; 2];
    }

    /// The path on which something of it is under way, if that path is `usable`.
    pub(super) fn bound_to(&self, usable: PathSet) -> Option<PathId> {
        self.path.filter(|path| self.unacked > 0 && usable.contains(*path))
    }

    /// Bytes of its message that is partly sent.
    pub(super) fn partly_sent(&self) -> usize {
        self.begun_len
    }

    /// Bytes of its first message that have not left.
    pub(super) fn next_len(&self) -> usize {
        self.waiting.front().map_or(0, |first| first.rest.len())
    }

    /// Bytes of its first message, if that was not begun.
    pub(super) fn to_begin(&self) -> usize {
        let first = self.waiting.front().filter(|first| first.begins());
        first.map_or(0, |first| first.rest.len())
    }

    /// Takes a fragment of at most `limit` bytes off the first message, for I-DATA if `interleaving`.
    pub(super) fn take(
        &mut self,
        id: StreamId,
        limit: usize,
        interleaving: bool,
    ) -> Option<Fragment> {
        let message = self.waiting.front_mut()?;
        let len = message.rest.len().min(limit);
        let gone = message.rest.len() == len;
        let (begin, end) = (message.begins(), gone && !message.part.open);
        if !message.begun {
            self.begun_len = message.rest.len();
        }
        message.begun = true;
        self.mid_message = !end;
        let number = if interleaving {
            let mid = &mut self.next_mids[usize::from(message.unordered)];
            let number = Number::Mid(Mid(*mid), Fsn(self.next_fsn));
            *mid = mid.wrapping_add(u32::from(end));
            self.next_fsn = if end { 0 } else { self.next_fsn.wrapping_add(1) };
            number
        } else {
            Number::Ssn(Ssn(if message.unordered { 0 } else { self.next_ssn }))
        };
        let fragment = Fragment {
            stream: id,
            number,
            ppid: message.ppid,
            unordered: message.unordered,
            begin,
            end,
            prompt: end && message.part.prompt,
            terms: message.terms,
            payload: message.rest.split_to(len),
        };
        if !fragment.unordered {
            self.ordered_under_way += u32::from(begin);
            self.next_ssn = self.next_ssn.wrapping_add(u16::from(end));
        }
        if gone {
            self.waiting.pop_front();
            self.begun_len = 0;
        }
        self.unsent -= len;
        self.emptied |= self.unsent == 0;
        self.unacked += len;
        self.departing += len;
        Some(fragment)
    }

    /// Whether the user has given something since the last plan, or it is not acknowledged yet.
    pub(super) fn is_active(&self) -> bool {
        self.given > 0 || self.unsent + self.unacked > 0
    }

    /// What the dynamic mapping must know; `age` is the time since it was told last. A stream that
    /// holds `much` is saturated even if nothing of it waits: its user may have to wait for room.
    pub(super) fn report(
        &mut self,
        id: StreamId,
        age: Option<Duration>,
        much: usize,
    ) -> StreamReport {
        let waits = self.unsent > 0 && !core::mem::take(&mut self.emptied);
        let saturated = waits || self.unsent + self.unacked >= much;
        let nanos = age.unwrap_or_default().as_nanos().max(1_000_000);
        let rate = u128::from(core::mem::take(&mut self.given)) * 1_000_000_000 / nanos;
        let demand = (!saturated).then(|| u64::try_from(rate).unwrap_or(u64::MAX));
        let view = StreamView { id, options: self.options, demand };
        StreamReport { view, under_way: self.unacked > 0 }
    }

    pub(super) fn on_acked(&mut self, fragment: &Fragment) {
        self.unacked = self.unacked.saturating_sub(fragment.payload.len());
        if fragment.end && !fragment.unordered {
            self.ordered_under_way = self.ordered_under_way.saturating_sub(1);
        }
    }
}
