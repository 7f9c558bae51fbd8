//! The dynamic stream-to-path scheduler against others: on the setups of Dreibholz et al. 2010, and on
//! a grid of networks.

mod design;
mod details;
mod fresh;
mod grid;
mod paper;
mod points;

pub use design::design;
pub use fresh::fresh_grid;

use super::catalogue::Figure;
use super::curves::Runs;
use super::plot::Chart;
use super::verdict::Criterion;
use points::points;

/// The one figure.
pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "manypath-dynamic",
    title: "The dynamic stream-to-path scheduler against others",
    scenario: include_str!("../../../../../papers/manypath-dynamic/scenario.toml"),
    file: "papers/manypath-dynamic/scenario.toml",
    notes: include_str!("../../../../../papers/manypath-dynamic/notes.md"),
    draw,
    details: details::details,
    judge,
}];

/// Payload of all streams while measuring.
const GOODPUT: &str = "throughput_mbps";
/// Of all messages.
const DELAY: &str = "delay_ms";
const DELAY_P99: &str = "delay_p99_ms";
/// Of the messages of the interactive application.
const INTERACTIVE: &str = "interactive_delay_ms";
const INTERACTIVE_P99: &str = "interactive_delay_p99_ms";

fn draw(runs: &Runs<'_>) -> Chart {
    let points = points(runs);
    let mut panels = paper::panels(&points);
    panels.extend(grid::panels(&points));
    Chart { title: "The dynamic stream-to-path scheduler".into(), panels }
}

fn judge(runs: &Runs<'_>) -> Vec<Criterion> {
    let points = points(runs);
    let mut verdict = paper::judge(&points);
    verdict.extend(grid::judge(&points));
    verdict
}
