//! How far a transfer is.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(200);
/// The weight of the newest interval in the rate shown.
const WEIGHT: f64 = 0.1;

/// What a transfer has come to, for `--json`.
#[derive(Serialize)]
struct Summary {
    files: u64,
    failed: u64,
    /// Files left out because the other side has them.
    unchanged: u64,
    bytes: u64,
    resumed: u64,
    seconds: f64,
}

/// A file that is the same here and there, if nothing went wrong.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) here: PathBuf,
    pub(crate) there: Vec<u8>,
}

/// Counts files and bytes and shows a line at the terminal.
pub(crate) struct Progress {
    total: u64,
    bytes: u64,
    resumed: u64,
    files: u64,
    failed: u64,
    unchanged: u64,
    /// The files that are complete, if they are to be verified.
    copied: Option<Vec<Copied>>,
    begun: Instant,
    shown: Option<(Instant, u64)>,
    rate: f64,
    is_terminal: bool,
    drawn: bool,
}

impl Progress {
    /// Of a transfer that shows nothing if it is `quiet`, and remembers what it has copied if that is to be
    /// `verified`.
    pub(crate) fn new(quiet: bool, verified: bool) -> Self {
        Self {
            total: 0,
            bytes: 0,
            resumed: 0,
            files: 0,
            failed: 0,
            unchanged: 0,
            copied: verified.then(Vec::new),
            begun: Instant::now(),
            shown: None,
            rate: 0.0,
            is_terminal: !quiet && std::io::stderr().is_terminal(),
            drawn: false,
        }
    }

    /// The transfer, of `total` bytes, begins.
    pub(crate) fn begin(&mut self, total: u64) {
        self.total = total;
        self.begun = Instant::now();
    }

    /// Bytes that an earlier transfer has left.
    pub(crate) fn resume(&mut self, bytes: u64) {
        self.resumed += bytes;
    }

    /// Bytes were transferred.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// A file is complete.
    pub(crate) fn finish_file(&mut self, copied: Copied) {
        self.files += 1;
        if let Some(all) = &mut self.copied {
            all.push(copied);
        }
    }

    /// The files that are complete, if they are to be verified.
    pub(crate) fn take_copied(&mut self) -> Vec<Copied> {
        self.copied.take().unwrap_or_default()
    }

    /// A file that was complete is not what it should be.
    pub(crate) fn spoil_file(&mut self, name: &str, reason: &str) {
        self.files -= 1;
        self.fail_file(name, reason);
    }

    /// A file cannot be transferred.
    pub(crate) fn fail_file(&mut self, name: &str, reason: &str) {
        self.failed += 1;
        self.clear();
        eprintln!("manypath: {name}: {reason}");
    }

    /// So many files need not be transferred.
    pub(crate) fn leave(&mut self, files: u64) {
        self.unchanged = files;
    }

    /// Files that could not be transferred.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Shows the line, if it is time to.
    pub(crate) fn show(&mut self, name: &str) {
        let now = Instant::now();
        let (then, bytes) = *self.shown.get_or_insert((now, self.bytes));
        let time = now.saturating_duration_since(then);
        if !self.is_terminal || time < INTERVAL {
            return;
        }
        let rate = (self.bytes - bytes) as f64 / time.as_secs_f64();
        self.rate = if self.rate == 0.0 { rate } else { self.rate + WEIGHT * (rate - self.rate) };
        self.shown = Some((now, self.bytes));
        self.drawn = true;
        eprint!("\r\x1b[K{}", self.line(name));
        let _ = std::io::stderr().flush();
    }

    /// The last line: what was done; as JSON on standard output if asked for.
    pub(crate) fn end(&mut self, json: bool) -> Result<(), Failure> {
        self.clear();
        let seconds = self.begun.elapsed().as_secs_f64();
        let Self { files, failed, unchanged, bytes, resumed, .. } = *self;
        if json {
            let summary = Summary { files, failed, unchanged, bytes, resumed, seconds };
            let text = serde_json::to_string(&summary);
            println!("{}", text.map_err(|e| Failure::new(e.to_string()))?);
        } else if self.is_terminal {
            let rate = bytes as f64 / seconds.max(0.001);
            let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
            let (size, rate) = (amount(bytes as f64), amount(rate));
            eprintln!("{files}, {size} in {seconds:.1} s: {rate}/s");
        }
        Ok(())
    }

    /// Removes the line, before something else is printed.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            eprint!("\r\x1b[K");
        }
    }

    fn line(&self, name: &str) -> String {
        let done = self.bytes + self.resumed;
        let percent = (done * 100).checked_div(self.total).unwrap_or(100).min(100);
        let left = self.total.saturating_sub(done) as f64 / self.rate.max(1.0);
        let left = if self.rate > 0.0 { clock(left) } else { "-:--".to_owned() };
        let name: String =
            name.chars().rev().take(30).collect::<Vec<_>>().into_iter().rev().collect();
        let (size, rate) = (amount(done as f64), amount(self.rate));
        format!("{name:<30} {percent:>3}% {size:>9} {rate:>9}/s {left:>8} left")
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Bytes with a unit.
pub(crate) fn amount(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let step = (bytes.max(1.0).log10() / 3.0) as usize;
    let step = step.min(units.len() - 1);
    let value = bytes / 1000f64.powi(step as i32);
    if step == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", units[step]) }
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.min(359_999.0) as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units_of_three_digits() {
        assert_eq!(amount(999.0), "999 B");
        assert_eq!(amount(1_500_000.0), "1.5 MB");
        assert_eq!(amount(2e9), "2.0 GB");
    }

    #[test]
    fn what_was_copied_is_remembered_only_to_be_verified() {
        let copied = || Copied { here: "here".into(), there: b"there".to_vec() };
        for verified in [false, true] {
            let mut progress = Progress::new(true, verified);
            progress.finish_file(copied());
            assert_eq!((progress.files, progress.take_copied().len()), (1, usize::from(verified)));
        }
    }

    #[test]
    fn the_line_tells_percentage_rate_and_time_left() {
        let mut progress = Progress::new(true, false);
        progress.begin(1000);
        progress.add(250);
        progress.rate = 50.0;
        let line = progress.line("file");
        assert!(
            line.contains(" 25% ") && line.contains("50 B/s") && line.contains("0:15 left"),
            "{line}"
        );
    }
}
