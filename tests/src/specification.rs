//! The text of an RFC as sections, paragraphs and sentences.

use std::collections::BTreeMap;

/// A key word of RFC 2119.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// MUST, MUST NOT, SHALL, SHALL NOT, REQUIRED.
    Must,
    /// SHOULD, SHOULD NOT, RECOMMENDED.
    Should,
}

/// A sentence that requires or recommends something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sentence {
    /// The strongest of its key words.
    pub level: Level,
    /// The words, with single spaces between them.
    pub text: String,
}

/// One numbered section.
#[derive(Clone, Default, Debug)]
pub struct Section {
    /// The heading without its number.
    pub title: String,
    /// Its paragraphs, with single spaces between words.
    pub paragraphs: Vec<String>,
}

/// An RFC.
#[derive(Clone, Default, Debug)]
pub struct Specification {
    sections: Vec<(String, Section)>,
    places: BTreeMap<String, usize>,
}

const MUSTS: &[&str] = &["MUST", "SHALL", "REQUIRED"];
const SHOULDS: &[&str] = &["SHOULD", "RECOMMENDED"];

impl Specification {
    /// Reads the text form of an RFC, with or without page breaks.
    pub fn parse(text: &str) -> Self {
        let mut reader = Reader::default();
        for line in text.lines().filter(|line| !is_page_furniture(line)) {
            reader.line(line);
        }
        reader.finish()
    }

    /// The section of a number such as `5.1`.
    pub fn section(&self, number: &str) -> Option<&Section> {
        self.places.get(number).map(|&place| &self.sections[place].1)
    }

    /// All sections in the order of the text.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Section)> {
        self.sections.iter().map(|(number, section)| (number.as_str(), section))
    }

    /// Whether the section holds these words in this order, whatever the line breaks.
    pub fn has(&self, number: &str, quote: &str) -> bool {
        let quote = squeeze(quote);
        self.section(number).is_some_and(|s| squeeze(&s.paragraphs.join(" ")).contains(&quote))
    }
}

impl Section {
    /// The sentences with a key word, in the order of the text.
    pub fn requirements(&self) -> Vec<Sentence> {
        self.paragraphs.iter().flat_map(|p| sentences(p)).filter_map(|s| requirement(&s)).collect()
    }
}

/// Words with one space between them.
pub(crate) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Headers and footers of printed pages.
fn is_page_furniture(line: &str) -> bool {
    let footer = line.ends_with(']') && line.contains("[Page ");
    let header =
        line.starts_with("RFC ") && line.trim_end().ends_with(|c: char| c.is_ascii_digit());
    footer || header || line.contains('\u{c}')
}

fn requirement(sentence: &str) -> Option<Sentence> {
    let has = |words: &[&str]| {
        sentence.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word))
    };
    let level = if has(MUSTS) {
        Level::Must
    } else if has(SHOULDS) {
        Level::Should
    } else {
        return None;
    };
    Some(Sentence { level, text: sentence.to_owned() })
}

/// Splits where a full stop is followed by a capital letter; abbreviations are followed by commas.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut current = String::new();
    let mut words = paragraph.split(' ').peekable();
    while let Some(word) = words.next() {
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
        let ends = word.ends_with(['.', '!', '?']) || word.ends_with(".)") || word.ends_with(".\"");
        let starts = words.peek().is_none_or(|next| {
            next.trim_start_matches(['"', '(']).starts_with(|c: char| c.is_ascii_uppercase())
        });
        if ends && starts && word.len() > 2 {
            out.push(std::mem::take(&mut current));
        }
    }
    if !current.is_empty() {
        out.push(current);
    }
    out
}

/// Puts lines together.
#[derive(Default)]
struct Reader {
    specification: Specification,
    number: String,
    section: Section,
    paragraph: String,
    blank: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some((number, title)) = heading(line) {
            self.close_section();
            (self.number, self.section.title) = (number.to_owned(), title.to_owned());
        } else if line.trim().is_empty() {
            self.blank = true;
        } else {
            self.text(line);
        }
    }

    fn text(&mut self, line: &str) {
        let begins_lower = line.trim_start().starts_with(|c: char| c.is_ascii_lowercase());
        // A page break leaves blank lines in the middle of a sentence.
        let goes_on = begins_lower && !self.paragraph.ends_with(['.', ':', ';']);
        if self.blank && !goes_on || is_item(line) {
            self.close_paragraph();
        }
        self.blank = false;
        if !self.paragraph.is_empty() {
            self.paragraph.push(' ');
        }
        self.paragraph.push_str(&squeeze(line));
    }

    fn close_paragraph(&mut self) {
        if !self.paragraph.is_empty() {
            self.section.paragraphs.push(std::mem::take(&mut self.paragraph));
        }
    }

    fn close_section(&mut self) {
        self.close_paragraph();
        let section = std::mem::take(&mut self.section);
        let number = std::mem::take(&mut self.number);
        let into = &mut self.specification;
        // The table of contents has the same headings, without text: the later one counts.
        if !number.is_empty() && !section.paragraphs.is_empty() {
            into.places.insert(number.clone(), into.sections.len());
            into.sections.push((number, section));
        }
    }

    fn finish(mut self) -> Specification {
        self.close_section();
        self.specification
    }
}

/// An item of a list, which is a paragraph of its own.
fn is_item(line: &str) -> bool {
    let words = line.trim_start();
    words.starts_with("* ") || words.starts_with("- ") || words.starts_with("o ")
}

/// Number and title of a heading such as `5.1.  Normal Establishment`.
fn heading(line: &str) -> Option<(&str, &str)> {
    let (number, title) = line.split_once(' ')?;
    let number = number.strip_suffix('.').unwrap_or(number);
    let is_number =
        number.split('.').all(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
    let title = title.trim();
    let is_title = title.starts_with(|c: char| c.is_ascii_uppercase()) && !title.contains(" . .");
    (is_number && is_title).then_some((number, title))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Table of Contents

   1.  First ..... 3

1.  First

   A sender MUST do this (i.e., at once).  It may rest.
   It SHOULD NOT

Author                     Standards Track                    [Page 18]
\u{c}
RFC 1         Title          May 2004

   stop before the end.

   *  A receiver SHALL wait
   *  nothing

1.1.  Second

   No key words here.
";

    #[test]
    fn sentences_with_key_words_are_found_across_page_breaks() {
        let rfc = Specification::parse(TEXT);
        let first: Vec<_> = rfc.section("1").expect("there").requirements();
        let texts: Vec<_> = first.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "A sender MUST do this (i.e., at once).",
                "It SHOULD NOT stop before the end.",
                "* A receiver SHALL wait"
            ]
        );
        assert_eq!(first[1].level, Level::Should);
        assert!(rfc.section("1.1").expect("there").requirements().is_empty());
    }

    #[test]
    fn quotes_are_compared_without_regard_to_line_breaks() {
        let rfc = Specification::parse(TEXT);
        assert!(rfc.has("1", "It SHOULD NOT\n stop before"));
        assert!(!rfc.has("1", "It SHOULD stop"));
        assert!(!rfc.has("1.1", "A sender MUST"));
    }
}
