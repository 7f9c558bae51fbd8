//! What the demo shows while it works: size and rate per path, live.

use super::world::World;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Pause between two updates: on a terminal one line is rewritten, elsewhere lines are added.
const TERMINAL_PAUSE: Duration = Duration::from_millis(250);
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// The rates shown are means over this time.
const RATE_WINDOW: Duration = Duration::from_millis(500);

/// Live progress on standard error; silent when the result is wanted as JSON.
#[derive(Debug)]
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    name: String,
    next: Duration,
}

impl Progress {
    /// Progress of a demo.
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            name: String::new(),
            next: Duration::ZERO,
        }
    }

    /// A line that stays.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }

    /// A new transfer begins.
    pub(crate) fn begin(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        self.next = Duration::ZERO;
    }

    /// Shows how far the transfer is, if it is time to.
    pub(crate) fn update(&mut self, world: &World, begin: Duration, time: Duration, bytes: u64) {
        if self.quiet || time < self.next {
            return;
        }
        self.next = time + if self.terminal { TERMINAL_PAUSE } else { LOG_PAUSE };
        let rates = rates(world, begin.max((begin + time).saturating_sub(RATE_WINDOW)));
        let (seconds, megabytes) = (time.as_secs_f64(), bytes as f64 / 1e6);
        let line = format!("  {:<18} {seconds:5.1} s {megabytes:6.1} MB {rates}", self.name);
        let mut out = std::io::stderr().lock();
        // Progress that cannot be shown is no reason to stop.
        let _ = if self.terminal { write!(out, "\r\x1b[K{line}") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    /// The transfer is over: its last line.
    pub(crate) fn end(&self, text: &str) {
        if self.quiet {
            return;
        }
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        eprintln!("{clear}  {:<18} {text}", self.name);
    }
}

/// The rate of each path since `from`, in words.
fn rates(world: &World, from: Duration) -> String {
    let series = world.series(from);
    let shown = series.paths.iter().map(|(name, buckets)| {
        let time = series.bucket.as_secs_f64() * buckets.len() as f64;
        let bits = buckets.iter().sum::<u64>() as f64 * 8.0;
        let rate = if time > 0.0 { bits / time / 1e6 } else { 0.0 };
        format!("{name} {rate:5.1} Mbit/s")
    });
    shown.collect::<Vec<_>>().join("  ")
}
