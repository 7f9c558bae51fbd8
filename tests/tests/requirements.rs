//! The tables of requirements are complete and true to the texts, and what they and the sources
//! quote is verbatim.

use manypath_tests::{RFCS, Row, Specification, Status, Table, checklist, page, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[expect(clippy::panic, reason = "a test without its files cannot go on")]
fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn specification(name: &str) -> Specification {
    Specification::parse(&read(&format!("specs/{name}.txt")))
}

#[expect(clippy::panic, reason = "a test without its files cannot go on")]
fn table(name: &str) -> Table {
    let path = format!("specs/requirements/{name}.toml");
    Table::parse(&read(&path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

#[expect(clippy::panic, reason = "a test without its files cannot go on")]
fn rows() -> Vec<Row> {
    let path = "specs/checklist.toml";
    checklist(&read(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn files(dir: &Path, extensions: &[&str], out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, extensions, out);
        } else if path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
            out.push(path);
        }
    }
}

fn sources(extensions: &[&str]) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for dir in ["crates", "tests", "fuzz"] {
        files(&root().join(dir), extensions, &mut out);
    }
    out.retain(|path| !path.components().any(|c| c.as_os_str() == "target"));
    out
}

/// Names of test functions and of scripts.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in sources(&["rs"]) {
        let text = std::fs::read_to_string(&path).expect("text");
        for line in text.lines() {
            let code = line.trim_start();
            if let Some(rest) = code.strip_prefix("fn ").or_else(|| code.strip_prefix("pub fn ")) {
                names.extend(rest.split(['(', '<']).next().map(str::to_owned));
            }
        }
    }
    let scripts = sources(&["pkt"]);
    names.extend(scripts.iter().filter_map(|p| Some(p.file_name()?.to_str()?.to_owned())));
    names
}

#[test]
fn every_requirement_has_its_entry() {
    for (name, _) in RFCS {
        let rfc = specification(name);
        let wanted: Vec<_> = rfc
            .sections()
            .flat_map(|(n, s)| s.requirements().into_iter().map(move |r| (n.to_owned(), r.text)))
            .collect();
        let table = table(name);
        let listed: Vec<_> = table.requirements.into_iter().map(|r| (r.section, r.quote)).collect();
        assert!(!wanted.is_empty(), "{name}: no requirement found");
        for (want, have) in wanted.iter().zip(&listed) {
            assert_eq!(want, have, "{name}: the table must follow the text, sentence by sentence");
        }
        assert_eq!(wanted.len(), listed.len(), "{name}: number of entries");
    }
}

#[test]
fn tests_that_the_tables_name_exist() {
    let tests = tests();
    for (name, _) in RFCS {
        for requirement in table(name).requirements {
            let Status::Met(named) = requirement.status else { continue };
            assert!(!named.is_empty(), "{name} {}: no test named", requirement.section);
            for test in named {
                let section = &requirement.section;
                assert!(tests.contains(&test), "{name} {section}: there is no test {test}");
            }
        }
    }
}

#[test]
fn the_page_is_up_to_date() {
    let tables: Vec<_> =
        RFCS.iter().map(|(name, subject)| (*name, *subject, table(name))).collect();
    let command = "cargo run -p manypath-tests --bin requirements -- --write";
    assert!(
        read("docs/conformance.md") == page(&tables, &rows()),
        "docs/conformance.md is old: {command}"
    );
}

#[test]
fn every_behaviour_of_the_checklist_has_its_tests() {
    let (rows, tests) = (rows(), tests());
    let ids: BTreeSet<_> = rows.iter().map(|row| &row.id).collect();
    assert_eq!(ids.len(), rows.len(), "an id stands twice");
    assert_eq!(rows.len(), 159, "behaviours");
    for row in &rows {
        let Status::Met(named) = &row.status else { continue };
        assert!(!named.is_empty(), "{}: no test named", row.id);
        for test in named {
            assert!(tests.contains(test), "{}: there is no test {test}", row.id);
        }
    }
}

/// Quotes in comments have the form of number, `section`, its number, colon and quotation marks, over
/// several lines if need be: see `quotes_are_recognised`.
#[test]
fn quotes_in_the_sources_are_verbatim() {
    let mut quotes = 0;
    for path in sources(&["rs"]) {
        let text = std::fs::read_to_string(&path).expect("text");
        let text = text.replace(EXAMPLE, "");
        for (number, section, quote) in quoted(&comments(&text)) {
            let name = format!("rfc{number}");
            if !RFCS.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let verbatim = specification(&name).has(&section, &quote);
            assert!(verbatim, "{}: not in RFC {number} {section}: {quote}", path.display());
            quotes += 1;
        }
    }
    assert!(quotes > 0, "the form of quotes has changed: none is found");
}

/// The words of all comments, one after the other.
fn comments(text: &str) -> String {
    let of = |line: &str| {
        let words = line.trim_start().strip_prefix("//")?;
        Some(words.trim_start_matches(['/', '!']).trim().to_owned())
    };
    text.lines()
        .map(|line| of(line).unwrap_or_else(|| "\n".to_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// RFC number, section and words of each quote.
fn quoted(comments: &str) -> Vec<(String, String, String)> {
    let mut out = Vec::new();
    for piece in comments.split("RFC ").skip(1) {
        let Some((place, rest)) = piece.split_once(": \"") else { continue };
        let Some((quote, _)) = rest.split_once('"') else { continue };
        let mut words = place.split(' ');
        let place = [words.next(), words.next(), words.next(), words.next()];
        let [Some(number), Some("section"), Some(section), None] = place else { continue };
        out.push((number.to_owned(), section.to_owned(), quote.to_owned()));
    }
    out
}

const EXAMPLE: &str = r#"
    // RFC 9260 section 5.1: "one
    // two"
    let x = 1; // RFC 9260 section 5.2 says so
"#;

#[test]
fn quotes_are_recognised() {
    let want = ("9260".to_owned(), "5.1".to_owned(), "one two".to_owned());
    assert_eq!(quoted(&comments(EXAMPLE)), [want]);
}
