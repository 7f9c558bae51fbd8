//! What the tables say in sum: `docs/conformance.md` and what the command prints.

use crate::checklist::{Row, section};
use crate::table::{Status, Table};
use std::fmt::Write as _;

/// Numbers of requirements.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Met, with a test.
    pub met: usize,
    /// Not met or not applicable, with a reason.
    pub exceptions: usize,
    /// Still to do.
    pub todo: usize,
}

impl Totals {
    /// All of them.
    pub fn all(&self) -> usize {
        self.met + self.exceptions + self.todo
    }
}

/// The sums of a table.
pub fn totals(table: &Table) -> Totals {
    let mut totals = Totals::default();
    for requirement in &table.requirements {
        match requirement.status {
            Status::Met(_) => totals.met += 1,
            Status::Exception(_) => totals.exceptions += 1,
            Status::Todo(_) => totals.todo += 1,
        }
    }
    totals
}

/// The page of all RFCs and the checklist: totals, the checklist, exceptions and todos in full.
pub fn page(tables: &[(&str, &str, Table)], rows: &[Row]) -> String {
    let mut out = String::from(HEAD);
    for (name, subject, table) in tables {
        let t = totals(table);
        let rfc = name.to_uppercase().replace("RFC", "RFC ");
        let _ = writeln!(
            out,
            "| {rfc} | {subject} | {} | {} | {} | {} |",
            t.all(),
            t.met,
            t.exceptions,
            t.todo
        );
    }
    out.push_str(&section(rows));
    for (name, _, table) in tables {
        let rfc = name.to_uppercase().replace("RFC", "RFC ");
        list(&mut out, &format!("Exceptions to {rfc}"), table, |status| match status {
            Status::Exception(why) => Some(why.clone()),
            Status::Met(_) | Status::Todo(_) => None,
        });
        list(&mut out, &format!("To do of {rfc}"), table, |status| match status {
            Status::Todo(what) => Some(what.clone()),
            Status::Met(_) | Status::Exception(_) => None,
        });
    }
    out
}

const HEAD: &str = "\
# Conformance

Every sentence of the RFCs that has MUST, SHALL, REQUIRED, SHOULD or RECOMMENDED in it is an entry of a table in
`specs/requirements/`: met, with the test that shows it; an exception, with the reason; or to do. A test holds the
tables against the texts in `specs/` and against the sources. This page is written by

```
cargo run -p manypath-tests --bin requirements -- --write
```

| RFC | subject | requirements | met | exceptions | to do |
|---|---|---|---|---|---|
";

fn list(out: &mut String, title: &str, table: &Table, pick: impl Fn(&Status) -> Option<String>) {
    let rows: Vec<_> =
        table.requirements.iter().filter_map(|r| pick(&r.status).map(|text| (r, text))).collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {title}\n");
    for (requirement, text) in rows {
        let text = if text.is_empty() { String::new() } else { format!(" *{text}*") };
        let _ = writeln!(out, "- {}: {}{text}", requirement.section, requirement.quote);
    }
}
