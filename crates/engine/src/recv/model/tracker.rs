//! The tracker against a set of TSNs.

use crate::choices::Choices;
use crate::ranges::{Range, RangeSet};
use crate::recv::tracker::{Seen, Tracker};
use crate::tsn::Tsn64;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use manypath_wire::Tsn;
use manypath_wire::chunk::GapBlock;

/// TSNs as their distances from the one before the first.
struct Model {
    zero: Tsn64,
    cum: u64,
    beyond: BTreeSet<u64>,
    /// Those of `beyond` that NR-SACKs promise to keep.
    safe: RangeSet,
    duplicates: usize,
}

impl Model {
    fn advance(&mut self) {
        while self.beyond.remove(&(self.cum + 1)) {
            self.cum += 1;
        }
    }

    fn forward(&mut self, to: u64) {
        self.cum = self.cum.max(to);
        self.beyond = self.beyond.split_off(&(self.cum + 1));
        self.advance();
    }

    fn tsn(&self, distance: u64) -> Tsn64 {
        self.zero.plus(distance)
    }
}

/// Does what the bytes say to a tracker and to a set, which must agree.
///
/// # Panics
/// If they do not.
pub fn check(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let initial = Tsn(choices.u32());
    let mut tracker = Tracker::new(initial);
    let zero = tracker.cum();
    let (beyond, safe) = (BTreeSet::new(), RangeSet::default());
    let mut model = Model { zero, cum: 0, beyond, safe, duplicates: 0 };
    while let Some(what) = choices.next() {
        step(&mut tracker, &mut model, what, &mut choices);
        assert_eq!(tracker.cum(), model.tsn(model.cum));
        let highest = model.beyond.last().copied().unwrap_or(model.cum);
        assert_eq!(tracker.highest(), model.tsn(highest));
        assert_eq!(tracker.has_gap(), !model.beyond.is_empty());
        let more = !model.beyond.is_empty() || model.duplicates > 0;
        assert_eq!(tracker.has_more_to_tell(), more);
    }
    check_blocks(&tracker, &model, usize::MAX);
}

fn step(tracker: &mut Tracker, model: &mut Model, what: u8, choices: &mut Choices<'_>) {
    match what % 8 {
        0 => observe(tracker, model, model.cum + u64::from(choices.byte() / 8)),
        1 => observe(tracker, model, model.cum + u64::from(choices.u16())),
        2 => forward(tracker, model, u64::from(choices.byte())),
        3 => forward(tracker, model, u64::from(choices.u16())),
        4 => jump(tracker, model, Tsn(choices.u32())),
        5 => check_blocks(tracker, model, choices.byte().into()),
        6 => take_duplicates(tracker, model, choices.byte().into()),
        _ => observe(tracker, model, model.cum.saturating_sub(choices.byte().into())),
    }
}

/// A TSN arrives: as the receiver, which keeps no account of distant ones.
fn observe(tracker: &mut Tracker, model: &mut Model, distance: u64) {
    let tsn = tracker.unwrap(model.tsn(distance).wire());
    assert_eq!(tsn, model.tsn(distance));
    assert!(tsn.since(tracker.cum()) <= u64::from(u16::MAX));
    let known = distance <= model.cum || model.beyond.contains(&distance);
    assert_eq!(tracker.has(tsn), known);
    assert_eq!(tracker.observe(tsn) == Seen::Duplicate, known);
    if known {
        model.duplicates = (model.duplicates + 1).min(32);
        return;
    }
    model.beyond.insert(distance);
    if distance.is_multiple_of(3) {
        model.safe.insert(Range { start: tsn, end: tsn });
    }
    model.advance();
}

fn forward(tracker: &mut Tracker, model: &mut Model, by: u64) {
    let to = model.cum + by;
    tracker.forward(model.tsn(to));
    model.forward(to);
}

fn jump(tracker: &mut Tracker, model: &mut Model, next: Tsn) {
    let distance = next.0.wrapping_sub(tracker.cum().next().wire().0);
    tracker.jump_to(next);
    model.forward(model.cum + u64::from(distance));
}

fn take_duplicates(tracker: &mut Tracker, model: &mut Model, limit: usize) {
    let mut listed = Vec::new();
    tracker.take_duplicates(limit, &mut listed);
    assert_eq!(listed.len(), model.duplicates.min(limit));
    model.duplicates = 0;
}

/// The blocks are the lowest gaps in order, whole, and tell what the model holds.
fn check_blocks(tracker: &Tracker, model: &Model, limit: usize) {
    let mut gaps = Vec::new();
    tracker.gap_blocks(limit, &mut gaps);
    let all = blocks_of(model, |_| true);
    assert!(gaps.iter().eq(all.iter().take(limit)), "{gaps:?} of {all:?}");
    let mut safe = model.safe.clone();
    safe.remove_up_to(tracker.cum());
    let (mut gaps, mut safe_gaps) = (Vec::new(), Vec::new());
    tracker.split_blocks(&safe, limit, (&mut gaps, &mut safe_gaps));
    assert!(gaps.len() + safe_gaps.len() <= limit);
    let is_safe = |distance: u64| distance.is_multiple_of(3);
    let (unsafe_all, safe_all) =
        (blocks_of(model, |distance| !is_safe(distance)), blocks_of(model, is_safe));
    assert!(unsafe_all.starts_with(&gaps), "{gaps:?} of {unsafe_all:?}");
    assert!(safe_all.starts_with(&safe_gaps), "{safe_gaps:?} of {safe_all:?}");
    if limit >= unsafe_all.len() + safe_all.len() {
        assert_eq!((gaps, safe_gaps), (unsafe_all, safe_all));
    }
}

fn blocks_of(model: &Model, wanted: impl Fn(u64) -> bool) -> Vec<GapBlock> {
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    for distance in model.beyond.iter().copied().filter(|distance| wanted(*distance)) {
        let offset = distance - model.cum;
        match blocks.last_mut().filter(|(_, end)| end + 1 == offset) {
            Some((_, end)) => *end = offset,
            None => blocks.push((offset, offset)),
        }
    }
    let offset = |distance: u64| u16::try_from(distance).unwrap_or(u16::MAX);
    let block = |(start, end)| GapBlock { start: offset(start), end: offset(end) };
    blocks.into_iter().map(block).collect()
}
