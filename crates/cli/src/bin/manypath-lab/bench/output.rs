//! The folder of `--output`.

use super::Report;
use crate::failure::Failure;
use manypath_sim::figure::plot::to_svg;
use std::fs;
use std::path::Path;

/// Writes table, chart and JSON.
pub(super) fn write(folder: &Path, report: &Report, text: &str, json: &str) -> Result<(), Failure> {
    let failed =
        |e: std::io::Error| Failure::new(format!("cannot write to {}: {e}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    let chart = manypath_bench::chart("manypath-lab bench", &report.results);
    let page = format!(
        "# {}\n\n```\n{}\n```\n\n{text}\n\n![chart](bench.svg)\n",
        "Measured by manypath-lab bench", report.command
    );
    let files = [("bench.md", page.as_str()), ("bench.json", json), ("bench.svg", &to_svg(&chart))];
    files
        .into_iter()
        .try_for_each(|(name, text)| fs::write(folder.join(name), text).map_err(failed))
}
