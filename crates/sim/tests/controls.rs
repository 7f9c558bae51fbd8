//! Congestion controls from files, beside the engine's.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{self, Outcome};

/// Where the modules lie, from here.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/controls/scenario.toml");

/// Two or three paths drawn by a seed, with losses and marks, an application that pauses, and `choice` of a control.
fn scenario(seed: u64, choice: &str, congestion: &str) -> String {
    let draw = |n: u64, from: u64, to: u64| {
        from + (seed * 31 + n).wrapping_mul(0x9E37_79B9_7F4A_7C15) % (to - from)
    };
    let paths = (0..2 + seed % 2).map(|path| {
        let (rate, delay) = (draw(path, 2, 40), draw(path + 10, 3, 90));
        let lost = draw(path + 20, 0, 8);
        let marks = seed.is_multiple_of(3).then_some(
            "red = { least = 5, most = 15, probability = \"10%\", weight = \"0.2%\", marks = true }\n",
        );
        format!(
            "[[path]]\nname = \"{path}\"\nrate = \"{rate}mbit\"\ndelay = \"{delay}ms\"\nqueue = 40\nloss = \"0.{lost}%\"\n{}",
            marks.unwrap_or_default()
        )
    });
    let app = match seed % 2 {
        0 => "kind = \"on-off\"\nrate = \"30mbit\"\non = \"400ms\"\noff = \"1200ms\"",
        _ => "kind = \"saturated\"\nstreams = 1",
    };
    format!(
        "seeds = [{seed}]\nmeasure = \"4s\"\n{choice}\n{}[[app]]\n{app}\nmessage = 1444\n\
         [engine]\nhystart = false\nqueue_bound = \"0ms\"\ncongestion = \"{congestion}\"\n",
        paths.collect::<String>(),
    )
}

fn run_in(text: &str, folder: &str) -> Outcome {
    let plan = Plan::parse(text, folder, &[]).unwrap_or_else(|error| panic!("{error}"));
    let run = &plan.runs[0];
    simulation::run(&run.scenario, run.seed, simulation::RunOptions::default())
}

fn run(text: &str) -> Outcome {
    run_in(text, FOLDER)
}

#[test]
fn rfc9260_from_a_file_sends_the_packets_that_the_engines_own_sends() {
    let mut differs = 0;
    for seed in 1..9 {
        let own = run(&scenario(seed, "", "rfc9260"));
        let from_file = run(&scenario(seed, "congestion_control = \"rfc9260.wasm\"", "rfc9260"));
        assert_eq!(from_file.failure, None);
        assert_eq!(own.trace_hash, from_file.trace_hash, "seed {seed}");
        assert!(from_file.figure("congestion_control_instructions").unwrap() > 10.0);
        differs += u32::from(run(&scenario(seed, "", "cubic")).trace_hash != own.trace_hash);
    }
    assert_eq!(differs, 8, "the control decides what is sent");
}

#[test]
fn a_control_that_fails_is_replaced_and_the_run_says_why() {
    // It grows by what is acknowledged, and traps when it is to answer a loss.
    let text =
        "(module (memory (export \"memory\") 1) (func (export \"view\") (result i32) i32.const 0)
        (func (export \"on_ack\") (i64.store (i32.const 0)
          (i64.add (i64.load (i32.const 0)) (i64.load (i32.const 72)))))
        (func (export \"on_loss\") unreachable) (func (export \"on_timeout\") unreachable))";
    let folder = std::env::temp_dir().join(format!("manypath-controls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("trap.wasm"), text).unwrap();
    let at = folder.join("scenario.toml");
    for congestion in ["rfc9260", "bbr"] {
        let text = scenario(3, "congestion_control = \"trap.wasm\"", congestion);
        let outcome = run_in(&text, &at.display().to_string());
        let failure = outcome.failure.clone().unwrap_or_default();
        assert!(failure.starts_with("congestion control trap-"), "{failure}");
        assert!(failure.contains("unreachable"), "{failure}");
        assert!(failure.ends_with("its path has gone on with engine.congestion"), "{failure}");
        let alone = run(&scenario(3, "", congestion));
        let rate = |outcome: &Outcome| outcome.figure("throughput_mbps").unwrap();
        assert!(rate(&outcome) > rate(&alone) / 2.0, "{} of {}", rate(&outcome), rate(&alone));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_is_no_control_is_told_with_the_line_that_names_it() {
    let text = scenario(1, "congestion_control = \"../schedulers/blest.wasm\"", "rfc9260");
    let error = Plan::parse(&text, FOLDER, &[]).unwrap_err().to_string();
    assert!(error.contains("scenario.toml:3") && error.contains("congestion_control"), "{error}");
    assert!(error.contains("it exports no function on_ack()"), "{error}");
}
