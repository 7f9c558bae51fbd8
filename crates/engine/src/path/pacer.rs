//! Pacing: packets leave spread over the round trip instead of all at once when an acknowledgement
//! comes. Each pushes the time of the next one back by what it takes at the path's rate, that is
//! the congestion window per round-trip time, times two in slow start and 5/4 later, so that pacing
//! does not keep the window from being used up and from growing. The time is the smoothed one, or
//! the latest if that is less: when a queue drains after a loss, the smoothed time falls behind, and
//! the path would stand idle.
//!
//! To spare timers, packets for up to one millisecond leave together; and a driver that comes late
//! may make up for as much, even where the congestion control asks for shorter bursts.
//!
//! Where nothing is in flight, an initial window may leave at once, as on a new connection of TCP (RFC 6928): a
//! short answer is not spread over the round trip that a path has which has carried nothing but short answers.
//! What follows waits until the window has had its time.

use super::Rtt;
use super::congestion::Congestion;
use crate::config::Pacing;
use crate::time::{Duration, Instant};

/// What may leave together.
const QUANTUM: Duration = Duration::from_millis(1);
/// The same in bytes at most, where a rate is prescribed.
const MAX_QUANTUM: usize = 65_536;

/// The pace of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    /// So many bytes leave in `time`.
    bytes: u64,
    time: Duration,
    /// What may leave together lasts for so long.
    quantum: Duration,
    /// A driver that comes late by up to so much makes up for it.
    lateness: Duration,
}

impl Pace {
    /// A window of `cwnd` bytes per round trip of `rtt`, and somewhat more, above all in slow start.
    pub(crate) fn of_window(cwnd: usize, is_starting: bool, rtt: Duration) -> Self {
        let (up, down) = if is_starting { (2, 1) } else { (5, 4) };
        Self {
            bytes: cwnd.max(1) as u64 * up,
            time: rtt * down,
            quantum: QUANTUM,
            lateness: QUANTUM,
        }
    }

    /// `rate` bytes per second, at most `burst` bytes at once, but no fewer than two packets of `packet` bytes.
    pub(crate) fn of_rate(rate: u64, (packet, burst): (usize, usize)) -> Self {
        let (bytes, time) = (rate.max(1), Duration::from_secs(1));
        let pace = Self { bytes, time, quantum: QUANTUM, lateness: QUANTUM };
        // The last packet leaves when those before it have had their time.
        let lasting = |most| QUANTUM.min(pace.gap(most)).max(pace.gap(packet));
        let (quantum, lateness) = (lasting(burst.min(MAX_QUANTUM)), lasting(MAX_QUANTUM));
        Self { quantum, lateness, ..pace }
    }

    /// What `bytes` take.
    fn gap(self, bytes: usize) -> Duration {
        let nanos = self.time.as_nanos().saturating_mul(bytes as u128) / u128::from(self.bytes);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// When the packets of one path leave.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    pacing: Pacing,
    /// When the next packet would leave if each had its own time.
    due: Instant,
    /// Nothing leaves before.
    hold: Option<Instant>,
    /// Bytes that need not wait for their time, if they leave before `ahead_until`.
    ahead: usize,
    ahead_until: Instant,
    /// No new data leaves before, because a chunk was rescheduled.
    held_back: Option<Instant>,
}

impl Pacer {
    /// Nothing was sent yet.
    pub(crate) fn new(pacing: Pacing) -> Self {
        let (due, ahead_until) = (Instant::ZERO, Instant::ZERO);
        Self { pacing, due, hold: None, ahead: 0, ahead_until, held_back: None }
    }

    /// Packets are paced from now on, or not any more.
    pub(crate) fn set(&mut self, pacing: Pacing) {
        self.pacing = pacing;
    }

    /// Whether packets are paced: because `congestion` says at what rate, or as configured once `rtt` is measured.
    pub(super) fn is_pacing(&self, congestion: &Congestion, rtt: &Rtt) -> bool {
        let by_window = self.pacing == Pacing::On && rtt.smoothed().is_some();
        by_window || congestion.pace().is_some()
    }

    /// At what pace, if they are.
    pub(super) fn pace(&self, congestion: &Congestion, rtt: &Rtt) -> Option<Pace> {
        if let Some((rate, burst)) = congestion.pace() {
            return Some(Pace::of_rate(rate, (congestion.chunk_limit(), burst)));
        }
        let rtt = rtt.current().filter(|_| self.pacing == Pacing::On)?;
        Some(Pace::of_window(congestion.window(), congestion.is_starting(), rtt))
    }

    /// Whether a packet may leave now.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        self.hold.is_none_or(|hold| hold <= now)
    }

    /// A packet is about to leave while nothing is in flight. If all before it have had their time, `initial` bytes may
    /// leave at once, until they have had theirs.
    pub(crate) fn begin(&mut self, now: Instant, initial: usize, pace: Pace) {
        if self.due <= now {
            (self.ahead, self.ahead_until) = (initial, now + pace.gap(initial));
        }
    }

    /// A packet with `bytes` of DATA chunks has left.
    pub(crate) fn on_packet(&mut self, now: Instant, bytes: usize, pace: Pace) {
        let nanos = u64::try_from(pace.lateness.as_nanos()).unwrap_or(u64::MAX);
        let late = Instant::from_nanos(now.as_nanos().saturating_sub(nanos));
        self.due = self.due.max(late) + pace.gap(bytes);
        self.ahead = self.ahead.saturating_sub(bytes);
        let is_ahead = self.ahead > 0 && now < self.ahead_until;
        let waits = !is_ahead && self.due > now + pace.quantum;
        self.hold = waits.then_some(self.due);
    }

    /// When packets may leave that may not now.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.hold
    }

    /// No new data leaves until then.
    pub(super) fn hold_back(&mut self, until: Instant) {
        self.held_back = Some(until);
    }

    /// Until when no new data leaves, if so.
    pub(crate) fn held_back(&self) -> Option<Instant> {
        self.held_back
    }

    /// Whether no new data leaves for a while.
    pub(crate) fn is_held_back(&self, now: Instant) -> bool {
        self.held_back.is_some_and(|until| now < until)
    }

    /// New data leaves again, if its time has come.
    pub(crate) fn end_hold(&mut self, now: Instant) {
        self.held_back = self.held_back.filter(|until| now < *until);
    }

    /// Time has passed.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.hold = self.hold.filter(|hold| *hold > now);
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, Pacer, QUANTUM};
    use crate::config::Pacing;
    use crate::time::{Duration, Instant};

    const RTT: Duration = Duration::from_millis(40);

    /// 1250 bytes take two milliseconds.
    fn slow() -> Pace {
        Pace::of_window(20_000, false, RTT)
    }
    /// 1250 bytes take 20 microseconds.
    fn fast() -> Pace {
        Pace::of_window(2_000_000, false, RTT)
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(1_000_000 + micros)
    }

    /// Sends all that may leave at `now`.
    fn train(pacer: &mut Pacer, now: Instant, pace: Pace) -> u32 {
        let mut packets = 0;
        while pacer.allows(now) {
            pacer.on_packet(now, 1250, pace);
            packets += 1;
        }
        packets
    }

    #[test]
    fn slow_paths_send_one_packet_at_a_time() {
        let mut pacer = Pacer::new(Pacing::On);
        // Two at first: as if the driver had come late.
        assert_eq!(train(&mut pacer, at(0), slow()), 2);
        let mut next = pacer.deadline().unwrap();
        for _ in 0..10 {
            assert!(!pacer.allows(Instant::from_nanos(next.as_nanos() - 1)));
            assert_eq!(train(&mut pacer, next, slow()), 1);
            let after = pacer.deadline().unwrap();
            assert_eq!(after.since(next), Duration::from_millis(2));
            next = after;
        }
    }

    #[test]
    fn fast_paths_send_a_quantum_at_a_time() {
        let mut pacer = Pacer::new(Pacing::On);
        // At first as if the driver had come late.
        assert_eq!(train(&mut pacer, at(0), fast()), 101);
        let next = pacer.deadline().unwrap();
        assert_eq!(next, at(0) + QUANTUM + Duration::from_micros(20));
        assert_eq!(train(&mut pacer, next, fast()), 51);
    }

    #[test]
    fn a_prescribed_rate_sends_two_packets_at_once_at_least_and_64_kb_at_most() {
        for (rate, least, most) in [(10_000, 2, 2), (2_000_000, 2, 3), (10_000_000_000, 52, 54)] {
            let pace = Pace::of_rate(rate, (1250, usize::MAX));
            let mut pacer = Pacer::new(Pacing::Off);
            train(&mut pacer, at(0), pace);
            let next = pacer.deadline().unwrap();
            let packets = train(&mut pacer, next, pace);
            assert!((least..=most).contains(&packets), "{rate}: {packets}");
            let gap = pacer.deadline().unwrap().since(next);
            let bytes = u128::from(packets) * 1250 * 1_000_000_000;
            assert!(bytes.abs_diff(gap.as_nanos() * u128::from(rate)) < bytes / 100);
        }
    }

    #[test]
    fn shorter_bursts_keep_the_rate_and_what_a_late_driver_may_make_up_for() {
        let pace = Pace::of_rate(125_000_000, (1250, 10_000));
        let mut pacer = Pacer::new(Pacing::Off);
        train(&mut pacer, at(0), pace);
        let next = pacer.deadline().unwrap();
        assert_eq!(train(&mut pacer, next, pace), 9);
        let after = pacer.deadline().unwrap();
        assert_eq!(after.since(next), Duration::from_micros(90));
        // 400 microseconds late: 40 packets, and the burst.
        assert_eq!(train(&mut pacer, after + Duration::from_micros(400), pace), 49);
    }

    #[test]
    fn an_initial_window_leaves_at_once_and_has_its_time_afterwards() {
        let mut pacer = Pacer::new(Pacing::On);
        train(&mut pacer, at(0), slow());
        let next = pacer.deadline().unwrap();
        pacer.begin(at(0), 12_500, slow());
        assert!(!pacer.allows(at(0)), "what has left has not had its time yet");
        pacer.begin(next, 12_500, slow());
        assert_eq!(train(&mut pacer, next, slow()), 10);
        assert_eq!(pacer.deadline(), Some(next + Duration::from_millis(20)));
        assert_eq!(train(&mut pacer, next + Duration::from_millis(20), slow()), 1);
    }

    #[test]
    fn what_is_left_of_an_initial_window_is_over_with_its_time() {
        let mut pacer = Pacer::new(Pacing::On);
        pacer.begin(at(0), 12_500, slow());
        pacer.on_packet(at(0), 1250, slow());
        assert_eq!(train(&mut pacer, at(20_000), slow()), 2);
    }

    #[test]
    fn slow_start_is_paced_at_twice_the_rate() {
        let starting = Pace::of_window(20_000, true, RTT);
        assert_eq!(starting.gap(1250) * 8, slow().gap(1250) * 5);
    }

    #[test]
    fn a_hold_is_over_when_its_time_has_come() {
        let mut pacer = Pacer::new(Pacing::On);
        train(&mut pacer, at(0), slow());
        let hold = pacer.deadline().unwrap();
        pacer.expire(at(0));
        assert_eq!(pacer.deadline(), Some(hold));
        pacer.expire(hold);
        assert_eq!(pacer.deadline(), None);
        assert!(pacer.allows(at(0)));
    }
}
