//! The end of a transfer: nothing waits, and the fastest path stands idle while slower ones still carry the rest. What is
//! due to arrive over them later than the fastest path would have delivered it, and had the answer, goes over that one
//! again (after the reinjection of Zheng et al., "XLINK: QoE-driven multi-path QUIC transport in large-scale video
//! services", SIGCOMM 2021).
//!
//! The fastest path takes what was sent last first, because that is what arrives last, until what it has taken and what
//! the slow ones still have would be there at the same time:
//!
//! ```text
//! now + srtt_f + taken / rate_f  <  sent + forward_s          forward = srtt - least rtt / 2
//! ```
//!
//! What a slow path has lost there, it repeats at once, and that is as late as what it has just sent: so it does not cost
//! another of its round trips.

use super::Sender;
use crate::config::PathScheduling;
use crate::path::{Loss, Path, PathId, Paths};
use crate::schedule::path::by_smallest_srtt;
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A chunk on a slow path.
struct Late {
    arrival: Instant,
    tsn: Tsn64,
    wire: usize,
}

impl Sender {
    /// Lets the fastest path repeat what slower ones would deliver later, if it has nothing else to do.
    pub(crate) fn relieve_slow_paths(&mut self, now: Instant, paths: &mut Paths) {
        let is_over = self.in_flight > 0
            && self.lost == 0
            && self.backlog == 0
            && self.queue.messages() == 0
            && self.rules.experiment.path_scheduling == PathScheduling::EarliestCompletion
            && self.is_racking()
            && !self.queue.is_mapping()
            && !paths.is_regulated();
        let fast = if is_over { self.idle_fastest(now, paths) } else { None };
        let Some(fast) = fast else { return };
        for tsn in self.late(now, fast, paths) {
            // Once: the path that repeats it may be a slow one again.
            self.outstanding.get_mut(tsn).into_iter().for_each(|it| it.record.rescheduled = true);
            self.lose(tsn, paths, Loss::TimedOut);
        }
    }

    /// The fastest path, if it could send and is not alone.
    fn idle_fastest(&self, now: Instant, paths: &Paths) -> Option<PathId> {
        let fast = by_smallest_srtt(paths, self.usable(paths)).next()?;
        let helps = |path: &Path| path.id() != fast && path.in_flight() > 0;
        let path = paths.get(fast)?;
        let can_help = path.rtt().smoothed().is_some() && path.may_send(now, path.in_flight());
        (can_help && paths.iter().any(helps)).then_some(fast)
    }

    /// What the path `fast` is to take from the others.
    fn late(&self, now: Instant, fast: PathId, paths: &mut Paths) -> Vec<Tsn64> {
        let Some(path) = paths.get(fast) else { return Vec::new() };
        let rate = u128::from(path.window_rate().unwrap_or(1).max(1));
        let answer = now + path.rtt().smoothed().unwrap_or_default();
        let mut late = Vec::new();
        for slow in paths.iter_mut().filter(|path| path.id() != fast && path.in_flight() > 0) {
            late.extend(self.late_on(slow, answer));
        }
        late.retain(|one| self.outstanding.get(one.tsn).is_some_and(|c| c.may_be_repeated(now)));
        late.sort_unstable_by_key(|one| Reverse((one.arrival, one.tsn)));
        let mut taken = 0;
        let sooner = late.iter().take_while(|one| {
            taken += one.wire as u128;
            let takes = u64::try_from(taken * 1_000_000_000 / rate).unwrap_or(u64::MAX);
            answer + Duration::from_nanos(takes) < one.arrival
        });
        sooner.map(|one| one.tsn).collect()
    }

    /// What arrives over `slow` after `answer`, and has not changed its path yet.
    fn late_on(&self, slow: &mut Path, answer: Instant) -> Vec<Late> {
        let (id, delay) = (slow.id(), slow.forward_delay());
        let late = |tsn| {
            let chunk = self.outstanding.get(tsn)?;
            let arrival = chunk.record.last_sent + delay;
            Some(Late { arrival, tsn, wire: chunk.wire_len() })
        };
        let is_late = |tsn| late(tsn).is_some_and(|one| one.arrival > answer);
        let sent = slow
            .flight_mut()
            .late(|sent| self.outstanding.is_live(id, sent), |sent| is_late(sent.tsn));
        let stays = |tsn| {
            let chunk = self.outstanding.get(tsn);
            chunk.is_some_and(|chunk| !(chunk.record.moved || chunk.record.rescheduled))
        };
        sent.into_iter().filter(|sent| stays(sent.tsn)).filter_map(|sent| late(sent.tsn)).collect()
    }
}
