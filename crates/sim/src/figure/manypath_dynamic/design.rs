//! The grid of networks on which schedulers are compared: a Latin hypercube, so that a few dozen
//! points are spread evenly over every factor, drawn with a fixed seed. Its text is part of the
//! committed scenario; a test holds the two together.

use crate::rng::Rng;
use std::fmt::Write;

/// Number of points.
const POINTS: usize = 72;
const SEED: u64 = 2010;
/// Most paths of a point.
const PATHS: usize = 4;
const MOST_MBIT: f64 = 100.0;
/// Factors: rate, delay and loss of each path, then the others.
const COLUMNS: usize = 3 * PATHS + 7;

/// When the network changes, and when a lost path is back, in seconds from the start.
const CHANGE_S: u32 = 10;
const RETURN_S: u32 = 15;

/// A row of the hypercube: numbers from 0 to 1 that are handed out to the factors in turn.
pub(super) struct Row {
    values: std::vec::IntoIter<f64>,
}

impl Row {
    pub(super) fn take(&mut self) -> f64 {
        self.values.next().unwrap_or(0.5)
    }

    /// Between `from` and `to`, evenly in the logarithm, to three significant digits.
    pub(super) fn scaled(&mut self, from: f64, to: f64) -> f64 {
        three_digits(from * (to / from).powf(self.take()))
    }

    /// A number below `count`.
    pub(super) fn choice(&mut self, count: usize) -> usize {
        ((self.take() * count as f64) as usize).min(count - 1)
    }
}

/// A path of a point.
#[derive(Clone, Copy)]
pub(super) struct PathDraw {
    pub(super) mbit: f64,
    pub(super) delay_ms: f64,
    pub(super) loss_percent: f64,
}

/// The grid as setups of a scenario file.
pub fn design() -> String {
    let mut out = String::new();
    for (number, row) in (1..).zip(hypercube(SEED, POINTS, COLUMNS)) {
        // Memory takes everything.
        let _ = write_point(&mut out, number, row);
    }
    out
}

/// Every column has one number in each of as many equal intervals as there are points.
pub(super) fn hypercube(seed: u64, points: usize, columns: usize) -> Vec<Row> {
    let mut rng = Rng::new(seed);
    let mut rows = vec![Vec::new(); points];
    for _ in 0..columns {
        let mut order: Vec<usize> = (0..points).collect();
        for last in (1..points).rev() {
            order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        for (row, place) in rows.iter_mut().zip(order) {
            let within = rng.below(1000) as f64 / 1000.0;
            row.push((place as f64 + within) / points as f64);
        }
    }
    rows.into_iter().map(|values| Row { values: values.into_iter() }).collect()
}

fn write_point(out: &mut String, number: usize, mut row: Row) -> std::fmt::Result {
    let draws: Vec<PathDraw> = (0..PATHS).map(|_| draw_path(&mut row, MOST_MBIT)).collect();
    let paths = &draws[..2 + row.choice(PATHS - 1)];
    let factor = row.scaled(0.5, 4.0);
    let streams = row.scaled(1.0, 32.5) as usize;
    let mix = row.choice(3);
    let change = row.choice(4);
    let victim = row.choice(paths.len());
    let informed = row.choice(2) == 1;
    // Equation 1 of Dreibholz et al. 2010: bytes on the way there and back, over all paths.
    let equation: f64 = paths.iter().map(|p| 2.0 * p.delay_ms * p.mbit * 1000.0 / 8.0).sum();
    let kib = (factor * equation / 1024.0).round().clamp(32.0, 16_384.0);
    writeln!(out, "\n# {factor} x Equation 1")?;
    writeln!(out, "[[setup]]\nname = \"grid-{number:02}\"\n[setup.set]")?;
    writeln!(out, "\"engine.buffer\" = \"{kib}KiB\"")?;
    writeln!(out, "path = [")?;
    for (index, path) in paths.iter().enumerate() {
        let changed = match change {
            2 if index < 2 => Some(format!(
                "{{ at = \"{CHANGE_S}s\", rate = \"{}mbit\" }}",
                paths[1 - index].mbit
            )),
            3 if index == victim => Some(format!(
                "{{ at = \"{CHANGE_S}s\", up = false }}, {{ at = \"{RETURN_S}s\", up = true }}"
            )),
            _ => None,
        };
        write_path(out, *path, changed)?;
    }
    write_apps(out, streams, mix, informed)
}

/// The applications of a point: an interactive one, if the `mix` has it and there are streams for both, and bulk
/// data. `informed`: the bulk application knows what its streams hold in the buffer.
pub(super) fn write_apps(
    out: &mut String,
    streams: usize,
    mix: usize,
    informed: bool,
) -> std::fmt::Result {
    writeln!(out, "]\napp = [")?;
    let others = if streams > 1 { write_interactive(out, mix)? } else { 0 };
    let bulk = (streams - others.min(streams - 1)).max(1);
    writeln!(
        out,
        "  {{ name = \"bulk\", kind = \"saturated\", streams = {bulk}, queue_info = {informed} }},"
    )?;
    writeln!(out, "]")
}

/// A path of at most `most_mbit` Mbit/s.
pub(super) fn draw_path(row: &mut Row, most_mbit: f64) -> PathDraw {
    let (mbit, delay_ms) = (row.scaled(1.0, most_mbit), row.scaled(5.0, 300.0));
    // Two of five paths lose nothing.
    let lossy = row.take();
    let loss_percent =
        if lossy < 0.4 { 0.0 } else { three_digits(0.01 * 200f64.powf((lossy - 0.4) / 0.6)) };
    PathDraw { mbit, delay_ms, loss_percent }
}

pub(super) fn write_path(
    out: &mut String,
    path: PathDraw,
    change: Option<String>,
) -> std::fmt::Result {
    let PathDraw { mbit, delay_ms, loss_percent } = path;
    // Queues of 200 ms, but not of less than 20 or more than 500 packets.
    let queue = (mbit * 1e6 * 0.2 / 12_000.0).round().clamp(20.0, 500.0);
    write!(out, "  {{ rate = \"{mbit}mbit\", delay = \"{delay_ms}ms\", queue = {queue}")?;
    write!(out, ", jitter = \"100us\"")?;
    if loss_percent > 0.0 {
        write!(out, ", loss = \"{loss_percent}%\"")?;
    }
    if let Some(change) = change {
        write!(out, ", change = [{change}]")?;
    }
    writeln!(out, " }},")
}

/// The interactive application of a mix, if it has one; returns the number of its streams.
fn write_interactive(out: &mut String, mix: usize) -> Result<usize, std::fmt::Error> {
    const OPTIONS: &str = "stream_options = { class = \"interactive\" }";
    match mix {
        1 => {
            writeln!(
                out,
                "  {{ name = \"interactive\", kind = \"on-off\", rate = \"160kbit\", message = 400, \
                 on = \"1s\", off = \"500ms\", {OPTIONS} }},"
            )?;
            Ok(1)
        }
        2 => {
            writeln!(
                out,
                "  {{ name = \"interactive\", kind = \"request-response\", streams = 2, message = 300, \
                 response = 3000, think = \"100ms\", {OPTIONS} }},"
            )?;
            Ok(2)
        }
        _ => Ok(0),
    }
}

fn three_digits(value: f64) -> f64 {
    let power = 10f64.powi(2 - value.log10().floor() as i32);
    // Dividing by a power of ten that is exact gives the shortest decimal.
    if power >= 1.0 { (value * power).round() / power } else { value.round() }
}

#[cfg(test)]
mod tests {
    use super::{design, hypercube, three_digits};

    #[test]
    fn every_factor_is_spread_evenly() {
        let rows = hypercube(super::SEED, super::POINTS, super::COLUMNS);
        let low = rows.into_iter().map(|mut row| row.take()).filter(|value| *value < 0.25).count();
        assert_eq!(low, super::POINTS / 4);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(three_digits(12.345), 12.3);
        assert_eq!(three_digits(0.012_345), 0.0123);
        assert_eq!(three_digits(123.45), 123.0);
    }

    #[test]
    fn the_committed_scenario_ends_with_this_design() {
        let text = include_str!("../../../../../papers/manypath-dynamic/scenario.toml");
        assert!(text.ends_with(&design()), "print it with: cargo run --example grid");
    }
}
