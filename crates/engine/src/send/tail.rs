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
//! another of its round trips. If it was the last that the path has sent, no SACK tells of the loss. So what has not been
//! acknowledged when it should (`Subflow::ack_timeout`) counts as arriving after the next tail probe of the slow path,
//! which would repeat it. The sender looks again when the first chunk becomes overdue (`Tail::relief`).

use super::Sender;
use super::outstanding::Outstanding;
use crate::config::PathScheduling;
use crate::path::{Loss, Path, PathId, PathSet, Paths, Sent};
use crate::schedule::path::by_smallest_srtt;
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// What is known of the end of a transfer.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Bytes that the user holds back and would queue if there were need.
    pub(super) backlog: usize,
    /// When the slow paths must be looked at again.
    relief: Option<Instant>,
}

/// A chunk on a slow path.
struct Late {
    arrival: Instant,
    tsn: Tsn64,
    wire: usize,
}

impl Tail {
    /// When the slow paths must be looked at again.
    pub(super) fn relief(&self) -> Option<Instant> {
        self.relief
    }

    /// Forgets the time when it has come.
    pub(super) fn on_deadline(&mut self, now: Instant) {
        self.relief.take_if(|at| *at <= now);
    }

    /// Lets the path `fast` repeat what slower ones would deliver later.
    fn relieve(
        &mut self,
        now: Instant,
        fast: PathId,
        sack_delay: Duration,
        (outstanding, paths): (&mut Outstanding, &mut Paths),
    ) {
        let (late, next) = late(now, fast, sack_delay, (outstanding, paths));
        self.relief = next;
        for tsn in late {
            // Once: the path that repeats it may be a slow one again.
            outstanding.get_mut(tsn).into_iter().for_each(|it| it.record.rescheduled = true);
            outstanding.lose(tsn, paths, Loss::TimedOut);
        }
    }
}

impl Sender {
    /// Lets the fastest path repeat what slower ones would deliver later, if it has nothing else to do.
    pub(crate) fn relieve_slow_paths(&mut self, now: Instant, paths: &mut Paths) {
        let is_over = self.outstanding.in_flight() > 0
            && self.outstanding.lost() == 0
            && self.tail.backlog == 0
            && self.queue.messages() == 0
            && self.rules.experiment.scheduling() == PathScheduling::EarliestCompletion
            && self.is_racking()
            && !self.queue.mapping().is_on()
            && !paths.is_regulated();
        let fast = if is_over { idle_fastest(now, self.choice.usable(paths), paths) } else { None };
        self.tail.relief = None;
        let Some(fast) = fast else { return };
        let transfer = (&mut self.outstanding, paths);
        self.tail.relieve(now, fast, self.rules.sack_delay, transfer);
    }
}

/// The fastest path, if it could send and is not alone.
fn idle_fastest(now: Instant, usable: PathSet, paths: &Paths) -> Option<PathId> {
    let fast = by_smallest_srtt(paths, usable).next()?;
    let helps = |path: &Path| path.id() != fast && path.in_flight() > 0;
    let path = paths.get(fast)?;
    let can_help =
        path.rtt().smoothed().is_some() && path.subflow().may_send(now, path.in_flight());
    (can_help && paths.iter().any(helps)).then_some(fast)
}

/// What the path `fast` is to take from the others, and when it must be asked again if nothing happens until then.
fn late(
    now: Instant,
    fast: PathId,
    sack_delay: Duration,
    (outstanding, paths): (&Outstanding, &mut Paths),
) -> (Vec<Tsn64>, Option<Instant>) {
    let Some(path) = paths.get(fast) else { return (Vec::new(), None) };
    let rate = u128::from(path.subflow().window_rate().unwrap_or(1).max(1));
    let answer = now + path.rtt().smoothed().unwrap_or_default();
    let (mut late, mut next) = (Vec::new(), None);
    for slow in paths.iter_mut().filter(|path| path.id() != fast && path.in_flight() > 0) {
        late.extend(late_on(slow, answer, outstanding));
        let (overdue, first) = overdue_on(slow, now, sack_delay, outstanding);
        late.extend(overdue);
        next = next.into_iter().chain(first).min();
    }
    late.retain(|one| outstanding.get(one.tsn).is_some_and(|c| c.may_be_repeated(now)));
    late.sort_unstable_by_key(|one| Reverse((one.arrival, one.tsn)));
    let mut taken = 0;
    let sooner = late.iter().take_while(|one| {
        taken += one.wire as u128;
        let takes = u64::try_from(taken * 1_000_000_000 / rate).unwrap_or(u64::MAX);
        answer + Duration::from_nanos(takes) < one.arrival
    });
    (sooner.map(|one| one.tsn).collect(), next)
}

/// What arrives over `slow` after `answer`, and has not changed its path yet.
fn late_on(slow: &mut Path, answer: Instant, outstanding: &Outstanding) -> Vec<Late> {
    let (id, delay) = (slow.id(), slow.rtt().forward_delay());
    let late = |tsn| {
        let chunk = outstanding.get(tsn)?;
        let arrival = chunk.record.last_sent + delay;
        Some(Late { arrival, tsn, wire: chunk.wire_len() })
    };
    let is_late = |tsn| late(tsn).is_some_and(|one| one.arrival > answer);
    let sent =
        slow.flight_mut().late(|sent| outstanding.is_live(id, sent), |sent| is_late(sent.tsn));
    sent.into_iter()
        .filter(|sent| stays(outstanding, sent.tsn))
        .filter_map(|sent| late(sent.tsn))
        .collect()
}

/// What of `slow` should be acknowledged at `now`, and when that will be true of more.
fn overdue_on(
    slow: &mut Path,
    now: Instant,
    sack_delay: Duration,
    outstanding: &Outstanding,
) -> (Vec<Late>, Option<Instant>) {
    let (id, timeout) = (slow.id(), slow.subflow().ack_timeout(sack_delay));
    let repeated = outstanding.tail_probe_at(slow, sack_delay).map_or(now, |at| at.max(now));
    let arrival = repeated + slow.rtt().forward_delay();
    let due = |sent: Sent| Some(outstanding.get(sent.tsn)?.record.last_sent + timeout);
    let (overdue, next) = slow.flight_mut().overdue(
        |sent| outstanding.is_live(id, sent),
        |sent| due(sent).is_some_and(|due| due <= now),
    );
    let late = |sent: Sent| {
        let chunk = outstanding.get(sent.tsn).filter(|_| stays(outstanding, sent.tsn))?;
        Some(Late { arrival, tsn: sent.tsn, wire: chunk.wire_len() })
    };
    let next = next.into_iter().flatten().filter_map(due).min();
    (overdue.into_iter().filter_map(late).collect(), next)
}

/// Whether the chunk has not changed its path yet.
fn stays(outstanding: &Outstanding, tsn: Tsn64) -> bool {
    let chunk = outstanding.get(tsn);
    chunk.is_some_and(|chunk| !(chunk.record.moved || chunk.record.rescheduled))
}
