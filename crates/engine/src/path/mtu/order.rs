//! In which order sizes are probed (RFC 8899 section 5.3.2).
//!
//! `Common` asks for the size of the interface first and then for the common sizes in turn, and ends
//! when nothing is answered any more. The two others confirm BASE_PLPMTU before they ask for more, and
//! count the probes of each size: a lost one may be congestion, so a size is asked for again when
//! nothing below it is left, and has failed after MAX_PROBES.

use super::sizes::{ETHERNET, step};
use crate::config::ProbeOrder;
use alloc::vec::Vec;

/// Sizes of SCTP packets are multiples of it, so nothing smaller can be gained.
pub(super) const STEP: u16 = 4;

/// Which sizes have been asked for, and which one is next.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    order: ProbeOrder,
    /// Sizes that are tried before the common ones in turn.
    shortcuts: [Option<u16>; 2],
    /// Whether nothing has been asked for in this round.
    is_first: bool,
    /// Sizes above what was found that were not answered, and how often.
    lost: Vec<(u16, u32)>,
    /// The last one that was not answered, unless a larger one was since.
    expired: u16,
    /// The smallest one that was not answered MAX_PROBES times.
    failed: u16,
    /// Whether the last probe was answered.
    answered: bool,
}

impl Candidates {
    /// Nothing has been asked for.
    pub(super) fn new(order: ProbeOrder) -> Self {
        Self {
            order,
            shortcuts: [None; 2],
            is_first: true,
            lost: Vec::new(),
            expired: u16::MAX,
            failed: u16::MAX,
            answered: false,
        }
    }

    /// Whether the base is confirmed before anything else is asked for, and each size is counted.
    pub(super) fn is_thorough(&self) -> bool {
        match self.order {
            ProbeOrder::Common => false,
            ProbeOrder::Binary | ProbeOrder::Step => true,
        }
    }

    /// A round up to `top` begins.
    pub(super) fn begin(&mut self, top: u16) {
        *self = Self::new(self.order);
        self.shortcuts = [Some(top), Some(ETHERNET)];
    }

    /// Something has passed: the round goes on to `top` without what was asked for before.
    pub(super) fn confirm(&mut self, top: u16) {
        if self.is_thorough() {
            self.begin(top);
        }
    }

    /// What is larger than the base is not asked for before the others.
    pub(super) fn drop_first(&mut self) {
        self.shortcuts[0] = None;
    }

    /// The size after `found` that is asked for next, up to `top`; none if there is nothing to gain.
    pub(super) fn next(&mut self, found: u16, top: u16) -> Option<u16> {
        let is_first = core::mem::take(&mut self.is_first);
        let aligned = top - top % STEP;
        let size = match self.order {
            ProbeOrder::Common => return (found < top).then(|| self.common(found, top)),
            ProbeOrder::Binary if is_first => aligned,
            ProbeOrder::Binary => middle(found, self.limit(aligned)),
            ProbeOrder::Step => (found + STEP).min(self.limit(aligned)),
        };
        (size > found).then_some(size)
    }

    /// Nobody has answered a probe of `size`, which fails after `most` of them.
    pub(super) fn on_lost(&mut self, size: u16, most: u32) {
        self.answered = false;
        self.expired = size;
        let known = self.lost.iter().position(|(lost, _)| *lost == size);
        let known = known.unwrap_or_else(|| {
            self.lost.push((size, 0));
            self.lost.len() - 1
        });
        self.lost[known].1 += 1;
        if self.lost[known].1 >= most {
            self.failed = size;
            self.lost.retain(|(lost, _)| *lost < size);
        }
    }

    /// A probe of `size` was answered.
    pub(super) fn on_answer(&mut self, size: u16) {
        self.answered = true;
        self.lost.retain(|(lost, _)| *lost > size);
        if size >= self.expired {
            self.expired = self.lost.iter().map(|(lost, _)| *lost).min().unwrap_or(u16::MAX);
        }
    }

    /// Whether it may be concluded from the round-trip time alone that a probe of `size` is lost: the
    /// time is well known, or there are smaller sizes, and so this one will be asked for again.
    pub(super) fn is_hasty(&self, found: u16, size: u16) -> bool {
        self.answered || size > found.saturating_add(STEP)
    }

    /// The largest size that may still pass.
    fn limit(&self, top: u16) -> u16 {
        top.min(self.failed.saturating_sub(STEP)).min(self.expired)
    }

    fn common(&mut self, found: u16, top: u16) -> u16 {
        let fits = |size: &u16| (found + 1..=top).contains(size);
        let shortcut = self.shortcuts.iter_mut().filter_map(Option::take).find(fits);
        shortcut.unwrap_or_else(|| step(found, top))
    }
}

/// The multiple of [`STEP`] from `found` on that is in the middle or just above it.
fn middle(found: u16, limit: u16) -> u16 {
    found + limit.saturating_sub(found).div_ceil(2 * STEP) * STEP
}
