//! What a user asks of an association: SETPRIMARY, REQUESTHEARTBEAT, SETPROTOCOLPARAMETERS (RFC 9260
//! section 11.1) and sizes (RFC 6458 sections 8.1.12 and 8.1.16); and what it is told of what went wrong:
//! SEND FAILURE and COMMUNICATION ERROR (RFC 9260 section 11.2).

use crate::craft::packet;
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{AssociationId, Config, Event, PathMtu, PathStatus, StreamScheduling};
use manypath_wire::cause::Causes;
use manypath_wire::chunk::{Chunk, Error};
use manypath_wire::packet::Packet;
use std::net::IpAddr;

fn single(side: Side) -> Config {
    Config { multipath: false, ..config(side) }
}

fn paths(pair: &Pair, id: AssociationId) -> Vec<PathStatus> {
    pair.a.endpoint.status(pair.now, id).unwrap().paths
}

fn remote(pair: &Pair, id: AssociationId, index: usize) -> IpAddr {
    paths(pair, id)[index].addr.remote.ip()
}

#[test]
fn the_user_chooses_the_primary_path_and_data_follows() {
    let (mut pair, id, _) = Pair::established_with(2, single(Side::A), single(Side::Z));
    pair.drive(millis(1000));
    let other = paths(&pair, id).iter().position(|path| !path.primary).unwrap();
    let to = remote(&pair, id, other);
    assert!(pair.a.endpoint.set_primary(pair.now, id, to));
    assert!(paths(&pair, id)[other].primary);
    let before = paths(&pair, id)[other].packets_sent;
    pair.send(Side::A, id, 0, b"over there");
    pair.drive(millis(1000));
    assert_eq!(pair.z.received.len(), 1);
    assert!(paths(&pair, id)[other].packets_sent > before);
    let stranger: IpAddr = "203.0.113.9".parse().unwrap();
    assert!(!pair.a.endpoint.set_primary(pair.now, id, stranger));
    assert!(paths(&pair, id)[other].primary, "nothing has changed");
}

#[test]
fn a_heartbeat_is_sent_when_the_user_asks_for_one() {
    let (mut pair, id, _) = Pair::established_with(1, single(Side::A), single(Side::Z));
    pair.drive(millis(1000));
    pair.take_ladder();
    assert!(pair.a.endpoint.request_heartbeat(pair.now, id, None));
    pair.drive(millis(100));
    pair.expect("A -> HEARTBEAT -> Z\nA <- HEARTBEAT_ACK <- Z");
    let to = remote(&pair, id, 0);
    assert!(pair.a.endpoint.request_heartbeat(pair.now, id, Some(to)));
    assert!(!pair.a.endpoint.request_heartbeat(pair.now, id, Some("203.0.113.9".parse().unwrap())));
}

#[test]
fn the_user_ends_the_search_for_the_mtu_with_a_size_and_begins_it_again() {
    let searching = |side| Config { path_mtu: PathMtu::Search, ..single(side) };
    let (mut pair, id, _) = Pair::established_with(1, searching(Side::A), searching(Side::Z));
    pair.drive(millis(1000));
    let (now, to) = (pair.now, remote(&pair, id, 0));
    assert_eq!(paths(&pair, id)[0].mtu, 1500);
    pair.a.endpoint.set_path_mtu(now, id, Some(to), PathMtu::Interface, Some(1000));
    assert_eq!(paths(&pair, id)[0].mtu, 1000);
    pair.record = true;
    pair.send(Side::A, id, 0, &[7; 5000]);
    pair.drive(millis(2000));
    assert_eq!(pair.z.received.len(), 1);
    assert!(pair.recorded.iter().all(|(_, _, bytes)| bytes.len() <= 1000 - 28));
    pair.a.endpoint.set_path_mtu(pair.now, id, None, PathMtu::Search, None);
    pair.drive(millis(1000));
    assert_eq!(paths(&pair, id)[0].mtu, 1500);
}

#[test]
fn a_new_rto_max_holds_for_an_association_that_exists() {
    let (mut pair, id, _) = Pair::established_with(1, single(Side::A), single(Side::Z));
    pair.drive(millis(1000));
    pair.a.endpoint.set_rto(pair.now, id, millis(100), (millis(50), millis(150)));
    pair.cut(1);
    pair.send(Side::A, id, 0, b"lost");
    pair.drive(millis(2500));
    assert!(pair.a.endpoint.status(pair.now, id).is_none(), "ten times 150 ms are enough");
}

/// Bytes of user data in each DATA chunk that was recorded.
fn data_lengths(pair: &Pair) -> Vec<usize> {
    let chunks = |bytes: &[u8]| -> Vec<usize> {
        let packet = Packet::parse(bytes).unwrap();
        let chunks = packet.chunks().map(Result::unwrap);
        chunks
            .filter_map(|chunk| match chunk {
                Chunk::Data(data) => Some(data.payload.len()),
                _ => None,
            })
            .collect()
    };
    pair.recorded.iter().flat_map(|(_, _, bytes)| chunks(bytes)).collect()
}

#[test]
fn no_fragment_is_larger_than_the_user_wants_it() {
    let small = |side| Config { fragment_limit: Some(500), nagle: false, ..single(side) };
    let (mut pair, id, _) = Pair::established_with(1, small(Side::A), small(Side::Z));
    pair.record = true;
    pair.send(Side::A, id, 0, &[7; 1700]);
    pair.drive(millis(500));
    assert_eq!((data_lengths(&pair), pair.z.received.len()), (vec![500, 500, 500, 200], 1));
    pair.recorded.clear();
    pair.a.endpoint.set_fragment_limit(pair.now, id, Some(1000));
    pair.send(Side::A, id, 0, &[7; 1700]);
    pair.drive(millis(500));
    assert_eq!(data_lengths(&pair), [1000, 700]);
    pair.recorded.clear();
    pair.a.endpoint.set_fragment_limit(pair.now, id, None);
    pair.send(Side::A, id, 0, &[7; 1000]);
    pair.drive(millis(500));
    assert_eq!((data_lengths(&pair), pair.z.received.len()), (vec![1000], 3));
}

/// Stream, length and whether something was sent of each message that came back.
fn handed_back(pair: &Pair) -> Vec<(u16, usize, bool)> {
    let back = |event: &&Event| match event {
        Event::Undelivered { message, sent, .. } => {
            Some((message.stream.0, message.payload.len(), *sent))
        }
        _ => None,
    };
    pair.a.heard().iter().filter_map(back).collect()
}

fn reporting(side: Side) -> Config {
    let stream_scheduling = StreamScheduling::Fcfs;
    Config { report_undelivered: true, stream_scheduling, ..single(side) }
}

#[test]
fn what_has_not_got_across_is_handed_back_before_the_end_is_told() {
    let (mut pair, id, _) = Pair::established_with(1, reporting(Side::A), single(Side::Z));
    pair.send(Side::A, id, 0, b"arrives");
    pair.drive(millis(1000));
    pair.cut(1);
    pair.send(Side::A, id, 1, &[7; 100_000]);
    pair.send(Side::A, id, 2, b"never sent");
    pair.drive(millis(300));
    pair.a.endpoint.abort(pair.now, id, b"enough");
    pair.drive(millis(10));
    assert_eq!(handed_back(&pair), [(1, 100_000, true), (2, 10, false)]);
    let heard = pair.a.heard();
    assert!(matches!(heard.last(), Some(Event::Closed(_))), "{heard:?}");
}

#[test]
fn nothing_is_handed_back_of_what_has_arrived_or_to_users_who_do_not_want_it() {
    let (mut pair, id, _) = Pair::established_with(1, reporting(Side::A), single(Side::Z));
    pair.send(Side::A, id, 1, &[7; 100_000]);
    pair.drive(millis(2000));
    pair.a.endpoint.abort(pair.now, id, b"");
    pair.drive(millis(10));
    assert_eq!(handed_back(&pair), []);
    let (mut pair, id, _) = Pair::established_with(1, single(Side::A), single(Side::Z));
    pair.cut(1);
    pair.send(Side::A, id, 1, &[7; 100_000]);
    pair.a.endpoint.abort(pair.now, id, b"");
    pair.drive(millis(10));
    assert_eq!(handed_back(&pair), []);
}

#[test]
fn of_a_message_that_arrived_in_part_the_rest_is_handed_back() {
    let (mut pair, id, _) = Pair::established_with(1, reporting(Side::A), single(Side::Z));
    pair.send(Side::A, id, 1, &[7; 300_000]);
    pair.drive(millis(15));
    pair.cut(1);
    pair.drive(millis(100));
    pair.a.endpoint.abort(pair.now, id, b"");
    pair.drive(millis(10));
    let [(1, len, true)] = handed_back(&pair)[..] else { panic!("{:?}", handed_back(&pair)) };
    assert!(len > 0 && len < 300_000, "{len}");
}

#[test]
fn the_user_is_told_of_errors_that_the_peer_reports() {
    let (mut pair, _, _) = Pair::established_with(1, single(Side::A), single(Side::Z));
    // Invalid Stream Identifier.
    let causes = Causes::from_bytes(&[0, 1, 0, 8, 0, 7, 0, 0]);
    let tag = pair.tag_of(Side::A);
    let error = packet(Side::Z, tag, &[Chunk::Error(Error { causes })]);
    pair.inject(Side::Z, 1, &error);
    pair.drive(millis(50));
    let told = pair.a.heard().iter().find_map(|event| match event {
        Event::PeerError { causes } => Some(causes.clone()),
        _ => None,
    });
    assert_eq!(told.as_deref(), Some(&[0, 1, 0, 8, 0, 7, 0, 0][..]));
}
