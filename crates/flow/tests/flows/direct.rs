//! The direct form: one connection, the association its only frame.

use crate::pair::*;
use bytes::Bytes;
use manypath_flow::{
    DirectEnd, DirectFlow, DirectPeer, FlowError, FlowEvent, FlowId, FlowState, PPID_DIRECT,
    PPID_END, WriteError,
};

/// A flow of ours and the same flow as its peer has it, both open.
fn pair(peer: DirectPeer) -> (DirectFlow, DirectFlow, FlowId) {
    let (mut a, id) = DirectFlow::opening(destination(), source());
    a.established(peer);
    assert_eq!(a.poll_event(), Some(FlowEvent::Opened { flow: id, local: destination() }));
    let mut z = DirectFlow::incoming(destination(), source(), peer);
    let asked = FlowEvent::Incoming { flow: id, destination: destination(), source: source() };
    assert_eq!(z.poll_event(), Some(asked));
    z.accept(id, local());
    // Somebody reads.
    assert_eq!((a.read(id), z.read(id)), (None, None));
    (a, z, id)
}

fn deliver(from: &mut DirectFlow, to: &mut DirectFlow) -> usize {
    let mut count = 0;
    while let Some(sent) = from.poll_message(FRAGMENT) {
        to.handle_message(message(sent)).unwrap();
        count += 1;
    }
    count
}

fn events_of(flow: &mut DirectFlow) -> Vec<FlowEvent> {
    std::iter::from_fn(|| flow.poll_event()).collect()
}

#[test]
fn bytes_travel_in_stream_0_without_any_other_message() {
    let (mut a, mut z, id) = pair(DirectPeer::Native);
    a.write(id, pattern(0, 0, 3 * FRAGMENT)).unwrap();
    let sent: Vec<_> = std::iter::from_fn(|| a.poll_message(FRAGMENT)).collect();
    assert_eq!(sent.len(), 3);
    for sent in sent {
        assert_eq!((sent.stream.0, sent.ppid, sent.unordered), (0, PPID_DIRECT, false));
        z.handle_message(message(sent)).unwrap();
    }
    assert_eq!(events_of(&mut z), [FlowEvent::Readable(id)]);
    let read: Vec<u8> = std::iter::from_fn(|| z.read(id)).flatten().collect();
    assert_eq!(read, pattern(0, 0, 3 * FRAGMENT));
    assert_eq!((a.poll_end(), z.poll_end()), (None, None));
}

/// To a native peer the end of one direction is a SHUTDOWN, which is the end of both.
#[test]
fn the_end_towards_a_native_peer_is_the_associations_end() {
    let (mut a, mut z, id) = pair(DirectPeer::Native);
    a.write(id, pattern(0, 0, 10)).unwrap();
    a.finish(id);
    assert_eq!(a.poll_end(), None, "data first");
    assert_eq!(deliver(&mut a, &mut z), 1);
    assert_eq!((a.poll_end(), a.poll_end()), (Some(DirectEnd::Shutdown), None));
    // What the peer had under way still comes.
    z.write(id, pattern(1, 0, 20)).unwrap();
    deliver(&mut z, &mut a);
    assert_eq!(a.read(id).unwrap(), pattern(1, 0, 20));
    a.end_of_input();
    let end = [FlowEvent::Readable(id), FlowEvent::Finished(id), FlowEvent::Closed(id)];
    assert_eq!(events_of(&mut a), end);
    // At the other end everything is over when it has been read.
    z.write(id, pattern(1, 0, 5)).unwrap();
    z.end_of_output();
    z.end_of_input();
    assert_eq!((z.writable(id), z.counters().unsent_bytes), (0, 5));
    assert_eq!(events_of(&mut z), [FlowEvent::Readable(id)]);
    assert_eq!(z.read(id).unwrap(), pattern(0, 0, 10));
    assert_eq!(events_of(&mut z), [FlowEvent::Finished(id), FlowEvent::Closed(id)]);
    assert_eq!((z.status(id), z.read(id)), (None, None));
}

#[test]
fn between_two_manypaths_each_direction_has_its_own_end() {
    let (mut a, mut z, id) = pair(DirectPeer::Manypath);
    a.finish(id);
    assert_eq!(deliver(&mut a, &mut z), 1);
    assert_eq!(events_of(&mut z), [FlowEvent::Finished(id)]);
    assert_eq!(a.status(id).unwrap().state, FlowState::HalfClosedLocal);
    assert_eq!(z.status(id).unwrap().state, FlowState::HalfClosedRemote);
    assert_eq!(a.poll_end(), None);
    z.write(id, pattern(0, 0, 100)).unwrap();
    z.finish(id);
    assert_eq!(deliver(&mut z, &mut a), 2);
    assert_eq!(a.read(id).unwrap(), pattern(0, 0, 100));
    assert_eq!(a.read(id), None);
    assert_eq!(events_of(&mut a).last(), Some(&FlowEvent::Closed(id)));
    assert_eq!(events_of(&mut z), [FlowEvent::Closed(id)]);
    // The side that began it ends it.
    assert_eq!((a.poll_end(), z.poll_end()), (Some(DirectEnd::Shutdown), None));
}

#[test]
fn data_after_the_end_is_a_breach_between_two_manypaths() {
    let (mut a, mut z, id) = pair(DirectPeer::Manypath);
    a.finish(id);
    let end = a.poll_message(FRAGMENT).unwrap();
    assert_eq!(end.ppid, PPID_END);
    z.handle_message(message(end.clone())).unwrap();
    assert_eq!(z.handle_message(message(end)), Err(FlowError::AfterEnd(0)));
    assert_eq!(z.counters().protocol_errors, 1);
}

/// A native program may use whatever identifier it likes, also this one.
#[test]
fn identifiers_of_native_peers_mean_nothing() {
    let (mut a, _, id) = pair(DirectPeer::Native);
    let (mut other, ..) = pair(DirectPeer::Manypath);
    other.finish(id);
    let mut odd = message(other.poll_message(FRAGMENT).unwrap());
    odd.payload = Bytes::from_static(b"text");
    a.handle_message(odd).unwrap();
    assert_eq!(a.read(id).unwrap(), "text");
    assert!(!a.has_input_end());
}

#[test]
fn a_reset_or_refusal_aborts_the_association() {
    let (mut a, mut z, id) = pair(DirectPeer::Native);
    a.write(id, pattern(0, 0, 10)).unwrap();
    a.reset(id);
    assert_eq!((a.poll_message(FRAGMENT), a.poll_end()), (None, Some(DirectEnd::Abort)));
    assert_eq!((a.counters().unsent_bytes, events_of(&mut a).len()), (10, 0));
    z.refuse(id);
    assert_eq!(z.poll_end(), None, "it was accepted");
    let mut z = DirectFlow::incoming(destination(), source(), DirectPeer::Native);
    assert_eq!(z.write(id, pattern(0, 0, 1)), Err(WriteError::NotAccepted));
    z.refuse(id);
    assert_eq!((z.poll_end(), z.counters().refused), (Some(DirectEnd::Abort), 1));
    let (mut a, id) = DirectFlow::opening(destination(), source());
    a.reset(id);
    assert_eq!(a.poll_end(), Some(DirectEnd::Abort));
}

/// Messages that are not taken stay in the association, whose window closes.
#[test]
fn a_reader_that_stops_is_not_given_more_than_a_bound() {
    let (_, mut z, id) = pair(DirectPeer::Native);
    let (mut a, ..) = pair(DirectPeer::Native);
    let mut taken = 0;
    while z.wants_messages() {
        a.write(id, pattern(0, 0, FRAGMENT)).unwrap();
        z.handle_message(message(a.poll_message(FRAGMENT).unwrap())).unwrap();
        taken += FRAGMENT;
    }
    assert!(((256 << 10)..(256 << 10) + FRAGMENT).contains(&taken));
    let bytes = z.read(id).unwrap();
    assert!(!z.wants_messages(), "read is not consumed");
    z.consumed(id, bytes.len());
    assert!(z.wants_messages());
}

#[test]
fn a_writer_is_told_when_there_is_room_again() {
    let (mut a, _, id) = pair(DirectPeer::Native);
    let room = a.writable(id);
    a.write(id, pattern(0, 0, room)).unwrap();
    assert_eq!(a.write(id, pattern(0, 0, 1)), Err(WriteError::Full));
    while a.poll_message(FRAGMENT).is_some() {}
    assert_eq!(events_of(&mut a), [FlowEvent::Writable(id)]);
    a.finish(id);
    assert_eq!(a.write(id, pattern(0, 0, 1)), Err(WriteError::Finished));
}

/// What comes before anybody reads is kept, and so is the news of its end.
#[test]
fn the_end_waits_for_a_reader() {
    let mut z = DirectFlow::incoming(destination(), source(), DirectPeer::Native);
    z.poll_event();
    let id = z_id();
    z.end_of_output();
    z.end_of_input();
    z.accept(id, local());
    assert_eq!(events_of(&mut z), []);
    assert_eq!(z.read(id), None);
    assert_eq!(events_of(&mut z), [FlowEvent::Finished(id), FlowEvent::Closed(id)]);
    assert_eq!(z.poll_end(), Some(DirectEnd::Shutdown));
}

fn z_id() -> FlowId {
    DirectFlow::opening(destination(), source()).1
}
