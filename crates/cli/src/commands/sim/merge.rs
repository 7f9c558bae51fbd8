use crate::failure::Failure;
use manypath_sim::campaign;
use std::io::Write;
use std::path::{Path, PathBuf};

/// `manypath sim merge`.
pub(super) fn merge(results: &[PathBuf], out: &Path) -> Result<u8, Failure> {
    let records = campaign::merge(results).map_err(|e| Failure::new(e.to_string()))?;
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("results.csv"), campaign::to_csv(&records))?;
    let mut journal = std::io::BufWriter::new(std::fs::File::create(out.join("runs.jsonl"))?);
    for record in &records {
        let line = serde_json::to_string(record).map_err(|e| Failure::new(e.to_string()))?;
        writeln!(journal, "{line}")?;
    }
    journal.flush()?;
    println!("{} runs in {}", records.len(), out.join("results.csv").display());
    Ok(0)
}
