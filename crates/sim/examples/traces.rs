//! Draws the traces of `crates/sim/traces`, the picture of docs/traces.md:
//! `cargo run -p manypath-sim --example traces > docs/traces.svg`.

use manypath_sim::Trace;
use manypath_sim::figure::plot::{Chart, Curve, Panel, Point, to_svg};
use manypath_sim::trace_models::{MODELS, Model};
use std::error::Error;
use std::path::Path;

/// Points of a curve.
const POINTS: usize = 150;

fn panel(model: &Model) -> Result<Panel, Box<dyn Error>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/traces");
    let trace = Trace::load(&Path::new(folder).join(format!("{}.trace", model.name)))?;
    let mut counts = [0.0; POINTS];
    let period = trace.period().as_millis() as usize;
    for time in trace.times() {
        // What leaves in a millisecond has the time of its end.
        counts[(*time as usize).saturating_sub(1) * POINTS / period] += 1.0;
    }
    let mean = trace.times().len() as f64 / POINTS as f64;
    let seconds = trace.period().as_secs_f64() / POINTS as f64;
    let point = |(i, count): (usize, &f64)| Point {
        x: (i as f64 + 0.5) * seconds,
        y: count / mean,
        error: 0.0,
        count: 1,
    };
    let points = counts.iter().enumerate().map(point).collect();
    let mbps = trace.mean_rate_bps() as f64 / 1e6;
    Ok(Panel {
        title: format!("{} ({mbps:.0} Mbit/s)", model.name),
        x_label: "Time [s]".into(),
        y_label: "Rate relative to its mean".into(),
        curves: vec![Curve { number: 1, name: model.summary.into(), points }],
        ..Panel::default()
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let panels = MODELS.iter().map(panel).collect::<Result<_, _>>()?;
    print!("{}", to_svg(&Chart { title: "Traces of crates/sim/traces".into(), panels }));
    Ok(())
}
