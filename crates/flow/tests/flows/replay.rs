//! Bytes as a course of messages and reactions: the input of the fuzz target `flow_messages`.
//!
//! A record is four bytes and a payload: what it is, its stream, a number from which the user's
//! reaction follows, and the length of the payload. The highest bit of the first byte makes it a
//! datagram, or a control message on one of the streams of datagrams. Nothing else is here, so that the fuzz crate can
//! take this file as it is.

use bytes::Bytes;
use manypath_engine::{Message, StreamId, Tsn};
use manypath_flow::{
    DATAGRAM_STREAMS, DatagramEvent, DatagramFlow, Datagrams, FlowConfig, FlowEvent, FlowId,
    FlowMux, INITIAL_CREDIT, PPID_CONTROL, PPID_DATA_OF_ACCEPTOR, PPID_DATA_OF_OPENER,
    PPID_DATAGRAM_OF_ACCEPTOR, PPID_DATAGRAM_OF_OPENER, Refusal, RelayAnswer,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Narrow limits, so that a short course reaches them.
pub(crate) const CONFIG: FlowConfig = FlowConfig {
    first_window: INITIAL_CREDIT,
    max_window: 4 * INITIAL_CREDIT,
    receive_budget: 12 * INITIAL_CREDIT as u64,
    send_buffer: 20_000,
    send_budget: 100_000,
    first_windows: 5,
    max_flows: 5,
};

/// Streams of byte flows; those of datagrams follow.
pub(crate) const STREAMS: u16 = 3;
/// The bit of records about datagrams.
pub(crate) const DATAGRAMS: u8 = 0x80;

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
    let said = || Bytes::copy_from_slice(payload);
    let of_datagrams = kind & DATAGRAMS != 0;
    let (ppid, content) = match (kind & 3, of_datagrams) {
        (0 | 1, _) => (PPID_CONTROL, said()),
        (2, false) => (PPID_DATA_OF_OPENER, data()),
        (_, false) => (PPID_DATA_OF_ACCEPTOR, data()),
        (2, true) => (PPID_DATAGRAM_OF_OPENER, said()),
        (_, true) => (PPID_DATAGRAM_OF_ACCEPTOR, said()),
    };
    let stream = match of_datagrams {
        true => StreamId(STREAMS + u16::from(stream) % DATAGRAM_STREAMS),
        false => StreamId((stream % 4).into()),
    };
    let unordered = kind & 3 == 1 || (of_datagrams && kind & 2 != 0);
    Some((
        Message { stream, ppid, unordered, number: 0, tsn: Tsn(0), payload: content, more: false },
        dice,
    ))
}

/// Runs the course that the bytes describe. Panics if a mux does, or if it takes more memory than
/// its limits allow.
pub(crate) fn check(mut bytes: &[u8]) {
    let mut mux = FlowMux::new(true, STREAMS, CONFIG);
    mux.datagrams_mut().agree(STREAMS);
    if bytes.len().is_multiple_of(2) {
        mux.set_relay_answer(RelayAnswer::Relays);
    }
    let mut errors = 0;
    while let Some((message, dice)) = record(&mut bytes) {
        // A real caller aborts the association at the first error; nothing breaks if not.
        errors += u64::from(mux.handle_message(message).is_err());
        react(&mut mux, dice);
        react_to_datagrams(&mut mux, dice);
        check_limits(&mux);
    }
    assert_eq!(mux.counters().protocol_errors, errors);
}

/// The user answers, reads, writes and closes, as `dice` will have it.
pub(crate) fn react(mux: &mut FlowMux, dice: u8) {
    if dice.is_multiple_of(2) {
        while let Some(event) = mux.poll_event() {
            if let FlowEvent::Incoming { flow, .. } | FlowEvent::IncomingBeyond(flow) = event
                && dice < 200
            {
                mux.accept(flow, address());
            }
        }
    }
    let flow = mux.flows().nth(usize::from(dice / 50));
    match flow {
        Some(flow) => act(mux, flow, dice),
        None if dice.is_multiple_of(5) => drop(mux.open_beyond(address().into(), address())),
        None => drop(mux.open(address(), address())),
    }
    for _ in 0..dice % 11 {
        mux.poll_message(usize::from(dice) * 8);
    }
}

/// The same for datagrams: flows of the peer are accepted or refused, and what comes is sent back.
fn react_to_datagrams(mux: &mut FlowMux, dice: u8) {
    let now = Duration::from_millis(dice.into());
    let datagrams = mux.datagrams_mut();
    if dice % 16 == 7 {
        let opened = datagrams.open(address(), address(), Duration::from_millis(200));
        if let Ok(flow) = opened {
            datagrams.send(now, flow, &[dice; 9]).expect("a flow that was just opened");
        }
    }
    while let Some(event) = datagrams.poll_event() {
        match event {
            DatagramEvent::Incoming { flow, .. } | DatagramEvent::IncomingBeyond { flow, .. }
                if dice < 200 =>
            {
                datagrams.set_redundant(flow, dice.is_multiple_of(2));
                datagrams.accept(flow);
            }
            DatagramEvent::Incoming { flow, .. } | DatagramEvent::IncomingBeyond { flow, .. } => {
                datagrams.close(flow, Some(Refusal::NotAllowed))
            }
            DatagramEvent::Received(flow, payload) => answer(datagrams, flow, &payload, now),
            DatagramEvent::Unreachable(flow, _) if dice.is_multiple_of(3) => {
                datagrams.close(flow, None);
            }
            DatagramEvent::Unreachable(flow, errno) => datagrams.unreachable(flow, errno),
            DatagramEvent::Accepted(_) | DatagramEvent::SeenAt(..) | DatagramEvent::Closed(..) => {}
        }
    }
    for _ in 0..dice % 5 {
        datagrams.poll_control();
        if let Some((message, _)) = datagrams.poll_datagram(now) {
            assert!((STREAMS..STREAMS + DATAGRAM_STREAMS).contains(&message.stream.0));
        }
    }
}

fn answer(datagrams: &mut Datagrams, flow: DatagramFlow, payload: &[u8], now: Duration) {
    // A flow that it is about exists: its end would have come after it.
    if datagrams.status(flow).is_some() {
        datagrams.send(now, flow, payload).expect("a flow takes what it has brought");
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
    let counters = mux.datagrams().counters();
    assert!(counters.accepted <= counters.incoming);
    assert!(mux.promised() <= CONFIG.receive_budget);
    assert!(mux.len() <= 2 * CONFIG.max_flows);
    for flow in mux.flows() {
        let status = mux.status(flow).expect("it exists");
        assert!(status.buffered <= CONFIG.max_window.into());
        assert!(status.queued <= CONFIG.send_buffer);
    }
}
