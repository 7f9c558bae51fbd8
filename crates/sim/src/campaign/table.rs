//! Results as CSV: a header, one row per run, every parameter and every figure.

use super::record::Record;

/// The table of `records`. Columns are those of all runs together; a run without one leaves it empty.
pub fn to_csv(records: &[Record]) -> String {
    let parameters =
        columns(records.iter().map(|r| r.parameters.iter().map(|(name, _)| name.as_str())));
    let figures = columns(records.iter().map(|r| r.figures.iter().map(|(name, _)| name.as_str())));
    let fixed = ["id", "index", "scenario", "setup", "case", "seed"];
    let names = fixed.iter().chain(&parameters).chain(&["trace_hash", "failure"]).chain(&figures);
    let mut out = row(names.map(|name| (*name).to_owned()));
    for record in records {
        let head = [
            record.id.clone(),
            record.index.to_string(),
            record.scenario.clone(),
            record.setup.clone(),
            record.case.clone(),
            record.seed.to_string(),
        ];
        let values = parameters.iter().map(|name| record.parameter(name).unwrap_or("").to_owned());
        let tail = [record.trace_hash.clone(), record.failure.clone()];
        let numbers = figures.iter().map(|name| number(record.figure(name)));
        out += &row(head.into_iter().chain(values).chain(tail).chain(numbers));
    }
    out
}

/// Six significant digits are more than any figure deserves.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 12) as usize)
}

/// Every name once. One that is new in a run is put after the one that it follows there.
fn columns<'a>(runs: impl Iterator<Item = impl Iterator<Item = &'a str>>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for run in runs {
        let mut at = 0;
        for name in run {
            match all.get(at) {
                Some(expected) if *expected == name => at += 1,
                _ => match all.iter().position(|other| *other == name) {
                    Some(known) => at = known + 1,
                    None => {
                        all.insert(at, name);
                        at += 1;
                    }
                },
            }
        }
    }
    all
}

fn row(fields: impl Iterator<Item = String>) -> String {
    let quoted: Vec<_> = fields.map(quote).collect();
    quoted.join(",") + "\n"
}

/// RFC 4180.
fn quote(field: String) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_different_runs_are_joined_in_order() {
        let runs = [vec!["a", "c"], vec!["a", "b", "c", "d"]];
        assert_eq!(columns(runs.into_iter().map(Vec::into_iter)), ["a", "b", "c", "d"]);
    }

    #[test]
    fn numbers_are_short_and_fields_quoted() {
        assert_eq!(number(19.273_456_789), "19.2735");
        assert_eq!(number(0.000_123_456_7), "0.000123457");
        assert_eq!(number(12.0), "12");
        assert_eq!(number(f64::NAN), "");
        assert_eq!(quote("a,\"b\"".into()), "\"a,\"\"b\"\"\"");
    }
}
