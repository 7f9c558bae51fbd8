//! Path schedulers from files, beside the engine's.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{self, Outcome};

/// Where the modules lie, from here.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/schedulers/scenario.toml");

/// Two or three paths drawn by a seed, small buffers, and `choice` of a path scheduler.
fn scenario(seed: u64, choice: &str) -> String {
    let draw = |n: u64, from: u64, to: u64| {
        from + (seed * 31 + n).wrapping_mul(0x9E37_79B9_7F4A_7C15) % (to - from)
    };
    let paths = (0..2 + seed % 2).map(|path| {
        let (rate, delay) = (draw(path, 2, 60), draw(path + 10, 3, 90));
        format!("[[path]]\nname = \"{path}\"\nrate = \"{rate}mbit\"\ndelay = \"{delay}ms\"\nqueue = 60\n")
    });
    format!(
        "seeds = [{seed}]\nmeasure = \"3s\"\n{choice}\n{}[[app]]\nkind = \"saturated\"\nstreams = 1\nmessage = 1444\n\
         [engine]\nbuffer = \"{}KiB\"\n{}",
        paths.collect::<String>(),
        64 << (seed % 4),
        if choice.is_empty() { "path_scheduling = \"blest\"\n" } else { "" }
    )
}

fn run(text: &str) -> Outcome {
    let plan = Plan::parse(text, FOLDER, &[]).unwrap_or_else(|error| panic!("{error}"));
    let run = &plan.runs[0];
    simulation::run(&run.scenario, run.seed, simulation::RunOptions::default())
}

#[test]
fn blest_from_a_file_sends_the_packets_that_the_engines_own_sends() {
    let mut differs = 0;
    for seed in 1..9 {
        let own = run(&scenario(seed, ""));
        let from_file = run(&scenario(seed, "path_scheduler = \"blest.wasm\""));
        assert_eq!(from_file.failure, None);
        assert_eq!(own.trace_hash, from_file.trace_hash, "seed {seed}");
        assert!(from_file.figure("path_scheduler_instructions").unwrap() > 10.0);
        let fastest = scenario(seed, "").replace("\"blest\"", "\"smallest-srtt\"");
        differs += u32::from(run(&fastest).trace_hash != own.trace_hash);
    }
    assert!(differs >= 4, "BLEST decides something in {differs} of 8");
}

#[test]
fn the_learned_scheduler_decides_something() {
    for seed in 2..5 {
        let gate = run(&scenario(seed, "path_scheduler = \"gate.wasm\""));
        assert_eq!(gate.failure, None);
        let fastest = scenario(seed, "").replace("\"blest\"", "\"smallest-srtt\"");
        assert_ne!(run(&fastest).trace_hash, gate.trace_hash, "seed {seed}");
    }
}

#[test]
fn a_scheduler_that_is_not_there_is_told_with_the_line_that_names_it() {
    let text = scenario(1, "path_scheduler = \"none.wasm\"");
    let error = Plan::parse(&text, FOLDER, &[]).unwrap_err().to_string();
    assert!(error.contains("scenario.toml:3") && error.contains("path_scheduler"), "{error}");
    assert!(error.contains("none.wasm: No such file"), "{error}");
}
