//! Windowed filters: the most that the path delivers, the least that a round trip takes, and how much
//! acknowledgements are bunched.

use super::{INFINITE, bytes_in, scaled};
use crate::time::{Duration, Instant};

/// Rounds in which aggregation is remembered (ExtraAckedFilterLen).
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// Rounds whose deliveries losses do not refute.
const RECENT_ROUNDS: usize = 2;
/// What a round without congestion makes of the short-term bounds, in percent.
const RELAXED: u64 = 150;
/// What such a round makes of the long-term bound, in percent, if it has delivered enough of it.
const REFUTED: u64 = 110;
/// How long a minimum counts (MinRTTFilterLen).
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// When a minimum is to be measured again (ProbeRTTInterval).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);

/// The highest delivery rate of this ProbeBW cycle and the one before.
#[derive(Debug, Default)]
pub(super) struct MaxBandwidth([u64; 2]);

impl MaxBandwidth {
    /// In bytes per second; zero before the first sample.
    pub(super) fn get(&self) -> u64 {
        self.0[0].max(self.0[1])
    }

    pub(super) fn add(&mut self, rate: u64) {
        self.0[1] = self.0[1].max(rate);
    }

    /// A cycle is over.
    pub(super) fn advance(&mut self) {
        if self.0[1] > 0 {
            self.0 = [self.0[1], 0];
        }
    }
}

/// What each of the last rounds has delivered at most: bytes per second, and bytes in one sample.
#[derive(Debug, Default)]
pub(super) struct RecentRounds([(u64, u64); RECENT_ROUNDS]);

impl RecentRounds {
    /// A round is over.
    pub(super) fn add(&mut self, bw: u64, inflight: u64) {
        self.0.rotate_right(1);
        self.0[0] = (bw, inflight);
    }

    /// The most of all of them.
    pub(super) fn most(&self) -> (u64, u64) {
        let most = |a: (u64, u64), b: &(u64, u64)| (a.0.max(b.0), a.1.max(b.1));
        self.0.iter().fold((0, 0), most)
    }
}

/// The least round-trip time, and when it must be looked for anew.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    min: Option<Duration>,
    stamp: Instant,
    /// The minimum since the last ProbeRTT.
    probe_min: Option<Duration>,
    probe_stamp: Instant,
    expired: bool,
}

impl MinRtt {
    /// The filter begins at `now`.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.stamp, self.probe_stamp) = (now, now);
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.min
    }

    /// Whether nothing as short was measured for so long that ProbeRTT is due.
    pub(super) fn is_expired(&self) -> bool {
        self.expired
    }

    /// ProbeRTT is over.
    pub(super) fn on_probed(&mut self, now: Instant) {
        self.probe_stamp = now;
    }

    /// UpdateMinRTT(). A round trip that is longer by no more than `quantum`, which is what our own
    /// packets wait for each other, shows an empty queue, too: ProbeRTT would show nothing else.
    pub(super) fn add(&mut self, now: Instant, rtt: Option<Duration>, quantum: Duration) {
        self.expired = now.since(self.probe_stamp) > PROBE_RTT_INTERVAL;
        let wanted = |rtt: &Duration| self.expired || self.probe_min.is_none_or(|min| *rtt < min);
        if let Some(rtt) = rtt.filter(wanted) {
            (self.probe_min, self.probe_stamp) = (Some(rtt), now);
        }
        let is_empty = |min: Duration| rtt.is_some_and(|rtt| rtt <= min + quantum);
        if self.probe_min.is_some_and(is_empty) {
            self.probe_stamp = now;
        }
        let expired = now.since(self.stamp) > MIN_RTT_FILTER;
        if self.probe_min.is_some_and(|probe| expired || self.min.is_none_or(|min| probe < min)) {
            (self.min, self.stamp) = (self.probe_min, self.probe_stamp);
        }
    }
}

/// How much more than expected is acknowledged at once.
#[derive(Debug, Default)]
pub(super) struct ExtraAcked {
    since: Instant,
    delivered: u64,
    /// The maximum of this half of the window and of the one before.
    most: [u64; 2],
    turned: u64,
}

impl ExtraAcked {
    /// In bytes.
    pub(super) fn get(&self) -> u64 {
        self.most[0].max(self.most[1])
    }

    /// The next interval begins at `now`.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.since, self.delivered) = (now, 0);
    }

    /// UpdateACKAggregation(): `acked` bytes in round `round` over a path of `bw`.
    pub(super) fn add(&mut self, now: Instant, acked: u64, bw: u64, (round, window): (u64, u64)) {
        let mut expected = bytes_in(bw, now.since(self.since));
        if self.delivered <= expected {
            self.restart(now);
            expected = 0;
        }
        self.delivered += acked;
        if round >= self.turned + window.div_ceil(2) {
            self.most = [self.most[1], 0];
            self.turned = round;
        }
        self.most[1] = self.most[1].max(self.delivered - expected);
    }
}

/// Rounds that [`ExtraAcked`] remembers: one until the pipe was full.
pub(super) fn extra_acked_rounds(full: bool) -> u64 {
    if full { EXTRA_ACKED_ROUNDS } else { 1 }
}

/// Whether a plateau of the delivery rate shows that the pipe is full.
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    bw: u64,
    rounds: u32,
    /// Full since the search began last.
    pub(super) now: bool,
    /// Full at any time.
    pub(super) reached: bool,
}

/// Rounds without growth that show it.
const FULL_ROUNDS: u32 = 3;

impl FullPipe {
    /// ResetFullBW(): the search begins at a rate of `bw`.
    pub(super) fn restart(&mut self, bw: u64) {
        *self = Self { bw, reached: self.reached, ..Self::default() };
    }

    /// CheckFullBWReached(), at the end of a round in which the application was no limit. `is_queue`: round trips show a
    /// queue beyond the bound, so that one round without growth is enough.
    pub(super) fn on_round(&mut self, rate: u64, is_queue: bool) {
        if self.now {
            return;
        }
        if rate >= self.bw.saturating_mul(5) / 4 {
            self.restart(rate);
            return;
        }
        self.rounds += 1;
        self.now = is_queue || self.rounds >= FULL_ROUNDS;
        self.reached |= self.now;
    }
}

/// Packet-timed round trips.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    next_delivered: u64,
    pub(super) count: u64,
    /// Whether the SACK under work has begun one.
    pub(super) started: bool,
    pub(super) since_probe_up: u64,
}

impl Rounds {
    /// StartRound(): the next round ends when what is sent from now on is acknowledged.
    pub(super) fn start(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }

    /// UpdateRound(): a packet was acknowledged that left when `prior` bytes were delivered.
    pub(super) fn update(&mut self, prior: Option<u64>, delivered: u64) {
        self.started = prior.is_some_and(|prior| prior >= self.next_delivered);
        if self.started {
            self.start(delivered);
            self.count += 1;
            self.since_probe_up += 1;
        }
    }
}

/// Upper bounds learned from losses; [`INFINITE`]: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bw_shortterm: INFINITE, inflight_shortterm: INFINITE, inflight_longterm: INFINITE }
    }
}

impl Bounds {
    /// ResetShortTermModel().
    pub(super) fn reset_short_term(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (INFINITE, INFINITE);
    }

    /// A round without congestion: the short-term bounds rise, and end at `max_bw`. The long-term one rises if the round
    /// has `proven` that `enough` percent of the bytes that it allows make no queue.
    pub(super) fn relax(&mut self, max_bw: u64, proven: u64, enough: u64) {
        if proven >= scaled(self.inflight_longterm, enough) {
            self.inflight_longterm = scaled(self.inflight_longterm, REFUTED);
        }
        self.bw_shortterm = scaled(self.bw_shortterm, RELAXED);
        self.inflight_shortterm = scaled(self.inflight_shortterm, RELAXED);
        if self.bw_shortterm >= max_bw {
            self.reset_short_term();
        }
    }

    /// None of them is less than in `other`.
    pub(super) fn raise_to(&mut self, other: &Self) {
        self.bw_shortterm = self.bw_shortterm.max(other.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(other.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(other.inflight_longterm);
    }
}
