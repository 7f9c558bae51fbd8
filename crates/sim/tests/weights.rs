//! Weights of streams with the dynamic mapping: parts of what all paths carry together, whichever path a stream is
//! tied to.

use manypath_sim::scenario::Plan;
use manypath_sim::simulation::{self, RunOptions};

/// Mbit/s of three saturated streams with weights of 1, 2 and 4 over these paths.
fn goodput(paths: &[(&str, &str, &str)]) -> [f64; 3] {
    let paths = paths.iter().map(|(rate, delay, loss)| {
        format!(
            "[[path]]\nrate = \"{rate}\"\ndelay = \"{delay}\"\nqueue = 100\nloss = \"{loss}\"\n"
        )
    });
    let text = format!(
        "warmup = \"3s\"\nmeasure = \"10s\"\n{}[[app]]\nkind = \"saturated\"\nstreams = 3\nqueue_info = true\n\
         stream_options = [{{ weight = 1 }}, {{ weight = 2 }}, {{ weight = 4 }}]\n\
         [engine]\nprofile = \"dynamic\"\nstream_scheduling = \"weighted-fair\"\nbuffer = \"512KiB\"\n",
        paths.collect::<String>(),
    );
    let plan = Plan::parse(&text, "weights", &[]).unwrap_or_else(|error| panic!("{error}"));
    let outcome = simulation::run(&plan.runs[0].scenario, 1, RunOptions::default());
    [0, 1, 2].map(|stream| outcome.figure(&format!("s{stream}_throughput_mbps")).unwrap())
}

/// The heaviest stream needs more than any of its paths carries, and the others less.
#[test]
fn weights_hold_over_all_paths_together() {
    let networks: [&[_]; 4] = [
        &[("10mbit", "20ms", "0%"), ("10mbit", "40ms", "0%")],
        &[("20mbit", "10ms", "0%"), ("5mbit", "40ms", "0%")],
        &[("10mbit", "20ms", "0.3%"), ("15mbit", "50ms", "0%")],
        &[("2mbit", "20ms", "0%"), ("20mbit", "60ms", "0%")],
    ];
    for paths in networks {
        let [one, two, four] = goodput(paths);
        let within = |part: f64| (0.98..=1.02).contains(&part);
        assert!(
            within(two / one / 2.0) && within(four / one / 4.0),
            "{one} {two} {four}: {paths:?}"
        );
    }
}
