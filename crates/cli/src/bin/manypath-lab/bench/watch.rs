//! Progress on standard error, and interval lines as iperf3 has them.

use super::args::BenchArgs;
use super::table;
use manypath_bench::{Interval, Observer, Run, Skipped, Transport};
use std::io::{IsTerminal, Write};

/// Silent when the result is wanted as JSON.
#[derive(Debug)]
pub(super) struct Watch {
    quiet: bool,
    terminal: bool,
    intervals: bool,
    /// What is under way.
    name: String,
}

impl Watch {
    pub(super) fn new(args: &BenchArgs) -> Self {
        Self {
            quiet: args.json,
            terminal: std::io::stderr().is_terminal(),
            intervals: args.interval.is_some(),
            name: String::new(),
        }
    }

    /// A line that stays.
    pub(super) fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("{}{text}", self.clear());
        }
    }

    /// A line that the next one replaces.
    fn show(&self, text: &str) {
        if !self.quiet && self.terminal {
            let mut out = std::io::stderr().lock();
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(out, "{}{text}", self.clear());
            let _ = out.flush();
        }
    }

    fn clear(&self) -> &'static str {
        if self.terminal { "\r\x1b[K" } else { "" }
    }
}

impl Observer for Watch {
    fn begins(&mut self, case: &str, transport: Transport, round: u32, rounds: u32) {
        self.name = format!("  {case:<22} {:<12} {round}/{rounds}", transport.name());
        self.show(&self.name);
    }

    fn interval(&mut self, interval: &Interval) {
        let seconds = interval.end - interval.start;
        let rate = table::rate(interval.bytes as f64 * 8e-6 / seconds.max(1e-9));
        let (start, end) = (interval.start, interval.end);
        let bytes = interval.bytes as f64 / f64::from(1 << 20);
        let line = format!("{} {start:6.2}-{end:<6.2} sec {bytes:9.1} MiB  {rate}", self.name);
        if self.intervals { self.say(&line) } else { self.show(&line) }
    }

    fn ends(&mut self, result: Result<&Run, &str>) {
        match result {
            Ok(run) => self.say(&format!("{} {}", self.name, table::run(run))),
            Err(reason) => self.say(&format!("{} FAILED: {reason}", self.name)),
        }
    }

    fn skips(&mut self, skipped: &Skipped) {
        self.say(&format!("  {}", table::skipped_line(skipped)));
    }
}
