//! What comes of a script.

use crate::language::ast::Script;
use crate::language::{Stop, Why, parse};
use crate::run::run;
use std::collections::BTreeMap;
use std::path::Path;

/// What came of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The stack did what the script says.
    Pass,
    /// It did not, or the script is malformed: line and reason.
    Fail(usize, String),
    /// The script was not judged: line, if it was one, and reason.
    Skip(Option<usize>, String),
}

/// Scripts that are not expected to pass.
#[derive(Default, Debug)]
pub(crate) struct Waivers(Vec<Waiver>);

#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Waiver {
    /// Ends of the scripts' paths.
    scripts: Vec<String>,
    /// Since when.
    date: String,
    /// Why the stack is right.
    reason: String,
}

#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct WaiverFile {
    #[serde(default)]
    waiver: Vec<Waiver>,
}

impl Waivers {
    /// Reads a file of `[[waiver]]` tables with `scripts`, `date` and `reason`.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let error = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| error(&e))?;
        let parsed: WaiverFile = toml::from_str(&text).map_err(|e| error(&e))?;
        Ok(Self(parsed.waiver))
    }

    fn of(&self, path: &Path) -> Option<&Waiver> {
        let names = |waiver: &&Waiver| waiver.scripts.iter().any(|script| path.ends_with(script));
        self.0.iter().find(names)
    }
}

/// Runs the script in `file`.
pub(crate) fn judge(
    file: &Path,
    defines: &BTreeMap<String, String>,
    waivers: &Waivers,
    trace: bool,
) -> Verdict {
    let text = match std::fs::read(file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return Verdict::Fail(0, format!("cannot be read: {error}")),
    };
    let verdict = judge_text(&text, defines, trace);
    if let (Verdict::Fail(line, text), Some(note)) = (&verdict, expected_failure(file)) {
        return Verdict::Skip(Some(*line), format!("expected to fail ({note}): {text}"));
    }
    match (verdict, waivers.of(file)) {
        (Verdict::Fail(line, text), Some(waiver)) => {
            let Waiver { date, reason, .. } = waiver;
            Verdict::Skip(Some(line), format!("waived on {date}: {reason} ({text})"))
        }
        (Verdict::Pass, Some(waiver)) => {
            Verdict::Fail(0, format!("passes, but is waived: {}", waiver.reason))
        }
        (verdict, _) => verdict,
    }
}

/// What a suite notes about a script that it expects to fail: the file NAME.exfail beside it.
fn expected_failure(file: &Path) -> Option<String> {
    let note = std::fs::read_to_string(file.with_extension("exfail")).ok()?;
    Some(note.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Runs a script.
pub(crate) fn judge_text(text: &str, defines: &BTreeMap<String, String>, trace: bool) -> Verdict {
    let outcome = parse_twice(text, defines).and_then(|script| run(&script, trace));
    match outcome {
        Ok(()) => Verdict::Pass,
        Err(stop) => match stop.why {
            Why::Syntax(text) => Verdict::Fail(stop.line, format!("malformed script: {text}")),
            Why::Mismatch(text) => Verdict::Fail(stop.line, text),
            Why::Gap(text) => Verdict::Skip(Some(stop.line), text),
        },
    }
}

/// Parses a script, and again if it defines names itself.
fn parse_twice(text: &str, defines: &BTreeMap<String, String>) -> Result<Script, Stop> {
    let script = parse(text, defines)?;
    let own = script.options.iter().filter(|(name, _)| name == "define");
    let own: Vec<_> = own.filter_map(|(_, value)| value.clone()).collect();
    if own.is_empty() {
        return Ok(script);
    }
    let mut all = defines.clone();
    all.extend(crate::scripts::split_defines(&own));
    parse(text, &all)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
