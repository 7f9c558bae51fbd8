//! The corpora of the fuzz targets `association` and `hostile_peer`, replayed without a fuzzer.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its corpus fails")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for what it is about")]

mod course;
mod hostile;
mod network;
mod protection;

use std::fs;
use std::path::Path;

/// Replays all files of a target's corpus.
fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        check(&fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "only {count} files in {}", corpus.display());
}

#[test]
fn every_message_arrives_once_and_in_order_on_the_corpus() {
    replay("association", course::check);
}

#[test]
fn a_hostile_peer_breaks_no_limit_on_the_corpus() {
    replay("hostile_peer", hostile::check);
}
