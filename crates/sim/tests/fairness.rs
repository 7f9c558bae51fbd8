//! Who is fair to one TCP-like flow: an association with two paths and a flow with one path meet at
//! a common bottleneck.
//!
//! ```text
//!   multipath client ══╗                  ╔══ multipath server
//!                      ╠══ bottleneck ════╣
//!   single client   ───╝                  ╚── single server
//! ```

use crate::support;

use manypath_engine::{Config, CongestionControl, Duration, EcnUse, Instant, SharedBottleneck};
use manypath_sim::world::LinkNumber;
use manypath_sim::{LinkConfig, RedConfig, World};
use support::flow::Flow;
use support::link;

const MBPS: u64 = 10;
const WARM_UP: u64 = 20;
const SECONDS: u64 = 60;
const SEEDS: u64 = 2;

/// Without it every packet takes the place of one that has just left the queue, and only a flow that
/// widens its window finds the queue full. Losses then come in proportion to growth, not to rates,
/// and who grows slowly gets more (phase effects: Floyd, Jacobson: "On Traffic Phase Effects in
/// Packet-Switched Gateways", 1992): with 0.2 ms of jitter LIA has 1.7 times the goodput of the
/// single flow, OLIA 1.5, CUBIC 3.4 times; the others do not change much.
const JITTER: Duration = Duration::from_millis(5);

/// A transfer over the paths with these numbers, all of them through `bottleneck`.
fn flow(world: &mut World, paths: &[u8], config: &Config, bottleneck: LinkNumber) -> Flow {
    let way = |number: &u8| {
        let access = LinkConfig { jitter: JITTER, ..link(1000, 0, 1000) };
        (*number, access, Some(bottleneck))
    };
    Flow::new(world, &paths.iter().map(way).collect::<Vec<_>>(), config)
}

/// The rules of the algorithms alone; what the bound on the queue does to them is in latency.rs.
fn by_the_rules(congestion: &str) -> Config {
    let congestion = congestion.parse().unwrap();
    let shared_bottleneck = SharedBottleneck::Ignore;
    Config { congestion, queue_bound: Duration::ZERO, shared_bottleneck, ..Config::default() }
}

/// Goodput in Mbit/s of a multipath association with `congestion` and of a flow of RFC 9260.
fn meet(congestion: &str, seed: u64) -> [f64; 2] {
    let mut world = World::new(seed);
    let bottleneck = world.add_link(link(MBPS, 5, 50));
    let flows = [
        flow(&mut world, &[0, 1], &by_the_rules(congestion), bottleneck),
        flow(&mut world, &[2], &by_the_rules("rfc9260"), bottleneck),
    ];
    goodputs(&mut world, flows)
}

/// In Mbit/s.
fn goodputs(world: &mut World, mut flows: [Flow; 2]) -> [f64; 2] {
    let [before, after] = [WARM_UP, WARM_UP + SECONDS].map(|end| {
        world.run(Instant::ZERO + Duration::from_secs(end), |world| {
            flows.iter_mut().for_each(|flow| flow.step(world));
            false
        });
        [flows[0].received, flows[1].received]
    });
    [0, 1].map(|flow| (after[flow] - before[flow]) as f64 * 8.0 / SECONDS as f64 / 1e6)
}

/// How many times the goodput of the single flow the multipath association gets.
fn advantage(congestion: &str) -> f64 {
    let (mut multi, mut single) = (0.0, 0.0);
    for seed in 1..=SEEDS {
        let goodputs = meet(congestion, seed);
        multi += goodputs[0] / SEEDS as f64;
        single += goodputs[1] / SEEDS as f64;
    }
    println!("{congestion:8} two paths {multi:5.2} Mbit/s, one flow {single:5.2} Mbit/s");
    let used = (multi + single) / MBPS as f64;
    assert!(used > 0.9, "{congestion} leaves the bottleneck idle: {used}");
    multi / single
}

#[test]
fn uncoupled_paths_take_the_part_of_two_flows() {
    for congestion in ["rfc9260", "cubic"] {
        let advantage = advantage(congestion);
        assert!(advantage > 1.75, "{congestion}: {advantage}");
    }
}

#[test]
fn coupled_paths_take_the_part_of_one_flow() {
    for congestion in ["rpv1", "rpv2", "lia", "olia"] {
        let advantage = advantage(congestion);
        assert!((0.8..1.25).contains(&advantage), "{congestion}: {advantage}");
    }
}

#[test]
fn a_flow_with_ecn_and_one_without_share_a_queue_that_marks_or_drops_early() {
    let red =
        RedConfig { least: 10, most: 40, probability_ppm: 50_000, weight_ppm: 20_000, marks: true };
    for congestion in [CongestionControl::Rfc9260, CongestionControl::Cubic] {
        let (mut marked, mut dropped) = (0.0, 0.0);
        for seed in 1..=SEEDS {
            let mut world = World::new(seed);
            let bottleneck = world.add_link(LinkConfig { red: Some(red), ..link(MBPS, 5, 200) });
            let config = |ecn| Config { congestion, ecn, ..Config::default() };
            let flows = [
                flow(&mut world, &[0], &config(EcnUse::On), bottleneck),
                flow(&mut world, &[1], &config(EcnUse::Off), bottleneck),
            ];
            let [one, other] = goodputs(&mut world, flows);
            (marked, dropped) = (marked + one, dropped + other);
        }
        println!("{congestion}: {:.2}", marked / dropped);
        assert!((0.75..1.35).contains(&(marked / dropped)), "{congestion}: {}", marked / dropped);
    }
}
