//! How flows end: reset in every state, and ends that cross on the way.

use crate::pair::*;
use manypath_flow::{FlowEvent, FlowId, FlowState, Refusal, WriteError};

fn incoming(pair: &mut Pair) -> (FlowId, FlowId) {
    let a = pair.a.open(destination(), source()).unwrap();
    pair.settle();
    let z = events(&mut pair.z)[0].flow();
    (a, z)
}

fn assert_over(pair: &mut Pair) {
    pair.settle();
    assert_eq!((events(&mut pair.a), events(&mut pair.z)), (vec![], vec![]));
    assert!(pair.a.is_drained() && pair.z.is_drained());
    assert_eq!((pair.a.promised(), pair.z.promised()), (0, 0));
    // The stream is as good as new.
    let (a, z) = pair.flow();
    pair.a.write(a, pattern(9, 0, 10)).unwrap();
    pair.settle();
    assert_eq!(read_all(&mut pair.z, z), pattern(9, 0, 10));
}

fn ended(flow: FlowId) -> Vec<FlowEvent> {
    vec![FlowEvent::Reset(flow), FlowEvent::Closed(flow)]
}

#[test]
fn reset_before_the_open_has_left() {
    let mut pair = Pair::new(1);
    let a = pair.a.open(destination(), source()).unwrap();
    pair.a.reset(a);
    pair.settle();
    let seen = events(&mut pair.z);
    assert!(matches!(seen[0], FlowEvent::Incoming { .. }));
    assert_eq!(seen[1..], ended(seen[0].flow()));
    assert_over(&mut pair);
}

#[test]
fn reset_by_the_opener_before_the_answer() {
    let mut pair = Pair::new(1);
    let (a, z) = incoming(&mut pair);
    pair.a.reset(a);
    pair.settle();
    assert_eq!(events(&mut pair.z), ended(z));
    pair.z.accept(z, local());
    assert_over(&mut pair);
}

#[test]
fn reset_by_the_acceptor_instead_of_an_answer() {
    let mut pair = Pair::new(1);
    let (a, z) = incoming(&mut pair);
    pair.z.reset(z);
    pair.settle();
    assert_eq!(events(&mut pair.a), ended(a));
    assert_over(&mut pair);
}

#[test]
fn reset_of_an_open_flow_from_either_side() {
    for by_opener in [true, false] {
        let mut pair = Pair::new(1);
        let (a, z) = pair.flow();
        pair.a.write(a, pattern(1, 0, 5000)).unwrap();
        pair.z.write(z, pattern(2, 0, 5000)).unwrap();
        pair.send_a();
        pair.send_z();
        if by_opener {
            pair.a.reset(a);
            pair.settle();
            assert_eq!(events(&mut pair.z), [vec![FlowEvent::Readable(z)], ended(z)].concat());
            assert_eq!(pair.a.counters().discarded_bytes, 5000);
        } else {
            pair.z.reset(z);
            pair.settle();
            assert_eq!(events(&mut pair.a), [vec![FlowEvent::Readable(a)], ended(a)].concat());
            assert_eq!(pair.z.counters().discarded_bytes, 5000);
        }
        assert_over(&mut pair);
    }
}

#[test]
fn reset_after_our_finish_stops_the_peers_data() {
    for by_opener in [true, false] {
        let mut pair = Pair::new(1);
        let (a, z) = pair.flow();
        if by_opener {
            pair.a.finish(a);
            pair.settle();
            assert_eq!(events(&mut pair.z), [FlowEvent::Finished(z)]);
            pair.a.reset(a);
            pair.settle();
            assert_eq!(events(&mut pair.z), ended(z));
        } else {
            pair.z.finish(z);
            pair.settle();
            assert_eq!(events(&mut pair.a), [FlowEvent::Finished(a)]);
            pair.z.reset(z);
            pair.settle();
            assert_eq!(events(&mut pair.a), ended(a));
        }
        assert_over(&mut pair);
    }
}

#[test]
fn reset_after_the_peers_finish() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.finish(a);
    pair.settle();
    events(&mut pair.z);
    pair.z.reset(z);
    pair.settle();
    assert_eq!(events(&mut pair.a), ended(a));
    assert_over(&mut pair);
}

#[test]
fn resets_that_cross() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.reset(a);
    pair.z.reset(z);
    pair.send_a();
    pair.send_z();
    assert_over(&mut pair);
}

#[test]
fn finishes_that_cross() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.finish(a);
    pair.z.finish(z);
    pair.send_a();
    pair.send_z();
    pair.settle();
    assert_eq!(events(&mut pair.a), [FlowEvent::Finished(a), FlowEvent::Closed(a)]);
    assert_eq!(events(&mut pair.z), [FlowEvent::Finished(z), FlowEvent::Closed(z)]);
    assert_over(&mut pair);
}

#[test]
fn answer_that_crosses_a_reset() {
    for accept in [true, false] {
        let mut pair = Pair::new(1);
        let (a, z) = incoming(&mut pair);
        pair.a.reset(a);
        pair.send_a();
        if accept {
            pair.z.accept(z, local());
        } else {
            pair.z.refuse(z, Refusal::NotAllowed);
        }
        pair.send_z();
        pair.settle();
        let expected = if accept { ended(z) } else { vec![] };
        assert_eq!(events(&mut pair.z), expected);
        assert_over(&mut pair);
    }
}

#[test]
fn refusal_that_crosses_data_and_finish() {
    let mut pair = Pair::new(1);
    let (a, z) = incoming(&mut pair);
    pair.a.write(a, pattern(1, 0, 3000)).unwrap();
    pair.a.finish(a);
    pair.send_a();
    pair.z.refuse(z, Refusal::Errno(113));
    pair.settle();
    let refused = FlowEvent::Refused { flow: a, refusal: Refusal::Errno(113) };
    assert_eq!(events(&mut pair.a), [refused, FlowEvent::Closed(a)]);
    assert_eq!(pair.z.counters().discarded_bytes, 3000);
    assert_over(&mut pair);
}

#[test]
fn finish_before_the_answer() {
    let mut pair = Pair::new(1);
    let (a, z) = incoming(&mut pair);
    pair.a.write(a, pattern(1, 0, 3000)).unwrap();
    pair.a.finish(a);
    pair.settle();
    assert_eq!(read_all(&mut pair.z, z), pattern(1, 0, 3000));
    assert_eq!(events(&mut pair.z), [FlowEvent::Readable(z), FlowEvent::Finished(z)]);
    pair.z.finish(z);
    pair.settle();
    assert_eq!(pair.z.status(z).unwrap().state, FlowState::Incoming, "not finished before accept");
    pair.z.accept(z, local());
    pair.settle();
    let opened = FlowEvent::Opened { flow: a, local: local() };
    let expected = [opened, FlowEvent::Finished(a), FlowEvent::Closed(a)];
    assert_eq!(events(&mut pair.a), expected);
    assert_eq!(events(&mut pair.z), [FlowEvent::Closed(z)]);
    assert_over(&mut pair);
}

#[test]
fn what_came_before_a_reset_can_be_read_until_closed() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.write(a, pattern(1, 0, 3000)).unwrap();
    pair.send_a();
    pair.a.reset(a);
    pair.settle();
    assert_eq!(pair.z.poll_event(), Some(FlowEvent::Readable(z)));
    assert_eq!(pair.z.poll_event(), Some(FlowEvent::Reset(z)));
    assert_eq!(pair.z.writable(z), 0);
    assert_eq!(pair.z.write(z, pattern(2, 0, 1)), Err(WriteError::Reset));
    assert_eq!(read_all(&mut pair.z, z), pattern(1, 0, 3000));
    assert_eq!(pair.z.poll_event(), Some(FlowEvent::Closed(z)));
    assert_eq!(pair.z.write(z, pattern(2, 0, 1)), Err(WriteError::UnknownFlow));
    assert_eq!(pair.z.read(z), None);
    assert_over(&mut pair);
}

#[test]
fn commands_on_a_flow_that_is_gone_do_nothing() {
    let mut pair = Pair::new(1);
    let (a, z) = pair.flow();
    pair.a.reset(a);
    pair.a.reset(a);
    pair.a.finish(a);
    pair.a.accept(a, local());
    pair.a.refuse(a, Refusal::NotAllowed);
    pair.a.consumed(a, 100);
    pair.settle();
    assert_eq!(events(&mut pair.z), ended(z));
    assert_eq!(pair.a.counters().resets, 1);
    assert_over(&mut pair);
}
