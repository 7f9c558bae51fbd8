//! Paths whose capacity follows a trace: how scenarios name it, what a transfer gets of it, and that the
//! traces of `traces/` are what their README says.

use manypath_sim::Trace;
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{Outcome, RunOptions, run};
use manypath_sim::trace_models::{MODELS, Model};
use std::path::{Path, PathBuf};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces");
const README: &str = include_str!("../traces/README.md");

/// One path with these keys and a transfer that always has data.
fn scenario(keys: &str) -> String {
    format!(
        "warmup = \"2s\"\nmeasure = \"58s\"\n[engine]\nbuffer = \"4MiB\"\n[[path]]\ndelay = \"20ms\"\n\
         {keys}\n[[app]]\nkind = \"saturated\"\n"
    )
}

/// The scenario lies beside the traces.
fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(text, &format!("{FOLDER}/test.toml"), &[]).map_err(|error| error.to_string())
}

fn error(keys: &str) -> String {
    parse(&scenario(keys)).err().unwrap_or_else(|| panic!("accepted: {keys}"))
}

fn outcome(text: &str) -> Outcome {
    let plan = parse(text).unwrap_or_else(|e| panic!("{e}"));
    run(&plan.runs[0].scenario, 1, RunOptions::default())
}

/// A new folder of this test alone.
fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("manypath-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn load(name: &str) -> Trace {
    Trace::load(&Path::new(FOLDER).join(name)).unwrap_or_else(|e| panic!("{e}"))
}

/// Part of the payload that a trace could carry which a bulk transfer gets. The queue holds the product
/// of the round trip (40 ms) and twice the mean rate, which is about the highest one.
fn utilisation(model: &str, engine: &str) -> f64 {
    let trace = load(&format!("{model}.trace"));
    utilisation_with(2 * trace.mean_rate_bps() * 40 / 1000 / 12_000, model, engine)
}

/// The same with room for so many packets.
fn utilisation_with(queue: u64, model: &str, engine: &str) -> f64 {
    let keys =
        format!("trace = \"{model}.trace\"\nqueue = {queue}\nback = {{ rate = \"50mbit\" }}");
    let text = scenario(&keys).replace("[engine]", &format!("[engine]\n{engine}"));
    let part = used(&outcome(&text));
    println!("{model} {engine}: {part:.3}");
    part
}

/// Part of the payload that could be carried which was.
fn used(outcome: &Outcome) -> f64 {
    let [got, ceiling] =
        ["throughput_mbps", "ceiling_mbps"].map(|name| outcome.figure(name).unwrap());
    got / ceiling
}

#[test]
fn a_transfer_that_may_fill_the_queue_uses_nearly_all_of_a_trace() {
    for model in &MODELS {
        let part = utilisation(model.name, "queue_bound = 0\ncongestion = \"cubic\"");
        assert!((0.85..=1.0).contains(&part), "{}: {part}", model.name);
    }
}

#[test]
fn a_transfer_that_keeps_the_queue_short_uses_most_of_a_trace() {
    for model in &MODELS {
        let part = utilisation(model.name, "");
        assert!((0.85..=1.0).contains(&part), "{}: {part}", model.name);
    }
}

#[test]
fn a_rate_that_varies_is_used_although_a_short_queue_loses_packets() {
    // Losses in one round say little about the next one.
    for (model, least) in [("lte", 0.88), ("5g", 0.91), ("wifi", 0.72), ("dsl", 0.91)] {
        let part = utilisation_with(44, model, "");
        assert!(part > least, "{model}: {part}");
    }
}

#[test]
fn hosts_that_get_the_processor_late_use_as_much_of_a_rate_that_varies() {
    let late = "access = { jitter = \"2ms\" }";
    for (model, least) in [("5g", 0.94), ("wifi", 0.81)] {
        let parts = [18, 19, 20, 21, 22].map(|delay| {
            let keys = format!(
                "trace = \"{model}.trace\"\nqueue = 44\nback = {{ rate = \"50mbit\" }}\n{late}"
            );
            let text = scenario(&keys).replace("20ms", &format!("{delay}ms"));
            used(&outcome(&text))
        });
        let part = parts.iter().sum::<f64>() / 5.0;
        println!("{model}: {part:.3}");
        assert!(part > least, "{model}: {parts:?}");
    }
}

/// The set-up traced-1.5 of `bench/grid`, with other delays around it.
#[test]
fn hosts_that_get_the_processor_late_use_a_fast_radio_link_beside_a_slow_one() {
    let folder = folder("late");
    for (model, rate) in [("5g", 2_500_000), ("lte", 60_500_000)] {
        let trace = Model::named(model).unwrap().generate(5, 20, rate).unwrap();
        std::fs::write(folder.join(model), trace.to_text()).unwrap();
    }
    let rates = [12, 13, 14].map(|delay| {
        let text = format!(
            "measure = \"60s\"\n[engine]\nsend_buffer_max = \"64MiB\"\nreceive_buffer_max = \"64MiB\"\n\
             [[path]]\ntrace = \"5g\"\ndelay = \"5ms\"\nqueue = 38\naccess = {{ jitter = \"2ms\" }}\n\
             [[path]]\ntrace = \"lte\"\ndelay = \"{delay}ms\"\nqueue = 44\naccess = {{ jitter = \"2ms\" }}\n\
             [[app]]\nkind = \"connection\"\nbytes = 100000000\n"
        );
        let file = folder.join("test.toml");
        let plan = Plan::parse(&text, &file.display().to_string(), &[]).unwrap();
        let outcome = run(&plan.runs[0].scenario, 1, RunOptions::default());
        outcome.figure("throughput_mbps").unwrap()
    });
    std::fs::remove_dir_all(&folder).unwrap();
    println!("{rates:.1?} Mbit/s");
    assert!(rates.iter().sum::<f64>() / 3.0 > 40.0, "{rates:?}");
}

#[test]
fn the_ceiling_counts_opportunities() {
    // Ten packets a second, and from the middle of the measurement on five, of which a fifth is lost.
    let folder = folder("ceiling");
    std::fs::write(folder.join("ten"), "100\n").unwrap();
    std::fs::write(folder.join("five"), "1\n1\n1000\n1000\n1000\n").unwrap();
    let text = "measure = \"20s\"\n[[path]]\ntrace = \"ten\"\n[[path.change]]\nat = \"10s\"\n\
                trace = \"five\"\n[[path.change]]\nat = \"15s\"\nloss = \"20%\"\n\
                [[app]]\nkind = \"saturated\"\nmessage = 1444\n";
    let file = folder.join("test.toml");
    let plan = Plan::parse(text, &file.display().to_string(), &[]).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let outcome = run(&plan.runs[0].scenario, 1, RunOptions::default());
    let packets = 10.0 * 10.0 + 5.0 * 5.0 + 5.0 * 5.0 * 0.8;
    let expected = packets * 8.0 * 1444.0 / 20.0 / 1e6;
    let ceiling = outcome.figure("ceiling_mbps").unwrap();
    assert!((ceiling - expected).abs() < 1e-9, "{ceiling} instead of {expected}");
    let got = outcome.figure("throughput_mbps").unwrap();
    assert!(got <= ceiling && got > 0.5 * ceiling, "{got} of {ceiling}");
}

#[test]
fn a_change_that_names_the_trace_in_force_begins_it_anew() {
    let folder = folder("anew");
    let times: String = ["20\n"; 50].concat() + "60000\n";
    std::fs::write(folder.join("early"), times).unwrap();
    let ceiling = |change: &str| {
        let text = format!(
            "measure = \"20s\"\n[[path]]\ntrace = \"early\"\n[[path.change]]\nat = \"10s\"\n{change}\n\
             [[app]]\nkind = \"saturated\"\nmessage = 1444\n"
        );
        let file = folder.join("test.toml");
        let plan = Plan::parse(&text, &file.display().to_string(), &[]).unwrap();
        let outcome = run(&plan.runs[0].scenario, 1, RunOptions::default());
        outcome.figure("ceiling_mbps").unwrap()
    };
    let (stays, anew) = (ceiling("queue = 50"), ceiling("trace = \"early\""));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!((anew - 2.0 * stays).abs() < 1e-9, "{anew} is not twice {stays}");
}

#[test]
fn names_are_relative_to_the_scenario_and_directions_differ() {
    let keys = "trace = \"leo.trace\"\n[path.back]\ntrace = \"dsl.trace\"\n[[path.change]]\n\
                at = \"1s\"\ndelay = \"30ms\"\n[[path.change]]\nat = \"2s\"\nrate = \"5mbit\"\n";
    let plan = parse(&scenario(keys)).unwrap();
    let path = &plan.runs[0].scenario.paths[0];
    assert_eq!(path.forth.trace, Some(load("leo.trace").named("leo.trace")));
    assert_eq!(path.back.trace, Some(load("dsl.trace").named("dsl.trace")));
    assert_eq!(path.changes[0].back.trace, path.back.trace);
    assert_eq!(
        (&path.changes[1].forth.trace, path.changes[1].forth.rate_bps),
        (&None, Some(5_000_000))
    );
    let parameters = plan.runs[0].scenario.parameters();
    let value =
        |key: &str| parameters.iter().find(|(name, _)| name == key).map(|(_, v)| v.as_str());
    assert_eq!(value("path.A.trace"), Some("leo.trace"));
    assert_eq!(value("path.A.back.trace"), Some("dsl.trace"));
    assert_eq!(value("path.A.rate"), Some("6000000"));
}

#[test]
fn a_sweep_may_go_over_traces() {
    let text = format!(
        "{}\n[sweep]\n\"path.A.trace\" = [\"leo.trace\", \"geo.trace\"]\n",
        scenario("trace = \"dsl.trace\"")
    );
    let plan = parse(&text).unwrap();
    let names: Vec<_> =
        plan.runs.iter().filter_map(|run| run.scenario.paths[0].forth.trace.as_ref()).collect();
    assert_eq!(names.iter().map(|t| t.name()).collect::<Vec<_>>(), ["leo.trace", "geo.trace"]);
}

#[test]
fn what_is_wrong_with_a_trace_is_told_with_the_line_of_the_scenario() {
    let missing = error("trace = \"none.trace\"");
    let place = format!("{FOLDER}/test.toml:7:1: path.0.trace: {FOLDER}/none.trace: cannot read");
    assert!(missing.starts_with(&place), "{missing}");
    let text = error("trace = \"README.md\"");
    assert!(text.contains("README.md:1: \"# Traces\" is not a time"), "{text}");
    let both = error("trace = \"leo.trace\"\nrate = \"5mbit\"");
    assert!(both.contains("path.0.trace: a trace replaces the rate: remove one"), "{both}");
    assert!(error("trace = 5").contains("path.0.trace: expected"));
}

/// The words of a command of the README behind `manypath-lab trace`.
fn commands() -> Vec<Vec<&'static str>> {
    let command = |line: &'static str| {
        let (_, command) = line.split_once("`manypath-lab trace ")?;
        Some(command.split_once('`')?.0.split(' ').collect())
    };
    README.lines().filter_map(command).collect()
}

#[test]
fn committed_traces_are_what_their_commands_make() {
    for words in commands() {
        let [model, "--seed", seed, "--seconds", seconds, "--rate", rate, ">", file] = words[..]
        else {
            panic!("{words:?}")
        };
        let mbit: u64 = rate.trim_end_matches("mbit").parse().unwrap();
        let (seed, seconds) = (seed.parse().unwrap(), seconds.parse().unwrap());
        let made = Model::named(model).unwrap().generate(seed, seconds, mbit * 1_000_000).unwrap();
        let kept = std::fs::read_to_string(Path::new(FOLDER).join(file)).unwrap();
        assert!(made.to_text() == kept, "{file} is not what its command makes");
        assert!(kept.len() <= 200_000, "{file} has {} bytes", kept.len());
    }
}

#[test]
fn every_model_has_a_trace_in_the_readme() {
    let mut files: Vec<_> =
        commands().into_iter().filter_map(|words| words.last().copied()).collect();
    files.sort_unstable();
    let mut expected: Vec<_> = MODELS.iter().map(|model| format!("{}.trace", model.name)).collect();
    expected.sort_unstable();
    assert_eq!(files, expected);
}
