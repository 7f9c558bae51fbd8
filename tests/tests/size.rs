//! Files and functions stay small: a file that starts to collect everything is split in time.

use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 600;
const MAX_MEDIAN_FUNCTION: usize = 8;
const MAX_FUNCTION_LINES: usize = 100;

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("workspace").join("crates");
    rust_files(&root, &mut files);
    assert!(files.len() > 20, "no sources found");
    files.into_iter().map(|f| (f.clone(), std::fs::read_to_string(f).expect("text"))).collect()
}

/// Names and lengths of the functions in `text`, by the indentation that rustfmt guarantees.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut out = Vec::new();
    let mut open: Vec<(usize, String, usize)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start();
        let head = code.split('(').next().unwrap_or("");
        let is_fn = !code.starts_with("//") && (head.starts_with("fn ") || head.contains(" fn "));
        if is_fn && !code.ends_with(';') {
            if code.ends_with('}') {
                out.push((head.to_owned(), 1));
            } else {
                open.push((indent, head.to_owned(), number));
            }
        } else if code == "}" {
            while let Some((at, name, from)) = open.pop_if(|(at, _, _)| *at >= indent) {
                if at == indent {
                    out.push((name, number - from + 1));
                }
            }
        }
    }
    out
}

#[test]
fn no_file_is_longer_than_the_limit() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= MAX_FILE_LINES, "{}: {lines} lines, split it by phase", path.display());
    }
}

#[test]
fn functions_are_short() {
    let mut lengths = Vec::new();
    for (path, text) in sources() {
        let is_test = path.components().any(|c| c.as_os_str() == "tests");
        if is_test || path.ends_with("tests.rs") {
            continue;
        }
        for (name, length) in functions(&text) {
            let place = path.display();
            assert!(length <= MAX_FUNCTION_LINES, "{place}: {name} has {length} lines");
            lengths.push(length);
        }
    }
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= MAX_MEDIAN_FUNCTION, "median function has {median} lines");
}

#[test]
fn the_function_counter_counts() {
    let text = "fn a() {\n    b();\n}\nimpl X {\n    pub fn c(&self) {\n        d();\n        e();\n    }\n}\n";
    assert_eq!(functions(text), [("fn a".to_owned(), 3), ("pub fn c".to_owned(), 4)]);
}
