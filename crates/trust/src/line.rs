//! Lines of keys.

use manypath_keys::PublicKey;
use std::fmt;

/// A line that cannot be read. The other lines of the file still count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it, and what is expected.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The next words are a key, as `manypath key show` or as SSH writes it, behind the name of its type.
pub(crate) fn take_key<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<PublicKey, String> {
    let word = words.next().filter(|word| *word != "ssh-ed25519").or_else(|| words.next());
    let word = word.ok_or("the key is missing")?;
    word.parse().map_err(|error| format!("\"{word}\" is {error}"))
}

/// A key, as `manypath key show` or as SSH writes it.
///
/// # Errors
/// What is wrong with it.
pub fn parse_key(text: &str) -> Result<PublicKey, String> {
    take_key(&mut text.split_whitespace())
}

/// The words of a line that is no comment.
pub(crate) fn words_of(line: &str) -> Option<impl Iterator<Item = &str>> {
    let mut words = line.split_whitespace().peekable();
    match words.peek() {
        Some(word) if !word.starts_with('#') => Some(words),
        Some(_) | None => None,
    }
}
