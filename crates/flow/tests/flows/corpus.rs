//! The seeds of the fuzz target `flow_messages`: made here, and replayed here without a fuzzer.

use crate::pair::{destination, local, source};
use crate::replay::{self, DATAGRAMS};
use manypath_flow::message::{
    Accept, Body, Control, Credit, DatagramBody, DatagramOpen, Finish, Open, RelayBody, RelayOpen,
    Return, Want,
};
use manypath_flow::{Destination, HostName, INITIAL_CREDIT, Refusal, RelayAnswer};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/flow_messages")
}

/// A record with a control message of the first generation on stream 0.
fn control(from_opener: bool, body: Body, dice: u8) -> Vec<u8> {
    let kind = u8::from(!body.is_ordered());
    let payload = Control { from_opener, generation: 1, body }.encode();
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

/// A record with a message about the datagrams of a flow, on its stream.
fn about_datagrams(from_opener: bool, number: u8, body: DatagramBody, dice: u8) -> Vec<u8> {
    let body = Body::Datagram(body);
    let kind = DATAGRAMS | u8::from(!body.is_ordered());
    let payload = Control { from_opener, generation: number.into(), body }.encode();
    [&[kind, number, dice, payload.len() as u8], &payload[..]].concat()
}

/// A record with a datagram of four bytes.
fn datagram(of_opener: bool, number: u8, dice: u8) -> Vec<u8> {
    let kind = DATAGRAMS | if of_opener { 2 } else { 3 };
    vec![kind, number, dice, 8, 0, 0, 0, number, 1, 2, 3, 4]
}

fn open_datagrams() -> DatagramBody {
    let (destination, source) = (destination(), source());
    DatagramBody::Open(DatagramOpen { lifetime_ms: 200, destination, source })
}

/// Types 130 to 133 from either side, in their order and out of it.
fn seeds_of_datagrams() -> Vec<(&'static str, Vec<u8>)> {
    let open = |number, dice| about_datagrams(true, number, open_datagrams(), dice);
    let close =
        |from_opener, why, dice| about_datagrams(from_opener, 1, DatagramBody::Close(why), dice);
    let accept = |dice| about_datagrams(false, 1, DatagramBody::Accept, dice);
    let unreachable = |dice| about_datagrams(false, 1, DatagramBody::Unreachable(113), dice);
    let refused = Some(Refusal::NotAllowed);
    vec![
        (
            "datagrams_incoming",
            [open(1, 4), datagram(true, 1, 9), datagram(true, 1, 14), close(true, None, 4)]
                .concat(),
        ),
        ("datagrams_early", [datagram(true, 1, 4), datagram(true, 1, 4), open(1, 4)].concat()),
        ("datagrams_refused", [open(1, 204), datagram(true, 1, 4), open(17, 4)].concat()),
        (
            "datagrams_own",
            [close(false, refused, 7), accept(4), datagram(false, 1, 4), unreachable(4)].concat(),
        ),
        ("datagrams_unreachable", [accept(7), unreachable(3), accept(23)].concat()),
        ("datagrams_own_refused", [accept(7), close(false, refused, 4), accept(4)].concat()),
        ("datagrams_again", [open(17, 4), open(1, 4), close(false, None, 4)].concat()),
    ]
}

/// Types 134 to 136, as asked, unasked and refused.
fn seeds_of_relaying() -> Vec<(&'static str, Vec<u8>)> {
    let about = |body| Body::Relay(body);
    let answer = |answer, dice| control(false, about(RelayBody::Answer(answer)), dice);
    let name = HostName::new("a.example").unwrap();
    let open = RelayOpen {
        window: INITIAL_CREDIT,
        source: source(),
        beyond: Destination::Name(name, 443).into(),
    };
    let open = || control(true, about(RelayBody::Open(Box::new(open.clone()))), 4);
    let accept = Body::Accept(Accept { window: INITIAL_CREDIT, local: local() });
    vec![
        ("relay_asked", [control(true, about(RelayBody::Ask), 4), open(), data(true, 5)].concat()),
        (
            "relay_own",
            [data(true, 255), answer(RelayAnswer::Relays, 3), control(false, accept, 3)].concat(),
        ),
        ("relay_own_refused", [data(true, 255), answer(RelayAnswer::NotRelay, 3)].concat()),
    ]
}

/// Courses that a fuzzer would take long to find: whole flows, from either side.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let finish = Body::Finish(Finish { bytes: 300 });
    let accept = Body::Accept(Accept { window: INITIAL_CREDIT, local: local() });
    let refuse = Body::Refuse(Refusal::Errno(111));
    vec![
        (
            "incoming_flow",
            [
                control(true, open(), 4),
                data(true, 5),
                credits(true),
                control(true, finish.clone(), 14),
            ]
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

fn all() -> Vec<(&'static str, Vec<u8>)> {
    [seeds(), seeds_of_datagrams(), seeds_of_relaying()].concat()
}

#[test]
fn the_corpus_is_what_the_generator_makes() {
    if env::var_os("MANYPATH_UPDATE").is_some() {
        fs::create_dir_all(directory()).unwrap();
        for (name, bytes) in all() {
            fs::write(directory().join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in all() {
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
    assert!(count >= all().len());
}
