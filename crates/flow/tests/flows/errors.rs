//! Every breach of the protocol is named, counted and harmless.

use crate::pair::*;
use bytes::Bytes;
use manypath_engine::{Message, Ppid, StreamId, Tsn};
use manypath_flow::message::{Accept, Body, Control, Credit, Finish, Open, Return, Want};
use manypath_flow::{
    FlowConfig, FlowError, FlowEvent, FlowMux, INITIAL_CREDIT, PPID_CONTROL, PPID_DATA_OF_ACCEPTOR,
    PPID_DATA_OF_OPENER, Refusal,
};

fn ordered(stream: u16, ppid: Ppid, payload: Bytes) -> Message {
    Message {
        stream: StreamId(stream),
        ppid,
        unordered: false,
        number: 0,
        tsn: Tsn(0),
        payload,
        more: false,
    }
}

fn says(from_opener: bool, generation: u32, body: Body) -> Message {
    let unordered = !body.is_ordered();
    let payload = Control { from_opener, generation, body }.encode();
    Message { unordered, ..ordered(0, PPID_CONTROL, payload) }
}

fn open(generation: u32) -> Message {
    let (destination, source) = (destination(), source());
    says(true, generation, Body::Open(Open { window: INITIAL_CREDIT, destination, source }))
}

fn accept() -> Body {
    Body::Accept(Accept { window: INITIAL_CREDIT, local: local() })
}

fn data(ppid: Ppid, len: usize) -> Message {
    ordered(0, ppid, pattern(0, 0, len))
}

/// A mux, what it has received before, and what it then receives.
fn breach(before: &[Message], last: Message) -> FlowError {
    let mut mux = FlowMux::new(false, 4, FlowConfig::default());
    for message in before {
        mux.handle_message(message.clone()).unwrap();
    }
    let error = mux.handle_message(last).unwrap_err();
    assert_eq!(mux.counters().protocol_errors, 1);
    error
}

/// The same for a mux that has opened a flow.
fn breach_of_opener(before: &[Message], last: Message) -> FlowError {
    let mut mux = FlowMux::new(true, 4, FlowConfig::default());
    mux.open(destination(), source()).unwrap();
    while mux.poll_message(1400).is_some() {}
    for message in before {
        mux.handle_message(message.clone()).unwrap();
    }
    mux.handle_message(last).unwrap_err()
}

#[test]
fn messages_that_cannot_be_read() {
    let short = ordered(0, PPID_CONTROL, Bytes::from_static(&[1, 1, 0]));
    assert_eq!(breach(&[], short), FlowError::Truncated(1));
    let unknown = ordered(0, PPID_CONTROL, Bytes::from_static(&[99, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(breach(&[], unknown), FlowError::UnknownMessage(99));
    assert_eq!(breach(&[], data(Ppid(46), 1)), FlowError::UnknownPpid(46));
}

#[test]
fn data_may_come_in_parts_and_nothing_else() {
    let part = Message { more: true, ..open(1) };
    assert_eq!(breach(&[], part), FlowError::TooLarge);
    let mut mux = FlowMux::new(false, 4, FlowConfig::default());
    mux.handle_message(open(1)).unwrap();
    let flow = match mux.poll_event() {
        Some(FlowEvent::Incoming { flow, .. }) => flow,
        other => panic!("{other:?}"),
    };
    for more in [true, true, false] {
        mux.handle_message(Message { more, ..data(PPID_DATA_OF_OPENER, 5) }).unwrap();
    }
    let read: usize = std::iter::from_fn(|| mux.read(flow)).map(|bytes| bytes.len()).sum();
    assert_eq!(read, 15);
}

#[test]
fn ignorable_messages_are_counted() {
    let mut mux = FlowMux::new(false, 4, FlowConfig::default());
    let message = ordered(0, PPID_CONTROL, Bytes::from_static(&[200, 0, 0, 0, 0, 0, 0, 0]));
    mux.handle_message(message).unwrap();
    assert_eq!(mux.counters().ignored_messages, 1);
}

#[test]
fn order_that_was_not_asked_for() {
    let unordered = Message { unordered: true, ..open(1) };
    assert_eq!(breach(&[], unordered), FlowError::Unordered);
    let unordered = Message { unordered: true, ..data(PPID_DATA_OF_OPENER, 1) };
    assert_eq!(breach(&[open(1)], unordered), FlowError::Unordered);
}

#[test]
fn streams_and_generations() {
    let elsewhere = Message { stream: StreamId(4), ..open(1) };
    assert_eq!(breach(&[], elsewhere), FlowError::InvalidStream(4));
    let elsewhere = Message { stream: StreamId(9), ..data(PPID_DATA_OF_OPENER, 1) };
    assert_eq!(breach(&[], elsewhere), FlowError::InvalidStream(9));
    assert_eq!(breach(&[open(1)], open(2)), FlowError::StreamBusy(0));
    assert_eq!(breach(&[], open(2)), FlowError::WrongGeneration(0));
    assert_eq!(breach(&[], open(0)), FlowError::WrongGeneration(0));
    assert_eq!(breach(&[open(1)], says(true, 2, Body::Reset)), FlowError::WrongGeneration(0));
}

#[test]
fn messages_without_a_flow() {
    assert_eq!(breach(&[], data(PPID_DATA_OF_OPENER, 1)), FlowError::NoFlow(0));
    assert_eq!(breach(&[], data(PPID_DATA_OF_ACCEPTOR, 1)), FlowError::NoFlow(0));
    assert_eq!(breach(&[], says(true, 0, accept())), FlowError::NoFlow(0));
}

#[test]
fn messages_of_the_wrong_side_or_state() {
    let open_by_acceptor = Message { payload: flip(open(1).payload), ..open(1) };
    assert_eq!(breach(&[], open_by_acceptor), FlowError::Unexpected(1));
    assert_eq!(breach(&[open(1)], says(true, 1, accept())), FlowError::Unexpected(2));
    let refuse = Body::Refuse(Refusal::Busy);
    assert_eq!(breach(&[open(1)], says(true, 1, refuse.clone())), FlowError::Unexpected(3));
    let accepted = [says(false, 1, accept())];
    assert_eq!(breach_of_opener(&accepted, says(false, 1, accept())), FlowError::Unexpected(2));
    assert_eq!(breach_of_opener(&accepted, says(false, 1, refuse)), FlowError::Unexpected(3));
}

/// The same message with flag O inverted.
fn flip(payload: Bytes) -> Bytes {
    let mut bytes = payload.to_vec();
    bytes[1] ^= 1;
    bytes.into()
}

#[test]
fn acceptor_that_speaks_before_it_accepts() {
    let early = data(PPID_DATA_OF_ACCEPTOR, 1);
    assert_eq!(breach_of_opener(&[], early), FlowError::NotAccepted(0));
    let early = says(false, 1, Body::Finish(Finish { bytes: 0 }));
    assert_eq!(breach_of_opener(&[], early), FlowError::NotAccepted(0));
}

#[test]
fn more_data_than_granted() {
    let full = data(PPID_DATA_OF_OPENER, INITIAL_CREDIT as usize);
    let more = data(PPID_DATA_OF_OPENER, 1);
    assert_eq!(breach(&[open(1), full], more), FlowError::CreditExceeded(0));
}

#[test]
fn anything_after_the_end() {
    let finish = says(true, 1, Body::Finish(Finish { bytes: 0 }));
    let before = [open(1), finish.clone()];
    assert_eq!(breach(&before, data(PPID_DATA_OF_OPENER, 1)), FlowError::AfterEnd(0));
    assert_eq!(breach(&before, finish), FlowError::AfterEnd(0));
}

#[test]
fn finish_with_a_wrong_count() {
    let finish = says(true, 1, Body::Finish(Finish { bytes: 11 }));
    let before = [open(1), data(PPID_DATA_OF_OPENER, 10)];
    assert_eq!(breach(&before, finish), FlowError::WrongLength(0));
}

#[test]
fn return_of_what_was_used() {
    let before = [open(1), data(PPID_DATA_OF_OPENER, 10)];
    let all = Body::Return(Return { returned: u64::from(INITIAL_CREDIT) - 9 });
    assert_eq!(breach(&before, says(true, 1, all)), FlowError::BadReturn(0));
}

#[test]
fn extreme_values_do_no_harm() {
    let mut mux = FlowMux::new(true, 4, FlowConfig::default());
    let flow = mux.open(destination(), source()).unwrap();
    mux.handle_message(says(false, 1, accept())).unwrap();
    for window in [u32::MAX, 0] {
        for reclaim in [true, false] {
            let credit = Credit { window, reclaim, granted: u64::MAX };
            mux.handle_message(says(false, 1, Body::Credit(credit))).unwrap();
            mux.handle_message(says(false, 1, Body::Want(Want { window }))).unwrap();
        }
        mux.write(flow, pattern(0, 0, 1000)).unwrap();
        while mux.poll_message(1400).is_some() {}
    }
    assert_eq!(mux.status(flow).unwrap().send_credit, 0, "all was returned at a window of 0");
    assert_eq!(mux.status(flow).unwrap().queued, 1000);
}
