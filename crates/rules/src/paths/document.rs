//! The files as text: comments and lines that are not touched stay as they are.

use super::{PathEntry, PathSelector, PathWish, PathWord, parse};
use crate::config::Layers;
use crate::error::{FileError, RuleError};
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// The lines of all files; one of them can be changed.
#[derive(Debug, Clone, Default)]
pub struct PathsDocument {
    lines: Vec<Line>,
    files: Vec<PathBuf>,
    /// The file that changes are made to.
    own: usize,
}

#[derive(Debug, Clone)]
struct Line {
    text: String,
    /// `None`: blank, or a comment.
    entry: Result<Option<PathEntry>, RuleError>,
    /// The file, and the line in it when it was read.
    origin: (usize, usize),
}

impl PathsDocument {
    /// Takes a text apart. Lines that mean nothing are kept.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::of(&Layers::of_text(text))
    }

    /// Takes all files apart, as [`PathsDocument::parse`] does.
    #[must_use]
    pub fn of(layers: &Layers) -> Self {
        let line = |(file, number, text): (usize, usize, &str)| Line {
            text: text.to_owned(),
            entry: entry(text).map_err(|error| error.at(number)),
            origin: (file, number),
        };
        let files = layers.layers.iter().map(|layer| layer.path.clone()).collect();
        Self { lines: layers.lines().map(line).collect(), files, own: layers.own }
    }

    /// What the lines say, in their order, those about single peers first. Of primary paths for the same
    /// peers the first counts.
    ///
    /// # Errors
    /// The first line that means nothing.
    pub fn entries(&self) -> Result<Vec<PathEntry>, FileError> {
        let (mut entries, mut primaries) = (Vec::new(), HashSet::new());
        for line in &self.lines {
            let entry = line.entry.clone();
            let file = || self.files[line.origin.0].clone();
            let entry = entry.map_err(|error| FileError::Rule(file(), error))?;
            let Some(mut entry) = entry else { continue };
            entry.wish.primary = entry.wish.primary && primaries.insert(entry.selector.peer);
            entries.push(entry);
        }
        entries.sort_by_key(|entry| entry.selector.peer.is_none());
        Ok(entries)
    }

    /// Where each line comes from, with its text: in the order in which they count.
    pub fn origins(&self) -> impl Iterator<Item = (&Path, usize, &str)> {
        let lines = self.lines.iter().filter(|line| !matches!(line.entry, Ok(None)));
        lines.map(|line| (self.files[line.origin.0].as_path(), line.origin.1, line.text.trim()))
    }

    /// The lines that decide before the one about these paths where both fit. Those about single peers,
    /// which are meant to, count only beside others of that kind.
    #[must_use]
    pub fn before(&self, selector: &PathSelector) -> Vec<PathEntry> {
        let earlier =
            self.known().map(|(_, entry)| entry).take_while(|it| it.selector != *selector);
        let alike = |it: &&PathEntry| it.selector.peer.is_some() == selector.peer.is_some();
        let meets = |it: &&PathEntry| it.selector.may_meet(selector);
        earlier.filter(alike).filter(meets).cloned().collect()
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If there is one about the same paths already.
    pub fn add(
        &mut self,
        selector: &PathSelector,
        words: &[PathWord],
    ) -> Result<PathEntry, RuleError> {
        match self.find(selector) {
            Some((_, entry)) => Err(RuleError::new(format!(
                "there is \"{entry}\" already: `manypath path change {selector} ...` changes it"
            ))),
            None => self.change(selector, words),
        }
    }

    /// Changes the line about these paths, or adds one. There is one primary path for the same peers: a new
    /// one takes the place of the old one.
    ///
    /// # Errors
    /// If `selector` names no path.
    pub fn change(
        &mut self,
        selector: &PathSelector,
        words: &[PathWord],
    ) -> Result<PathEntry, RuleError> {
        if selector.is_empty() {
            return Err(RuleError::new(
                "no paths given: write ADDRESS, dev INTERFACE or peer ADDRESS",
            ));
        }
        let own = self.find(selector).map(|(at, entry)| (at..at + 1, entry.wish));
        let (at, mut wish) = own.unwrap_or_else(|| {
            // A line of another file says what was wanted until now.
            let same = self.known().find(|(_, entry)| entry.selector == *selector);
            (self.end()..self.end(), same.map(|(_, entry)| entry.wish).unwrap_or_default())
        });
        wish.apply(words);
        if wish.primary {
            self.dethrone(selector);
        }
        let entry = PathEntry::new(selector.clone(), wish)?;
        let (text, said) = (entry.to_string(), Ok(Some(entry.clone())));
        self.lines.splice(at, [Line { text, entry: said, origin: (self.own, 0) }]);
        Ok(entry)
    }

    /// Takes the line about these paths out: they are normal again.
    ///
    /// # Errors
    /// If there is none.
    pub fn remove(&mut self, selector: &PathSelector) -> Result<PathEntry, RuleError> {
        let Some((at, entry)) = self.find(selector).map(|(at, entry)| (at, entry.clone())) else {
            let known = self.known().map(|(_, entry)| format!("\"{}\"", entry.selector));
            let known: Vec<_> = known.collect();
            let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            let elsewhere = self.known().find(|(_, entry)| entry.selector == *selector);
            return Err(RuleError::new(match elsewhere {
                Some((at, _)) => format!(
                    "\"{selector}\" is in {}, which this command does not change: `manypath path \
                     change {selector} normal` overrides it",
                    self.files[self.lines[at].origin.0].display()
                ),
                None => format!("no policy for \"{selector}\": there is {known}"),
            }));
        };
        self.lines.remove(at);
        Ok(entry)
    }

    fn dethrone(&mut self, heir: &PathSelector) {
        let own = self.own;
        let rivals = self.lines.iter_mut().filter(|line| line.origin.0 == own).filter_map(|line| {
            let entry = line.entry.as_mut().ok()?.as_mut()?;
            let is_rival = entry.selector != *heir && entry.selector.peer == heir.peer;
            (is_rival && entry.wish.primary).then_some((&mut line.text, entry))
        });
        for (text, entry) in rivals {
            entry.wish.primary = false;
            *text = entry.to_string();
        }
    }

    fn known(&self) -> impl Iterator<Item = (usize, &PathEntry)> {
        let entry = |line: &'_ Line| line.entry.as_ref().ok().and_then(Option::as_ref).is_some();
        let numbered = self.lines.iter().enumerate().filter(move |(_, line)| entry(line));
        numbered.filter_map(|(at, line)| Some((at, line.entry.as_ref().ok()?.as_ref()?)))
    }

    fn find(&self, selector: &PathSelector) -> Option<(usize, &PathEntry)> {
        let own = |at: usize| self.lines[at].origin.0 == self.own;
        self.known().find(|(at, entry)| own(*at) && entry.selector == *selector)
    }

    /// Where the lines of the file that changes are made to end.
    fn end(&self) -> usize {
        self.lines.iter().filter(|line| line.origin.0 <= self.own).count()
    }

    /// The lines of the file that changes are made to.
    pub(crate) fn own_lines(&self) -> Vec<String> {
        let own = self.lines.iter().filter(|line| line.origin.0 == self.own);
        own.map(|line| line.text.clone()).collect()
    }
}

fn entry(line: &str) -> Result<Option<PathEntry>, RuleError> {
    let said = line.split('#').next().unwrap_or_default();
    let words: Vec<_> = said.split_whitespace().collect();
    if words.is_empty() {
        return Ok(None);
    }
    let (selector, words) = parse::words(&words)?;
    if selector.is_empty() {
        return Err(RuleError::new("no paths given: write ADDRESS, dev INTERFACE or peer ADDRESS"));
    }
    let mut wish = PathWish::default();
    wish.apply(&words);
    PathEntry::new(selector, wish).map(Some)
}

impl fmt::Display for PathsDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own_lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# uplinks\ndev wwan0 backup\n\nfrom the future\ndev eth0 primary  # fast\n";

    fn parts(text: &str) -> (PathSelector, Vec<PathWord>) {
        parse::words(&text.split_whitespace().collect::<Vec<_>>()).unwrap()
    }

    fn changed(text: &str, line: &str) -> String {
        let (selector, words) = parts(line);
        let mut document = PathsDocument::parse(text);
        document.change(&selector, &words).unwrap();
        document.to_string()
    }

    #[test]
    fn a_change_touches_its_line_alone() {
        assert_eq!(changed(TEXT, "dev wwan0 cost 7"), TEXT.replace("backup", "backup cost 7"));
        assert_eq!(changed(TEXT, "dev lte metered"), format!("{TEXT}dev lte metered\n"));
        assert_eq!(changed("", "10.0.0.1 backup"), "10.0.0.1 backup\n");
    }

    #[test]
    fn there_is_one_primary_path() {
        let text = changed(TEXT, "dev wwan0 primary");
        let expected = TEXT.replace("backup", "backup primary");
        assert_eq!(text, expected.replace("dev eth0 primary  # fast", "dev eth0 normal"));
    }

    #[test]
    fn lines_without_a_meaning_are_kept_and_named_when_they_are_read() {
        let document = PathsDocument::parse(TEXT);
        assert_eq!(document.to_string(), TEXT);
        let error = document.entries().unwrap_err().to_string();
        assert!(error.contains("line 4: unknown word \"from\""), "{error}");
        let error = PathsDocument::parse("backup\n").entries().unwrap_err().to_string();
        assert!(
            error.ends_with("line 1: no paths given: write ADDRESS, dev INTERFACE or peer ADDRESS"),
            "{error}"
        );
    }

    #[test]
    fn lines_about_single_peers_come_first() {
        let text = "dev a backup\ndev a peer 10.0.0.9 cost 3\npeer 10.0.0.8 backup\n";
        let entries = PathsDocument::parse(text).entries().unwrap();
        let lines: Vec<_> = entries.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["dev a peer 10.0.0.9 cost 3", "peer 10.0.0.8 backup", "dev a backup"]);
    }

    #[test]
    fn lines_that_decide_first_are_told_where_both_may_fit() {
        let text = "10.0.0.2 dev wwan0 backup\ndev eth0 cost 1\npeer 10.0.0.9 cost 3\n";
        let document = PathsDocument::parse(&format!("{text}dev wwan0 metered 5mbit\n"));
        let before = |line: &str| {
            let lines = document.before(&parts(line).0);
            lines.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(before("dev wwan0"), ["10.0.0.2 dev wwan0 backup"]);
        assert_eq!(before("10.0.0.3"), ["dev eth0 cost 1", "dev wwan0 metered 5mbit"]);
        assert!(before("dev eth0").is_empty());
        assert_eq!(before("dev wwan0 peer 10.0.0.9"), ["peer 10.0.0.9 cost 3"]);
    }

    #[test]
    fn what_is_there_is_not_added_and_what_is_not_there_is_not_removed() {
        let mut document = PathsDocument::parse(TEXT);
        let (selector, words) = parts("dev wwan0 cost 7");
        let error = document.add(&selector, &words).unwrap_err().to_string();
        assert!(error.contains("`manypath path change dev wwan0 ...`"), "{error}");
        assert_eq!(document.remove(&selector).unwrap().to_string(), "dev wwan0 backup");
        let error = document.remove(&selector).unwrap_err().to_string();
        assert!(error.contains("there is \"dev eth0\""), "{error}");
        assert_eq!(document.to_string(), TEXT.replace("dev wwan0 backup\n", ""));
    }
}
