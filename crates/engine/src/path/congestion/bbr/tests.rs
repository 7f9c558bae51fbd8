//! BBR over a simulated bottleneck, one packet at a time.

use super::filters::Bounds;
use super::probe_bw::AckPhase;
use super::states::State;
use super::{Bbr, Departure, INFINITE, model, scaled};
use crate::path::congestion::testing::{P, acked};
use crate::path::congestion::{Acked, Window};
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes per second.
const RATE: u64 = 2_500_000;
const RTT: Duration = Duration::from_millis(20);
const NONE: fn(u64) -> bool = |_| false;

/// A sender with BBR, a bottleneck with a queue, and a peer that acknowledges each packet.
pub(super) struct Bench {
    pub(super) bbr: Bbr,
    pub(super) window: Window,
    pub(super) now: Instant,
    rate: u64,
    rtt: Duration,
    /// Room in the queue of the bottleneck.
    queue: usize,
    /// Which packets are lost behind it.
    lost: fn(u64) -> bool,
    /// Whether the application has anything to send.
    hungry: bool,
    free_at: Instant,
    send_at: Instant,
    number: u64,
    flight: usize,
    delivered: usize,
    under_way: VecDeque<Packet>,
    recovery_until: u64,
    /// The states that it was in.
    states: Vec<State>,
}

struct Packet {
    number: u64,
    sent: Instant,
    /// When it is acknowledged, or a later one tells that it is lost.
    due: Instant,
    lost: bool,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self {
            bbr: Bbr::default(),
            window: Window::new(P, false, false),
            now: Instant::ZERO + Duration::from_secs(1),
            rate: RATE,
            rtt: RTT,
            queue: 1000 * P,
            lost: NONE,
            hungry: false,
            free_at: Instant::ZERO,
            send_at: Instant::ZERO,
            number: 0,
            flight: 0,
            delivered: 0,
            under_way: VecDeque::new(),
            recovery_until: 0,
            states: Vec::new(),
        }
    }

    /// Long enough in ProbeBW to know the path.
    pub(super) fn cruising() -> Self {
        let mut bench = Self::new();
        bench.run_until(Duration::from_secs(4), |bench| bench.bbr.state == State::Cruise);
        bench
    }

    fn can_send(&self) -> bool {
        !self.hungry && self.flight < self.window.cwnd
    }

    fn send(&mut self) {
        self.number += 1;
        let (now, number) = (self.now, self.number);
        let sent = Departure { now, number, bytes: P, in_flight: self.flight };
        self.bbr.on_sent(&sent, &mut self.window);
        self.flight += P;
        let waits = super::bytes_in(self.rate, self.free_at.since(now)) as usize;
        let drops = waits > self.queue;
        if !drops {
            let gap = Duration::from_nanos(P as u64 * 1_000_000_000 / self.rate);
            self.free_at = self.free_at.max(now) + gap;
        }
        let due = self.free_at.max(now) + self.rtt;
        let lost = drops || (self.lost)(number);
        self.under_way.push_back(Packet { number, sent: now, due, lost });
        let pace = self.bbr.pace().map_or(u64::MAX, |(rate, _)| rate);
        self.send_at = now + Duration::from_nanos(P as u64 * 1_000_000_000 / pace);
    }

    fn hear(&mut self) {
        let Some(packet) = self.under_way.pop_front() else { return };
        self.flight -= P;
        if packet.lost {
            self.bbr.on_chunk_lost(self.now, packet.number, P, &self.window);
            if packet.number > self.recovery_until {
                self.recovery_until = self.number;
                self.bbr.on_recovery(&self.window);
            }
            return;
        }
        self.delivered += P;
        self.bbr.on_chunk_acked(self.now, Some(packet.number), P);
        let acked = Acked {
            now: self.now,
            in_flight: self.flight,
            window_used: self.flight + P >= self.window.cwnd,
            recovering: packet.number <= self.recovery_until,
            rtt: Some(self.now.since(packet.sent)),
            ..acked(P)
        };
        self.bbr.on_acked(&acked, &mut self.window);
        if self.states.last() != Some(&self.bbr.state) {
            self.states.push(self.bbr.state);
        }
    }

    /// One event.
    fn step(&mut self) {
        let send = self.can_send().then_some(self.send_at.max(self.now));
        let hear = self.under_way.front().map(|packet| packet.due.max(self.now));
        match (send, hear) {
            (Some(send), hear) if hear.is_none_or(|hear| send <= hear) => {
                self.now = send;
                self.send();
            }
            (_, Some(hear)) => {
                self.now = hear;
                self.hear();
            }
            (_, None) => self.now = self.now + Duration::from_millis(1),
        }
    }

    /// Runs for `time`.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Runs until `is_done`, which must come within `time`.
    pub(super) fn run_until(&mut self, time: Duration, is_done: impl Fn(&Self) -> bool) {
        let end = self.now + time;
        while !is_done(self) {
            assert!(self.now < end, "{:?}", self.states);
            self.step();
        }
    }

    /// Bytes per second in `time`.
    fn goodput(&mut self, time: Duration) -> u64 {
        let before = self.delivered;
        self.run(time);
        super::rate((self.delivered - before) as u64, time)
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Whether `value` is within `percent` of `target`.
fn is_near(value: u64, target: u64, percent: u64) -> bool {
    value.abs_diff(target) * 100 <= target * percent
}

#[test]
fn states_follow_in_the_order_of_the_draft() {
    let mut bench = Bench::new();
    bench.run(secs(4));
    assert_eq!(bench.states[..2], [State::Startup, State::Drain]);
    // The queue has drained already: Down passes at once.
    let cycle = [State::Cruise, State::Refill, State::Up, State::Down].into_iter().cycle();
    let states = bench.states[2..].iter().copied();
    assert!(states.len() > 8 && states.zip(cycle).all(|(a, b)| a == b), "{:?}", bench.states);
}

#[test]
fn a_round_without_losses_refutes_the_long_term_bound_that_it_has_used() {
    let after = |proven| {
        let mut bounds = Bounds { inflight_longterm: 100_000, ..Bounds::default() };
        bounds.relax(1, proven, model::REFUTED_BY);
        bounds.inflight_longterm
    };
    assert_eq!(after(79_000), 100_000, "little was in flight");
    let most_in_cruise = scaled(100_000, 100 - model::HEADROOM);
    assert_eq!(after(most_in_cruise - P as u64), 110_000);
    let mut none = Bounds::default();
    none.relax(1, 1_000_000, model::REFUTED_BY);
    assert_eq!(none.inflight_longterm, INFINITE);
}

#[test]
fn round_trips_that_become_shorter_do_not_end_startup() {
    // The first ones include what programs take to start.
    let Bench { mut bbr, mut window, mut now, .. } = Bench::new();
    let mut rtt = Duration::from_millis(20);
    for round in 0..6 {
        for packet in 0..10 {
            let number = round * 10 + packet;
            let in_flight = packet as usize * P;
            bbr.on_sent(&Departure { now, number, bytes: P, in_flight }, &mut window);
        }
        now = now + rtt;
        (0..10).for_each(|packet| bbr.on_chunk_acked(now, Some(round * 10 + packet), P));
        let acked = Acked { now, rtt: Some(rtt), ..acked(10 * P) };
        bbr.on_acked(&acked, &mut window);
        rtt /= 2;
    }
    assert!(!bbr.full_pipe.reached);
    assert!(is_near(bbr.max_bw.get(), super::rate(10 * P as u64, rtt * 2), 1));
}

#[test]
fn the_model_finds_the_rate_and_the_round_trip_of_the_path() {
    for (rate, rtt) in [(125_000, 40), (RATE, 20), (50_000_000, 10), (RATE, 300)] {
        let rtt = Duration::from_millis(rtt);
        let mut bench = Bench { rate, rtt, ..Bench::new() };
        bench.run(secs(15));
        let (bw, min_rtt) = (bench.bbr.max_bw.get(), bench.bbr.min_rtt.get().unwrap());
        assert!(is_near(bw, rate, 3), "{rate} {rtt:?}: {bw}");
        let packet = Duration::from_nanos(P as u64 * 1_000_000_000 / rate);
        assert!(min_rtt >= rtt && min_rtt <= rtt + packet * 2, "{rate} {rtt:?}: {min_rtt:?}");
        let goodput = bench.goodput(secs(10));
        assert!(goodput * 100 > rate * 92, "{rate} {rtt:?}: {goodput}");
    }
}

#[test]
fn startup_doubles_the_rate_each_round_and_leaves_at_a_plateau() {
    let mut bench = Bench::new();
    bench.run_until(secs(1), |bench| bench.bbr.state == State::Drain);
    assert!(is_near(bench.bbr.max_bw.get(), RATE, 3));
    assert!(bench.bbr.rounds.count < 12, "{}", bench.bbr.rounds.count);
    assert!(!bench.window.is_starting());
    bench.run_until(secs(1), |bench| bench.bbr.state.is_probe_bw());
    let product = super::bytes_in(RATE, RTT);
    assert!(bench.flight as u64 <= product * 11 / 10, "{}", bench.flight);
}

#[test]
fn a_small_chunk_without_a_round_trip_sets_no_pace() {
    let mut bench = Bench::new();
    let (sent, heard) = (bench.now, bench.now + bench.rtt);
    let departure = Departure { now: sent, number: 1, bytes: 28, in_flight: 0 };
    bench.bbr.on_sent(&departure, &mut bench.window);
    bench.bbr.on_chunk_acked(heard, Some(1), 28);
    let acked = Acked { now: heard, rtt: None, ..acked(28) };
    bench.bbr.on_acked(&acked, &mut bench.window);
    assert_eq!(bench.bbr.pace(), None);
}

#[test]
fn startup_ends_when_a_round_has_lost_too_much() {
    let mut bench = Bench { lost: |number| number > 60 && number % 3 == 0, ..Bench::new() };
    bench.rate = 1_000_000_000;
    bench.run_until(secs(1), |bench| bench.bbr.state == State::Drain);
    assert!(!bench.bbr.full_pipe.now, "there was no plateau");
    assert!(bench.bbr.bounds.inflight_longterm < INFINITE);
}

#[test]
fn drain_ends_after_three_rounds_whatever_is_in_flight() {
    let mut bench = Bench::new();
    bench.run_until(secs(1), |bench| bench.bbr.state == State::Drain);
    bench.rate = RATE / 20;
    let round = bench.bbr.rounds.count;
    bench.run_until(secs(5), |bench| bench.bbr.state == State::Down);
    assert!(bench.bbr.rounds.count >= round + 4, "{}", bench.bbr.rounds.count - round);
}

#[test]
fn more_bandwidth_is_found_by_the_next_probes() {
    let mut bench = Bench::cruising();
    bench.rate = 2 * RATE;
    bench.run(secs(5));
    assert!(is_near(bench.bbr.max_bw.get(), 2 * RATE, 3), "{}", bench.bbr.max_bw.get());
}

#[test]
fn less_bandwidth_is_known_after_two_cycles() {
    let mut bench = Bench::cruising();
    bench.rate = RATE / 2;
    bench.run(secs(10));
    assert!(is_near(bench.bbr.max_bw.get(), RATE / 2, 3), "{}", bench.bbr.max_bw.get());
}

#[test]
fn a_longer_route_is_known_after_ten_seconds() {
    let mut bench = Bench::cruising();
    bench.rtt = 3 * RTT;
    bench.run(secs(16));
    let min_rtt = bench.bbr.min_rtt.get().unwrap();
    assert!(min_rtt >= 3 * RTT && min_rtt < 4 * RTT, "{min_rtt:?}");
    assert!(bench.goodput(secs(4)) * 100 > RATE * 93);
}

#[test]
fn probe_rtt_keeps_half_a_product_in_flight_for_200_ms() {
    let mut bench = Bench::cruising();
    // Another flow has begun to fill the queue: nothing as short as the minimum is measured.
    bench.rtt = RTT * 3 / 2;
    bench.run_until(secs(7), |bench| bench.bbr.state == State::ProbeRtt);
    let begun = bench.now;
    bench.run_until(secs(1), |bench| bench.bbr.state == State::Cruise);
    assert!(bench.now.since(begun) > Duration::from_millis(200));
    assert!(bench.now.since(begun) < Duration::from_millis(400));
    let half = super::bytes_in(RATE, RTT) as usize / 2;
    assert!(bench.flight <= half + 2 * P, "{}", bench.flight);
    assert!(bench.window.cwnd > half * 3, "the window is restored");
}

#[test]
fn a_plateau_ends_the_probe_and_no_bound_is_set() {
    let mut bench = Bench::cruising();
    bench.run_until(secs(3), |bench| bench.bbr.state == State::Up);
    bench.run_until(secs(1), |bench| bench.bbr.state == State::Down);
    assert_eq!(bench.bbr.bounds.inflight_longterm, INFINITE);
    assert_eq!(bench.bbr.probe_bw.ack_phase, AckPhase::ProbeStopping);
}

#[test]
fn a_shallow_queue_bounds_what_is_in_flight_in_the_long_term() {
    let mut bench = Bench { queue: 8 * P, ..Bench::new() };
    bench.run(secs(10));
    let product = super::bytes_in(RATE, RTT);
    let most = bench.bbr.bounds.inflight_longterm;
    assert!(most > product / 2 && most < product + 16 * P as u64, "{most} of {product}");
    let goodput = bench.goodput(secs(10));
    assert!(goodput * 100 > RATE * 90, "{goodput}");
}

#[test]
fn acknowledgements_in_batches_widen_the_window() {
    let bench = Bench::cruising();
    let before = bench.bbr.extra_acked.get();
    let mut filter = super::ExtraAcked::default();
    let now = bench.now;
    filter.restart(now);
    for burst in 1..=20u32 {
        let at = now + Duration::from_millis(10) * burst;
        filter.add(at, RATE / 100, RATE, (u64::from(burst), 10));
    }
    assert!(filter.get() >= RATE / 100, "{}", filter.get());
    assert!(before < 4 * P as u64, "{before}");
}

#[test]
fn after_a_timeout_one_packet_leaves_and_a_round_later_the_window_is_back() {
    let mut bench = Bench::cruising();
    let before = bench.window.cwnd;
    bench.under_way.clear();
    let flight = core::mem::take(&mut bench.flight);
    bench.bbr.on_timeout(flight, &mut bench.window);
    assert_eq!(bench.window.cwnd, P);
    bench.run(RTT * 4);
    assert!(bench.window.cwnd * 10 > before * 9, "{} of {before}", bench.window.cwnd);
}

#[test]
fn an_application_that_sends_little_does_not_lower_the_bandwidth() {
    let mut bench = Bench::cruising();
    let bw = bench.bbr.max_bw.get();
    for _ in 0..800 {
        bench.hungry = true;
        bench.run(Duration::from_millis(4));
        bench.bbr.on_starved(bench.now);
        bench.run(Duration::from_millis(2));
        bench.hungry = false;
        bench.step();
    }
    assert!(is_near(bench.bbr.max_bw.get(), bw, 3), "{}", bench.bbr.max_bw.get());
}

#[test]
fn after_a_pause_data_leaves_at_the_bandwidth() {
    let mut bench = Bench::cruising();
    bench.run_until(secs(3), |bench| bench.bbr.state == State::Up);
    bench.hungry = true;
    bench.run(Duration::from_millis(400));
    bench.bbr.on_starved(bench.now);
    bench.run(secs(8));
    bench.hungry = false;
    bench.send();
    assert!(bench.bbr.idle_restart);
    assert!(is_near(bench.bbr.pacing_rate, bench.bbr.bw, 1));
    bench.run(secs(1));
    assert!(!bench.states.contains(&State::ProbeRtt), "the pause has drained the queue");
}

/// One packet in `one_in` is lost, in no order.
fn at_random(number: u64, one_in: u64) -> bool {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 < (1 << 24) / one_in
}

#[test]
fn losses_at_random_slow_nothing_down() {
    let tenth: fn(u64) -> bool = |number| at_random(number, 10);
    let thirtieth: fn(u64) -> bool = |number| at_random(number, 30);
    for (lost, left) in [(tenth, 90), (thirtieth, 97)] {
        let mut bench = Bench { lost, ..Bench::new() };
        bench.run(secs(5));
        let goodput = bench.goodput(secs(20));
        assert!(goodput * 100 > RATE * left * 94 / 100, "{goodput} of {left} %");
        assert!(bench.bbr.random_loss.allowance(100_000, P as u64) > 3_000);
    }
}

#[test]
fn a_policer_is_not_taken_for_a_link_that_loses_at_random() {
    // One packet may wait: what exceeds the rate is dropped without a queue that could be seen.
    let mut bench = Bench { queue: P, ..Bench::new() };
    bench.run(secs(5));
    let (sent, lost) = (bench.number, bench.bbr.delivery.lost());
    let goodput = bench.goodput(secs(20));
    let (sent, lost) = (bench.number - sent, (bench.bbr.delivery.lost() - lost) / P as u64);
    assert!(goodput * 100 > RATE * 90, "{goodput}");
    assert!(lost * 100 < sent * 4, "{lost} of {sent}");
}

#[test]
fn losses_with_a_queue_lower_the_short_term_bounds_until_the_next_probe() {
    let mut bench = Bench::cruising();
    (bench.rate, bench.queue) = (RATE / 2, 20 * P);
    bench.run_until(secs(1), |bench| bench.bbr.bounds.bw_shortterm < INFINITE);
    assert!(bench.bbr.bounds.inflight_shortterm < INFINITE);
    assert!(bench.bbr.bounds.bw_shortterm >= bench.bbr.max_bw.get() * 7 / 10);
    bench.run_until(secs(4), |bench| bench.bbr.state == State::Refill);
    assert_eq!(bench.bbr.bounds.bw_shortterm, INFINITE);
}

#[test]
fn rounds_without_congestion_give_the_short_term_bounds_back_before_the_next_probe() {
    let mut bench = Bench::cruising();
    (bench.rate, bench.queue) = (RATE / 2, 20 * P);
    bench.run_until(secs(1), |bench| bench.bbr.bounds.bw_shortterm < INFINITE);
    bench.rate = RATE;
    bench.states.clear();
    bench.run_until(secs(1), |bench| bench.bbr.bounds.bw_shortterm == INFINITE);
    assert_eq!(bench.bbr.bounds.inflight_shortterm, INFINITE);
    assert!(!bench.states.contains(&State::Refill), "{:?}", bench.states);
}

#[test]
fn losses_do_not_refute_what_the_rounds_before_have_delivered() {
    let mut recent = super::filters::RecentRounds::default();
    for (bw, inflight) in [(9, 1), (3, 20), (5, 10)] {
        recent.add(bw, inflight);
    }
    assert_eq!(recent.most(), (5, 20), "of the last two rounds");
}

#[test]
fn a_bound_on_the_queue_ends_probes_sooner() {
    let longest = |bound| {
        let mut bench = Bench::new();
        bench.bbr.set_queue_bound(bound);
        bench.run(secs(3));
        let mut longest = Duration::ZERO;
        for _ in 0..20_000 {
            bench.step();
            longest = longest.max(bench.free_at.since(bench.now));
        }
        longest
    };
    let (bounded, free) = (longest(Duration::from_millis(10)), longest(Duration::ZERO));
    assert!(bounded < Duration::from_millis(14), "{bounded:?}");
    assert!(free > Duration::from_millis(15), "{free:?}");
}

/// As [`Bench::cruising`], with a bound of 10 ms on the queue, and Cruise has just begun.
fn bounded() -> Bench {
    let mut bench = Bench::cruising();
    bench.bbr.set_queue_bound(Duration::from_millis(10));
    bench.run_until(secs(4), |bench| bench.bbr.state == State::Up);
    bench.run_until(secs(1), |bench| bench.bbr.state == State::Cruise);
    bench
}

#[test]
fn a_queue_that_others_make_during_cruise_lowers_the_rate_for_some_rounds_only() {
    let mut bench = bounded();
    let most = bench.bbr.max_bw.get();
    // Whatever leaves waits behind 8 ms of theirs.
    bench.rtt = RTT + Duration::from_millis(8);
    bench.run_until(secs(1), |bench| bench.bbr.bounds.bw_shortterm < INFINITE);
    let goodput = bench.goodput(RTT * 12);
    assert_eq!((bench.bbr.state, bench.bbr.bw), (State::Cruise, most));
    assert!(goodput > scaled(RATE, 90), "{goodput} of {RATE}");
}

#[test]
fn a_path_that_becomes_slower_during_cruise_is_followed_until_the_queue_is_short() {
    let mut bench = bounded();
    bench.rate = RATE * 6 / 10;
    bench.run(RTT * 3);
    let longest = bench.free_at.since(bench.now);
    bench.run_until(secs(1), |bench| bench.bbr.bw < bench.rate);
    bench.run_until(secs(1), |bench| bench.free_at.since(bench.now) < RTT / 4);
    assert_eq!(bench.bbr.state, State::Cruise);
    assert!(longest > RTT / 2, "{longest:?}");
}

#[test]
fn a_queue_is_known_to_be_short_after_probe_rtt() {
    let mut bench = Bench::cruising();
    bench.bbr.set_queue_bound(Duration::from_millis(10));
    bench.rtt = RTT * 3 / 2;
    bench.run_until(secs(7), |bench| bench.bbr.state == State::ProbeRtt);
    // Others have left the path meanwhile.
    bench.rtt = RTT;
    bench.run_until(secs(1), |bench| bench.bbr.state == State::Cruise);
    bench.rtt = RTT + Duration::from_millis(8);
    bench.states.clear();
    bench.run_until(RTT * 10, |bench| bench.bbr.bounds.bw_shortterm < INFINITE);
    assert_eq!(bench.states, [State::Cruise]);
}

#[test]
fn what_an_application_has_to_send_during_cruise_does_not_bound_the_rate() {
    let mut bench = bounded();
    bench.rtt = RTT + Duration::from_millis(8);
    for _ in 0..60 {
        bench.hungry = true;
        bench.run(Duration::from_millis(4));
        bench.bbr.on_starved(bench.now);
        bench.run(Duration::from_millis(2));
        bench.hungry = false;
        bench.step();
        assert_eq!(bench.bbr.bounds.bw_shortterm, INFINITE, "{:?}", bench.bbr.state);
    }
}

#[test]
fn where_the_queue_runs_empty_no_probe_rtt_is_needed() {
    let mut bench = Bench::new();
    bench.run(secs(20));
    assert!(!bench.states.contains(&State::ProbeRtt), "{:?}", bench.states);
}

#[test]
fn a_probe_that_losses_have_ended_begins_again_if_they_were_none() {
    let mut bench = Bench::cruising();
    bench.run_until(secs(3), |bench| bench.bbr.state == State::Up);
    bench.run(RTT);
    let lost: Vec<u64> = bench.under_way.iter().take(10).map(|packet| packet.number).collect();
    for number in &lost {
        bench.bbr.on_chunk_lost(bench.now, *number, P, &bench.window);
    }
    assert_eq!(bench.bbr.state, State::Down);
    assert!(bench.bbr.bounds.inflight_longterm < INFINITE);
    for _ in &lost {
        assert_eq!(bench.bbr.state, State::Down);
        bench.bbr.on_spurious(&mut bench.window);
    }
    assert_eq!(bench.bbr.state, State::Refill);
    assert_eq!(bench.bbr.bounds.inflight_longterm, INFINITE);
}

#[test]
fn a_mark_ends_startup_and_probes() {
    let mut bench = Bench::new();
    bench.run(RTT * 4);
    assert_eq!(bench.bbr.state, State::Startup);
    bench.bbr.on_marked(bench.now, bench.flight as u64, &bench.window);
    bench.run(RTT);
    assert!(bench.bbr.state != State::Startup && bench.bbr.bounds.inflight_longterm < INFINITE);
    let mut bench = Bench::cruising();
    bench.run_until(secs(3), |bench| bench.bbr.state == State::Up);
    bench.bbr.on_marked(bench.now, bench.flight as u64, &bench.window);
    assert_eq!(bench.bbr.state, State::Down);
    assert!(bench.bbr.bounds.inflight_longterm <= bench.flight.max(8 * P) as u64);
}
