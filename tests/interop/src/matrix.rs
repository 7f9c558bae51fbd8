//! The results as tables of Markdown.

use crate::cell::Outcome;

/// One column for each peer, of one list of outcomes for each row.
pub(crate) struct Matrix {
    /// Between `<!-- NAME -->` and `<!-- end of NAME -->` it stands in a document.
    name: &'static str,
    rows: Vec<String>,
    columns: Vec<(String, Vec<Vec<Outcome>>)>,
}

impl Matrix {
    pub(crate) fn new(name: &'static str, rows: Vec<String>) -> Self {
        Self { name, rows, columns: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &str, column: Vec<Vec<Outcome>>) {
        self.columns.push((name.to_owned(), column));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    pub(crate) fn failed(&self) -> bool {
        let outcomes = self.columns.iter().flat_map(|(_, column)| column.iter().flatten());
        outcomes.into_iter().any(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    /// The table, and the reasons of cells without a result.
    pub(crate) fn text(&self) -> String {
        let mut notes = Vec::new();
        let names: Vec<_> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = format!("| begun by us / by the peer | {} |\n", names.join(" | "));
        text += &format!("|---|{}\n", "---|".repeat(names.len()));
        for (row, title) in self.rows.iter().enumerate() {
            let cells = self.columns.iter().map(|(_, column)| cell(&column[row], &mut notes));
            let cells: Vec<_> = cells.collect();
            text += &format!("| {title} | {} |\n", cells.join(" | "));
        }
        text += &format!("| captures | {} |\n", self.captures().join(" | "));
        for (number, note) in notes.iter().enumerate() {
            text += &format!("\n{}. {note}", number + 1);
        }
        if !notes.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Of each peer: how many packets tshark has found nothing wrong with.
    fn captures(&self) -> Vec<String> {
        let of = |column: &Vec<Vec<Outcome>>| {
            let packets = column.iter().flatten().map(|outcome| match outcome {
                Outcome::Good(_, packets) => *packets,
                Outcome::Failed(_) | Outcome::Unsupported(_) | Outcome::Missing(_) => 0,
            });
            format!("{} packets, no warning", packets.sum::<u64>())
        };
        self.columns.iter().map(|(_, column)| of(column)).collect()
    }

    /// Replaces what is between the marks in `file`.
    pub(crate) fn write(&self, file: &str) -> Result<(), String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let mark = format!("<!-- {} -->", self.name);
        let marks = text.find(&mark).zip(text.find(&format!("<!-- end of {} -->", self.name)));
        let (begin, end) = marks.ok_or_else(|| format!("{file} has no place for {}", self.name))?;
        let new = format!("{}{mark}\n{}{}", &text[..begin], self.text(), &text[end..]);
        std::fs::write(file, new).map_err(|error| format!("{file}: {error}"))
    }
}

/// The column of whom this machine cannot run, which is said.
pub(crate) fn missing(name: &str, reason: &str, rows: usize) -> Vec<Vec<Outcome>> {
    println!("SKIPPED: {name}: {reason}");
    vec![vec![Outcome::Missing(reason.to_owned())]; rows]
}

/// The seconds of both runs, or what is wrong; reasons go to the notes.
fn cell(outcomes: &[Outcome], notes: &mut Vec<String>) -> String {
    let texts: Vec<String> = outcomes.iter().map(|outcome| one(outcome, notes)).collect();
    texts.join(" / ")
}

fn one(outcome: &Outcome, notes: &mut Vec<String>) -> String {
    let (word, reason) = match outcome {
        Outcome::Good(figure, _) => return figure.clone(),
        Outcome::Failed(reason) => ("**failed**", reason.as_str()),
        Outcome::Unsupported(reason) => ("no", *reason),
        Outcome::Missing(reason) => ("not run", reason.as_str()),
    };
    let known = notes.iter().position(|note| note == reason).unwrap_or_else(|| {
        notes.push(reason.to_owned());
        notes.len() - 1
    });
    format!("{word} ({})", known + 1)
}
