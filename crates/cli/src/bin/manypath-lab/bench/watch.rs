//! Progress on standard error, and interval lines as iperf3 has them.

use super::args::BenchArgs;
use super::table;
use manypath_bench::{Interval, Observer, Run, Skipped, Transport};
use manypath_cli::progress::ProgressLine;
use std::time::Duration;

/// Time between two lines of a run where they cannot overwrite each other.
const PAUSE: Duration = Duration::from_secs(10);

/// Silent when the result is wanted as JSON.
#[derive(Debug)]
pub(super) struct Watch {
    line: ProgressLine,
    intervals: bool,
    /// What is under way.
    name: String,
}

impl Watch {
    pub(super) fn new(args: &BenchArgs) -> Self {
        let line = ProgressLine::new(args.json, PAUSE);
        Self { line, intervals: args.interval.is_some(), name: String::new() }
    }

    /// A line that stays.
    pub(super) fn say(&self, text: &str) {
        self.line.say(text);
    }
}

impl Observer for Watch {
    fn begins(&mut self, case: &str, transport: Transport, round: u32, rounds: u32) {
        self.name = format!("  {case:<22} {:<12} {round}/{rounds}", transport.name());
        let name = &self.name;
        self.line.show(|_| name.clone());
    }

    fn interval(&mut self, interval: &Interval) {
        let seconds = interval.end - interval.start;
        let rate = table::rate(interval.bytes as f64 * 8e-6 / seconds.max(1e-9));
        let (start, end) = (interval.start, interval.end);
        let bytes = interval.bytes as f64 / f64::from(1 << 20);
        let line = format!("{} {start:6.2}-{end:<6.2} sec {bytes:9.1} MiB  {rate}", self.name);
        if self.intervals { self.say(&line) } else { self.line.show(|_| line) }
    }

    fn ends(&mut self, result: Result<&Run, &str>) {
        let name = &self.name;
        self.line.end(&match result {
            Ok(run) => format!("{name} {}", table::run(run)),
            Err(reason) => format!("{name} FAILED: {reason}"),
        });
    }

    fn skips(&mut self, skipped: &Skipped) {
        self.say(&format!("  {}", table::skipped_line(skipped)));
    }
}
