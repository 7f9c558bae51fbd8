//! How much of the buffers each path may use: the decision, without state.
//!
//! A path that is used in full needs its rate times its round trip. What travels on a fast path
//! needs more where it must wait for what travels on a slow one: then it stays in the buffers for as
//! long as that takes. So the paths are served in the order of their round trips, and a path gets
//! what those before it leave:
//!
//! ```text
//! need(p)     =  rate(p) * hold(p)                hold(p) = rtt(p) + 2 packets / rate(p)
//! ahead(q, p) =  need(q) + joint * rate(q) * (hold(p) + repair(p) - hold(q))     q faster
//! share(p)    =  min(need(p), window - sum ahead(q, p))
//! repair(p)   =  5/4 rtt(p), if a packet on p costs more by its chance to be lost than it gives:
//!                loss(p) * joint * sum rate(q) * (hold(p) + 5/4 rtt(p) - window / sum rate(q)) > packet
//! ```
//!
//! A path that has all its share in flight and no queue may carry more than was measured: it needs a
//! quarter more, to see.
//!
//! `joint` is the part of what the fast path carries that belongs to streams of the slow one:
//! everything if there is only one stream, or if nothing leaves the send buffer before all that was
//! sent earlier (no NR-SACK). A path for which nothing is left is not used: it would take away from the
//! fast ones more than it can give. If something is left in the end, all shares grow alike.

use crate::path::PathId;
use crate::time::Duration;
use alloc::vec::Vec;

/// What is known about a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathNeed {
    pub(crate) id: PathId,
    /// Bytes per second that it carries, once measured.
    pub(crate) rate: Option<u64>,
    /// It has been used in full and carries no more than `rate`.
    pub(crate) sure: bool,
    /// Time from sending to the acknowledgement without queues.
    pub(crate) round_trip: Duration,
    /// It may carry more than `rate`.
    pub(crate) grows: bool,
    /// How many of a million packets are lost.
    pub(crate) loss: u64,
    /// Bytes of a full packet.
    pub(crate) packet: usize,
    /// It is in use.
    pub(crate) used: bool,
    /// It must be used, because streams are pinned to it.
    pub(crate) pinned: bool,
}

/// What a path may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    pub(crate) id: PathId,
    pub(crate) round_trip: Duration,
    /// Bytes in flight; zero: the path should not be used.
    pub(crate) most: usize,
    /// What clearly faster paths need for themselves.
    pub(crate) faster: usize,
    /// What they have in the buffers if it waits for this path.
    pub(crate) joined: usize,
}

/// Parts of one.
pub(crate) const WHOLE: u64 = 1000;

/// Shares the bytes of `window`; `joint` of [`WHOLE`] of what travels on fast paths waits for slow
/// ones. In the order of the round trips.
pub(crate) fn shares(paths: &[PathNeed], window: usize, joint: u64) -> Vec<Share> {
    let mut order: Vec<&PathNeed> = paths.iter().collect();
    order.sort_by_key(|path| (path.round_trip, path.id));
    let mut given: Vec<(&PathNeed, usize)> = Vec::with_capacity(order.len());
    for (at, path) in order.iter().enumerate() {
        let reserve = ahead(&given, path, (window, joint));
        let left = window.saturating_sub(reserve);
        // What was left out comes back only if there is clearly room for it.
        let margin = if path.used { 0 } else { reserve / 5 + 2 * path.packet };
        let room = at == 0 || path.pinned || left >= margin + 2 * path.packet;
        let need = path.need().unwrap_or(left / (order.len() - at));
        given.push((path, if room { need.min(left).max(2 * path.packet) } else { 0 }));
    }
    level(&mut given);
    share_out(&given, window, joint)
}

/// What the paths in `given`, all faster than `slow`, have in the buffers when a packet of `slow`
/// arrives. What is not known of a path yet must not keep others away.
fn ahead(given: &[(&PathNeed, usize)], slow: &PathNeed, (window, joint): (usize, u64)) -> usize {
    let known = || given.iter().filter(|(path, _)| path.rate.is_some());
    let rate = known().filter_map(|(path, _)| path.rate).sum::<u64>();
    let hold = slow.hold() + slow.repair(rate, (window, joint));
    known().map(|(path, need)| path.ahead(*need, hold, joint)).sum()
}

/// Paths that take about as long as the last one share alike what there is for them: in none of them
/// has anything to queue. Each keeps the two packets without which it is not in use.
fn level(given: &mut [(&PathNeed, usize)]) {
    let Some(last) = given.iter().rposition(|(_, most)| *most > 0) else { return };
    let longest = given[last].0.round_trip;
    let first = given.iter().position(|(path, _)| !is_faster(path.round_trip, longest));
    let alike = &mut given[first.unwrap_or(last)..=last];
    let least = |path: &PathNeed| 2 * path.packet;
    let beyond = |path: &PathNeed| path.need().unwrap_or_default().saturating_sub(least(path));
    let needs: usize = alike.iter().map(|(path, _)| beyond(path)).sum();
    let all: usize = alike.iter().map(|(path, most)| most.saturating_sub(least(path))).sum();
    if alike.iter().all(|(path, most)| path.rate.is_some() && *most > 0) {
        alike.iter_mut().for_each(|(path, most)| {
            *most = least(path) + scaled(beyond(path), all, needs);
        });
    }
}

/// Whether a round trip takes clearly less than another one.
fn is_faster(trip: Duration, other: Duration) -> bool {
    trip * 5 < other * 4
}

/// The shares. Nobody needs what is left in the end: all grow alike.
fn share_out(given: &[(&PathNeed, usize)], window: usize, joint: u64) -> Vec<Share> {
    let totals = given.iter().enumerate().map(|(at, (path, most))| {
        if *most > 0 { ahead(&given[..at], path, (window, joint)) + most } else { 0 }
    });
    let total = totals.max().unwrap_or_default().max(1);
    // A path that takes about as long owes the others nothing: none of them waits for another.
    let faster = |slow: &PathNeed| {
        given.partition_point(|(path, _)| is_faster(path.round_trip, slow.round_trip))
    };
    let share = |(at, (path, most)): (usize, &(&PathNeed, usize))| Share {
        id: path.id,
        round_trip: path.round_trip,
        most: if total < window { scaled(*most, window, total) } else { *most },
        faster: ahead(&given[..faster(path)], path, (window, 0)),
        joined: ahead(&given[..at], path, (window, WHOLE)),
    };
    given.iter().enumerate().map(share).collect()
}

impl PathNeed {
    fn need(&self) -> Option<usize> {
        let rate = self.rate?;
        let more = if self.grows { rate / 4 } else { 0 };
        Some(carried(rate + more, self.round_trip) + 2 * self.packet)
    }

    /// How much longer it takes until all has arrived, as far as packets are lost: to find a loss
    /// and to repeat it takes another round trip and some. If the buffers cannot hold for so long what
    /// the faster paths carry, at `rate`, these stop until then.
    fn repair(&self, rate: u64, (window, joint): (usize, u64)) -> Duration {
        let late = self.round_trip + self.round_trip / 4;
        let bridged = u128::from(WHOLE) * window as u128;
        let held = u128::from(rate) * u128::from(joint);
        let stopped =
            (held * (self.hold() + late).as_nanos() / 1_000_000_000).saturating_sub(bridged);
        let cost = stopped * u128::from(self.loss) / u128::from(WHOLE) / 1_000_000;
        if cost > self.packet as u128 { late } else { Duration::ZERO }
    }

    /// How long a packet is in flight if the path has what it needs.
    fn hold(&self) -> Duration {
        let queue = self
            .rate
            .filter(|_| self.sure)
            .map(|rate| 2_000_000_000 * self.packet as u64 / rate.max(1));
        self.round_trip + Duration::from_nanos(queue.unwrap_or_default())
    }

    /// What this path, using `need`, has in the buffers when a packet arrives that took as long as
    /// `hold`.
    fn ahead(&self, need: usize, hold: Duration, joint: u64) -> usize {
        let longer = hold.saturating_sub(self.hold());
        // As much as `need` carries.
        let waiting = u128::from(joint) * need as u128 * longer.as_nanos()
            / self.hold().as_nanos().max(1)
            / u128::from(WHOLE);
        need + usize::try_from(waiting).unwrap_or(usize::MAX / 64)
    }
}

fn scaled(bytes: usize, by: usize, of: usize) -> usize {
    let scaled = bytes as u128 * by as u128 / of.max(1) as u128;
    usize::try_from(scaled).unwrap_or(usize::MAX)
}

fn carried(rate: u64, time: Duration) -> usize {
    let bytes = u128::from(rate) * time.as_nanos() / 1_000_000_000;
    usize::try_from(bytes).unwrap_or(usize::MAX / 64)
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
