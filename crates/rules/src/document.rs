//! The table as a file that people edit: one rule in a line, comments kept.
//!
//! ```text
//! # first match wins
//! default remote enable
//! remote disable port 25          # mail goes by itself
//! local enable port 22
//! ```

use crate::config::Layers;
use crate::error::{FileError, RuleError};
use crate::rule::{Chain, Policy, Rule};
use crate::table::{Place, Table};
use std::fmt;
use std::path::{Path, PathBuf};

/// Lines that a file may have; a table beyond that is not made by people.
const MAX_LINES: usize = 10_000;

/// The rules of all files; one of them can be changed. Lines that are not touched stay as they were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    lines: Vec<Line>,
    files: Vec<PathBuf>,
    /// The file that changes are made to.
    own: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    text: String,
    content: Content,
    origin: Origin,
}

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin {
    file: usize,
    /// Its number when it was read.
    line: usize,
    /// It stands for an entry of `services`.
    is_service: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Blank,
    Default(Chain, Policy),
    Rule(Rule),
}

impl Document {
    /// Reads a text.
    ///
    /// # Errors
    /// The first line that is wrong, with what is allowed there.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        Self::of(&Layers::of_text(text)).map_err(|error| match error {
            FileError::Rule(_, error) | FileError::Edit(error) => error,
            FileError::Io(_, error) => RuleError::new(error.to_string()),
        })
    }

    /// Reads all files.
    ///
    /// # Errors
    /// The first line that is wrong, with its file and what is allowed there.
    pub fn of(layers: &Layers) -> Result<Self, FileError> {
        let files = layers.layers.iter().map(|layer| layer.path.clone()).collect();
        let mut document = Self { lines: Vec::new(), files, own: layers.own };
        for (file, layer) in layers.layers.iter().enumerate() {
            for (index, (line, text)) in layer.lines.iter().enumerate() {
                let is_service = index >= layer.lines.len() - layer.services;
                let origin = Origin { file, line: *line, is_service };
                let wrong = |error: RuleError| FileError::Rule(layer.path.clone(), error.at(*line));
                let content = document.content(file, index, text).map_err(wrong)?;
                document.lines.push(Line { text: text.clone(), content, origin });
            }
        }
        Ok(document)
    }

    /// What the next line of a file says.
    fn content(&self, file: usize, before: usize, text: &str) -> Result<Content, RuleError> {
        if before == MAX_LINES {
            return Err(RuleError::new(format!("more than {MAX_LINES} lines")));
        }
        let content = content(text)?;
        let Content::Default(chain, _) = content else { return Ok(content) };
        let first = self.default_line(chain, file).map(|index| self.lines[index].origin.line);
        match first {
            None => Ok(content),
            Some(first) => Err(RuleError::new(format!(
                "the default of {chain} was set in line {first} already"
            ))),
        }
    }

    /// What a stack looks up.
    #[must_use]
    pub fn table(&self) -> Table {
        let (mut table, mut set) = (Table::default(), Vec::new());
        for line in &self.lines {
            match &line.content {
                Content::Blank => {}
                // The first one holds.
                Content::Default(chain, policy) if !set.contains(chain) => {
                    set.push(*chain);
                    table.set_default(*chain, *policy);
                }
                Content::Default(..) => {}
                Content::Rule(rule) => table.push(rule.clone()),
            }
        }
        table
    }

    /// Where each rule and default comes from, with its text: in the order in which they count.
    pub fn origins(&self) -> impl Iterator<Item = (&Path, usize, &str)> {
        let lines = self.lines.iter().filter(|line| line.content != Content::Blank);
        lines.map(|line| {
            (self.files[line.origin.file].as_path(), line.origin.line, line.text.trim())
        })
    }

    /// The file of the rule that stands at `place`, and its line there when it was read.
    #[must_use]
    pub fn origin(&self, place: Place) -> Option<(&Path, usize)> {
        let index = place.number.checked_sub(1)?;
        let line = *self.lines_of(place.chain, place.policy).get(index)?;
        let origin = self.lines[line].origin;
        Some((self.files[origin.file].as_path(), origin.line))
    }

    /// The file of a chain's default, if one sets it.
    #[must_use]
    pub fn default_origin(&self, chain: Chain) -> Option<&Path> {
        let file = (0..self.files.len()).find(|file| self.default_line(chain, *file).is_some());
        file.map(|file| self.files[file].as_path())
    }

    /// Adds a rule to the file that changes are made to: behind the last of its list, or at number `at` of the
    /// whole list, the others moving on. Returns where it stands.
    ///
    /// # Errors
    /// When there is no such place in that file.
    pub fn add(&mut self, rule: Rule, at: Option<usize>) -> Result<Place, RuleError> {
        let (chain, policy) = (rule.chain, rule.policy);
        let all = self.lines_of(chain, policy);
        let before = all.iter().filter(|line| self.lines[**line].origin.file < self.own).count();
        let own: Vec<_> = all.iter().copied().filter(|line| self.is_own(*line)).collect();
        let number = at.unwrap_or(before + own.len() + 1);
        let index = number.checked_sub(before + 1).filter(|index| *index <= own.len());
        let Some(index) = index else {
            return Err(self.no_place(chain, policy, number, all.len()));
        };
        let line = match (own.get(index), own.last()) {
            (Some(&there), _) => there,
            (None, Some(&last)) => last + 1,
            (None, None) => self.end(),
        };
        self.put(line, rule.to_string(), Content::Rule(rule));
        Ok(Place { chain, policy, number })
    }

    fn no_place(&self, chain: Chain, policy: Policy, number: usize, all: usize) -> RuleError {
        let there_is = number > 0 && number <= all + 1;
        RuleError::new(match self.files.get(self.own) {
            Some(own) if there_is => {
                format!("{chain}-{policy} {number} is not among the rules of {}", own.display())
            }
            Some(_) | None => format!("no place {number} in {chain}-{policy}: it has {all} rules"),
        })
    }

    fn put(&mut self, at: usize, text: String, content: Content) {
        let origin = Origin { file: self.own, line: 0, is_service: false };
        self.lines.insert(at, Line { text, content, origin });
    }

    fn is_own(&self, line: usize) -> bool {
        let origin = self.lines[line].origin;
        origin.file == self.own && !origin.is_service
    }

    /// Where the own lines end.
    fn end(&self) -> usize {
        let earlier = |line: &Line| line.origin.file < self.own;
        let own = |line: &&Line| line.origin.file == self.own && !line.origin.is_service;
        self.lines.iter().filter(|line| earlier(line) || own(line)).count()
    }

    /// Deletes the rule that stands at `place` and returns it.
    ///
    /// # Errors
    /// When no rule stands there.
    pub fn delete_at(&mut self, place: Place) -> Result<Rule, RuleError> {
        let lines = self.lines_of(place.chain, place.policy);
        let line = place.number.checked_sub(1).and_then(|index| lines.get(index)).copied();
        if let Some(line) = line.filter(|line| !self.is_own(*line)) {
            return Err(self.not_own(place, line));
        }
        let line = line.map(|line| self.lines.remove(line));
        match line.map(|line| line.content) {
            Some(Content::Rule(rule)) => Ok(rule),
            Some(Content::Blank | Content::Default(..)) | None => {
                Err(RuleError::new(format!("there is no {place}: it has {} rules", lines.len())))
            }
        }
    }

    fn not_own(&self, place: Place, line: usize) -> RuleError {
        let origin = self.lines[line].origin;
        let file = self.files[origin.file].display();
        RuleError::new(match origin.is_service {
            true => format!("{place} is an entry of `services` in {file}: edit that file"),
            false => format!("{place} is in {file}, which this command does not change"),
        })
    }

    /// Deletes the first rule that is the same, and tells where it stood.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete(&mut self, rule: &Rule) -> Result<Place, RuleError> {
        let same = |line: &Line| matches!(&line.content, Content::Rule(other) if other == rule);
        let lines = self.lines_of(rule.chain, rule.policy);
        let mut same = lines.iter().enumerate().filter(|(_, line)| same(&self.lines[**line]));
        let first = same.clone().next();
        let Some((index, _)) = same.find(|(_, line)| self.is_own(**line)).or(first) else {
            return Err(RuleError::new(format!("there is no rule \"{rule}\"")));
        };
        let place = Place { chain: rule.chain, policy: rule.policy, number: index + 1 };
        self.delete_at(place).map(|_| place)
    }

    /// Deletes all rules of the file that changes are made to and says how many. Defaults and lines that are
    /// comments only stay.
    pub fn flush(&mut self) -> usize {
        let before = self.lines.len();
        let own = self.own;
        let kept = |line: &Line| line.origin.file != own || line.origin.is_service;
        self.lines.retain(|line| kept(line) || !matches!(line.content, Content::Rule(_)));
        before - self.lines.len()
    }

    /// Sets the default policy of a chain.
    pub fn set_default(&mut self, chain: Chain, policy: Policy) {
        let text = format!("default {chain} {policy}");
        let content = Content::Default(chain, policy);
        let at = match self.default_line(chain, self.own) {
            Some(index) => {
                self.lines.remove(index);
                index
            }
            None => self.head(),
        };
        self.put(at, text, content);
    }

    /// Where the comments at the head of the file end.
    fn head(&self) -> usize {
        let start = self.lines.iter().filter(|line| line.origin.file < self.own).count();
        let is_comment = |line: &&Line| line.content == Content::Blank && !line.text.is_empty();
        start + self.lines[start..self.end()].iter().take_while(is_comment).count()
    }

    fn default_line(&self, chain: Chain, file: usize) -> Option<usize> {
        let sets = |line: &Line| matches!(line.content, Content::Default(of, _) if of == chain);
        self.lines.iter().position(|line| line.origin.file == file && sets(line))
    }

    /// The lines of the file that changes are made to.
    pub(crate) fn own_lines(&self) -> Vec<String> {
        let own = (0..self.lines.len()).filter(|line| self.is_own(*line));
        own.map(|line| self.lines[line].text.clone()).collect()
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
    /// The text of the file that changes are made to.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own_lines().iter().try_for_each(|line| writeln!(f, "{line}"))
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
