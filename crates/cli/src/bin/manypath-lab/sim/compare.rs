use super::table::align;
use crate::failure::Failure;
use manypath_sim::campaign::{self, Comparison, Summary};
use std::path::Path;

/// `manypath-lab sim compare`.
pub(super) fn compare(a: &Path, b: &Path, figures: &[String], json: bool) -> Result<u8, Failure> {
    let load = |dir: &Path| {
        campaign::merge(&[dir.to_owned()])
            .map_err(|e| Failure::new(e.to_string()).hint(format!("in {}", dir.display())))
    };
    let comparisons = campaign::compare(&load(a)?, &load(b)?, figures);
    if comparisons.is_empty() {
        let hint = "points are the same if case and swept parameters are";
        return Err(Failure::new("the results have no point and figure in common").hint(hint));
    }
    let text = if json { to_json(&comparisons) } else { to_text(&comparisons) };
    print!("{text}");
    Ok(0)
}

fn to_text(comparisons: &[Comparison]) -> String {
    let head = ["point", "figure", "A", "B", "change", ""].map(str::to_owned).to_vec();
    let row = |c: &Comparison| {
        vec![
            c.point.clone(),
            c.figure.clone(),
            show(&c.a),
            show(&c.b),
            format!("{:+.1} %", c.change() * 100.0),
            if c.is_different() { "different" } else { "" }.to_owned(),
        ]
    };
    align(std::iter::once(head).chain(comparisons.iter().map(row)).collect())
}

fn to_json(comparisons: &[Comparison]) -> String {
    let side =
        |s: &Summary| serde_json::json!({"mean": s.mean, "ci95": s.half_width, "runs": s.count});
    let rows = comparisons.iter().map(|c| {
        serde_json::json!({
            "point": c.point, "figure": c.figure, "a": side(&c.a), "b": side(&c.b),
            "change": c.change(), "different": c.is_different(),
        })
    });
    format!("{:#}\n", serde_json::Value::from_iter(rows))
}

fn show(summary: &Summary) -> String {
    format!("{:.4} ±{:.4}", summary.mean, summary.half_width)
}
