//! Dreibholz, Seggelmann, Tüxen, Rathgeb: "Transmission Scheduling Optimizations for Concurrent
//! Multipath Transfer", PFLDNeT 2010. One file per figure.

mod fig4;
mod fig5;
mod fig6;
mod fig7;

use super::catalogue::{Figure, no_details};
use super::curves::Choice;
use super::plot::Mark;

macro_rules! paper_file {
    ($path:literal) => {
        include_str!(concat!("../../../../../papers/dreibholz2010/", $path))
    };
}

/// What the paper leaves open, and where it contradicts itself (Markdown).
pub const CONTRADICTIONS: &str = paper_file!("notes.md");

/// All figures with results; the paper's Figures 1 to 3 are drawings.
pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "dreibholz2010-fig4",
        title: "Throughput on paths of dissimilar delay",
        scenario: paper_file!("fig4/scenario.toml"),
        file: "papers/dreibholz2010/fig4/scenario.toml",
        notes: paper_file!("fig4/notes.md"),
        draw: fig4::draw,
        details: no_details,
        judge: fig4::judge,
    },
    Figure {
        name: "dreibholz2010-fig5",
        title: "Message delay per stream on paths of dissimilar delay",
        scenario: paper_file!("fig4/scenario.toml"),
        file: "papers/dreibholz2010/fig4/scenario.toml",
        notes: paper_file!("fig5/notes.md"),
        draw: fig5::draw,
        details: no_details,
        judge: fig5::judge,
    },
    Figure {
        name: "dreibholz2010-fig6",
        title: "Rate per stream on paths of dissimilar bandwidth",
        scenario: paper_file!("fig6/scenario.toml"),
        file: "papers/dreibholz2010/fig6/scenario.toml",
        notes: paper_file!("fig6/notes.md"),
        draw: fig6::draw,
        details: no_details,
        judge: fig6::judge,
    },
    Figure {
        name: "dreibholz2010-fig7",
        title: "Seven streams over three paths",
        scenario: paper_file!("fig7/scenario.toml"),
        file: "papers/dreibholz2010/fig7/scenario.toml",
        notes: paper_file!("fig7/notes.md"),
        draw: fig7::draw,
        details: no_details,
        judge: fig7::judge,
    },
];

const SIGMA: &str = "Send/receive buffer size σ [KiB]";
const THROUGHPUT: &str = "throughput_mbps";
/// Payload in what crosses a link: 1452 bytes of 1500 and 7 of PPP.
const PAYLOAD_SHARE: f64 = 1452.0 / 1507.0;

/// The curves of Figures 4 and 5, in the order of their numbers.
const DELAYS: [(&str, Choice); 6] = [
    ("Σ=Fixed, δB=10 ms", fixed(&[("path.B.delay", "0.01")])),
    ("Σ=Fixed, δB=50 ms", fixed(&[("path.B.delay", "0.05")])),
    ("Σ=Fixed, δB=75 ms", fixed(&[("path.B.delay", "0.075")])),
    ("Σ=Round-Robin, δB=10 ms", round_robin(&[("path.B.delay", "0.01")])),
    ("Σ=Round-Robin, δB=50 ms", round_robin(&[("path.B.delay", "0.05")])),
    ("Σ=Round-Robin, δB=75 ms", round_robin(&[("path.B.delay", "0.075")])),
];

const fn fixed(with: &'static [(&'static str, &'static str)]) -> Choice {
    Choice { case: "Fixed", with }
}

const fn round_robin(with: &'static [(&'static str, &'static str)]) -> Choice {
    Choice { case: "Round-Robin", with }
}

/// Where a curve should pass, as published.
fn passes(curve: usize, kib: f64, y: f64, text: &str) -> Mark {
    Mark { curve, x: Some(kib), y: Some(y), text: text.into() }
}

/// What all curves should reach, or a curve keep to.
fn level(curve: usize, y: f64, text: &str) -> Mark {
    Mark { curve, x: None, y: Some(y), text: text.into() }
}

/// The smallest size that a statement of the paper about a curve is about.
fn from_size(curve: usize, kib: f64, text: &str) -> Mark {
    Mark { curve, x: Some(kib), y: None, text: text.into() }
}

/// "9.63 Mbit/s".
fn mbps(value: f64) -> String {
    format!("{value:.2} Mbit/s")
}

/// "149 ms".
fn ms(value: f64) -> String {
    format!("{value:.0} ms")
}
