//! The seeds of the fuzz target `flow_messages`: made here, and replayed here without a fuzzer.

use crate::pair::{destination, local, source};
use crate::replay;
use manypath_flow::message::{Accept, Body, Control, Credit, Finish, Open, Return, Want};
use manypath_flow::{INITIAL_CREDIT, Refusal};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/flow_messages")
}

/// A record with a control message of the first generation on stream 0.
fn control(from_opener: bool, body: Body, dice: u8) -> Vec<u8> {
    let payload = Control { from_opener, generation: 1, body }.encode();
    let kind = u8::from(!body.is_ordered());
    [&[kind, 0, dice, payload.len() as u8], &payload[..]].concat()
}

/// A record with data of one unit.
fn data(from_opener: bool, dice: u8) -> Vec<u8> {
    vec![if from_opener { 2 } else { 3 }, 0, dice, 1, 0]
}

fn open() -> Body {
    let (destination, source) = (destination(), source());
    Body::Open(Open { window: INITIAL_CREDIT, destination, source })
}

fn credits(from_opener: bool) -> Vec<u8> {
    let window = 2 * INITIAL_CREDIT;
    let credit = Credit { window, reclaim: true, granted: 1 << 20 };
    [
        control(from_opener, Body::Credit(credit), 3),
        control(from_opener, Body::Want(Want { window: INITIAL_CREDIT }), 4),
        control(from_opener, Body::Return(Return { returned: 1000 }), 4),
    ]
    .concat()
}

/// Courses that a fuzzer would take long to find: whole flows, from either side.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let finish = Body::Finish(Finish { bytes: 300 });
    let accept = Body::Accept(Accept { window: INITIAL_CREDIT, local: local() });
    let refuse = Body::Refuse(Refusal::Errno(111));
    vec![
        (
            "incoming_flow",
            [control(true, open(), 4), data(true, 5), credits(true), control(true, finish, 14)]
                .concat(),
        ),
        ("incoming_reset", [control(true, open(), 201), control(true, Body::Reset, 6)].concat()),
        (
            "own_flow",
            [
                data(true, 255),
                control(false, accept, 3),
                data(false, 4),
                credits(false),
                control(false, finish, 14),
            ]
            .concat(),
        ),
        ("own_refused", [data(true, 255), control(false, refuse, 4)].concat()),
        ("own_reset", [data(true, 255), control(false, Body::Reset, 4)].concat()),
    ]
}

#[test]
fn the_corpus_is_what_the_generator_makes() {
    if env::var_os("MANYPATH_UPDATE").is_some() {
        fs::create_dir_all(directory()).unwrap();
        for (name, bytes) in seeds() {
            fs::write(directory().join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in seeds() {
        let file = fs::read(directory().join(name)).ok();
        assert_eq!(file, Some(bytes), "{name}: run with MANYPATH_UPDATE=1");
    }
}

/// All files, also inputs that a fuzzer found.
#[test]
fn the_corpus_replays() {
    let mut count = 0;
    for entry in fs::read_dir(directory()).unwrap() {
        replay::check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= seeds().len());
}
