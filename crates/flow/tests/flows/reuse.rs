//! Streams that carry one flow after another, and messages that come late.

use crate::pair::*;
use manypath_engine::Message;
use manypath_flow::message::{Body, Control, Parsed};
use manypath_flow::{FlowConfig, FlowEvent, FlowMux, OpenError};

fn body(message: &Message) -> Option<Body> {
    match Control::parse(&message.payload) {
        Ok(Parsed::Control(control)) if message.ppid == manypath_flow::PPID_CONTROL => {
            Some(control.body)
        }
        Ok(_) | Err(_) => None,
    }
}

/// Closes the flow in order; messages of `to_a` that `hold` chooses are kept back.
fn close_holding(pair: &mut Pair, hold: impl Fn(&Body) -> bool) -> Vec<Message> {
    let mut held = Vec::new();
    while pair.a.has_messages() || pair.z.has_messages() {
        pair.send_a();
        pair.send_z();
        pair.arrive_z();
        for message in std::mem::take(&mut pair.to_a) {
            let late = body(&message).is_some_and(|body| hold(&body));
            if late { held.push(message) } else { pair.to_a.push_back(message) }
        }
        pair.arrive_a();
    }
    held
}

#[test]
fn late_credit_does_not_reach_the_next_flow() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.write(a, pattern(1, 0, 200_000)).unwrap();
    pair.settle();
    read_all(&mut pair.z, z);
    pair.a.finish(a);
    pair.z.finish(z);
    let held = close_holding(&mut pair, |body| matches!(body, Body::Credit(_)));
    assert_eq!(held.len(), 1, "the reader's consumption was granted");
    read_all(&mut pair.z, z);
    events(&mut pair.a);
    events(&mut pair.z);
    let (next, _) = pair.flow();
    let before = pair.a.status(next).unwrap();
    assert_eq!((before.stream, before.generation), (0, 2));
    for message in held {
        pair.a.handle_message(message).unwrap();
    }
    assert_eq!(pair.a.status(next).unwrap(), before);
    assert_eq!(pair.a.counters().late_messages, 1);
}

#[test]
fn late_reset_does_not_reach_the_next_flow() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    // Z has finished and resets; A finishes, so that for A the flow is over, and uses the stream
    // again before the RESET is there.
    pair.z.finish(z);
    pair.settle();
    pair.z.reset(z);
    pair.send_z();
    pair.a.finish(a);
    pair.send_a();
    events(&mut pair.a);
    let next = pair.a.open(destination(), source()).unwrap();
    pair.settle();
    assert_eq!(pair.a.counters().late_messages, 1);
    let next_z = events(&mut pair.z)[0].flow();
    pair.z.accept(next_z, local());
    pair.settle();
    assert_eq!(events(&mut pair.a), [FlowEvent::Opened { flow: next, local: local() }]);
}

/// RESET after FINISH is not an end: it must not count as the end of the flow that came meanwhile.
#[test]
fn reset_that_waits_while_the_stream_is_used_again() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.finish(a);
    pair.settle();
    pair.z.finish(z);
    pair.send_z();
    pair.a.reset(a);
    pair.arrive_a();
    let next = pair.a.open(destination(), source()).unwrap();
    pair.settle();
    let next_z = events(&mut pair.z).last().map(FlowEvent::flow).unwrap();
    pair.z.accept(next_z, local());
    pair.z.finish(next_z);
    pair.settle();
    assert_eq!(pair.a.open(destination(), source()), Err(OpenError::NoStream));
    pair.a.finish(next);
    pair.settle();
    assert!(pair.a.open(destination(), source()).is_ok());
}

#[test]
fn a_stream_is_free_again_while_the_reader_still_reads() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.write(a, pattern(1, 0, 1000)).unwrap();
    pair.a.finish(a);
    pair.z.finish(z);
    pair.settle();
    events(&mut pair.a);
    let second = pair.a.open(destination(), source()).unwrap();
    pair.a.write(second, pattern(2, 0, 1000)).unwrap();
    pair.settle();
    let opened = events(&mut pair.z);
    let second_z = opened.iter().map(FlowEvent::flow).find(|&flow| flow != z).unwrap();
    assert_eq!(read_all(&mut pair.z, second_z), pattern(2, 0, 1000));
    assert_eq!(read_all(&mut pair.z, z), pattern(1, 0, 1000));
    assert_eq!(events(&mut pair.z), [FlowEvent::Finished(z), FlowEvent::Closed(z)]);
}

#[test]
fn thousand_flows_one_after_another_on_one_stream() {
    let mut pair = Pair::new(1);
    for i in 1..=1000 {
        let (a, z) = pair.flow();
        assert_eq!(pair.a.status(a).unwrap().generation, i);
        assert_eq!(pair.a.open(destination(), source()), Err(OpenError::NoStream));
        pair.a.finish(a);
        pair.z.finish(z);
        pair.settle();
        events(&mut pair.a);
        events(&mut pair.z);
    }
    assert!(pair.a.is_drained() && pair.z.is_drained());
}

/// Both sides may have sent INIT (RFC 9260 section 5.2.1); then both prefer the same streams.
#[test]
fn flows_of_both_sides_share_a_stream() {
    let mut pair = Pair::new(1);
    pair.z = FlowMux::new(true, 1, FlowConfig::default());
    let by_a = pair.a.open(destination(), source()).unwrap();
    let by_z = pair.z.open(source(), destination()).unwrap();
    pair.a.write(by_a, pattern(1, 0, 2000)).unwrap();
    pair.z.write(by_z, pattern(2, 0, 2000)).unwrap();
    pair.settle();
    let at_a = events(&mut pair.a)[0].flow();
    let at_z = events(&mut pair.z)[0].flow();
    pair.a.accept(at_a, local());
    pair.z.accept(at_z, local());
    pair.a.write(at_a, pattern(3, 0, 2000)).unwrap();
    pair.z.write(at_z, pattern(4, 0, 2000)).unwrap();
    pair.settle();
    assert_eq!(read_all(&mut pair.z, at_z), pattern(1, 0, 2000));
    assert_eq!(read_all(&mut pair.a, at_a), pattern(2, 0, 2000));
    assert_eq!(read_all(&mut pair.z, by_z), pattern(3, 0, 2000));
    assert_eq!(read_all(&mut pair.a, by_a), pattern(4, 0, 2000));
    // The end of one is not the end of the other.
    pair.a.reset(by_a);
    pair.settle();
    assert_eq!(pair.z.len(), 2, "the reset flow waits for its events to be taken");
    pair.a.write(at_a, pattern(3, 2000, 10)).unwrap();
    pair.settle();
    assert_eq!(read_all(&mut pair.z, by_z), pattern(3, 2000, 10));
}
