//! Files and functions stay small: a file that starts to collect everything is split in time.

use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 600;
const MAX_MEDIAN_FUNCTION: usize = 8;
const MAX_FUNCTION_LINES: usize = 100;

/// All sources in `dir` and below it.
pub(crate) fn files_of(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_of(&path, out);
        } else if path.extension().is_some_and(|e| ["rs", "c", "h"].map(AsRef::as_ref).contains(&e))
        {
            out.push(path);
        }
    }
}

pub(crate) fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("workspace").join("crates");
    files_of(&root, &mut files);
    files.retain(|file| file.extension().is_some_and(|e| e == "rs"));
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

/// What the processes of "What runs as root" in docs/security.md consist of: crates, or folders in them.
const RUNS_AS_ROOT: [(&str, &[&str]); 5] = [
    (
        "stack",
        &[
            "wire", "engine", "aead", "keys", "trust", "window", "flow", "net", "daemon",
            "sandbox", "control", "rules",
        ],
    ),
    ("keeper", &["daemon/src/keeper", "daemon/src/files", "trust", "sandbox", "control", "rules"]),
    ("launcher", &["shim", "gate", "control", "rules"]),
    ("redirector", &["cgroup", "gate", "control", "rules"]),
    ("eBPF", &["cgroup/bpf"]),
];

/// Lines that are neither empty nor a comment, without tests.
fn lines_of_code(path: &Path, text: &str) -> usize {
    let is_test = path
        .components()
        .any(|c| ["tests", "examples", "benches"].map(AsRef::as_ref).contains(&c.as_os_str()));
    if is_test || path.ends_with("tests.rs") {
        return 0;
    }
    let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let is_code = |line: &&str| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with("//")
    };
    code.lines().filter(is_code).count()
}

/// Rounded to hundreds.
fn lines_of(parts: &[&str]) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("workspace").join("crates");
    let mut files = Vec::new();
    for part in parts {
        files_of(&root.join(part), &mut files);
    }
    let count = |file: &PathBuf| lines_of_code(file, &std::fs::read_to_string(file).expect("text"));
    let lines: usize = files.iter().map(count).sum();
    assert!(lines > 0, "{parts:?}: no sources found");
    (lines + 50) / 100 * 100
}

/// The number in the row of the table that begins with `name`.
fn said(page: &str, name: &str) -> Option<usize> {
    let (row, column) = if name == "eBPF" { ("redirector", 1) } else { (name, 0) };
    let row = page.lines().find(|line| line.starts_with(&format!("| {row} ")))?;
    let digits = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
    row.split('|').nth(2)?.split(" and ").nth(column).map(digits)?.parse().ok()
}

/// Printed as docs/security.md has it, which is right to a tenth.
#[test]
fn the_lines_that_run_as_root_are_as_the_page_says() {
    let page =
        std::fs::read_to_string(manypath_tests::root().join("docs/security.md")).expect("a page");
    let counted = RUNS_AS_ROOT.map(|(name, parts)| (name, lines_of(parts)));
    for ((name, lines), (_, parts)) in counted.iter().zip(RUNS_AS_ROOT) {
        println!("{name}: {lines} lines ({})", parts.join(", "));
    }
    for (name, lines) in counted {
        let said = said(&page, name).unwrap_or_default();
        assert!(said.abs_diff(lines) * 10 <= lines, "{name}: not {said} lines of code");
    }
}
