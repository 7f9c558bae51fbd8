//! Random users on a random network, against the model.

use crate::model::{Step, World};
use manypath_flow::{FlowConfig, INITIAL_CREDIT};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

fn step() -> impl Strategy<Value = Step> {
    let pick = || any::<usize>();
    prop_oneof![
        3 => Just(Step::Open),
        4 => pick().prop_map(|pick| Step::Accept { pick }),
        1 => pick().prop_map(|pick| Step::Refuse { pick }),
        6 => (pick(), prop_oneof![1..100_u64, 1..300_000_u64])
            .prop_map(|(pick, len)| Step::Write { pick, len }),
        6 => (pick(), 1..40_usize).prop_map(|(pick, times)| Step::Read { pick, times }),
        6 => (pick(), 0..=4_u64).prop_map(|(pick, part)| Step::Consume { pick, part }),
        2 => pick().prop_map(|pick| Step::Finish { pick }),
        1 => pick().prop_map(|pick| Step::Reset { pick }),
        12 => (1..80_usize, prop_oneof![1..20_usize, 500..9000_usize])
            .prop_map(|(messages, fragment)| Step::Send { messages, fragment }),
        12 => (pick(), 1..120_usize)
            .prop_map(|(pick, messages)| Step::Deliver { pick, messages }),
        6 => (1..20_usize).prop_map(|most| Step::Events { most }),
        2 => (pick(), 1..30_usize).prop_map(|(pick, rounds)| Step::Rush { pick, rounds }),
    ]
}

fn config() -> impl Strategy<Value = FlowConfig> {
    let windows = (0..2_u32, 0..4_u32);
    (windows, 2..40_u64, 15..18_u32, 1..6_usize, (0..7_usize, 3..7_usize)).prop_map(
        |((first, larger), budget, send, total, (first_windows, max_flows))| FlowConfig {
            first_window: INITIAL_CREDIT << first,
            max_window: INITIAL_CREDIT << (first + larger),
            receive_budget: u64::from(INITIAL_CREDIT) * budget,
            send_buffer: 1 << send,
            send_budget: total << 15,
            first_windows,
            max_flows,
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    (any::<bool>(), 1..5_u16, config())
        .prop_map(|(both, streams, config)| World::new(both, streams, config))
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a world of {} flows", self.flows.len())
    }
}

fn run(mut world: World, steps: Vec<(usize, Step)>) -> World {
    for (side, step) in steps {
        world.step(side, step);
    }
    world.conclude();
    world
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    proptest::collection::vec((0..2_usize, step()), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_byte_once_in_order_and_every_flow_ends(
        world in world(),
        steps in steps(),
    ) {
        run(world, steps);
    }
}

/// The property above is worth something only if its users get into every corner.
#[test]
fn random_users_reach_every_counted_case() {
    let mut runner = TestRunner::deterministic();
    let mut sums = BTreeMap::new();
    for _ in 0..600 {
        let case = (world(), steps()).new_tree(&mut runner).unwrap();
        let (world, steps) = case.current();
        let world = run(world, steps);
        for (name, count) in world.muxes.iter().flat_map(|mux| mux.counters().entries()) {
            *sums.entry(name).or_insert(0) += count;
        }
    }
    let by_no_peer_of_ours = ["protocol_errors", "ignored_messages", "without_stream"];
    let missed: Vec<_> =
        sums.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    assert!(missed.iter().all(|name| by_no_peer_of_ours.contains(name)), "{sums:?}");
    println!("{sums:#?}");
}
