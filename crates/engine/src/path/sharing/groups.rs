//! Which path gives way to which.

use super::{SLOT, is_measured, next_slot};
use crate::path::{Path, PathId, Paths};
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Correlations at which two paths count as sharing a bottleneck, and as still sharing it: a path that gives
/// way fills the queue less. Measured were 0.8 to 0.95 for most that do, 0.5 and more where a short queue drops
/// many of the HEARTBEATs, and 0.26 at most for others.
const JOIN: i128 = 60;
const STAY: i128 = 30;
/// Slots between two decisions.
const SLOTS_BETWEEN: u8 = 10;
/// Paths that are compared with each other: pairs grow as their square.
const MAX_COMPARED: usize = 8;
/// How long others have time to take what a path leaves that gives way.
const HOLD: Duration = Duration::from_secs(10);

/// When to measure and to decide.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Schedule {
    /// When the next slot begins.
    pub(super) next_slot: Instant,
    /// Slots until the next decision.
    countdown: u8,
    /// Whether anything is measured at all.
    pub(crate) is_on: bool,
}

impl Schedule {
    /// A slot has begun. Whether it is time to decide.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        self.next_slot = next_slot(now);
        debug_assert!(self.next_slot <= now + SLOT, "a slot lasts as long as it should");
        self.countdown = if self.countdown == 0 { SLOTS_BETWEEN } else { self.countdown - 1 };
        self.countdown == 0
    }
}

impl Paths {
    /// Decides anew which paths give way, by what is known at `now`.
    pub(super) fn decide(&mut self, now: Instant, bound: Duration) {
        let pairs = self.pairs(now);
        for path in self.iter_mut() {
            let leader =
                pairs.iter().find(|(follower, _)| *follower == path.id()).map(|pair| pair.1);
            path.gives_way_to = leader;
            path.subflow.congestion.give_way(leader.map(|_| bound));
        }
    }

    /// Each path that gives way, and the one to which it does. One that begins to lead does not take the part of the
    /// other one at once.
    fn pairs(&mut self, now: Instant) -> Vec<(PathId, PathId)> {
        let mut paths: Vec<&mut Path> =
            self.iter_mut().filter(|path| is_measured(path)).take(MAX_COMPARED).collect();
        // Leaders stay leaders: nobody is to give way by turns.
        paths
            .sort_by_key(|path| (path.gives_way_to.is_some(), Reverse(path.subflow.window_rate())));
        let mut pairs: Vec<(PathId, PathId)> = Vec::new();
        for index in 1..paths.len() {
            let (before, after) = paths.split_at_mut(index);
            let leads = |other: &Path| pairs.iter().all(|(follower, _)| *follower != other.id());
            let mut others = before.iter_mut().filter(|other| leads(other));
            let Some(path) = after.first() else { break };
            let Some(leader) = others.find(|leader| shares(now, path, leader)) else { continue };
            if path.gives_way_to != Some(leader.id()) {
                leader.subflow.congestion.hold(now + HOLD);
            }
            pairs.push((path.id(), leader.id()));
        }
        pairs
    }
}

fn shares(now: Instant, path: &Path, leader: &Path) -> bool {
    let Some((own, other)) = path.delays.as_ref().zip(leader.delays.as_ref()) else { return false };
    let follows = path.gives_way_to == Some(leader.id());
    own.agreement(other, now).reaches(if follows { STAY } else { JOIN })
}
