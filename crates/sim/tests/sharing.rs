//! Paths that share a bottleneck and paths that do not, drawn by a seed: which are found, and what a flow beside
//! them keeps.
//!
//! ```text
//!   shared      client ══╗                  ╔══ server      disjoint    client ── bottleneck ══╗
//!                        ╠══ bottleneck ════╣                           client ── bottleneck ══╬══ server
//!               other  ──╝                  ╚── its server              other  ── (the first) ─╝
//! ```

use crate::support;

use manypath_engine::{Config, CongestionControl, Duration, Instant, SharedBottleneck};
use manypath_sim::world::LinkNumber;
use manypath_sim::{LinkConfig, Rng, World};
use support::flow::Flow;
use support::link;

const WARM_UP: u64 = 15;
const SECONDS: u64 = 25;
/// Packets of other hosts and the wake-ups of this one: no two runs of a network are alike.
const JITTER: Duration = Duration::from_micros(200);

/// Whether a path gives way to another one.
fn gives_way(flow: &Flow, world: &mut World) -> bool {
    let now = world.now();
    let status = world.endpoint(flow.hosts[0]).status(now, flow.client).unwrap();
    status.paths.iter().any(|path| path.gives_way_to.is_some())
}

/// Goodputs in Mbit/s while measuring, and whether a path of the first flow gives way in the end.
fn goodputs(world: &mut World, mut flows: Vec<Flow>) -> (Vec<f64>, bool) {
    let mut run_until = |end: u64| -> Vec<usize> {
        world.run(Instant::ZERO + Duration::from_secs(end), |world| {
            flows.iter_mut().for_each(|flow| flow.step(world));
            false
        });
        flows.iter().map(|flow| flow.received).collect()
    };
    let (before, after) = (run_until(WARM_UP), run_until(WARM_UP + SECONDS));
    let gives_way = gives_way(&flows[0], world);
    let rate = |(before, after)| (after - before) as f64 * 8.0 / SECONDS as f64 / 1e6;
    (before.into_iter().zip(after).map(rate).collect(), gives_way)
}

/// A bottleneck of 5 to 100 Mbit/s and 2 to 50 ms with a queue of half a product to four, and what the ways of three
/// paths to it take.
#[derive(Debug)]
struct Drawn {
    mbps: u64,
    delay: u64,
    queue: usize,
    ways: [u64; 3],
}

impl Drawn {
    fn new(rng: &mut Rng) -> Self {
        let mut between =
            |least: f64, times: f64| least * times.powf(rng.below(1001) as f64 / 1000.0);
        let (mbps, delay) = (between(5.0, 20.0), between(2.0, 25.0));
        let queue = mbps * (2.0 * delay + 15.0) / 12.0 * between(0.5, 8.0);
        let ways = [0; 3].map(|_| rng.below(20));
        Self { mbps: mbps as u64, delay: delay as u64, queue: queue.max(20.0) as usize, ways }
    }

    fn bottleneck(&self, world: &mut World) -> Option<LinkNumber> {
        Some(world.add_link(link(self.mbps, self.delay, self.queue)))
    }

    fn way(&self, number: u8, mbps: u64) -> LinkConfig {
        LinkConfig { jitter: JITTER, ..link(mbps, self.ways[usize::from(number)], 1000) }
    }

    /// Two paths and another flow with one, through one bottleneck or, the second path, another.
    fn meet(&self, config: &Config, is_shared: bool) -> (Vec<f64>, bool) {
        let mut world = World::new(1);
        let first = self.bottleneck(&mut world);
        let second = if is_shared { first } else { self.bottleneck(&mut world) };
        let way = |number, bottleneck| (number, self.way(number, 1000), bottleneck);
        let flows = vec![
            Flow::new(&mut world, &[way(0, first), way(1, second)], config),
            Flow::new(&mut world, &[way(2, first)], config),
        ];
        goodputs(&mut world, flows)
    }
}

fn production(congestion: CongestionControl, shared_bottleneck: SharedBottleneck) -> Config {
    Config { congestion, shared_bottleneck, ..Config::production() }
}

/// Mean of ratios.
fn geometric(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// So many set-ups: more of them with `MANYPATH_CASES`, other ones with `MANYPATH_SEED`.
fn drawn(count: u64) -> impl Iterator<Item = Drawn> {
    let read = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let count = read("MANYPATH_CASES").map_or(count, |cases: u64| cases.clamp(count, 24));
    let mut rng = Rng::new(read("MANYPATH_SEED").unwrap_or(1));
    (0..count).map(move |_| Drawn::new(&mut rng))
}

#[test]
fn paths_behind_one_bottleneck_are_found_and_leave_another_flow_its_part() {
    let control = CongestionControl::Bbr;
    let (mut ignored, mut detected, mut missed) = (Vec::new(), Vec::new(), 0);
    for drawn in drawn(6) {
        let ratio = |what| {
            let (rates, gives_way) = drawn.meet(&production(control, what), true);
            (rates[0] / rates[1], (rates[0] + rates[1]) / drawn.mbps as f64, gives_way)
        };
        let (before, _, gave_way) = ratio(SharedBottleneck::Ignore);
        let (after, used, gives_way) = ratio(SharedBottleneck::Detect);
        println!("two paths to one flow: {before:.2} -> {after:.2}, used {used:.2}: {drawn:?}");
        assert!(!gave_way, "{drawn:?}");
        missed += usize::from(!gives_way);
        assert!(used > 0.9, "{used} {drawn:?}");
        ignored.push(before);
        detected.push(after);
    }
    let (before, after) = (geometric(&ignored), geometric(&detected));
    println!("geometric means: {before:.2} -> {after:.2}; {missed} not found");
    // Where a short queue drops many of the HEARTBEATs, few pairs are left to compare.
    assert!(missed * 6 <= ignored.len(), "{missed}");
    // Which flow of two gets more over a queue depends on their round trips.
    assert!(before > 1.5 && after < 0.85 * before, "{before} {after}");
}

#[test]
fn paths_with_bottlenecks_of_their_own_are_used_as_before() {
    let control = CongestionControl::Bbr;
    let mut ratios = Vec::new();
    for drawn in drawn(3) {
        let total = |what| {
            let (rates, gives_way) = drawn.meet(&production(control, what), false);
            assert!(!gives_way, "{drawn:?}");
            rates[0]
        };
        let ratio = total(SharedBottleneck::Detect) / total(SharedBottleneck::Ignore);
        println!("to what it is without detection: {ratio:.3} {drawn:?}");
        ratios.push(ratio);
    }
    // The other flow's share of the first bottleneck varies from run to run.
    assert!(geometric(&ratios) > 0.97 && ratios.iter().all(|ratio| *ratio > 0.9), "{ratios:?}");
}

#[test]
fn a_bottleneck_that_one_path_cannot_fill_is_filled_by_both() {
    for drawn in drawn(3) {
        let total = |what| {
            let mut world = World::new(1);
            let bottleneck = drawn.bottleneck(&mut world);
            let own = |number| (number, drawn.way(number, drawn.mbps.div_ceil(3) * 2), bottleneck);
            let config = production(CongestionControl::Bbr, what);
            let flow = Flow::new(&mut world, &[own(0), own(1)], &config);
            let (rates, gives_way) = goodputs(&mut world, vec![flow]);
            (rates[0] / drawn.mbps as f64, gives_way)
        };
        let (before, (after, gives_way)) =
            (total(SharedBottleneck::Ignore).0, total(SharedBottleneck::Detect));
        println!("link used {before:.2} -> {after:.2}, gives way {gives_way}: {drawn:?}");
        assert!(after > 0.9 * before, "{before} {after} {drawn:?}");
    }
}

#[test]
fn a_path_that_gave_way_to_one_that_fails_is_a_path_as_others() {
    let mut world = World::new(1);
    let bottleneck = Some(world.add_link(link(20, 10, 100)));
    let way = |number| (number, LinkConfig { jitter: JITTER, ..link(1000, 5, 1000) }, bottleneck);
    let config = production(CongestionControl::Bbr, SharedBottleneck::Detect);
    let mut flow = Flow::new(&mut world, &[way(0), way(1)], &config);
    let run_until = |world: &mut World, flow: &mut Flow, end| {
        world.run(Instant::ZERO + Duration::from_secs(end), |world| {
            flow.step(world);
            false
        });
    };
    run_until(&mut world, &mut flow, 15);
    let now = world.now();
    let paths = world.endpoint(flow.hosts[0]).status(now, flow.client).unwrap().paths;
    let leaders: Vec<_> = paths.iter().filter_map(|path| path.gives_way_to).collect();
    assert_eq!(leaders.len(), 1, "{paths:?}");
    let leader = paths.iter().position(|path| path.id == leaders[0]).unwrap();
    world.set_device(flow.hosts[0], flow.paths[leader], false);
    run_until(&mut world, &mut flow, 20);
    assert!(!gives_way(&flow, &mut world));
}
