//! One page about all figures that a reader can follow.

use manypath_sim::campaign::Record;
use manypath_sim::figure::{Criterion, Figure};
use std::collections::BTreeSet;
use std::fmt;

/// A figure and how it came out.
pub(super) struct Result {
    pub(super) figure: &'static Figure,
    pub(super) verdict: Vec<Criterion>,
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
         Made by `manypath sim figure --all` with the protocol engine that the live stack uses. Means \
         over the seeds with 95 % confidence intervals.\n",
    );
    for Result { figure, verdict, runs } in results {
        let name = figure.name;
        out += &format!("\n## {name}: {}\n\n![{}]({name}.svg)\n\n", figure.title, figure.title);
        out += &format!("{runs}. [Points]({name}.csv), [picture]({name}.png).\n\n");
        out += "| criterion | published | ours | tolerance | met |\n|---|---|---|---|---|\n";
        for c in verdict {
            let met = if c.met { "yes" } else { "**no**" };
            let cells =
                [&c.criterion, &c.published, &c.ours, &c.tolerance].map(|text| escape(text));
            out += &format!("| {} | {met} |\n", cells.join(" | "));
        }
        out += &format!("\n{}\n", figure.notes.trim());
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
