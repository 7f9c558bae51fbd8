//! Tables of requirements: `specs/requirements/rfcNNNN.toml`, one entry per sentence.

use crate::specification::{Level, Specification};
use std::fmt::Write as _;
use toml::de::{DeTable, DeValue};

/// How it stands with a requirement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    /// Met; the tests that show it (names of test functions or scripts).
    Met(Vec<String>),
    /// Not met or not applicable, for this reason.
    Exception(String),
    /// Not yet looked at or not yet met; what is missing.
    Todo(String),
}

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requirement {
    /// Section of the RFC.
    pub section: String,
    /// Its words.
    pub quote: String,
    /// How it stands.
    pub status: Status,
}

/// All entries of one RFC.
#[derive(Clone, Default, Debug)]
pub struct Table {
    /// In the order of the RFC.
    pub requirements: Vec<Requirement>,
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    /// What is wrong with which entry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table = DeTable::parse(text).map_err(|error| error.to_string())?;
        let Some(entries) = table.get_ref().get("requirement") else { return Ok(Self::default()) };
        let DeValue::Array(entries) = entries.get_ref() else {
            return Err("`requirement` must be an array of tables".into());
        };
        let read = |(i, entry): (usize, &toml::Spanned<DeValue<'_>>)| {
            entry_of(entry.get_ref()).map_err(|why| format!("entry {}: {why}", i + 1))
        };
        Ok(Self { requirements: entries.iter().enumerate().map(read).collect::<Result<_, _>>()? })
    }
}

fn entry_of(value: &DeValue<'_>) -> Result<Requirement, String> {
    let DeValue::Table(table) = value else { return Err("is not a table".into()) };
    let text = |key: &str| match table.get(key).map(toml::Spanned::get_ref) {
        Some(DeValue::String(text)) => Some(text.to_string()),
        _ => None,
    };
    let section = text("section").ok_or("has no `section`")?;
    let quote = text("quote").ok_or("has no `quote`")?;
    let status = match (text("test"), text("exception"), text("todo")) {
        (Some(tests), None, None) => Status::Met(names(&tests)),
        (None, Some(why), None) if !why.trim().is_empty() => Status::Exception(why),
        (None, None, Some(what)) => Status::Todo(what),
        _ => {
            return Err(format!(
                "({section}) needs one of `test`, `exception` with a reason, `todo`"
            ));
        }
    };
    Ok(Requirement { section, quote, status })
}

pub(crate) fn names(tests: &str) -> Vec<String> {
    tests.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The table of an RFC that nobody has looked at: every requirement is a todo.
pub fn skeleton(rfc: &Specification) -> String {
    let mut out = String::new();
    for (number, section) in rfc.sections() {
        for sentence in section.requirements() {
            let level = match sentence.level {
                Level::Must => "MUST",
                Level::Should => "SHOULD",
            };
            let quote = sentence.text.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(
                out,
                "[[requirement]] # {level}\nsection = \"{number}\"\nquote = \"{quote}\"\ntodo = \"\"\n"
            );
        }
    }
    out
}
