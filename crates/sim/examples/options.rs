//! What single options of the production profile do with small buffers.
//!
//! ```text
//! cargo run --release -p manypath-sim --example options [SECONDS [SEEDS]]
//! ```
//!
//! Two paths of 20 Mbit/s 10 ms and 10 Mbit/s 40 ms, without loss and with 0.5 % of it, one stream
//! that is always full. Goodput in Mbit/s, the mean of the seeds; below it the mean delay of a
//! message in ms.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the run")]

use manypath_engine::{Config, Experiment, NrSack, RetransmissionPolicy, SackPath};
use manypath_sim::scenario::{Plan, Scenario};
use manypath_sim::simulation::{RunOptions, run};

const BUFFERS_KIB: [u32; 5] = [64, 128, 192, 256, 8192];

fn but(mut config: Config, change: impl FnOnce(&mut Experiment)) -> Config {
    change(&mut config.experiment);
    config
}

fn variants() -> Vec<(&'static str, Config)> {
    let production = Config::production;
    let nr = |nr_sack| Config { nr_sack, ..production() };
    let split =
        |name: &str, nr_sack| but(nr(nr_sack), |it| it.buffer_split = name.parse().unwrap());
    let proportional = |nr_sack| split("both-queued-proportional", nr_sack);
    let (off, case_2, case_3) = (NrSack::Off, NrSack::Case2, NrSack::Case3);
    vec![
        ("production", production()),
        ("plain SACK, not split", split("none", off)),
        ("NR-SACK case 2, not split", split("none", case_2)),
        ("NR-SACK case 3, not split", split("none", case_3)),
        ("plain SACK, split proportional", proportional(off)),
        ("case 2, split proportional", proportional(case_2)),
        ("case 3, split proportional", proportional(case_3)),
        ("case 2, split equal", split("both-queued-equal", case_2)),
        ("rescheduling", but(production(), |it| it.rescheduling_percent = 50)),
        ("DAC", but(production(), |it| it.delayed_ack_cmt = true)),
        ("SACK by smallest srtt", but(production(), |it| it.sack_path = SackPath::SmallestSrtt)),
        (
            "T3 by ssthresh",
            but(production(), |it| {
                it.timeout_retransmission_policy = RetransmissionPolicy::Ssthresh;
            }),
        ),
    ]
}

fn scenario(loss: &str, seconds: u64) -> Scenario {
    let text = format!(
        "name = \"options\"\nwarmup = \"5s\"\nmeasure = \"{seconds}s\"\n\
         [[path]]\nname = \"A\"\nrate = \"20mbit\"\ndelay = \"10ms\"\nloss = \"{loss}\"\n\
         [[path]]\nname = \"B\"\nrate = \"10mbit\"\ndelay = \"40ms\"\nloss = \"{loss}\"\n\
         [[app]]\nkind = \"saturated\"\nstreams = 1\nmessage = 1444\n"
    );
    let plan = Plan::parse(&text, "options.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    plan.runs[0].scenario.clone()
}

/// Goodput and delay.
fn mean(scenario: &Scenario, config: &Config, kib: u32, seeds: u64) -> (f64, f64) {
    let buffer = kib << 10;
    let config = Config { send_buffer: buffer, receive_buffer: buffer, ..config.clone() };
    let scenario = Scenario { config, ..scenario.clone() };
    let (mut mbps, mut delay) = (0.0, 0.0);
    for seed in 1..=seeds {
        let outcome = run(&scenario, seed, RunOptions::default());
        mbps += outcome.figure("throughput_mbps").unwrap() / seeds as f64;
        delay += outcome.figure("delay_ms").unwrap() / seeds as f64;
    }
    (mbps, delay)
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let (seconds, seeds) = (arguments.next().unwrap_or(60), arguments.next().unwrap_or(4));
    for loss in ["0%", "0.5%"] {
        println!("loss {loss}; buffers of {BUFFERS_KIB:?} KiB:");
        let scenario = scenario(loss, seconds);
        for (name, config) in variants() {
            let of = BUFFERS_KIB.map(|kib| mean(&scenario, &config, kib, seeds));
            let goodput = of.map(|(mbps, _)| format!("{mbps:6.2}")).join(" ");
            let delay = of.map(|(_, delay)| format!("{delay:5.0}")).join(" ");
            println!("  {name:32} {goodput} Mbit/s   {delay} ms");
        }
    }
}
