//! The MTU of paths: the search (RFC 8899), its probes (RFC 4820), black holes, reports of routers,
//! and chunks that are too large when they must be sent again (RFC 9260 section 6.9).

use crate::craft::packet;
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{AssociationId, Config, Event, PathMtu, PathState, PathStatus, Transmit};
use manypath_wire::chunk::{Chunk, Heartbeat, Pad};
use manypath_wire::packet::Packet;

/// What IP and UDP leave of a packet of so many bytes.
fn sctp(mtu: usize) -> usize {
    mtu - 28
}

fn searching(side: Side) -> Config {
    Config { path_mtu: PathMtu::Search, ..config(side) }
}

/// Both ends on paths that take IP packets of these sizes behind interfaces of 1500 bytes.
fn on_paths(mtus: &[usize]) -> Pair {
    let count = u8::try_from(mtus.len()).unwrap();
    let mut pair = Pair::with(count, searching(Side::A), searching(Side::Z));
    for (number, mtu) in (1..).zip(mtus) {
        narrow(&mut pair, number, *mtu);
    }
    pair
}

fn narrow(pair: &mut Pair, path: u8, mtu: usize) {
    pair.links.get_mut(&path).unwrap().largest = sctp(mtu);
}

fn connected(mtus: &[usize]) -> (Pair, AssociationId) {
    let mut pair = on_paths(mtus);
    let id = pair.connect();
    pair.drive(millis(500));
    (pair, id)
}

fn paths(pair: &Pair, id: AssociationId) -> Vec<PathStatus> {
    pair.a.endpoint.status(pair.now, id).unwrap().paths
}

fn mtus(pair: &Pair, id: AssociationId) -> Vec<u16> {
    paths(pair, id).iter().map(|path| path.mtu).collect()
}

/// Sends `count` messages of 10000 bytes. Whether they arrive within a minute.
fn transfer(pair: &mut Pair, id: AssociationId, count: usize) -> bool {
    let before = pair.z.received.len();
    (0..count).for_each(|_| pair.send(Side::A, id, 0, &[7; 10_000]));
    pair.drive_until(millis(60_000), |pair| pair.z.received.len() == before + count)
}

fn chunks(bytes: &[u8]) -> Vec<Chunk<'_>> {
    Packet::parse(bytes).unwrap().chunks().map(Result::unwrap).collect()
}

fn is_data(chunk: &Chunk<'_>) -> bool {
    matches!(chunk, Chunk::Data(_))
}

#[test]
fn a_probe_is_a_small_heartbeat_and_padding_and_its_answer_is_small() {
    let mut pair = on_paths(&[1500]);
    pair.record = true;
    pair.connect();
    pair.drive(millis(500));
    let probes: Vec<_> = pair
        .recorded
        .iter()
        .filter(|(from, _, bytes)| *from == Side::A && bytes.len() == sctp(1500))
        .collect();
    let [(_, _, probe)] = probes[..] else { panic!("{} probes", probes.len()) };
    let [Chunk::Heartbeat(Heartbeat { info }), Chunk::Pad(Pad { data })] = chunks(probe)[..] else {
        panic!("{:?}", chunks(probe))
    };
    assert!(info.len() <= 40 && data.iter().all(|byte| *byte == 0));
    let mut answers = pair.recorded.iter().filter(|(from, _, _)| *from == Side::Z);
    let answered = answers.any(
        |(_, _, bytes)| matches!(chunks(bytes)[..], [Chunk::HeartbeatAck(ack)] if ack.info == info),
    );
    assert!(answered);
}

#[test]
fn packets_grow_to_what_the_interface_takes_within_two_round_trips() {
    let mut pair = on_paths(&[1500]);
    let id = pair.connect();
    pair.drive(millis(39));
    assert_eq!(mtus(&pair, id), [1228]);
    assert_eq!(pair.a.endpoint.fragment_size(id), 1200 - 12 - 16);
    pair.drive(millis(22));
    assert_eq!(mtus(&pair, id), [1500]);
    assert_eq!(pair.a.endpoint.fragment_size(id), 1472 - 12 - 16);
}

#[test]
fn a_narrow_path_is_found_while_it_carries_data_and_nothing_of_it_is_lost() {
    let (mut pair, id) = connected(&[1400]);
    assert!(transfer(&mut pair, id, 100));
    pair.drive(millis(10_000));
    assert_eq!(mtus(&pair, id), [1400]);
    let path = &paths(&pair, id)[0];
    assert_eq!((path.timeouts, path.fast_retransmits, path.error_count), (0, 0, 0));
    assert_eq!(path.state, PathState::Active);
    assert!(transfer(&mut pair, id, 10));
    let counters = pair.a.endpoint.counters();
    assert!((4..=6).contains(&counters.mtu_probes_lost), "{}", counters.mtu_probes_lost);
    assert!(counters.mtu_probes < 16, "{}", counters.mtu_probes);
    assert_eq!((counters.mtu_black_holes, counters.fragmented_packets), (0, 0));
}

#[test]
fn no_data_packet_is_larger_than_what_a_probe_has_shown() {
    let mut pair = on_paths(&[1400]);
    pair.record = true;
    let id = pair.connect();
    assert!(transfer(&mut pair, id, 100));
    for (_, _, bytes) in &pair.recorded {
        assert!(bytes.len() <= sctp(1400) || !chunks(bytes).iter().any(is_data));
    }
}

#[test]
fn the_loss_of_probes_leaves_the_congestion_window_and_the_error_counters_alone() {
    let (mut pair, id) = connected(&[1400]);
    let before = paths(&pair, id)[0].clone();
    pair.drive(millis(20_000));
    let after = &paths(&pair, id)[0];
    assert!(pair.a.endpoint.counters().mtu_probes_lost > 3);
    assert_eq!((after.cwnd, after.ssthresh), (before.cwnd, before.ssthresh));
    assert_eq!((after.error_count, after.state, after.rto), (0, PathState::Active, before.rto));
    let changed = |event: &&Event| matches!(event, Event::PathChanged { .. });
    assert_eq!(pair.a.heard().into_iter().filter(changed).count(), 0);
}

#[test]
fn a_larger_mtu_does_not_widen_the_congestion_window() {
    let mut pair = on_paths(&[1500]);
    let id = pair.connect();
    pair.drive(millis(41));
    let before = paths(&pair, id)[0].clone();
    pair.drive(millis(500));
    let after = &paths(&pair, id)[0];
    assert!(after.mtu > before.mtu);
    assert_eq!(after.cwnd, before.cwnd);
}

#[test]
fn a_report_of_a_router_ends_the_search_in_three_round_trips() {
    let mut pair = on_paths(&[1443]);
    pair.links.get_mut(&1).unwrap().reports = true;
    let id = pair.connect();
    pair.drive(millis(150));
    assert_eq!(mtus(&pair, id), [1443]);
    let counters = pair.a.endpoint.counters();
    assert_eq!((counters.mtu_probes, counters.too_big_reports), (2, 1));
    assert!(transfer(&mut pair, id, 10));
}

#[test]
fn a_report_that_does_not_know_the_tag_or_names_an_absurd_size_changes_nothing() {
    let (mut pair, id) = connected(&[1500]);
    pair.record = true;
    pair.send(Side::A, id, 0, b"quoted");
    pair.drive(millis(100));
    let (_, addr, bytes) =
        pair.recorded.iter().find(|(from, _, _)| *from == Side::A).unwrap().clone();
    let now = pair.now;
    let endpoint = &mut pair.a.endpoint;
    let mut forged = bytes[..8].to_vec();
    forged[5] ^= 1;
    assert!(!endpoint.handle_icmp_too_big(now, addr, 1400, &forged));
    assert!(!endpoint.handle_icmp_too_big(now, addr, 1400, &bytes[..7]));
    assert_eq!((endpoint.counters().unproven_reports, endpoint.counters().too_big_reports), (2, 2));
    for mtu in [0, 68, 575, 1500, 9000] {
        assert!(endpoint.handle_icmp_too_big(now, addr, mtu, &bytes[..8]));
    }
    assert_eq!(endpoint.counters().ignored_too_big_reports, 5);
    assert_eq!(mtus(&pair, id), [1500]);
    assert!(pair.a.endpoint.handle_icmp_too_big(now, addr, 1400, &bytes[..8]));
    assert_eq!(mtus(&pair, id), [1228], "it may be true");
    pair.drive(millis(100));
    assert_eq!(mtus(&pair, id), [1400], "and was probed");
}

#[test]
fn a_path_that_becomes_a_black_hole_for_large_packets_goes_on_with_small_ones() {
    let (mut pair, id) = connected(&[1500]);
    assert!(transfer(&mut pair, id, 10));
    assert_eq!(mtus(&pair, id), [1500]);
    narrow(&mut pair, 1, 1400);
    assert!(transfer(&mut pair, id, 10));
    assert_eq!(pair.a.endpoint.counters().mtu_black_holes, 1);
    pair.drive(millis(20_000));
    assert_eq!(mtus(&pair, id), [1400]);
    assert_eq!(paths(&pair, id)[0].state, PathState::Active);
}

#[test]
fn chunks_made_for_a_larger_mtu_are_sent_again_as_they_are_in_ip_fragments() {
    let (mut pair, id) = connected(&[1500]);
    assert!(transfer(&mut pair, id, 3));
    narrow(&mut pair, 1, 1300);
    pair.runs.clear();
    pair.record = true;
    pair.recorded.clear();
    assert!(transfer(&mut pair, id, 3));
    let fragmented: Vec<&Transmit> = pair.runs.iter().filter(|run| run.may_fragment).collect();
    assert!(!fragmented.is_empty());
    assert!(fragmented.iter().all(|run| run.packets == 1 && run.segment_size > sctp(1228)));
    let tsn_and_len = |bytes: &[u8]| match chunks(bytes)[..] {
        [Chunk::Data(data), ..] => Some((data.tsn, data.payload.len())),
        _ => None,
    };
    let data = pair.recorded.iter().filter(|(from, _, _)| *from == Side::A);
    let mut sent: Vec<_> = data.filter_map(|(_, _, bytes)| tsn_and_len(bytes)).collect();
    sent.sort_unstable_by_key(|(tsn, _)| tsn.0);
    sent.dedup();
    assert!(sent.windows(2).all(|two| two[0].0 != two[1].0), "each TSN keeps its size");
    let counters = pair.a.endpoint.counters();
    assert_eq!(counters.fragmented_packets, fragmented.len() as u64);
}

#[test]
fn chunks_are_made_for_the_smallest_of_all_paths_and_fill_the_larger_ones_together() {
    let (mut pair, id) = connected(&[1500, 1400]);
    pair.drive(millis(20_000));
    assert_eq!(mtus(&pair, id), [1500, 1400]);
    assert_eq!(pair.a.endpoint.fragment_size(id), sctp(1400) - 12 - 16);
    pair.record = true;
    pair.recorded.clear();
    assert!(transfer(&mut pair, id, 20));
    let sent = pair.recorded.iter().filter(|(from, _, _)| *from == Side::A);
    let data = sent.flat_map(|(_, _, bytes)| chunks(bytes)).filter(is_data);
    let largest = data.map(|chunk| chunk.encoded_len()).max();
    assert_eq!(largest, Some(sctp(1400) - 12));
    assert_eq!(pair.a.endpoint.counters().fragmented_packets, 0);
}

#[test]
fn a_second_path_narrower_than_its_interface_is_used() {
    let (mut pair, id) = connected(&[1500, 1300]);
    assert_eq!(paths(&pair, id)[1].state, PathState::Active, "with a search");
    assert!(transfer(&mut pair, id, 200));
    let second = &paths(&pair, id)[1];
    assert!(second.bytes_sent > 20_000, "{}", second.bytes_sent);
}

#[test]
fn a_second_path_that_takes_less_than_the_base_is_used_with_the_least_size() {
    let (mut pair, id) = connected(&[1500, 1000]);
    pair.drive(millis(20_000));
    let second = &paths(&pair, id)[1];
    assert_eq!((second.state, second.mtu), (PathState::Active, 576));
}

#[test]
fn a_second_path_that_becomes_narrow_returns_and_keeps_nothing_waiting() {
    let (mut pair, id) = connected(&[1500, 1500]);
    assert!(transfer(&mut pair, id, 20));
    narrow(&mut pair, 2, 1400);
    assert!(transfer(&mut pair, id, 100));
    pair.drive(millis(30_000));
    assert_eq!(mtus(&pair, id), [1500, 1400]);
    assert!(paths(&pair, id).iter().all(|path| path.state == PathState::Active));
    assert!(transfer(&mut pair, id, 100));
}

#[test]
fn a_path_that_was_cut_off_and_returns_is_as_wide_as_before_soon() {
    let (mut pair, id) = connected(&[1500, 1500]);
    pair.cut(2);
    assert!(transfer(&mut pair, id, 100));
    pair.drive(millis(20_000));
    pair.restore(2);
    pair.drive(millis(10_000));
    assert_eq!(mtus(&pair, id), [1500, 1500]);
    assert!(paths(&pair, id).iter().all(|path| path.state == PathState::Active));
}

#[test]
fn random_loss_is_not_taken_for_a_black_hole() {
    let (mut pair, id) = connected(&[1500]);
    assert!(transfer(&mut pair, id, 10));
    for _ in 0..20 {
        pair.lose(Side::A, "DATA", 3);
        assert!(transfer(&mut pair, id, 3));
    }
    assert_eq!(pair.a.endpoint.counters().mtu_black_holes, 0);
    assert_eq!(mtus(&pair, id), [1500]);
}

#[test]
fn without_a_search_nothing_is_probed() {
    let (mut pair, id, _) = Pair::established_with(1, interface(Side::A), interface(Side::Z));
    pair.drive(millis(700_000));
    assert_eq!(pair.a.endpoint.counters().mtu_probes, 0);
    assert_eq!(mtus(&pair, id), [1500]);
    assert!(!pair.a.endpoint.searches_path_mtu());
}

fn interface(side: Side) -> Config {
    Config { path_mtu: PathMtu::Interface, ..config(side) }
}

#[test]
fn an_idle_path_is_not_searched_again() {
    let (mut pair, _) = connected(&[1400]);
    pair.drive(millis(30_000));
    let probes = pair.a.endpoint.counters().mtu_probes;
    pair.drive(millis(3_600_000));
    assert_eq!(pair.a.endpoint.counters().mtu_probes, probes);
}

#[test]
fn padding_is_skipped_and_what_follows_is_processed() {
    let (mut pair, _, _) = Pair::established_with(1, interface(Side::A), interface(Side::Z));
    let tag = pair.tag_of(Side::Z);
    let heartbeat = Chunk::Heartbeat(Heartbeat { info: b"after the padding" });
    let bytes = packet(Side::A, tag, &[Chunk::Pad(Pad { data: &[0xEE; 33] }), heartbeat]);
    pair.inject(Side::A, 1, &bytes);
    pair.drive(millis(30));
    pair.expect("A -> PAD HEARTBEAT -> Z\nA <- HEARTBEAT_ACK <- Z");
    assert_eq!(pair.z.endpoint.counters().unknown_chunks, 0);
}
