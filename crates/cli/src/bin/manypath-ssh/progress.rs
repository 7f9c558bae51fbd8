//! How far a transfer is.

use crate::failure::Failure;
use indicatif::{DecimalBytes, HumanDuration, ProgressBar};
use manypath_cli::progress::ProgressLine;
use manypath_control::counted;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// Time between two lines where they cannot overwrite each other.
const PAUSE: Duration = Duration::from_secs(10);

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

/// Counts files and bytes and shows how far they are.
pub(crate) struct Progress {
    /// Counts bytes, those that an earlier transfer has left among them.
    line: ProgressLine,
    resumed: u64,
    files: u64,
    failed: u64,
    unchanged: u64,
    /// The files that are complete, if they are to be verified.
    copied: Option<Vec<Copied>>,
    quiet: bool,
}

impl Progress {
    /// Of a transfer that shows nothing if it is `quiet`, and remembers what it has copied if that is to be
    /// `verified`.
    pub(crate) fn new(quiet: bool, verified: bool) -> Self {
        Self {
            line: ProgressLine::new(quiet, PAUSE),
            resumed: 0,
            files: 0,
            failed: 0,
            unchanged: 0,
            copied: verified.then(Vec::new),
            quiet,
        }
    }

    /// The transfer, of `total` bytes, begins.
    pub(crate) fn begin(&self, total: u64) {
        self.line.bar.reset();
        self.line.bar.set_length(total);
    }

    /// Bytes that an earlier transfer has left. They say nothing of the rate.
    pub(crate) fn resume(&mut self, bytes: u64) {
        self.resumed += bytes;
        self.line.bar.inc(bytes);
        self.line.bar.reset_eta();
    }

    /// Bytes were transferred.
    pub(crate) fn add(&self, bytes: u64) {
        self.line.bar.inc(bytes);
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
        self.line.bar.suspend(|| eprintln!("manypath: {name}: {reason}"));
    }

    /// So many files need not be transferred.
    pub(crate) fn leave(&mut self, files: u64) {
        self.unchanged = files;
    }

    /// Files that could not be transferred.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Shows which file is under way.
    pub(crate) fn show(&mut self, name: &str) {
        self.line.show(|bar| line(bar, name));
    }

    /// The last line: what was done; as JSON on standard output if asked for.
    pub(crate) fn end(&self, json: bool) -> Result<(), Failure> {
        let Self { files, failed, unchanged, resumed, .. } = *self;
        let (bytes, seconds) =
            (self.line.bar.position() - resumed, self.line.bar.elapsed().as_secs_f64());
        self.line.bar.finish_and_clear();
        if json {
            let summary = Summary { files, failed, unchanged, bytes, resumed, seconds };
            let text = serde_json::to_string(&summary);
            println!("{}", text.map_err(|e| Failure::new(e.to_string()))?);
        } else if !self.quiet && std::io::stderr().is_terminal() {
            let files = counted(files, "file", "files");
            let rate = DecimalBytes((bytes as f64 / seconds.max(0.001)) as u64);
            eprintln!("{files}, {} in {seconds:.1} s: {rate}/s", DecimalBytes(bytes));
        }
        Ok(())
    }
}

fn line(bar: &ProgressBar, name: &str) -> String {
    let done = bar.position();
    let percent = (done * 100).checked_div(bar.length().unwrap_or(0)).unwrap_or(100).min(100);
    let (size, rate) = (DecimalBytes(done), DecimalBytes(bar.per_sec() as u64));
    let (size, rate, left) =
        (size.to_string(), format!("{rate}/s"), format!("{:#}", HumanDuration(bar.eta())));
    format!("{percent:>3}% {size:>9} {rate:>11} {left:>4} left  {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_line_tells_percentage_amount_and_name() {
        let progress = Progress::new(true, false);
        progress.begin(2_000_000);
        progress.add(500_000);
        let line = line(&progress.line.bar, "file");
        assert!(line.starts_with(" 25% 500.00 kB ") && line.ends_with(" left  file"), "{line}");
    }
}
