//! `specs/checklist.toml`: behaviours of an SCTP endpoint, who judges them, and our tests.

use crate::table::{Status, names};
use std::fmt::Write as _;
use toml::de::{DeTable, DeValue};

/// One behaviour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its short name.
    pub id: String,
    /// What is to be seen.
    pub behaviour: String,
    /// Where that is written.
    pub section: String,
    /// `etsi`, `other` or `none`: which public suite judges it.
    pub judge: String,
    /// How it stands; there are no exceptions.
    pub status: Status,
}

/// Reads the rows.
///
/// # Errors
/// What is wrong with which row.
pub fn checklist(text: &str) -> Result<Vec<Row>, String> {
    let table = DeTable::parse(text).map_err(|error| error.to_string())?;
    let Some(DeValue::Array(rows)) = table.get_ref().get("row").map(toml::Spanned::get_ref) else {
        return Err("there is no array `row`".into());
    };
    let read = |(i, row): (usize, &toml::Spanned<DeValue<'_>>)| {
        row_of(row.get_ref()).map_err(|why| format!("row {}: {why}", i + 1))
    };
    rows.iter().enumerate().map(read).collect()
}

fn row_of(value: &DeValue<'_>) -> Result<Row, String> {
    let DeValue::Table(table) = value else { return Err("is not a table".into()) };
    let text = |key: &str| match table.get(key).map(toml::Spanned::get_ref) {
        Some(DeValue::String(text)) => Ok(text.to_string()),
        _ => Err(format!("has no `{key}`")),
    };
    let (id, judge) = (text("id")?, text("judge")?);
    if !["etsi", "other", "none"].contains(&judge.as_str()) {
        return Err(format!("{id}: no judge '{judge}'"));
    }
    let status = match (text("test"), text("todo")) {
        (Ok(tests), Err(_)) => Status::Met(names(&tests)),
        (Err(_), Ok(what)) => Status::Todo(what),
        _ => return Err(format!("{id} needs one of `test` and `todo`")),
    };
    Ok(Row { id, behaviour: text("behaviour")?, section: text("section")?, judge, status })
}

/// What the page says about the checklist: sums, then every row.
pub(crate) fn section(rows: &[Row]) -> String {
    let mut out = String::from(HEAD);
    for (judge, name) in JUDGES {
        let of: Vec<_> = rows.iter().filter(|row| row.judge == *judge).collect();
        let shown = of.iter().filter(|row| matches!(row.status, Status::Met(_))).count();
        let _ = writeln!(out, "| {name} | {} | {shown} | {} |", of.len(), of.len() - shown);
    }
    let shown = rows.iter().filter(|row| matches!(row.status, Status::Met(_))).count();
    let _ = writeln!(out, "| all | {} | {shown} | {} |", rows.len(), rows.len() - shown);
    out.push_str("\n| id | behaviour | section | judged by | our tests |\n|---|---|---|---|---|\n");
    for row in rows {
        let tests = match &row.status {
            Status::Met(tests) => tests.join(", "),
            Status::Todo(what) | Status::Exception(what) => format!("to do: {what}"),
        };
        let judge = JUDGES.iter().find(|(judge, _)| row.judge == *judge).map_or("", |(_, n)| n);
        let Row { id, behaviour, section, .. } = row;
        let cells = [id, behaviour, section, judge, tests.trim_end_matches([' ', ':'])];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

const JUDGES: &[(&str, &str)] =
    &[("etsi", "ETSI's suite"), ("other", "another public suite"), ("none", "no public suite")];

const HEAD: &str = "
## Checklist

Behaviours that an endpoint shows, whoever looks: `specs/checklist.toml`. `docs/scripts.md` says how the public suites are
run, and how our scripts, `*.pkt` below, are.

| judged by | behaviours | shown by our tests | to do |
|---|---|---|---|
";
