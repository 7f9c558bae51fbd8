//! The seeds of the fuzz target `wire_packet`: made here, and replayed here without a fuzzer. So are
//! the corpora of `wire_emit` and `auth_asconf`.

use crate::{emit, golden, reparse};
use manypath_wire::Packet;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn directory() -> PathBuf {
    corpus("wire_packet")
}

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Every file of the corpus. Those that the generator does not make are inputs that a fuzzer found.
fn files() -> BTreeMap<String, Vec<u8>> {
    files_of("wire_packet")
}

fn files_of(target: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(corpus(target)).expect("the corpora are in the repository");
    entries
        .map(|entry| entry.expect("readable").path())
        .map(|path| {
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            (name, fs::read(&path).expect("readable"))
        })
        .collect()
}

#[test]
fn the_corpus_is_what_the_generator_makes() {
    if env::var_os("MANYPATH_UPDATE").is_some() {
        fs::create_dir_all(directory()).expect("the corpus can be made");
        for (name, bytes) in golden::packets() {
            fs::write(directory().join(name), bytes).expect("the corpus can be written");
        }
    }
    let files = files();
    for (name, bytes) in golden::packets() {
        assert_eq!(files.get(name), Some(&bytes), "{name}: run with MANYPATH_UPDATE=1");
    }
}

#[test]
fn the_corpus_has_every_chunk_type() {
    let packets = golden::packets();
    let types: BTreeSet<u8> = packets
        .iter()
        .flat_map(|(_, bytes)| Packet::parse(bytes).expect("golden").chunks())
        .map(|chunk| chunk.expect("golden").type_byte())
        .collect();
    assert!(types.into_iter().eq((0..=16).chain([64, 0x41, 0x80, 130, 0x84, 192, 0xC1, 194])));
}

#[test]
fn the_corpus_replays() {
    let files = files();
    assert!(files.len() >= golden::packets().len());
    files.values().for_each(|bytes| reparse::check(bytes));
}

#[test]
fn what_is_written_is_read_back_on_the_corpora() {
    let (any, authenticated) = (files_of("wire_emit"), files_of("auth_asconf"));
    assert!(any.len() >= 10 && authenticated.len() >= 10);
    any.values().for_each(|bytes| emit::check(bytes));
    authenticated.values().for_each(|bytes| emit::check_authenticated(bytes));
}
