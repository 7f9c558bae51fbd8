//! Short messages where one path delivers packets in order, as TCP does, and holds up all that comes behind a loss.

use crate::pair::{Pair, Side, address, config, millis};
use manypath_engine::{AssociationId, Config, Instant};
use std::collections::VecDeque;

const BULK: u16 = 0;
const TALK: u16 = 1;
/// Milliseconds between two short messages, so that they meet the stalls at all times.
const PAUSE: u64 = 23;
/// Milliseconds until the paths are known, and how long is measured from then on.
const WARM_UP: u64 = 2000;
const MEASURED: u64 = 8000;

/// Bytes of bulk data that wait.
const BACKLOG: usize = 1 << 20;

/// A talks to Z over two paths, while bulk data goes the same way.
struct Talk {
    pair: Pair,
    id: AssociationId,
    with_bulk: bool,
    /// When short messages were sent that have not arrived.
    under_way: VecDeque<Instant>,
    /// How long the others took, in milliseconds.
    delays: Vec<u64>,
    /// Bytes of bulk data delivered.
    bulk: usize,
}

impl Talk {
    /// Two paths of 20 Mbit/s that take so many milliseconds. The first one stands still for 60 ms of each 100. `told`:
    /// its packets say that they were delivered in order.
    fn new(config: impl Fn(Side) -> Config, delays: [u64; 2], told: bool) -> Self {
        let mut pair = Pair::with(2, config(Side::A), config(Side::Z));
        pair.quiet = true;
        for (link, delay) in pair.links.values_mut().zip(delays) {
            (link.rate, link.queue, link.delay) = (20_000_000, millis(50), millis(delay));
        }
        let first = pair.links.get_mut(&1).unwrap();
        (first.stalls, first.in_order) = (Some((millis(100), millis(60))), told);
        let id = pair.connect();
        pair.drive(millis(500));
        let (under_way, delays) = (VecDeque::new(), Vec::new());
        Self { pair, id, with_bulk: true, under_way, delays, bulk: 0 }
    }

    fn run(mut self) -> Self {
        self.go_on(WARM_UP);
        (self.delays, self.bulk) = (Vec::new(), 0);
        self.go_on(MEASURED);
        self.delays.sort_unstable();
        self
    }

    fn go_on(&mut self, time: u64) {
        for milli in 0..time {
            self.send_bulk();
            if milli % PAUSE == 0 {
                self.pair.send(Side::A, self.id, TALK, &[7; 64]);
                self.under_way.push_back(self.pair.now);
            }
            self.pair.drive(millis(1));
            self.receive();
        }
    }

    fn send_bulk(&mut self) {
        while self.with_bulk && self.pair.a.endpoint.unsent(self.id) < BACKLOG {
            self.pair.send(Side::A, self.id, BULK, &[7; 1400]);
        }
    }

    fn receive(&mut self) {
        for (stream, payload) in std::mem::take(&mut self.pair.z.received) {
            if stream == BULK {
                self.bulk += payload.len();
            } else {
                let sent = self.under_way.pop_front().unwrap();
                self.delays.push(self.pair.now.since(sent).as_millis() as u64);
            }
        }
    }

    /// Median, 90th and 95th percentile in milliseconds.
    fn percentiles(&self) -> [u64; 3] {
        [50, 90, 95].map(|percent| self.delays[self.delays.len() * percent / 100])
    }

    fn mbps(&self) -> f64 {
        self.bulk as f64 * 8.0 / (MEASURED * 1000) as f64
    }
}

/// What a user sees with and without the rule: the same network that does not say how it delivers has none.
#[test]
fn short_messages_avoid_a_path_that_holds_packets_up() {
    let [without, with] = [false, true].map(|told| Talk::new(config, [10, 10], told).run());
    for (name, talk) in [("without", &without), ("with", &with)] {
        let (percentiles, mbps) = (talk.percentiles(), talk.mbps());
        println!("{name} the rule: {percentiles:?} ms (50, 90, 95 %), {mbps:.1} Mbit/s of bulk");
    }
    let ([median, p90, p95], [_, long, longest]) = (with.percentiles(), without.percentiles());
    assert!(long >= 60 && longest >= 60, "the path holds packets up");
    assert!(median <= 20 && p90 <= 35 && p95 <= 45, "{:?}", with.percentiles());
    assert!(with.mbps() > 0.95 * without.mbps(), "bulk data uses both paths");
}

/// A slower path delivers sooner than one that is fast at times.
#[test]
fn short_messages_alone_take_the_path_that_delivers_sooner() {
    let [without, with] = [false, true].map(|told| {
        let mut talk = Talk::new(config, [2, 40], told);
        talk.with_bulk = false;
        talk.run()
    });
    let longest = |talk: &Talk| talk.delays.last().copied().unwrap();
    println!("without: {:?}, with: {:?}", without.percentiles(), with.percentiles());
    assert!(longest(&without) >= 60 && longest(&with) <= 45);
}

/// Nothing leaves by a path whose socket is full, so it delivers no sooner than one that holds packets up.
#[test]
fn short_messages_do_not_wait_for_the_socket_of_another_path() {
    let mut talk = Talk::new(config, [2, 40], true);
    talk.with_bulk = false;
    talk.go_on(WARM_UP);
    talk.pair.drive(millis(300));
    talk.receive();
    assert!(talk.delays.iter().rev().take(20).all(|delay| *delay >= 40), "{:?}", talk.delays);
    let (now, other) = (talk.pair.now, address(Side::A, 2));
    talk.pair.a.endpoint.handle_backpressure(now, other, true);
    talk.delays.clear();
    talk.go_on(1000);
    talk.pair.drive(millis(100));
    talk.receive();
    assert!(talk.under_way.is_empty(), "{} messages wait", talk.under_way.len());
    let longest = talk.delays.iter().max();
    assert!(longest.is_some_and(|longest| *longest <= 2 + 60 + 1), "{:?}", talk.delays);
}

/// With its window closed the peer is probed over one path, whichever delivers sooner.
#[test]
fn a_closed_window_is_probed_over_a_path_that_holds_packets_up() {
    let small = |side| Config { receive_buffer: 8 << 10, ..config(side) };
    let mut talk = Talk::new(small, [2, 40], true);
    talk.with_bulk = false;
    talk.go_on(WARM_UP);
    talk.pair.drive(millis(300));
    talk.pair.z.received.clear();
    let (id, z) = (talk.id, talk.pair.z.endpoint.associations()[0]);
    talk.pair.z.reads = false;
    for _ in 0..12 {
        talk.pair.send(Side::A, id, TALK, &[7; 1000]);
        talk.pair.drive(millis(300));
    }
    assert!(talk.pair.a.endpoint.unsent(id) > 0, "the window is closed");
    talk.pair.z.reads = true;
    talk.pair.z.read_all(z);
    talk.pair.drive(millis(5000));
    assert_eq!(talk.pair.a.endpoint.unsent(id), 0);
    assert_eq!(talk.pair.z.received.len(), 12);
}
