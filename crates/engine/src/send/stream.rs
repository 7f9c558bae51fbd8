//! One outbound stream: what waits on it and what of it is under way.

use super::queue::Fragment;
use crate::path::{PathId, PathSet};
use crate::schedule::stream::Head;
use alloc::collections::VecDeque;
use bytes::Bytes;
use manypath_wire::{Ppid, Ssn, StreamId};

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
    next_ssn: u16,
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
    pub(super) rest: Bytes,
}

impl OutboundStream {
    /// Bytes that wait.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Bytes sent and not acknowledged for good.
    pub(crate) fn unacked(&self) -> usize {
        self.unacked
    }

    pub(super) fn push(&mut self, message: Waiting) {
        self.unsent += message.rest.len();
        self.waiting.push_back(message);
    }

    /// What it has to send first.
    pub(super) fn head(&self) -> Option<Head> {
        let first = self.waiting.front()?;
        Some(Head { arrival: first.arrival, len: first.rest.len() })
    }

    /// Whether it has as many ordered messages under way as there are numbers for them.
    pub(super) fn is_blocked(&self) -> bool {
        let begins_ordered = |first: &Waiting| !first.unordered && !first.begun;
        self.ordered_under_way >= MAX_ORDERED && self.waiting.front().is_some_and(begins_ordered)
    }

    /// The path on which something of it is under way, if that path is `usable`.
    pub(super) fn bound_to(&self, usable: PathSet) -> Option<PathId> {
        self.path.filter(|path| self.unacked > 0 && usable.contains(*path))
    }

    /// Takes a fragment of at most `limit` bytes off the first message.
    pub(super) fn take(&mut self, id: StreamId, limit: usize) -> Option<Fragment> {
        let message = self.waiting.front_mut()?;
        let len = message.rest.len().min(limit);
        let (begin, end) = (!message.begun, message.rest.len() == len);
        message.begun = true;
        let fragment = Fragment {
            stream: id,
            ssn: Ssn(if message.unordered { 0 } else { self.next_ssn }),
            ppid: message.ppid,
            unordered: message.unordered,
            begin,
            end,
            payload: message.rest.split_to(len),
        };
        if !fragment.unordered {
            self.ordered_under_way += u32::from(begin);
            self.next_ssn = self.next_ssn.wrapping_add(u16::from(end));
        }
        if end {
            self.waiting.pop_front();
        }
        self.unsent -= len;
        self.unacked += len;
        self.departing += len;
        Some(fragment)
    }

    pub(super) fn on_acked(&mut self, fragment: &Fragment) {
        self.unacked = self.unacked.saturating_sub(fragment.payload.len());
        if fragment.end && !fragment.unordered {
            self.ordered_under_way = self.ordered_under_way.saturating_sub(1);
        }
    }
}
