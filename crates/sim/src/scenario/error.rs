use std::fmt;

/// Line and column, counted from 1; zeros stand for the file as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    pub(crate) const NONE: Self = Self { line: 0, column: 0 };
}

/// What is wrong with a scenario file: where, which key, and what would be allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    pub(crate) file: String,
    pub(crate) at: Place,
    /// Dotted name of the key, empty if there is none.
    pub(crate) key: String,
    pub(crate) message: String,
}

impl ScenarioError {
    pub(crate) fn new(at: Place, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: String::new(), at, key: key.into(), message: message.into() }
    }

    pub(crate) fn in_file(self, file: &str) -> Self {
        Self { file: file.to_owned(), ..self }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        let Place { line, column } = self.at;
        if line > 0 {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// `names` for people: "a, b, c".
pub(crate) fn list(names: &[&str]) -> String {
    names.join(", ")
}

/// The name among `names` that was probably meant: at most two letters differ.
pub(crate) fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let scored = names.iter().map(|other| (distance(name, other), *other));
    scored.filter(|(distance, _)| *distance <= 2).min().map(|(_, name)| name)
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(nearest("dealy", &["rate", "delay"]), Some("delay"));
        assert_eq!(nearest("bandwidth", &["rate", "delay"]), None);
    }
}
