//! One page about all figures that a reader can follow.

use super::bars;
use manypath_control::counted;
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
    /// Of how many.
    of: usize,
    seeds: usize,
    measure: String,
}

impl Effort {
    pub(super) fn of(records: &[Record], of: usize) -> Self {
        let seeds: BTreeSet<u64> = records.iter().map(|record| record.seed).collect();
        let measure = records.first().and_then(|record| record.parameter("measure"));
        let measure = measure.unwrap_or_default().to_owned();
        Self { runs: records.len(), of, seeds: seeds.len(), measure }
    }

    /// Whether all runs are there that the figure asks for.
    pub(super) fn is_complete(&self) -> bool {
        self.runs == self.of
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, of, seeds, measure } = self;
        if !self.is_complete() {
            write!(f, "{runs} of ")?;
        }
        let (of, seeds) = (counted(*of, "run", "runs"), counted(*seeds, "seed", "seeds"));
        write!(f, "{of}, {seeds}, {measure} s measured in each")
    }
}

/// What stands around the notes of a figure, so that a page can be given newer ones.
pub(super) const NOTES: [&str; 2] = ["<!-- notes -->", "<!-- end of notes -->"];

/// What the page says of a figure.
pub(super) struct Section {
    pub(super) figure: &'static Figure,
    /// Criteria that are met, of how many.
    pub(super) met: usize,
    pub(super) of: usize,
    /// How much was simulated.
    pub(super) effort: String,
    /// Markdown, with its heading.
    pub(super) text: String,
}

impl Section {
    /// Of a figure that was just drawn.
    pub(super) fn new(result: &Result) -> Self {
        let Result { figure, verdict, runs, .. } = result;
        let mut text = section(result, "##");
        if !result.details.is_empty() {
            text += &format!("\n[All of it]({}.md).\n", figure.name);
        }
        let met = verdict.iter().filter(|criterion| criterion.met).count();
        Self { figure, met, of: verdict.len(), effort: runs.to_string(), text }
    }
}

/// The page (Markdown). Pictures are beside it.
pub(super) fn page(sections: &[Section]) -> String {
    let mut out = String::from(
        "# Published figures, simulated\n\n\
         Made by `manypath-lab sim figure --all --output docs/results`, or of figures that were made one by one by \
         `manypath-lab sim figure --page --output docs/results`, with the protocol engine that the live \
         stack uses. Means over the seeds with 95 % confidence intervals. Each figure below: what was \
         published, what we get, and where and why that differs.\n\n\
         | figure | criteria met | simulated |\n|---|---|---|\n",
    );
    for Section { figure, met, of, effort, .. } in sections {
        let Figure { name, title, .. } = figure;
        let anchor = anchor(&format!("{name}: {title}"));
        out += &format!("| [{name}](#{anchor}): {title} | {met} of {of} | {effort} |\n");
    }
    out += &format!("\n{}\n", CONTRADICTIONS.trim());
    sections.iter().for_each(|section| out += &section.text);
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
        "{runs}: `manypath-lab sim figure {name}`. [Points]({name}.csv), [picture]({name}.svg), \
         [verdict]({name}.verdict.json).\n\n"
    );
    out += &table(verdict);
    out += &bars::to_markdown(chart);
    let [begin, end] = NOTES;
    out += &format!("\n{begin}\n\n{}\n\n{end}\n", figure.notes.trim());
    out
}

/// A table of criteria.
pub(super) fn table<'c>(criteria: impl IntoIterator<Item = &'c Criterion>) -> String {
    let mut out =
        String::from("| criterion | published | ours | tolerance | met |\n|---|---|---|---|---|\n");
    for c in criteria {
        let met = if c.met { "yes" } else { "**no**" };
        let cells = [&c.criterion, &c.published, &c.ours, &c.tolerance].map(|text| escape(text));
        out += &format!("| {} | {met} |\n", cells.join(" | "));
    }
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
