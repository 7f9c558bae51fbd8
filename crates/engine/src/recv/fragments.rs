//! Neighbouring fragments of a message that is not complete. Most are alone for a moment only, until they are joined to
//! those before them: that costs no allocation.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;

/// For so many fragments memory is taken when there are two: enough for a message of 16 KiB.
const USUAL: usize = 15;

/// Fragments in order.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    first: Option<Bytes>,
    /// Empty if there is no first.
    others: VecDeque<Bytes>,
}

impl Fragments {
    /// One fragment.
    pub(super) fn of(first: Bytes) -> Self {
        Self { first: Some(first), others: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.others.len() + usize::from(self.first.is_some())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.first.iter().chain(&self.others)
    }

    /// Adds the one that follows.
    pub(super) fn push(&mut self, next: Bytes) {
        if self.is_empty() {
            self.first = Some(next);
            return;
        }
        if self.others.capacity() == 0 {
            self.others.reserve(USUAL);
        }
        self.others.push_back(next);
    }

    /// Adds those that follow.
    pub(super) fn append(&mut self, mut next: Self) {
        if self.is_empty() {
            *self = next;
            return;
        }
        next.first.into_iter().for_each(|first| self.push(first));
        self.others.append(&mut next.others);
    }

    /// All of them in one piece, of `bytes` bytes.
    pub(super) fn join(&self, bytes: usize) -> Bytes {
        let mut joined = Vec::with_capacity(bytes);
        self.iter().for_each(|fragment| joined.extend_from_slice(fragment));
        joined.into()
    }
}
