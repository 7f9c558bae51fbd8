//! Suspecting a path by its silence, before T3-rtx does (RFC 7829 section 3 with a quicker sign of
//! failure; the idea is that of the tail loss probe, RFC 8985 section 7, and of MPTCP's reinjection).
//!
//! T3-rtx waits for RTO.Min and begins anew with each acknowledgement, so a dead path holds up the
//! receiver for 200 ms and more. But a path that carries data and works is heard of all the time, and
//! while others are heard of, the receiver lives. So a path is *overdue* when
//!
//! ```text
//! lateness = now - max(when it was heard of last, when the transmission left that is awaited + srtt)
//! lateness > slack = max(20 ms, srtt / 4, 2 * RTTVAR, 5/4 * the largest lateness survived lately)
//! ```
//!
//! Awaited is the earliest transmission that left after all that have arrived: what left before one of
//! those is lost, which says nothing about the path.
//!
//! An overdue path is suspected if a SACK has come over another path when this one was late by half a slack.
//! The halves of the round trips are taken into account: what a slow path brings was said long ago, and a
//! receiver that takes a rest must not look like a dead path. Without such a witness the earliest packet of chunks
//! is sent again on another path, whose answer will be one. Paths that stand by (`path::policy`) carry no chunk while
//! the silent one may be alive: they are asked by a HEARTBEAT.
//!
//! What has left on the silent path before the answer may have been after all that was lost: a path that loses
//! one chunk of few is not suspected for it. It is if a second question is answered and nothing was heard of it.
//!
//! A path that is cut has mostly delivered something of which its own acknowledgements were lost, and
//! which the answer of the other path acknowledges. So what is told there counts as heard when it was
//! due, and says nothing about how late the path may be.
//!
//! A receiver of much that sends little itself hears of the latter over a queue that its peer fills, or not at all. So
//! DATA that comes over a path counts as heard, too: the path is not cut.
//!
//! A suspected path is potentially failed: what it has in flight goes to the others, as their windows
//! allow, and a HEARTBEAT asks whether it works. If acknowledgements of what it carried come over it
//! after all, the suspicion was wrong: the path goes on as it was, its window is not touched, and it
//! is given as much more slack as they were late. If they come over another path its window is not
//! touched either, but it waits for the answer to the HEARTBEAT. If only the HEARTBEAT is answered, its
//! flight is taken for lost (once, as by missing reports); if that is not answered either, for timed out.
//! The round trip of the HEARTBEAT is no part of how late acknowledgements may be.

use super::Flight;
use super::Sent;
use super::order::SentOrder;
use crate::path::congestion::Group;
use crate::path::{Path, PathId, Rtt, Subflow};
use crate::time::{Duration, Instant};

/// Smallest allowance for scheduling delay.
const LEAST_SLACK: Duration = Duration::from_millis(20);
/// The largest lateness is remembered for so long, then half of it, and so on.
const MEMORY: Duration = Duration::from_secs(10);
/// No path is given more slack than for this lateness: T3-rtx will be sooner.
const MOST_LATENESS: Duration = Duration::from_millis(300);

/// What is known about the silence of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    /// When the path was heard of last, or had nothing to be heard of.
    heard: Instant,
    /// When the receiver last said over this path what it has.
    told: Instant,
    /// When the earliest transmission left that may be the next to arrive.
    awaited: Option<Instant>,
    /// Only one packet is in flight: the peer may hold back its acknowledgement.
    alone: bool,
    /// When another path was asked to witness.
    asked: Option<Instant>,
    /// Another path has answered since this one was heard of, when more had left on this one already.
    answered: bool,
    /// The largest lateness lately.
    latest: Duration,
    forget_at: Instant,
    suspicion: Option<Suspicion>,
}

/// A suspicion that is neither confirmed nor refuted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Suspicion {
    /// Bytes that were in flight.
    pub(crate) flight: usize,
    /// Since when the path is suspected, and how late it was then.
    since: Instant,
    late: Duration,
    /// Something of what was in flight has arrived after all.
    pub(crate) refuted: bool,
}

impl Silence {
    /// Something is sent on the path. `idle`: nothing was in flight.
    pub(crate) fn on_sent(&mut self, now: Instant, idle: bool) {
        if self.asked.is_some() {
            // The answer is awaited for what was sent before.
            return;
        }
        if idle {
            self.heard = now;
        }
        if idle || self.alone || self.awaited.is_none() {
            // With the second packet the acknowledgement is not held back any more.
            self.awaited = Some(now);
        }
        self.alone = idle;
    }

    /// A SACK came over the path, whatever it says. Returns true if another path had been asked.
    pub(crate) fn on_sack(&mut self, now: Instant) -> bool {
        self.told = now;
        self.answered = false;
        self.asked.take().is_some()
    }

    /// DATA of the peer came over the path.
    pub(crate) fn on_data(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Transmissions of the path, of which the earliest left at `sent`, were acknowledged, or should have
    /// been, at `at`.
    pub(crate) fn on_heard(&mut self, at: Instant, sent: Instant, rtt: &Rtt) {
        self.learn(at, self.lateness(at, sent, rtt));
        self.heard = self.heard.max(at);
        (self.asked, self.answered) = (None, false);
    }

    /// The path, on which nothing is in flight, has answered a HEARTBEAT.
    pub(crate) fn on_answer(&mut self, now: Instant) {
        self.heard = now;
        self.told = now;
        self.answered = false;
    }

    /// The earliest transmission that left after all that have arrived did so at `sent`. `alone`: no more
    /// than a packet is in flight.
    pub(crate) fn set_awaited(&mut self, sent: Option<Instant>, alone: bool) {
        let is_answered = self.asked.is_some() && sent.is_some() && sent != self.awaited;
        if is_answered && self.answered {
            // What the second question was about remains awaited, so that its answer is a witness.
            return;
        }
        if is_answered {
            (self.asked, self.answered) = (None, true);
        }
        self.awaited = sent;
        self.alone = alone;
    }

    /// When the path becomes overdue. `delay`: for how long the peer may hold back the
    /// acknowledgement of a single packet. `None` before the first measurement, or if nothing is awaited.
    pub(crate) fn overdue(&self, rtt: &Rtt, delay: Duration) -> Option<Instant> {
        self.awaited.and(rtt.smoothed())?;
        let delay = if self.alone { delay } else { Duration::ZERO };
        Some(self.late_from(rtt) + self.slack(rtt) + delay)
    }

    /// Whether the receiver has said something on `other` that it would not have said without
    /// saying something of this path too, if that worked.
    pub(crate) fn is_witnessed(&self, rtt: &Rtt, other: &Self, others: &Rtt) -> bool {
        let slack = self.slack(rtt);
        let least = |rtt: &Rtt| rtt.least().unwrap_or_default();
        let longer = (least(others) / 2).saturating_sub(least(rtt) / 2);
        other.told >= self.late_from(rtt) + slack / 2 + longer
    }

    /// Another path is asked to witness.
    pub(crate) fn ask(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// Whether another path was asked and has not answered yet.
    pub(crate) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// The path is suspected, with so many bytes in flight.
    pub(crate) fn suspect(&mut self, now: Instant, rtt: &Rtt, flight: usize) {
        self.asked = None;
        let late = now.since(self.late_from(rtt));
        self.suspicion = Some(Suspicion { flight, since: now, late, refuted: false });
    }

    /// Whether it is not known yet what a suspicion is worth.
    pub(crate) fn is_suspected(&self) -> bool {
        self.suspicion.is_some()
    }

    /// Whether another path was asked, or this one is suspected. Then what a SACK over another path tells of this one is
    /// what this one had delivered before it fell silent: when that comes says nothing about this path.
    pub(super) fn is_in_question(&self) -> bool {
        self.is_asking() || self.is_suspected()
    }

    /// Something of what was in flight is acknowledged over another path. Returns whether it may have arrived before the
    /// path failed: it is suspected, and its own acknowledgements do not come. Then its flight was not lost, but it
    /// is not used before it has answered.
    pub(super) fn refute_elsewhere(&mut self) -> bool {
        self.refute();
        self.is_suspected()
    }

    /// Something of what was in flight when the path was suspected had arrived.
    pub(crate) fn refute(&mut self) {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.refuted = true;
        }
    }

    /// A transmission that left at `sent`, and was repeated elsewhere, is acknowledged over the path itself.
    pub(crate) fn on_late_acknowledgement(&mut self, now: Instant, sent: Instant, rtt: &Rtt) {
        self.learn(now, self.lateness(now, sent, rtt));
    }

    /// Ends the suspicion, if there is one: it has been found out what it is worth.
    pub(crate) fn end_suspicion(&mut self) -> Option<Suspicion> {
        (self.asked, self.answered) = (None, false);
        self.suspicion.take()
    }

    /// The path was silent, but works: it has answered the HEARTBEAT that left when it was suspected. It
    /// would have been as much later as that took longer than its way and back. SRTT may be the way and a
    /// quicker way back.
    pub(crate) fn survive(&mut self, now: Instant, suspicion: Suspicion, rtt: &Rtt) {
        let took = now.since(suspicion.since);
        let longer = took.saturating_sub(2 * rtt.smoothed().unwrap_or_default());
        self.learn(now, suspicion.late + longer);
    }

    /// From when on an acknowledgement has been awaited.
    fn late_from(&self, rtt: &Rtt) -> Instant {
        let srtt = rtt.smoothed().unwrap_or_default();
        self.awaited.map_or(self.heard, |sent| self.heard.max(sent + srtt))
    }

    /// How late at `at` the acknowledgement is of what left at `sent`.
    fn lateness(&self, at: Instant, sent: Instant, rtt: &Rtt) -> Duration {
        at.since(self.heard.max(sent + rtt.smoothed().unwrap_or_default()))
    }

    fn learn(&mut self, now: Instant, lateness: Duration) {
        if lateness >= self.latest {
            self.latest = lateness.min(MOST_LATENESS);
            self.forget_at = now + MEMORY;
        } else if now >= self.forget_at {
            self.latest /= 2;
            self.forget_at = now + MEMORY;
        }
    }

    fn slack(&self, rtt: &Rtt) -> Duration {
        let srtt = rtt.smoothed().unwrap_or_default();
        let known = self.latest + self.latest / 4;
        (rtt.variation() * 2).max(srtt / 4).max(LEAST_SLACK).max(known)
    }
}

impl Flight {
    /// Whether another path was asked to witness and has not answered yet.
    pub(crate) fn is_asking(&self) -> bool {
        self.silence.is_asking()
    }

    /// The path stands by, and has answered a HEARTBEAT.
    pub(crate) fn on_standby_heard(&mut self, now: Instant) {
        self.silence.on_answer(now);
    }

    /// When the earliest transmission left that may be the next to arrive: what left before one that has
    /// arrived is lost.
    fn awaited(&self, sent: impl Fn(Sent) -> Option<Instant>) -> Option<Instant> {
        let newest = self.rack.newest().unwrap_or_default();
        let earliest = |order: &SentOrder| order.earliest_after(newest, |it| sent(it).is_some());
        let both = [&self.originals, &self.retransmissions].map(earliest);
        both.into_iter().flatten().filter_map(&sent).min()
    }
}

impl Path {
    /// A packet of `len` bytes with DATA of the peer came over the path.
    pub(crate) fn on_data_received(&mut self, now: Instant, len: usize) {
        self.arrivals.on_data(now, len);
        self.subflow.stats.data_bytes += len as u64;
        self.subflow.flight.silence.on_data(now);
    }
}

impl Subflow {
    /// When the path becomes overdue if it is not already. `delay`: see [`Silence::overdue`].
    pub(crate) fn overdue_at(&self, delay: Duration) -> Option<Instant> {
        if self.flight.bytes == 0 || self.flight.is_asking() {
            return None;
        }
        self.flight.silence.overdue(&self.rtt, delay)
    }

    /// Whether the receiver has said something on `other` that it would not have said without saying
    /// something of this path too, if that worked.
    pub(crate) fn is_witnessed_by(&self, other: &Self) -> bool {
        self.flight.silence.is_witnessed(&self.rtt, &other.flight.silence, &other.rtt)
    }

    /// Another path is asked to witness.
    pub(crate) fn ask_for_witness(&mut self, now: Instant) {
        self.flight.silence.ask(now);
        self.stats.probes += 1;
    }

    /// A SACK came over the path, whatever it says.
    pub(crate) fn on_sack_received(&mut self, now: Instant) {
        self.stats.spurious_probes += u64::from(self.flight.silence.on_sack(now));
    }

    /// A SACK that came over `via` has been worked in. `sent`: when a transmission left that is under way.
    #[inline]
    pub(crate) fn note_sounds(
        &mut self,
        now: Instant,
        via: PathId,
        sent: impl Fn(Sent) -> Option<Instant>,
    ) {
        if let Some(news) = self.flight.news.sent {
            let due = news.most + self.rtt.smoothed().unwrap_or_default();
            let silence = &mut self.flight.silence;
            let is_answer = via != self.id && silence.is_in_question();
            silence.on_heard(if is_answer { due.min(now) } else { now }, news.least, &self.rtt);
        }
        let awaited = self.flight.awaited(sent);
        let is_small = self.flight.bytes <= self.congestion.chunk_limit();
        let alone = is_small && self.flight.last_data <= awaited;
        self.flight.silence.set_awaited(awaited, alone);
    }

    /// A chunk that was repeated elsewhere had arrived over this path. `sent`: when it had left here, if
    /// its acknowledgement came back over the path too.
    pub(crate) fn on_late_delivery(&mut self, now: Instant, sent: Option<Instant>) {
        self.flight.silence.refute();
        if let Some(sent) = sent {
            self.flight.silence.on_late_acknowledgement(now, sent, &self.rtt);
        }
    }

    /// The path is suspected.
    pub(crate) fn suspect(&mut self, now: Instant) {
        self.flight.silence.suspect(now, &self.rtt, self.flight.bytes);
        self.stats.suspicions += 1;
    }

    /// The path works. If it was suspected, that was wrong.
    pub(crate) fn clear_suspicion(&mut self) {
        let was_suspected = self.flight.silence.end_suspicion().is_some();
        self.stats.spurious_suspicions += u64::from(was_suspected);
    }

    /// The path has answered a HEARTBEAT. If it was suspected, and nothing of its flight is known to have
    /// arrived, that is lost.
    pub(crate) fn on_suspect_answered(&mut self, now: Instant, group: &Group) {
        let Some(suspicion) = self.flight.silence.end_suspicion() else { return };
        self.flight.silence.survive(now, suspicion, &self.rtt);
        self.stats.spurious_suspicions += 1;
        if !suspicion.refuted {
            self.congestion.on_loss(group);
        }
    }

    /// The path has not answered a HEARTBEAT either. If it was suspected, its flight has timed out.
    pub(crate) fn on_suspect_silent(&mut self, group: &Group) {
        if let Some(suspicion) = self.flight.silence.end_suspicion() {
            self.collapse(suspicion.flight, group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Silence;
    use crate::config::Config;
    use crate::path::Rtt;
    use crate::path::flight::testing::{at, ms, rtt};
    use crate::time::Instant;

    /// Several packets leave.
    fn sent(silence: &mut Silence, now: Instant) {
        silence.on_sent(now, true);
        silence.on_sent(now, false);
    }

    #[test]
    fn overdue_is_what_is_both_old_and_silent() {
        let mut silence = Silence::default();
        assert_eq!(silence.overdue(&Rtt::new(&Config::default()), ms(0)), None);
        sent(&mut silence, at(1000));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(1060)));
        assert_eq!(silence.overdue(&rtt(400), ms(0)), Some(at(1500)));
        silence.on_sent(at(1020), true);
        assert_eq!(silence.overdue(&rtt(40), ms(50)), Some(at(1130)));
        silence.on_sent(at(1030), false);
        assert_eq!(silence.overdue(&rtt(40), ms(50)), Some(at(1090)));
        silence.on_sent(at(1035), false);
        assert_eq!(silence.overdue(&rtt(40), ms(50)), Some(at(1090)));
        sent(&mut silence, at(1000));
        silence.on_heard(at(1045), at(1000), &rtt(40));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(1065)));
        silence.set_awaited(Some(at(1050)), false);
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(1110)));
        silence.set_awaited(None, false);
        assert_eq!(silence.overdue(&rtt(40), ms(0)), None);
        silence.on_sent(at(1200), false);
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(1260)));
    }

    #[test]
    fn a_path_that_brings_data_is_not_silent() {
        let (mut silence, mut other) = (Silence::default(), Silence::default());
        sent(&mut silence, at(1000));
        silence.on_data(at(1055));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(1075)));
        other.on_sack(at(1064));
        assert!(!silence.is_witnessed(&rtt(40), &other, &rtt(40)));
        other.on_sack(at(1065));
        assert!(silence.is_witnessed(&rtt(40), &other, &rtt(40)));
    }

    #[test]
    fn a_witness_is_heard_of_when_the_silent_path_is_late_by_more_than_its_way_is_longer() {
        let (mut silent, mut other) = (Silence::default(), Silence::default());
        sent(&mut silent, at(1000));
        // That something is sent there says nothing.
        sent(&mut other, at(1100));
        assert!(!silent.is_witnessed(&rtt(20), &other, &rtt(20)));
        other.on_sack(at(1029));
        assert!(!silent.is_witnessed(&rtt(20), &other, &rtt(20)));
        other.on_sack(at(1030));
        assert!(silent.is_witnessed(&rtt(20), &other, &rtt(20)));
        assert!(!silent.is_witnessed(&rtt(20), &other, &rtt(120)));
        other.on_sack(at(1080));
        assert!(silent.is_witnessed(&rtt(20), &other, &rtt(120)));
    }

    #[test]
    fn lateness_that_was_survived_gives_slack_for_a_while() {
        let mut silence = Silence::default();
        sent(&mut silence, at(960));
        silence.suspect(at(1044), &rtt(40), 5000);
        // It left later, so it is not as late as the path seemed to be.
        silence.on_late_acknowledgement(at(1080), at(1000), &rtt(40));
        let suspicion = silence.end_suspicion().unwrap();
        assert_eq!((suspicion.flight, silence.end_suspicion()), (5000, None));
        sent(&mut silence, at(2000));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(2090)));
        silence.survive(at(1144), suspicion, &rtt(40));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(2120)));
        silence.on_heard(at(2040), at(2000), &rtt(40));
        sent(&mut silence, at(12_000));
        silence.on_heard(at(12_000), at(12_000), &rtt(40));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(12_080)));
    }

    #[test]
    fn asking_for_nothing_is_learnt_from() {
        let mut silence = Silence::default();
        sent(&mut silence, at(960));
        silence.ask(at(1030));
        assert!(silence.is_asking());
        assert!(silence.on_sack(at(1040)) && !silence.is_asking());
        assert!(!silence.on_sack(at(1040)));
        silence.on_heard(at(1040), at(960), &rtt(40));
        sent(&mut silence, at(2000));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(2090)));
    }
}
