use super::super::testing::{P, acked, avoiding};
use super::super::{Acked, Congestion, Group};
use super::{Backlog, SAMPLES};
use crate::config::CongestionControl;
use crate::time::{Duration, Instant};

/// The path carries two chunks per millisecond, and a round trip takes this if nothing waits.
const BASE: u64 = 40;
const PRODUCT: usize = 2 * BASE as usize;

/// A path and its clock.
struct Bench {
    control: Congestion,
    now: Instant,
    sent: u64,
}

impl Bench {
    fn new(chunks: usize) -> Self {
        let mut control = avoiding(CongestionControl::Rfc9260, chunks * P);
        control.backlog = Some(alloc::boxed::Box::new(Backlog::new(Duration::from_millis(10))));
        Self { control, now: Instant::ZERO, sent: 0 }
    }

    fn starting(chunks: usize) -> Self {
        let mut bench = Self::new(chunks);
        bench.control.window.ssthresh = usize::MAX;
        bench
    }

    /// So many chunks were acknowledged at once.
    fn has_carried(&mut self, chunks: usize) {
        let span = Duration::from_millis(BASE);
        let backlog = self.control.backlog.as_mut().unwrap();
        backlog.overshoot.on_acked(self.now, chunks * P, span);
    }

    fn window(&self) -> usize {
        self.control.window() / P
    }

    fn backlog(&self) -> &Backlog {
        self.control.backlog.as_ref().unwrap()
    }

    fn is_bound(&self) -> bool {
        self.backlog().is_bound(self.now)
    }

    /// A round trip that takes so many milliseconds.
    fn round(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        let end = self.backlog().round.end;
        self.sent += self.control.window() as u64 / P as u64;
        let rtt = Some(Duration::from_millis(millis));
        let ack = Acked { rtt, sent: self.sent, now: self.now, ..acked(P) };
        for _ in 0..=SAMPLES {
            self.control.on_acked(&Acked { newest: None, ..ack }, &Group::default());
        }
        self.control.on_acked(&Acked { newest: Some(end), ..ack }, &Group::default());
    }

    /// Rounds in which `others` chunks of somebody else are under way as well. What is acknowledged left
    /// under the window of the round before.
    fn run(&mut self, rounds: usize, base: u64, others: usize) {
        let mut flight = self.window();
        for _ in 0..rounds {
            let window = self.window();
            self.round(base.max((flight + others) as u64 / 2));
            flight = window;
        }
    }
}

#[test]
fn a_queue_of_our_own_is_cut_to_the_goal() {
    let mut bench = Bench::new(PRODUCT / 2);
    bench.run(2, BASE, 0);
    bench.control.window.cwnd = 5 * PRODUCT * P;
    bench.run(12, BASE, 0);
    assert!((PRODUCT..PRODUCT + 24).contains(&bench.window()), "{}", bench.window());
    assert!(bench.is_bound());
}

#[test]
fn a_window_that_grows_stays_within_the_goal_and_above_the_product() {
    let mut bench = Bench::new(PRODUCT);
    bench.run(2, BASE, 0);
    for _ in 0..200 {
        bench.run(1, BASE, 0);
        assert!((PRODUCT..=PRODUCT + 24).contains(&bench.window()), "{}", bench.window());
    }
}

#[test]
fn a_queue_that_cuts_do_not_shorten_is_somebody_elses() {
    let mut bench = Bench::new(PRODUCT);
    bench.run(2, BASE, 0);
    let before = bench.window();
    bench.run(8, BASE, 100);
    assert!(!bench.is_bound());
    assert!(bench.window() >= before, "{}", bench.window());
}

#[test]
fn trials_in_vain_become_rare_and_a_queue_that_is_gone_ends_the_truce() {
    let mut bench = Bench::new(PRODUCT);
    bench.run(2, BASE, 0);
    let mut truces = 0;
    let begun = bench.now;
    while bench.now.since(begun) < Duration::from_secs(22) {
        let bound = bench.is_bound();
        bench.control.window.cwnd = bench.control.window.cwnd.min(PRODUCT * P);
        bench.run(1, BASE, 100);
        truces += u32::from(bound && !bench.is_bound());
    }
    // 5, 10 and 20 s.
    assert_eq!(truces, 3);
    bench.control.window.cwnd = PRODUCT * P / 2;
    bench.run(10, BASE, 0);
    assert!(bench.backlog().truce.is_none());
}

#[test]
fn a_longer_route_is_no_queue() {
    let mut bench = Bench::new(PRODUCT);
    bench.run(2, BASE, 0);
    bench.run(20, 3 * BASE, 0);
    assert_eq!(bench.backlog().base.get(), Duration::from_millis(3 * BASE));
    assert!(bench.is_bound());
    assert!(bench.window() >= PRODUCT, "{}", bench.window());
}

#[test]
fn the_queue_is_emptied_now_and_then_to_see_what_a_round_trip_takes() {
    let mut bench = Bench::new(PRODUCT);
    bench.run(1, BASE, 0);
    let (mut least, mut most) = (usize::MAX, 0);
    for _ in 0..3000 {
        bench.run(1, BASE, 0);
        least = least.min(bench.window());
        most = most.max(bench.window());
    }
    assert_eq!(bench.backlog().base.get(), Duration::from_millis(BASE));
    assert!(least < PRODUCT, "{least}");
    assert!(most <= PRODUCT + 24, "{most}");
}

#[test]
fn slow_start_pauses_when_something_waits_and_goes_on_if_that_passes() {
    let mut bench = Bench::starting(PRODUCT);
    bench.has_carried(2 * PRODUCT);
    bench.run(2, BASE, 0);
    let before = bench.window();
    let grown = |bench: &mut Bench, millis: u64| {
        let rtt = Some(Duration::from_millis(millis));
        let ack = Acked { rtt, newest: None, now: bench.now, ..acked(P) };
        let before = bench.window();
        (0..2 * SAMPLES).for_each(|_| bench.control.on_acked(&ack, &Group::default()));
        bench.window() - before
    };
    assert_eq!(grown(&mut bench, 60), SAMPLES as usize - 1);
    bench.round(BASE);
    assert!(bench.control.is_starting() && bench.window() >= before);
    assert_eq!(grown(&mut bench, BASE), 2 * SAMPLES as usize);
    bench.round(70);
    bench.round(70);
    assert!(bench.window() < before, "{}", bench.window());
}

#[test]
fn slow_start_goes_no_further_ahead_than_three_times_what_came_in_half_a_round_trip() {
    let mut bench = Bench::starting(PRODUCT);
    let rtt = Some(Duration::from_millis(BASE));
    for _ in 0..3 * BASE {
        bench.now = bench.now + Duration::from_millis(1);
        // At the rate of the path.
        for _ in 0..2 {
            let ack = Acked { rtt, now: bench.now, ..acked(P) };
            bench.control.on_acked(&ack, &Group::default());
        }
    }
    assert_eq!(bench.window(), 3 * PRODUCT / 2);
}

#[test]
fn a_few_chunks_that_wait_are_no_queue() {
    // One chunk takes 40 ms.
    let mut bench = Bench::new(8);
    for millis in [100, 150, 150, 160, 160] {
        bench.round(millis);
        bench.control.window.cwnd = 6 * P;
    }
    assert!(bench.window() >= 6, "{}", bench.window());
    assert!(bench.backlog().trial.is_none());
}

#[test]
fn after_a_loss_the_bound_waits_for_what_the_cut_has_changed() {
    let mut bench = Bench::new(2 * PRODUCT);
    bench.round(BASE);
    bench.control.on_loss(&Group::default());
    let after = bench.window();
    bench.round(80);
    assert!(bench.window() >= after, "{}", bench.window());
    bench.round(80);
    assert!(bench.window() < after, "{}", bench.window());
}
