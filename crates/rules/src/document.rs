//! The table as a file that people edit: one rule in a line, comments kept.
//!
//! ```text
//! # first match wins
//! default remote enable
//! remote disable port 25          # mail goes by itself
//! local enable port 22
//! ```

use crate::error::RuleError;
use crate::rule::{Chain, Policy, Rule};
use crate::table::{Place, Table};
use std::fmt;

/// Lines that a file may have; a table beyond that is not made by people.
const MAX_LINES: usize = 10_000;

/// A file of rules. Lines that are not touched stay as they were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    text: String,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Blank,
    Default(Chain, Policy),
    Rule(Rule),
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// The first line that is wrong, with what is allowed there.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut document = Self::default();
        for (index, line) in text.lines().enumerate() {
            if index == MAX_LINES {
                let message = format!("more than {MAX_LINES} lines");
                return Err(RuleError::new(message).at(index + 1));
            }
            let content = content(line).map_err(|error| error.at(index + 1))?;
            if let Content::Default(chain, _) = content {
                document.check_first_default(chain).map_err(|error| error.at(index + 1))?;
            }
            document.lines.push(Line { text: line.to_owned(), content });
        }
        Ok(document)
    }

    fn check_first_default(&self, chain: Chain) -> Result<(), RuleError> {
        match self.default_line(chain) {
            None => Ok(()),
            Some(first) => Err(RuleError::new(format!(
                "the default of {chain} was set in line {} already",
                first + 1
            ))),
        }
    }

    /// What a stack looks up.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::default();
        for line in &self.lines {
            match &line.content {
                Content::Blank => {}
                Content::Default(chain, policy) => table.set_default(*chain, *policy),
                Content::Rule(rule) => table.push(rule.clone()),
            }
        }
        table
    }

    /// Adds a rule: behind the last of its list, or at number `at` of it, the others moving on.
    /// Returns where it stands.
    ///
    /// # Errors
    /// When the list has fewer than `at - 1` rules.
    pub fn add(&mut self, rule: Rule, at: Option<usize>) -> Result<Place, RuleError> {
        let (chain, policy) = (rule.chain, rule.policy);
        let lines = self.lines_of(chain, policy);
        let number = at.unwrap_or(lines.len() + 1);
        if number == 0 || number > lines.len() + 1 {
            return Err(RuleError::new(format!(
                "no place {number} in {chain}-{policy}: it has {} rules",
                lines.len()
            )));
        }
        let line = match (lines.get(number - 1), lines.last()) {
            (Some(&there), _) => there,
            (None, Some(&last)) => last + 1,
            (None, None) => self.lines.len(),
        };
        self.lines.insert(line, Line { text: rule.to_string(), content: Content::Rule(rule) });
        Ok(Place { chain, policy, number })
    }

    /// Deletes the rule that stands at `place` and returns it.
    ///
    /// # Errors
    /// When no rule stands there.
    pub fn delete_at(&mut self, place: Place) -> Result<Rule, RuleError> {
        let lines = self.lines_of(place.chain, place.policy);
        let line = place.number.checked_sub(1).and_then(|index| lines.get(index));
        let line = line.map(|&line| self.lines.remove(line));
        match line.map(|line| line.content) {
            Some(Content::Rule(rule)) => Ok(rule),
            Some(Content::Blank | Content::Default(..)) | None => {
                Err(RuleError::new(format!("there is no {place}: it has {} rules", lines.len())))
            }
        }
    }

    /// Deletes the first rule that is the same, and tells where it stood.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete(&mut self, rule: &Rule) -> Result<Place, RuleError> {
        let table = self.table();
        let found = table.list(rule.chain, rule.policy).find(|(_, other)| *other == rule);
        let Some((place, _)) = found else {
            return Err(RuleError::new(format!("there is no rule \"{rule}\"")));
        };
        self.delete_at(place).map(|_| place)
    }

    /// Deletes all rules and says how many. Defaults and lines that are comments only stay.
    pub fn flush(&mut self) -> usize {
        let before = self.lines.len();
        self.lines.retain(|line| !matches!(line.content, Content::Rule(_)));
        before - self.lines.len()
    }

    /// Sets the default policy of a chain.
    pub fn set_default(&mut self, chain: Chain, policy: Policy) {
        let text = format!("default {chain} {policy}");
        let line = Line { text, content: Content::Default(chain, policy) };
        match self.default_line(chain) {
            Some(index) => self.lines[index] = line,
            None => self.lines.insert(self.head(), line),
        }
    }

    /// Where the comments at the head of the file end.
    fn head(&self) -> usize {
        let is_comment = |line: &&Line| line.content == Content::Blank && !line.text.is_empty();
        self.lines.iter().take_while(is_comment).count()
    }

    fn default_line(&self, chain: Chain) -> Option<usize> {
        let sets = |line: &Line| matches!(line.content, Content::Default(of, _) if of == chain);
        self.lines.iter().position(sets)
    }

    fn lines_of(&self, chain: Chain, policy: Policy) -> Vec<usize> {
        let belongs = |line: &Line| match &line.content {
            Content::Rule(rule) => rule.chain == chain && rule.policy == policy,
            Content::Blank | Content::Default(..) => false,
        };
        (0..self.lines.len()).filter(|&index| belongs(&self.lines[index])).collect()
    }
}

impl fmt::Display for Document {
    /// The file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{}", line.text))
    }
}

fn content(line: &str) -> Result<Content, RuleError> {
    let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(Content::Blank),
        ["default", chain, policy] => Ok(Content::Default(chain.parse()?, policy.parse()?)),
        ["default", ..] => {
            Err(RuleError::new("a default is written: default local|remote enable|disable"))
        }
        words => Ok(Content::Rule(Rule::from_words(words)?)),
    }
}
