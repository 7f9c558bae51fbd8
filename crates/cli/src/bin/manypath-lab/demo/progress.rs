//! What the demo shows while it works: size and rate per path, live.

use super::world::World;
use manypath_cli::progress::ProgressLine;
use std::time::Duration;

/// Time between two lines where they cannot overwrite each other.
const PAUSE: Duration = Duration::from_secs(1);
/// The rates shown are means over this time.
const RATE_WINDOW: Duration = Duration::from_millis(500);

/// Live progress on standard error; silent when the result is wanted as JSON.
#[derive(Debug)]
pub(crate) struct Progress {
    line: ProgressLine,
    name: String,
}

impl Progress {
    /// Progress of a demo.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { line: ProgressLine::new(quiet, PAUSE), name: String::new() }
    }

    /// A line that stays.
    pub(crate) fn say(&self, text: &str) {
        self.line.say(text);
    }

    /// A new transfer begins.
    pub(crate) fn begin(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Shows how far the transfer is, if it is time to.
    pub(crate) fn update(&mut self, world: &World, begin: Duration, time: Duration, bytes: u64) {
        let Self { line, name } = self;
        line.show(|_| {
            let rates = rates(world, begin.max((begin + time).saturating_sub(RATE_WINDOW)));
            let (seconds, megabytes) = (time.as_secs_f64(), bytes as f64 / 1e6);
            format!("  {name:<18} {seconds:5.1} s {megabytes:6.1} MB {rates}")
        });
    }

    /// The transfer is over: its last line.
    pub(crate) fn end(&mut self, text: &str) {
        self.line.end(&format!("  {:<18} {text}", self.name));
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
