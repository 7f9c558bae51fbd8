//! The lines that are printed.

use crate::verdict::Verdict;
use serde_json::json;
use std::path::Path;

/// Prints verdicts and counts them.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    quiet: bool,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Report {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, passed: 0, failed: 0, skipped: 0 }
    }

    /// Prints one verdict.
    pub(crate) fn add(&mut self, file: &Path, verdict: &Verdict) {
        let (word, line, why, count) = match verdict {
            Verdict::Pass => ("PASS", None, None, &mut self.passed),
            Verdict::Fail(line, why) => ("FAIL", Some(*line), Some(why), &mut self.failed),
            Verdict::Skip(line, why) => ("SKIP", *line, Some(why), &mut self.skipped),
        };
        *count += 1;
        if self.quiet && why.is_none() {
            return;
        }
        let path = file.display().to_string();
        if self.json {
            println!("{}", json!({"verdict": word, "path": path, "line": line, "why": why}));
            return;
        }
        let place = line.filter(|line| *line > 0).map_or(String::new(), |line| format!(":{line}"));
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        println!("{word} {path}{place}{why}");
    }

    /// Prints the counts. Whether nothing failed.
    pub(crate) fn finish(&self) -> bool {
        let Self { passed, failed, skipped, .. } = *self;
        let total = passed + failed + skipped;
        if self.json {
            println!(
                "{}",
                json!({"scripts": total, "passed": passed, "failed": failed, "skipped": skipped})
            );
        } else {
            println!("{total} scripts: {passed} passed, {failed} failed, {skipped} skipped");
        }
        failed == 0
    }
}
