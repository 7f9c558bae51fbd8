//! The folder of `--output`.

use super::Report;
use crate::failure::Failure;
use manypath_sim::figure::plot::{to_png, to_svg};
use std::fs;
use std::path::Path;

/// Writes table, chart and JSON.
pub(super) fn write(folder: &Path, report: &Report, text: &str, json: &str) -> Result<(), Failure> {
    let failed =
        |e: std::io::Error| Failure::new(format!("cannot write to {}: {e}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    let chart = manypath_bench::chart("manypath-lab bench", &report.results);
    let page = format!(
        "# {}\n\n```\n{}\n```\n\n{text}\n\n![chart](bench.png)\n",
        "Measured by manypath-lab bench", report.command
    );
    let (svg, png) = (to_svg(&chart), to_png(&chart));
    let files: [(&str, &[u8]); 4] = [
        ("bench.md", page.as_bytes()),
        ("bench.json", json.as_bytes()),
        ("bench.svg", svg.as_bytes()),
        ("bench.png", &png),
    ];
    files
        .into_iter()
        .try_for_each(|(name, bytes)| fs::write(folder.join(name), bytes).map_err(failed))
}
