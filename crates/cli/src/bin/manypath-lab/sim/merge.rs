use crate::failure::Failure;
use manypath_sim::campaign;
use std::io::Write;
use std::path::{Path, PathBuf};

/// `manypath-lab sim merge`.
pub(super) fn merge(results: &[PathBuf], out: &Path, json: bool) -> Result<u8, Failure> {
    let records = campaign::merge(results).map_err(|e| Failure::new(e.to_string()))?;
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("results.csv"), campaign::to_csv(&records))?;
    let mut journal = std::io::BufWriter::new(std::fs::File::create(out.join("runs.jsonl"))?);
    for record in &records {
        let line = serde_json::to_string(record).map_err(|e| Failure::new(e.to_string()))?;
        writeln!(journal, "{line}")?;
    }
    journal.flush()?;
    let table = out.join("results.csv");
    match json {
        true => println!("{}", serde_json::json!({ "runs": records.len(), "results": table })),
        false => println!("{} in {}", super::campaign::runs(records.len()), table.display()),
    }
    Ok(0)
}
