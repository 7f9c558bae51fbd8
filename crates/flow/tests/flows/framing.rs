//! The direct form with messages of a protocol that tell their length.

use crate::pair::*;
use manypath_engine::Outgoing;
use manypath_flow::{DirectEnd, DirectFlow, DirectPeer, FlowEvent, FlowId, Framing};

fn flow(framing: Framing, streams: u16) -> (DirectFlow, FlowId) {
    let (flow, id) = DirectFlow::opening(destination(), source());
    let mut flow = flow.framed(framing);
    flow.established(DirectPeer::Native);
    flow.set_streams(streams);
    assert_eq!(flow.read(id), None);
    while flow.poll_event().is_some() {}
    (flow, id)
}

fn diameter(len: u32) -> Vec<u8> {
    let mut message = vec![1; len as usize];
    message[1..4].copy_from_slice(&len.to_be_bytes()[1..]);
    message
}

fn m3ua(class: u8, len: u32) -> Vec<u8> {
    let mut message = vec![1, 0, class, 1];
    message.extend(len.to_be_bytes());
    message.resize(len as usize, 7);
    message
}

fn sent(flow: &mut DirectFlow) -> Vec<Outgoing> {
    std::iter::from_fn(|| flow.poll_message(FRAGMENT)).collect()
}

#[test]
fn each_diameter_message_is_one_user_message_however_its_bytes_come() {
    let messages = [diameter(20), diameter(5000), diameter(40), diameter(131_072)];
    let bytes = messages.concat();
    for step in [7, 1000, 65_536] {
        let (mut flow, id) = flow(Framing::Diameter, 1);
        let mut heard = Vec::new();
        for piece in bytes.chunks(step) {
            flow.write(id, piece.to_vec().into()).unwrap();
            heard.extend(sent(&mut flow));
        }
        assert!(
            heard.iter().all(|one| (one.ppid.0, one.stream.0, one.unordered) == (46, 0, false))
        );
        let heard: Vec<_> = heard.into_iter().map(|one| one.payload).collect();
        assert!(heard == messages, "in pieces of {step}");
    }
}

#[test]
fn transfers_of_m3ua_leave_stream_0_where_there_is_another() {
    for (streams, expected) in [(2, [0, 1, 0]), (1, [0, 0, 0])] {
        let (mut flow, id) = flow(Framing::M3ua, streams);
        let messages = [m3ua(3, 8), m3ua(1, 60), m3ua(4, 12)];
        flow.write(id, messages.concat().into()).unwrap();
        let heard = sent(&mut flow);
        assert!(heard.iter().all(|one| one.ppid.0 == 3));
        assert_eq!(heard.iter().map(|one| one.stream.0).collect::<Vec<_>>(), expected);
        assert!(heard.iter().map(|one| &one.payload).eq(&messages));
    }
}

#[test]
fn bytes_that_are_no_message_end_the_association_with_the_reason() {
    let cases = [
        (Framing::Diameter, b"GET / HT".to_vec(), "not a message of Diameter version 1"),
        (
            Framing::Diameter,
            vec![1, 0, 0, 19, 0, 0, 0, 0],
            "a Diameter message shorter than its header",
        ),
        (Framing::Diameter, vec![1, 4, 0, 1, 0, 0, 0, 0], "a message longer than 262144 bytes"),
        (Framing::M3ua, vec![2, 0, 1, 1, 0, 0, 0, 8], "not a message of M3UA version 1"),
        (Framing::M3ua, vec![1, 0, 1, 1, 0, 0, 0, 7], "an M3UA message shorter than its header"),
        (Framing::M3ua, vec![1, 0, 1, 1, 255, 255, 255, 255], "a message longer than 262144 bytes"),
    ];
    for (framing, bytes, why) in cases {
        let (mut flow, id) = flow(framing, 2);
        flow.write(id, bytes.into()).unwrap();
        assert_eq!(sent(&mut flow), []);
        assert_eq!((flow.poll_end(), flow.poll_end()), (Some(DirectEnd::Malformed(why)), None));
        assert_eq!(flow.counters().unsent_bytes, 8);
    }
}

#[test]
fn a_message_that_its_sender_has_not_finished_is_dropped_at_the_end() {
    let (mut flow, id) = flow(Framing::Diameter, 1);
    flow.write(id, [diameter(20), diameter(100)[..50].to_vec()].concat().into()).unwrap();
    assert_eq!(sent(&mut flow).len(), 1);
    assert_eq!(flow.poll_end(), None, "the rest may come");
    flow.finish(id);
    assert_eq!(sent(&mut flow), []);
    assert_eq!(flow.poll_end(), Some(DirectEnd::Shutdown));
    assert_eq!(flow.counters().unsent_bytes, 50);
}

#[test]
fn the_longest_message_finds_room_behind_another() {
    let (mut flow, id) = flow(Framing::Diameter, 1);
    let bytes = [diameter(200_000), diameter(262_144)].concat();
    let (mut at, mut heard) = (0, Vec::new());
    while at < bytes.len() {
        let step = flow.writable(id).min(bytes.len() - at).min(65_536);
        assert!(step > 0, "stuck at {at}");
        flow.write(id, bytes[at..at + step].to_vec().into()).unwrap();
        at += step;
        if flow.writable(id) == 0 {
            heard.extend(sent(&mut flow));
            assert_eq!(flow.poll_event(), Some(FlowEvent::Writable(id)), "the writer is told");
        }
    }
    heard.extend(sent(&mut flow));
    assert_eq!(heard.iter().map(|one| one.payload.len()).collect::<Vec<_>>(), [200_000, 262_144]);
}
