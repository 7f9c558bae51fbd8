//! Flows to destinations beyond the acceptor.

use crate::pair::*;
use bytes::Bytes;
use manypath_engine::{Message, StreamId, Tsn};
use manypath_flow::message::{Body, Control, Parsed, RelayBody, RelayOpen};
use manypath_flow::{
    Destination, FlowConfig, FlowError, FlowEvent, FlowMux, FlowState, HostName, INITIAL_CREDIT,
    PPID_CONTROL, Refusal, RelayAnswer,
};

fn far() -> Destination {
    address("198.51.100.7:443").into()
}

fn by_name() -> Destination {
    Destination::Name(HostName::new("www.example").unwrap(), 443)
}

fn relaying() -> Pair {
    let mut pair = Pair::new(4);
    pair.z.set_relay_answer(RelayAnswer::Relays);
    pair
}

fn bodies(messages: &[Message]) -> Vec<Body> {
    let body = |message: &Message| match Control::parse(&message.payload) {
        Ok(Parsed::Control(control)) => control.body,
        other => panic!("{other:?}"),
    };
    messages.iter().map(body).collect()
}

#[test]
fn a_relay_says_so_unasked_and_carries_flows_to_addresses_and_names() {
    let mut pair = relaying();
    pair.settle();
    assert_eq!(pair.a.peer_relays(), Some(RelayAnswer::Relays));
    for destination in [far(), by_name()] {
        let at_a = pair.a.open_beyond(destination.clone().into(), source()).unwrap();
        pair.a.write(at_a, Bytes::from_static(b"early")).unwrap();
        pair.send_a();
        let first = bodies(pair.to_z.make_contiguous().first_chunk::<1>().unwrap());
        assert!(matches!(first[..], [Body::Relay(RelayBody::Open(_))]), "nobody asks: {first:?}");
        pair.settle();
        let at_z = match events(&mut pair.z)[..] {
            [FlowEvent::IncomingBeyond(flow), FlowEvent::Readable(_)] => flow,
            ref other => panic!("{other:?}"),
        };
        assert_eq!(pair.z.beyond(at_z), Some(&destination.into()));
        assert_eq!(pair.z.status(at_z).unwrap().source, source());
        pair.z.accept(at_z, local());
        pair.settle();
        assert_eq!(read_all(&mut pair.z, at_z), b"early");
        assert_eq!(events(&mut pair.a), [FlowEvent::Opened { flow: at_a, local: local() }]);
    }
}

#[test]
fn who_does_not_know_waits_for_the_answer_and_asks_once() {
    let mut pair = Pair::new(4);
    let flows = [0; 3].map(|_| pair.a.open_beyond(far().into(), source()).unwrap());
    pair.a.write(flows[0], Bytes::from_static(b"held")).unwrap();
    pair.a.finish(flows[1]);
    pair.a.reset(flows[2]);
    pair.send_a();
    assert_eq!(bodies(pair.to_z.make_contiguous()), [Body::Relay(RelayBody::Ask)]);
    assert_eq!(pair.a.status(flows[0]).unwrap().state, FlowState::Opening);
    pair.z.set_relay_answer(RelayAnswer::Relays);
    pair.settle();
    let incoming = events(&mut pair.z);
    let opened = incoming.iter().filter(|one| matches!(one, FlowEvent::IncomingBeyond(_)));
    assert_eq!(opened.count(), 2, "the one that was reset is not opened");
    assert_eq!(pair.z.counters().protocol_errors, 0);
}

#[test]
fn whoever_does_not_relay_says_so_and_no_stream_is_used() {
    for answer in [RelayAnswer::NotRelay, RelayAnswer::NotAllowed] {
        let mut pair = Pair::new(1);
        pair.z.set_relay_answer(answer);
        let refused = |flow| FlowEvent::Refused { flow, refusal: Refusal::NotRelay };
        // The second one is refused by what the first one has learnt.
        for _ in 0..2 {
            let flow = pair.a.open_beyond(far().into(), source()).unwrap();
            pair.settle();
            assert_eq!(events(&mut pair.a), [refused(flow), FlowEvent::Closed(flow)]);
        }
        assert_eq!((pair.z.counters().incoming, pair.a.is_drained()), (0, true));
        pair.flow();
    }
}

/// As peers of earlier versions do.
#[test]
fn a_peer_that_ignores_the_question_is_not_harmed() {
    let mut pair = Pair::new(1);
    let flow = pair.a.open_beyond(far().into(), source()).unwrap();
    pair.send_a();
    pair.to_z.clear();
    assert_eq!(pair.a.peer_relays(), None);
    pair.a.reset(flow);
    pair.send_a();
    assert!(pair.to_z.is_empty(), "the peer has not heard of the flow and needs no RESET");
    assert!(pair.a.is_drained());
    pair.flow();
}

#[test]
fn a_flow_beyond_a_side_that_does_not_relay_is_refused_and_its_stream_goes_on() {
    let mut mux = FlowMux::new(false, 4, FlowConfig::default());
    for generation in 1..3 {
        mux.handle_message(relay_open(generation, far())).unwrap();
        assert_eq!(mux.poll_event(), None);
        let answer = bodies(&[message(mux.poll_message(FRAGMENT).unwrap())]);
        assert_eq!(answer, [Body::Refuse(Refusal::NotRelay)]);
        mux.handle_message(says(true, generation, Body::Reset)).unwrap();
    }
    assert_eq!(mux.counters().refused, 2);
}

#[test]
fn streams_that_the_association_turns_out_not_to_have_matter_when_the_flow_opens() {
    let mut pair = Pair::new(8);
    let flows = [0; 3].map(|_| pair.a.open_beyond(far().into(), source()).unwrap());
    pair.a.limit_streams(2);
    pair.z.limit_streams(2);
    pair.z.set_relay_answer(RelayAnswer::Relays);
    pair.settle();
    let refused = FlowEvent::Refused { flow: flows[2], refusal: Refusal::NoStream };
    assert_eq!(events(&mut pair.a), [refused, FlowEvent::Closed(flows[2])]);
    assert_eq!(events(&mut pair.z).len(), 2);
}

#[test]
fn questions_without_end_leave_one_answer() {
    let mut mux = FlowMux::new(false, 4, FlowConfig::default());
    for _ in 0..1000 {
        mux.handle_message(says(true, 0, Body::Relay(RelayBody::Ask))).unwrap();
    }
    assert!(mux.poll_message(FRAGMENT).is_some() && !mux.has_messages());
}

#[test]
fn names_that_cannot_be_ones_are_breaches() {
    let good = relay_open(1, by_name()).payload;
    let at = good.len() - "www.example".len() - 4;
    for (place, wrong) in [(at, b' '), (at, 0x80), (at, 0), (at - 3, 0)] {
        let mut bytes = good.to_vec();
        bytes[place] = wrong;
        assert_eq!(Control::parse(&bytes), Err(FlowError::BadName), "{wrong} at {place}");
    }
    assert_eq!(HostName::new(&"x".repeat(254)), None);
    assert_eq!(HostName::new(""), None);
}

#[test]
fn an_acceptor_cannot_open() {
    let mut mux = FlowMux::new(false, 4, FlowConfig::default());
    mux.set_relay_answer(RelayAnswer::Relays);
    let open = relay_body(far());
    assert_eq!(mux.handle_message(says(false, 1, open)), Err(FlowError::Unexpected(136)));
    mux.handle_message(relay_open(1, far())).unwrap();
    assert_eq!(mux.handle_message(relay_open(2, far())), Err(FlowError::StreamBusy(0)));
}

fn relay_body(destination: Destination) -> Body {
    let (window, source, beyond) = (INITIAL_CREDIT, source(), destination.into());
    let open = RelayOpen { window, source, beyond };
    Body::Relay(RelayBody::Open(Box::new(open)))
}

fn relay_open(generation: u32, destination: Destination) -> Message {
    says(true, generation, relay_body(destination))
}

fn says(from_opener: bool, generation: u32, body: Body) -> Message {
    let unordered = !body.is_ordered();
    let payload = Control { from_opener, generation, body }.encode();
    let (stream, ppid) = (StreamId(0), PPID_CONTROL);
    Message { stream, ppid, unordered, number: 0, tsn: Tsn(0), payload, more: false }
}
