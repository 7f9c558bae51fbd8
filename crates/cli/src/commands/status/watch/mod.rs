//! `manypath status --watch`: rates of paths and connections, renewed every second.

mod rates;
mod table;

use crate::commands::stacks;
use crate::failure::Failure;
use clap::Args;
use rates::{Rates, Sample};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Moves the cursor to the top left corner.
const HOME: &str = "\x1b[H";
/// Erases what is right of the cursor, and below it.
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";
/// What is assumed of a terminal that does not tell its size, in lines.
const LINES: usize = 24;
/// The shortest interval: below it a stack would be busy with telling.
const MIN_INTERVAL: f64 = 0.1;

/// The part of `manypath status` that is about watching.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// Watch the rates of paths and connections, and why a path is idle, until Ctrl-C.
    #[arg(short, long, conflicts_with_all = ["counters", "verbose"])]
    watch: bool,
    /// Seconds between two updates of --watch.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, requires = "watch")]
    interval: f64,
    /// Exit after this many updates of --watch.
    #[arg(short = 'n', long, value_name = "N", requires = "watch")]
    count: Option<u64>,
}

/// The arguments of `manypath top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    #[arg(long)]
    all: bool,
    #[arg(long)]
    json: bool,
}

/// What is watched, and how.
#[derive(Debug)]
pub(super) struct Watch {
    all: bool,
    /// One object per update, a line each.
    json: bool,
    /// In seconds.
    interval: f64,
    count: Option<u64>,
}

impl WatchArgs {
    pub(super) fn wanted(&self, all: bool, json: bool) -> Option<Watch> {
        let Self { watch, interval, count } = *self;
        watch.then_some(Watch { all, json, interval, count })
    }
}

/// `top` as it was called until 0.2.
pub(crate) fn top(args: &TopArgs) -> Result<u8, Failure> {
    watch(&Watch { all: args.all, json: args.json, interval: args.interval, count: args.count })
}

/// Queries and prints until interrupted.
pub(super) fn watch(args: &Watch) -> Result<u8, Failure> {
    if !args.interval.is_finite() || args.interval < MIN_INTERVAL {
        let message = format!("--interval: {} is not at least {MIN_INTERVAL} s", args.interval);
        return Err(Failure::usage(message));
    }
    let interval = Duration::try_from_secs_f64(args.interval)
        .map_err(|_| Failure::usage("--interval: too long"))?;
    let in_place = !args.json && std::io::stdout().is_terminal();
    let mut before = look(args.all)?;
    let mut rates = Rates::default();
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        std::thread::sleep(interval);
        let now = look(args.all)?;
        rates = Rates::between(&before, &now).after(&rates);
        if show(&rates, args.json, in_place).is_err() {
            // Whoever read has gone.
            break;
        }
        (before, printed) = (now, printed + 1);
    }
    Ok(0)
}

fn look(all: bool) -> Result<Sample, Failure> {
    Ok(Sample { at: Instant::now(), stacks: stacks::query(all)? })
}

fn show(rates: &Rates, json: bool, in_place: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, rates)?;
        writeln!(out)?;
    } else if in_place {
        let (width, height) = size();
        write!(out, "{HOME}")?;
        for line in table::lines(rates, Some(height.saturating_sub(1))) {
            let shown: String = line.chars().take(width).collect();
            writeln!(out, "{shown}{ERASE_LINE}")?;
        }
        write!(out, "{ERASE_BELOW}")?;
    } else {
        for line in table::lines(rates, None) {
            writeln!(out, "{line}")?;
        }
    }
    out.flush()
}

/// Columns and lines of the terminal.
fn size() -> (usize, usize) {
    let size = terminal_size::terminal_size();
    size.map_or((usize::MAX, LINES), |(width, height)| (width.0.into(), height.0.into()))
}
