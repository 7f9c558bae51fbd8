//! Suspecting a path by its silence, before T3-rtx does (RFC 7829 section 3 with a quicker sign of
//! failure; the idea is that of the tail loss probe, RFC 8985 section 7, and of MPTCP's reinjection).
//!
//! T3-rtx waits for RTO.Min and begins anew with each acknowledgement, so a dead path holds up the
//! receiver for 200 ms and more. But a path that carries data and works is heard of all the time, and
//! while others are heard of, the receiver lives. So a path is *overdue* when
//!
//! ```text
//! lateness = now - max(when it was heard of last, when its earliest transmission left + srtt)
//! lateness > slack = max(20 ms, srtt / 4, 2 * RTTVAR, 5/4 * the largest lateness survived lately)
//! ```
//!
//! and it is suspected if another path has been heard of for half a slack longer. The halves of the
//! round trips are taken into account: what a slow path brings was said long ago, and a receiver that
//! takes a rest must not look like a dead path. Without such a witness one chunk is sent again on
//! another path, whose answer will be one.
//!
//! A suspected path is potentially failed: what it has in flight goes to the others, as their windows
//! allow, and a HEARTBEAT asks whether it works. If acknowledgements of what it carried come after
//! all, the suspicion was wrong: the path goes on as it was, its window is not touched, and it is
//! given more slack. If only the HEARTBEAT is answered, its flight is taken for lost (once, as by
//! missing reports); if that is not answered either, for timed out.

use crate::path::Rtt;
use crate::time::{Duration, Instant};

crate::names::named! {
    /// What makes a path suspected of having failed, besides T3-rtx.
    pub enum PathSuspicion as "path suspicion" {
        /// Nothing: RFC 9260 and RFC 7829.
        Off = "off",
        /// That it is silent while another is not.
        Silence = "silence",
    }
}

/// Least slack: programs are not scheduled at once.
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
    /// When the earliest transmission in flight left.
    oldest: Instant,
    /// Only one packet is in flight: the peer may hold back its acknowledgement.
    alone: bool,
    /// When another path was asked to witness.
    asked: Option<Instant>,
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
    /// Since when the path has been late.
    late_since: Instant,
    /// Something of what was in flight has arrived after all.
    pub(crate) refuted: bool,
}

impl Silence {
    /// Something is sent on the path. `idle`: nothing was in flight.
    pub(crate) fn on_sent(&mut self, now: Instant, idle: bool) {
        if idle {
            self.heard = now;
        }
        if idle || self.alone {
            // With the second packet the acknowledgement is not held back any more.
            self.oldest = now;
        }
        self.alone = idle;
    }

    /// Something of the path was acknowledged. Returns true if another path had been asked for
    /// nothing.
    pub(crate) fn on_heard(&mut self, now: Instant, rtt: &Rtt) -> bool {
        let late = now.since(self.late_from(rtt));
        self.learn(now, late);
        self.heard = now;
        self.asked.take().is_some()
    }

    /// The earliest transmission in flight left at `sent`. `alone`: no more than a packet is in
    /// flight.
    pub(crate) fn set_oldest(&mut self, sent: Instant, alone: bool) {
        self.oldest = sent;
        self.alone = alone;
    }

    /// When the path becomes overdue. `delay`: for how long the peer may hold back the
    /// acknowledgement of a single packet. `None` before the first measurement.
    pub(crate) fn overdue(&self, rtt: &Rtt, delay: Duration) -> Option<Instant> {
        rtt.smoothed()?;
        let delay = if self.alone { delay } else { Duration::ZERO };
        Some(self.late_from(rtt) + self.slack(rtt) + delay)
    }

    /// Whether the receiver has said something on `other` that it would not have said without
    /// saying something of this path too, if that worked.
    pub(crate) fn is_witnessed(&self, rtt: &Rtt, other: &Self, others: &Rtt) -> bool {
        let slack = self.slack(rtt);
        let least = |rtt: &Rtt| rtt.least().unwrap_or_default();
        let longer = (least(others) / 2).saturating_sub(least(rtt) / 2);
        other.heard >= self.heard + slack / 2 + longer
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
    pub(crate) fn suspect(&mut self, rtt: &Rtt, flight: usize) {
        self.asked = None;
        let late_since = self.late_from(rtt);
        self.suspicion = Some(Suspicion { flight, late_since, refuted: false });
    }

    /// A chunk that was sent again elsewhere has been acknowledged too early for that.
    pub(crate) fn on_late_acknowledgement(&mut self) {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.refuted = true;
        }
    }

    /// Ends the suspicion, if there is one: it has been found out what it is worth.
    pub(crate) fn settle(&mut self) -> Option<Suspicion> {
        self.asked = None;
        self.suspicion.take()
    }

    /// The path was silent, but works.
    pub(crate) fn survive(&mut self, now: Instant, suspicion: Suspicion) {
        self.learn(now, now.since(suspicion.late_since));
    }

    /// From when on an acknowledgement has been awaited.
    fn late_from(&self, rtt: &Rtt) -> Instant {
        self.heard.max(self.oldest + rtt.smoothed().unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use super::Silence;
    use crate::config::Config;
    use crate::path::Rtt;
    use crate::time::{Duration, Instant};

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    /// A round-trip time without variation.
    fn rtt(millis: u64) -> Rtt {
        let mut rtt = Rtt::new(&Config::default());
        (0..100).for_each(|round| rtt.on_sample(at(round), ms(millis)));
        rtt
    }

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
        silence.on_heard(at(1045), &rtt(40));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(1065)));
        silence.set_oldest(at(1050), false);
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(1110)));
    }

    #[test]
    fn a_witness_was_heard_of_later_by_more_than_its_way_is_longer() {
        let (mut silent, mut other) = (Silence::default(), Silence::default());
        sent(&mut silent, at(1000));
        sent(&mut other, at(1009));
        assert!(!silent.is_witnessed(&rtt(20), &other, &rtt(20)));
        sent(&mut other, at(1010));
        assert!(silent.is_witnessed(&rtt(20), &other, &rtt(20)));
        assert!(!silent.is_witnessed(&rtt(20), &other, &rtt(120)));
        sent(&mut other, at(1065));
        assert!(silent.is_witnessed(&rtt(20), &other, &rtt(120)));
    }

    #[test]
    fn lateness_that_was_survived_gives_slack_for_a_while() {
        let mut silence = Silence::default();
        sent(&mut silence, at(960));
        silence.suspect(&rtt(40), 5000);
        let suspicion = silence.settle().unwrap();
        assert_eq!((suspicion.flight, silence.settle()), (5000, None));
        silence.survive(at(1080), suspicion);
        sent(&mut silence, at(2000));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(2140)));
        silence.on_heard(at(2040), &rtt(40));
        sent(&mut silence, at(12_000));
        silence.on_heard(at(12_000), &rtt(40));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(12_090)));
    }

    #[test]
    fn asking_for_nothing_is_learnt_from() {
        let mut silence = Silence::default();
        sent(&mut silence, at(960));
        silence.ask(at(1030));
        assert!(silence.is_asking());
        assert!(silence.on_heard(at(1040), &rtt(40)) && !silence.is_asking());
        assert!(!silence.on_heard(at(1041), &rtt(40)));
        sent(&mut silence, at(2000));
        assert_eq!(silence.overdue(&rtt(40), ms(0)), Some(at(2090)));
    }
}
