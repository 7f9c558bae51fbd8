//! One page about all figures that a reader can follow.

use super::bars;
use manypath_sim::campaign::Record;
use manypath_sim::figure::plot::Chart;
use manypath_sim::figure::{CONTRADICTIONS, Criterion, Figure};
use std::collections::BTreeSet;
use std::fmt;

/// A figure and how it came out.
pub(super) struct Result {
    pub(super) figure: &'static Figure,
    pub(super) verdict: Vec<Criterion>,
    pub(super) chart: Chart,
    /// What else there is to say (Markdown).
    pub(super) details: String,
    pub(super) runs: Effort,
}

/// How much was simulated.
pub(super) struct Effort {
    runs: usize,
    seeds: usize,
    measure: String,
}

impl Effort {
    pub(super) fn of(records: &[Record]) -> Self {
        let seeds: BTreeSet<u64> = records.iter().map(|record| record.seed).collect();
        let measure = records.first().and_then(|record| record.parameter("measure"));
        let measure = measure.unwrap_or_default().to_owned();
        Self { runs: records.len(), seeds: seeds.len(), measure }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, seeds, measure } = self;
        write!(f, "{runs} runs, {seeds} seeds, {measure} s measured in each")
    }
}

/// The page (Markdown). Pictures are beside it.
pub(super) fn page(results: &[Result]) -> String {
    let mut out = String::from(
        "# Published figures, simulated\n\n\
         Made by `manypath sim figure --all --out docs/results` with the protocol engine that the live \
         stack uses. Means over the seeds with 95 % confidence intervals. Each figure below: what was \
         published, what we get, and where and why that differs.\n\n\
         | figure | criteria met | simulated |\n|---|---|---|\n",
    );
    for Result { figure, verdict, runs, .. } in results {
        let met = verdict.iter().filter(|criterion| criterion.met).count();
        let Figure { name, title, .. } = figure;
        let anchor = anchor(&format!("{name}: {title}"));
        out += &format!("| [{name}](#{anchor}): {title} | {met} of {} | {runs} |\n", verdict.len());
    }
    out += &format!("\n{}\n", CONTRADICTIONS.trim());
    for result in results {
        out += &section(result, "##");
        if !result.details.is_empty() {
            out += &format!("\n[All of it]({}.md).\n", result.figure.name);
        }
    }
    out
}

/// A page about one figure alone, with all that there is to say.
pub(super) fn one(result: &Result) -> String {
    format!("{}\n{}\n", section(result, "#").trim_start(), result.details.trim())
}

fn section(result: &Result, heading: &str) -> String {
    let Result { figure, verdict, chart, details: _, runs } = result;
    let (name, title) = (figure.name, figure.title);
    let mut out = format!("\n{heading} {name}: {title}\n\n![{title}]({name}.svg)\n\n");
    out += &format!(
        "{runs}: `manypath sim figure {name}`. [Points]({name}.csv), [picture]({name}.png), \
         [verdict]({name}.verdict.json).\n\n"
    );
    out += "| criterion | published | ours | tolerance | met |\n|---|---|---|---|---|\n";
    for c in verdict {
        let met = if c.met { "yes" } else { "**no**" };
        let cells = [&c.criterion, &c.published, &c.ours, &c.tolerance].map(|text| escape(text));
        out += &format!("| {} | {met} |\n", cells.join(" | "));
    }
    out += &bars::to_markdown(chart);
    out += &format!("\n{}\n", figure.notes.trim());
    out
}

/// What a heading is called in links to it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
