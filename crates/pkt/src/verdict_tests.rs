//! Whatever is in a script, there is a verdict.

use super::{Verdict, judge_text};
use crate::scripts;
use std::path::PathBuf;

/// Changes tried for each script.
const CHANGES: u64 = 60;
/// Pieces that are put where they do not belong.
const PIECES: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
    "...",
    "|",
    "=",
    "-1",
    "0",
    "0xffffffff",
    "99999999999",
    "*",
    "\"",
    "+0.0",
    "tsn=...",
    "len=3",
    "len=65535",
    "val=[...]",
    "sctp",
    "#endif",
    "`",
    ":",
    "\u{e9}",
];

/// A small generator of pseudo-random numbers (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap_or(0)
    }
}

/// The script with one thing changed: a line or a word left out, doubled or replaced.
fn changed(text: &str, chance: &mut Chance) -> String {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let line = chance.below(lines.len());
    let other = lines[chance.below(lines.len())].clone();
    match chance.below(4) {
        0 => _ = lines.remove(line),
        1 => lines.insert(line, other),
        kind => {
            let mut words: Vec<_> = lines[line].split_inclusive([' ', ',', '[', '=']).collect();
            if !words.is_empty() {
                let word = chance.below(words.len());
                if kind == 2 {
                    words.remove(word);
                } else {
                    words[word] = PIECES[chance.below(PIECES.len())];
                }
            }
            lines[line] = words.concat();
        }
    }
    lines.join("\n")
}

#[test]
fn no_change_to_a_script_stops_the_runner() {
    let dir = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts"));
    let defines = scripts::defines(&[]);
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let mut verdicts = [0; 3];
    for file in scripts::find(&[dir]).expect("scripts") {
        let text = std::fs::read_to_string(&file).expect("text");
        for _ in 0..CHANGES {
            let mut text = changed(&text, &mut chance);
            for _ in 0..chance.below(3) {
                text = changed(&text, &mut chance);
            }
            match judge_text(&text, &defines, false) {
                Verdict::Pass => verdicts[0] += 1,
                Verdict::Fail(line, _) => {
                    assert!(line <= text.lines().count());
                    verdicts[1] += 1;
                }
                Verdict::Skip(..) => verdicts[2] += 1,
            }
        }
    }
    assert!(verdicts.iter().all(|count| *count > 0), "{verdicts:?}");
}
