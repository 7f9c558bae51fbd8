//! The corpora of the fuzz targets `stacks` and `hostile_flows`, replayed without a fuzzer.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets the unexpected has failed, and looks for what it is about"
)]

mod course;
mod host;
mod hostile;
mod line;
mod peer;
mod world;

use std::fs;
use std::path::Path;
use std::sync::Mutex;

/// Courses have the same addresses.
static RUNNING: Mutex<()> = Mutex::new(());

/// Replays all files of a target's corpus.
fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let _alone = RUNNING.lock();
    let mut count = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        check(&fs::read(path).unwrap());
        count += 1;
    }
    assert!(count >= 10, "only {count} files in {}", corpus.display());
}

#[test]
fn two_stacks_deliver_every_byte_and_end_every_connection_on_the_corpus() {
    replay("stacks", course::check);
}

#[test]
fn a_peer_that_breaks_the_flow_protocol_leaves_nothing_behind_on_the_corpus() {
    replay("hostile_flows", hostile::check);
}
