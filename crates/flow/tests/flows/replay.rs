//! Bytes as a course of messages and reactions: the input of the fuzz target `flow_messages`.
//!
//! A record is four bytes and a payload: what it is, its stream, a number from which the user's
//! reaction follows, and the length of the payload. Nothing else is here, so that the fuzz crate can
//! take this file as it is.

use bytes::Bytes;
use manypath_engine::{Message, StreamId, Tsn};
use manypath_flow::{
    FlowConfig, FlowEvent, FlowId, FlowMux, INITIAL_CREDIT, PPID_CONTROL, PPID_DATA_OF_ACCEPTOR,
    PPID_DATA_OF_OPENER, Refusal,
};
use std::net::{Ipv4Addr, SocketAddr};

/// Narrow limits, so that a short course reaches them.
pub(crate) const CONFIG: FlowConfig = FlowConfig {
    first_window: INITIAL_CREDIT,
    max_window: 4 * INITIAL_CREDIT,
    receive_budget: 12 * INITIAL_CREDIT as u64,
    send_buffer: 20_000,
    send_budget: 100_000,
    max_flows: 5,
};

/// Data records say how much in units of this, so that few bytes use up a window.
const UNIT: usize = 300;

fn address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 80).into()
}

/// Takes one record off the front.
fn record(bytes: &mut &[u8]) -> Option<(Message, u8)> {
    let (&[kind, stream, dice, len], rest) = bytes.split_first_chunk()?;
    let (payload, rest) = rest.split_at(usize::from(len).min(rest.len()));
    *bytes = rest;
    let data = || Bytes::from(vec![0; usize::from(len) * UNIT]);
    let (ppid, content) = match kind & 3 {
        0 | 1 => (PPID_CONTROL, Bytes::copy_from_slice(payload)),
        2 => (PPID_DATA_OF_OPENER, data()),
        _ => (PPID_DATA_OF_ACCEPTOR, data()),
    };
    let stream = StreamId((stream % 4).into());
    let unordered = kind & 3 == 1;
    Some((
        Message { stream, ppid, unordered, number: 0, tsn: Tsn(0), payload: content, more: false },
        dice,
    ))
}

/// Runs the course that the bytes describe. Panics if a mux does, or if it takes more memory than
/// its limits allow.
pub(crate) fn check(mut bytes: &[u8]) {
    let mut mux = FlowMux::new(true, 3, CONFIG);
    let mut errors = 0;
    while let Some((message, dice)) = record(&mut bytes) {
        // A real caller aborts the association at the first error; nothing breaks if not.
        errors += u64::from(mux.handle_message(message).is_err());
        react(&mut mux, dice);
        check_limits(&mux);
    }
    assert_eq!(mux.counters().protocol_errors, errors);
}

/// The user answers, reads, writes and closes, as `dice` will have it.
pub(crate) fn react(mux: &mut FlowMux, dice: u8) {
    if dice.is_multiple_of(2) {
        while let Some(event) = mux.poll_event() {
            if let (FlowEvent::Incoming { flow, .. }, true) = (event, dice < 200) {
                mux.accept(flow, address());
            }
        }
    }
    let flow = mux.flows().nth(usize::from(dice / 50));
    match flow {
        Some(flow) => act(mux, flow, dice),
        None => drop(mux.open(address(), address())),
    }
    for _ in 0..dice % 11 {
        mux.poll_message(usize::from(dice) * 8);
    }
}

fn act(mux: &mut FlowMux, flow: FlowId, dice: u8) {
    match dice % 7 {
        0 => mux.finish(flow),
        1 => mux.reset(flow),
        2 => mux.refuse(flow, Refusal::NotAllowed),
        3 => drop(mux.write(flow, Bytes::from_static(&[1; 3000]))),
        _ => {
            while let Some(bytes) = mux.read(flow) {
                mux.consumed(flow, bytes.len());
            }
        }
    }
}

pub(crate) fn check_limits(mux: &FlowMux) {
    assert!(mux.promised() <= CONFIG.receive_budget);
    assert!(mux.len() <= 2 * CONFIG.max_flows);
    for flow in mux.flows() {
        let status = mux.status(flow).expect("it exists");
        assert!(status.buffered <= CONFIG.max_window.into());
        assert!(status.queued <= CONFIG.send_buffer);
    }
}
