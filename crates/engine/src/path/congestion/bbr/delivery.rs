//! Delivery rate sampling: how fast the path delivers data, and what was sent before that was known
//! (draft-ietf-ccwg-bbr, section "Delivery Rate Samples").
//!
//! A sample covers the flight of one packet: the data delivered from its transmission to its
//! acknowledgement, over the longer of the times in which that data was sent and acknowledged. What a
//! sample needs is recorded once for all chunks that leave at one instant, not with each chunk.

use super::super::Departure;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;

/// The pacer makes up for a driver that is late by so much, so that a shorter pause in sending is no
/// lack of data.
const LATENESS: Duration = Duration::from_millis(1);
/// A run is forgotten when so many times its flight was delivered since: all of it has been
/// acknowledged or found lost.
const REMEMBERED_FLIGHTS: u64 = 4;
/// Bytes that count as the flight of a run at least.
const MIN_FLIGHT: u64 = 16_384;

/// The state of a path when a run of chunks left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SendState {
    /// Bytes delivered until then.
    pub(super) delivered: u64,
    /// When the last of these was acknowledged.
    pub(super) delivered_at: Instant,
    /// When the packet left that was acknowledged last.
    pub(super) first_sent: Instant,
    /// Bytes found lost until then.
    pub(super) lost: u64,
    /// Bytes in flight, those of the run included.
    pub(super) in_flight: u64,
    /// Whether the sender had run out of data.
    pub(super) app_limited: bool,
}

/// What one SACK tells about the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RateSample {
    /// Bytes per second; zero if the sample is not reliable.
    pub(super) rate: u64,
    /// Bytes delivered during the sample.
    pub(super) delivered: u64,
    /// Bytes found lost during the sample.
    pub(super) lost: u64,
    /// The state when the newest of the acknowledged packets left.
    pub(super) sent: SendState,
}

/// Chunks that left at one instant.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first one's number of transmission.
    first: u64,
    sent: Instant,
    state: SendState,
}

/// Where a chunk stood among those that left at the same instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    /// Number of the first of them.
    pub(super) first: u64,
    /// How many left before it and after it.
    pub(super) before: u64,
    pub(super) after: u64,
}

/// The sampler of one path.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Bytes delivered so far.
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Bytes found lost so far.
    lost: u64,
    /// Samples are limited by the application until more than this is delivered.
    app_limited: Option<u64>,
    /// Since when the path could send and there is nothing to send.
    starved: Option<Instant>,
    runs: VecDeque<Run>,
    /// The newest transmission that the SACK under work acknowledges.
    newest: Option<(u64, Run)>,
}

impl Delivery {
    /// Nothing is in flight: gives memory back.
    pub(super) fn release_memory(&mut self) {
        self.runs = VecDeque::new();
    }

    /// Bytes delivered so far.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes found lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the application, not the path, limits what is delivered.
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited.is_some()
    }

    /// A chunk leaves.
    pub(super) fn on_sent(&mut self, sent: &Departure) {
        let Departure { now, number, bytes, in_flight } = *sent;
        let before = in_flight as u64;
        if self.starved.take().is_some_and(|since| now.since(since) > LATENESS) {
            self.mark_app_limited(before);
        }
        if before == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let state = SendState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            in_flight: before + bytes as u64,
            app_limited: self.app_limited.is_some(),
        };
        match self.runs.back_mut().filter(|run| run.sent == now) {
            Some(run) if run.state.delivered == state.delivered => {
                run.state.in_flight = state.in_flight;
            }
            _ => self.runs.push_back(Run { first: number, sent: now, state }),
        }
        self.forget_old();
    }

    fn forget_old(&mut self) {
        let delivered = self.delivered;
        let is_old = |run: &Run| {
            let flight = run.state.in_flight.max(MIN_FLIGHT);
            run.state.delivered + REMEMBERED_FLIGHTS * flight < delivered
        };
        while self.runs.front().is_some_and(is_old) {
            self.runs.pop_front();
        }
    }

    pub(super) fn is_starved(&self) -> bool {
        self.starved.is_some()
    }

    /// The path could send at `now`, but there is nothing to send on it.
    pub(super) fn on_starved(&mut self, now: Instant) {
        self.starved = Some(now);
    }

    /// What is delivered until `in_flight` bytes have been says nothing about the path.
    pub(super) fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited = Some((self.delivered + in_flight).max(1));
    }

    /// Transmission `number` of `bytes` was acknowledged.
    pub(super) fn on_acked(&mut self, now: Instant, number: u64, bytes: u64) {
        self.on_ambiguous(now, bytes);
        let Some(run) = self.run(number) else { return };
        if self.newest.is_none_or(|(newest, _)| number > newest) {
            self.first_sent = run.sent;
            self.newest = Some((number, run));
        }
    }

    /// `bytes` were acknowledged; it is not known which of several transmissions has arrived.
    pub(super) fn on_ambiguous(&mut self, now: Instant, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
    }

    /// Transmission `number` of `bytes` was found lost. Returns the sample that ends with it.
    pub(super) fn on_lost(&mut self, number: u64, bytes: u64) -> Option<RateSample> {
        self.lost += bytes;
        let sent = self.run(number)?.state;
        Some(RateSample { lost: self.lost - sent.lost, sent, ..RateSample::default() })
    }

    /// All of `bytes` in flight was given up.
    pub(super) fn on_timeout(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// What the SACK has told, if anything. A sample shorter than `min_rtt` has no rate: it would be
    /// of a spurious retransmission.
    pub(super) fn finish(&mut self, min_rtt: Option<Duration>) -> Option<RateSample> {
        self.app_limited = self.app_limited.filter(|end| self.delivered <= *end);
        let (_, run) = self.newest.take()?;
        let sent = run.state;
        let send_elapsed = run.sent.since(sent.first_sent);
        let interval = send_elapsed.max(self.delivered_at.since(sent.delivered_at));
        let delivered = self.delivered - sent.delivered;
        let reliable = !interval.is_zero() && min_rtt.is_none_or(|least| interval >= least);
        let rate = if reliable { super::rate(delivered, interval) } else { 0 };
        Some(RateSample { rate, delivered, lost: self.lost - sent.lost, sent })
    }

    /// Where transmission `number` stood in its burst, if something has left since.
    pub(super) fn position(&self, number: u64) -> Option<Position> {
        let end = self.runs.partition_point(|run| run.first <= number);
        let sent = self.runs.get(end.checked_sub(1)?)?.sent;
        let same = self.runs.range(..end).rev().take_while(|run| run.sent == sent);
        let first = same.last()?.first;
        let next = self.runs.range(end..).find(|run| run.sent != sent)?.first;
        Some(Position { first, before: number - first, after: next - 1 - number })
    }

    /// The transmission with which the newest run began; zero before the first one.
    pub(super) fn newest_run(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.first)
    }

    fn run(&self, number: u64) -> Option<Run> {
        let after = self.runs.partition_point(|run| run.first <= number);
        self.runs.get(after.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivery, Departure, Position};
    use crate::time::{Duration, Instant};

    const RTT: u64 = 100;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn send(delivery: &mut Delivery, millis: u64, number: u64, in_flight: usize) {
        delivery.on_sent(&Departure { now: at(millis), number, bytes: 1000, in_flight });
    }

    /// Ten packets, one each 10 ms, of which each is acknowledged after a round trip.
    fn steady() -> Delivery {
        let mut delivery = Delivery::default();
        for number in 1..=10 {
            send(&mut delivery, number * 10, number, (number as usize - 1) * 1000);
        }
        delivery
    }

    #[test]
    fn a_sample_is_what_was_delivered_during_the_flight_of_a_packet() {
        let mut delivery = steady();
        delivery.on_acked(at(10 + RTT), 1, 1000);
        // One packet in a round trip: all that is known yet.
        assert_eq!(delivery.finish(None).unwrap().rate, 10_000);
        for number in 2..=10 {
            delivery.on_acked(at(number * 10 + RTT), number, 1000);
        }
        let sample = delivery.finish(None).unwrap();
        assert_eq!((sample.delivered, sample.sent.in_flight), (10_000, 10_000));
        assert_eq!(sample.rate, 52_631, "since the first of them left");
    }

    #[test]
    fn acknowledgements_that_come_at_once_do_not_show_more_than_was_sent() {
        let mut delivery = steady();
        (1..=10).for_each(|number| delivery.on_acked(at(200), number, 1000));
        let sample = delivery.finish(None).unwrap();
        assert!(sample.rate <= 10_000 * 1000 / 90, "{}", sample.rate);
        let mut delivery = steady();
        delivery.on_acked(at(110), 1, 1000);
        let most = Some(Duration::from_millis(101));
        assert_eq!(delivery.finish(most).unwrap().rate, 0, "shorter than any round trip");
    }

    #[test]
    fn samples_are_limited_by_the_application_until_the_gap_has_passed() {
        let mut delivery = steady();
        delivery.on_starved(at(105));
        send(&mut delivery, 150, 11, 10_000);
        for number in 1..=10 {
            delivery.on_acked(at(200 + number), number, 1000);
        }
        assert!(!delivery.finish(None).unwrap().sent.app_limited);
        delivery.on_acked(at(250), 11, 1000);
        send(&mut delivery, 251, 12, 0);
        assert!(delivery.finish(None).unwrap().sent.app_limited);
        delivery.on_acked(at(351), 12, 1000);
        delivery.finish(None);
        assert!(!delivery.is_app_limited());
    }

    #[test]
    fn a_pause_that_the_pacer_makes_up_for_is_no_lack_of_data() {
        let mut delivery = steady();
        delivery.on_starved(at(105));
        send(&mut delivery, 106, 11, 10_000);
        assert!(!delivery.is_app_limited());
    }

    #[test]
    fn a_position_is_that_among_all_chunks_of_an_instant() {
        let mut delivery = Delivery::default();
        (1..=3).for_each(|number| send(&mut delivery, 10, number, number as usize * 1000));
        // A SACK comes at the same instant.
        delivery.on_ambiguous(at(10), 1000);
        (4..=6).for_each(|number| send(&mut delivery, 10, number, number as usize * 1000));
        assert_eq!(delivery.position(2), None, "more may leave at that instant");
        send(&mut delivery, 11, 7, 7000);
        let position = |before| Some(Position { first: 1, before, after: 5 - before });
        for number in 1..=6 {
            assert_eq!(delivery.position(number), position(number - 1));
        }
        assert_eq!((delivery.position(7), delivery.newest_run()), (None, 7));
    }

    #[test]
    fn losses_are_counted_since_the_packet_left_and_old_runs_are_forgotten() {
        let mut delivery = steady();
        assert_eq!(delivery.on_lost(3, 1000).unwrap().lost, 1000);
        let second = delivery.on_lost(5, 1000).unwrap();
        assert_eq!((second.lost, second.sent.in_flight), (2000, 5000));
        for number in 11..=200 {
            delivery.on_acked(at(number * 10), number - 1, 1000);
            send(&mut delivery, number * 10, number, 9000);
        }
        assert!(delivery.on_lost(6, 1000).is_none());
        assert!(delivery.runs.len() < 80, "{}", delivery.runs.len());
    }
}
