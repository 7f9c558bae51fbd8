//! What theory says about buffers, delays and rates (Equations 1 to 4 of the notes on CMT), as
//! properties of random networks without loss: profile `paper`, round robin, two to four paths.
//!
//! * Equation 2: the least buffer of the fixed mapping, `n * max rho * (delta + delta_r)`. Round robin
//!   needs more; the cases here have a multiple of it, so that they are above every knee.
//! * Equation 3: round robin without NR-SACK, buffers split equally by what is queued, runs all paths at
//!   the rate of the slowest: `R = c * n * min rho`.
//! * Equation 4: a full buffer is what the rate carries in the time that a message spends in it
//!   (Little): `delay = 8 * sigma / R - delta_r`, from generation to delivery; `delta_r` is how long the
//!   acknowledgement takes that frees its place.

use manypath_sim::Rng;
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};

/// User data of a full packet in what it occupies on a link: 20 + 12 + 16 bytes of headers, 7 of PPP.
const PAYLOAD_SHARE: f64 = 1452.0 / 1507.0;

/// A random network.
#[derive(Debug)]
struct Case {
    /// Mbit/s and ms of each path.
    paths: Vec<(u64, u64)>,
    /// Bytes of each buffer.
    sigma: u64,
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let count = 2 + rng.below(3);
        let paths: Vec<_> = (0..count).map(|_| (2 + rng.below(9), 5 + rng.below(56))).collect();
        let longest = paths.iter().map(|(_, ms)| *ms).max().unwrap();
        // Twice to three times Equation 2, whichever path acknowledgements take.
        let needs = paths.iter().map(|(mbps, ms)| mbps * 125 * (ms + longest)).max().unwrap();
        let sigma = count * needs * (20 + rng.below(11)) / 10;
        Self { paths, sigma: sigma.max(count * 40_000) }
    }

    fn min_rate(&self) -> f64 {
        self.paths.iter().map(|(mbps, _)| *mbps as f64).fold(f64::INFINITY, f64::min)
    }

    fn simulate(&self, nr_sack: bool, seed: u64) -> Outcome {
        let nr_sack = if nr_sack { "case-2" } else { "off" };
        let mut text = format!(
            "name = \"theory\"\nwarmup = \"15s\"\nmeasure = \"20s\"\nudp = false\n\
             [engine]\nprofile = \"paper\"\nbuffer = {}\nnr_sack = \"{nr_sack}\"\n",
            self.sigma
        );
        for (number, (mbps, ms)) in self.paths.iter().enumerate() {
            // Queues that hold a whole buffer: nothing is lost.
            text += &format!(
                "[[path]]\nname = \"P{number}\"\nrate = \"{mbps}mbit\"\ndelay = \"{ms}ms\"\n\
                 queue = 4000\nframing = 7\n\
                 access = {{ rate = \"1gbit\", delay = \"0.4ms\", jitter = \"200us\" }}\n"
            );
        }
        let streams = self.paths.len();
        text += &format!("[[app]]\nkind = \"saturated\"\nstreams = {streams}\nmessage = 1452\n");
        let plan = Plan::parse(&text, "theory.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
        let outcome = run(&plan.runs[0].scenario, seed, RunOptions::default());
        for number in 0..streams {
            assert_eq!(outcome.figure(&format!("P{number}_dropped_queue")), Some(0.0), "{self:?}");
        }
        outcome
    }
}

fn cases(count: u64) -> impl Iterator<Item = (u64, Case)> {
    let mut rng = Rng::new(2010);
    (1..=count).map(move |seed| (seed, Case::random(&mut rng)))
}

#[test]
fn equation_3_round_robin_runs_all_paths_at_the_rate_of_the_slowest() {
    for (seed, case) in cases(16) {
        let ours = case.simulate(false, seed).figure("throughput_mbps").unwrap();
        let theory = PAYLOAD_SHARE * case.paths.len() as f64 * case.min_rate();
        println!("{case:?}: {ours:.2}, by Equation 3 {theory:.2} Mbit/s");
        assert!((ours / theory - 1.0).abs() < 0.03, "{case:?}: {ours} {theory}");
    }
}

#[test]
fn equation_4_the_delay_is_the_buffer_at_the_rate_less_the_way_of_the_acknowledgement() {
    for (seed, case) in cases(16) {
        let outcome = case.simulate(true, seed);
        let (rate, delay) =
            (outcome.figure("throughput_mbps").unwrap(), outcome.figure("delay_ms").unwrap());
        let full = 8.0 * case.sigma as f64 / (rate * 1e3);
        let ways = || case.paths.iter().map(|(_, ms)| *ms as f64);
        let (nearest, farthest) =
            (ways().fold(f64::INFINITY, f64::min), ways().fold(0.0, f64::max));
        println!("{case:?}: {delay:.1} ms, full buffer {full:.1} ms");
        // SACKs wait for a second packet.
        let slack = 0.03 * full + 5.0;
        assert!(delay <= full - nearest + slack, "{case:?}: {delay} {full}");
        assert!(delay >= full - farthest - slack, "{case:?}: {delay} {full}");
    }
}
