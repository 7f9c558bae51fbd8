//! Attacks, by strangers and by peers (docs/defences.md): what they cost us, what they get for it.

use crate::chance::Chance;
use crate::craft::{init, packet};
use crate::pair::{PORT_Z, Pair, Side, address, config, millis};
use manypath_engine::{AssociationState, Config, Duration, Event, PathAddr, PathState};
use manypath_wire::cause::Causes;
use manypath_wire::chunk::{
    Abort, Chunk, Data, GapBlock, GapBlocks, Heartbeat, Sack, Shutdown, ShutdownComplete, Tsns,
    Unknown,
};
use manypath_wire::parameter::{Parameter, ParameterWriter};
use manypath_wire::{Ppid, Ssn, StreamId, Tsn};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A packet that comes to Z from an address of the attacker's choice.
fn from(host: u32) -> PathAddr {
    let remote = Ipv4Addr::from(0x0a01_0000 | (host & 0xFFFF)).into();
    PathAddr { local: address(Side::Z, 1), remote: SocketAddr::new(remote, 9899) }
}

/// Packets and bytes that `side` sends until nothing more is due at once.
fn answers(pair: &mut Pair, side: Side) -> (usize, usize) {
    pair.record = true;
    pair.recorded.clear();
    pair.drain();
    let sent = pair.recorded.iter().filter(|(from, ..)| *from == side);
    sent.fold((0, 0), |(packets, bytes), (.., packet)| (packets + 1, bytes + packet.len()))
}

fn sack(cum_tsn: u32, a_rwnd: u32, gaps: &[GapBlock]) -> Chunk<'_> {
    let gaps = GapBlocks::from_slice(gaps);
    Chunk::Sack(Sack { flags: 0, cum_tsn: Tsn(cum_tsn), a_rwnd, gaps, duplicates: Tsns::EMPTY })
}

/// The next TSN that `side` will send, as its peer knows it.
pub(crate) fn next_tsn_of(pair: &mut Pair, side: Side) -> u32 {
    let (now, other) = (pair.now, pair.node(side.other()));
    let id = other.endpoint.associations()[0];
    other.endpoint.status(now, id).unwrap().cum_tsn.unwrap().0.wrapping_add(1)
}

fn data(tsn: u32, payload: &[u8]) -> Chunk<'_> {
    Chunk::Data(Data {
        tsn: Tsn(tsn),
        stream: StreamId(0),
        ssn: Ssn(0),
        ppid: Ppid(0),
        unordered: true,
        begin: true,
        end: true,
        immediate: false,
        payload,
    })
}

#[test]
fn a_flood_of_inits_makes_no_association_and_gets_one_answer_each() {
    let mut pair = Pair::new(1);
    pair.quiet = true;
    for host in 0..2000 {
        let bytes = init(host + 1, &[]);
        pair.z.endpoint.handle_packet(pair.now, from(host), &bytes);
        let (packets, length) = answers(&mut pair, Side::Z);
        // With headers of 28 bytes on either side.
        let most = 3 * (bytes.len() + 28);
        assert!(packets == 1 && length + 28 <= most, "{length} bytes for {}", bytes.len());
    }
    assert!(pair.z.endpoint.associations().is_empty());
    assert_eq!(pair.z.endpoint.poll_timeout(), None, "an INIT ACK is never repeated");
}

#[test]
fn oversized_parameters_of_an_init_get_no_oversized_answer() {
    let mut long = vec![0; 1300];
    let mut writer = ParameterWriter::new(&mut long);
    writer.push(&Parameter::HostNameAddress(&[b'a'; 1200])).unwrap();
    let host_name = writer.finish();
    // Unknown parameters that ask to be reported, one large, then many small.
    let large = [&[0xC1, 1, 4, 0xB0][..], &[7; 1196]].concat();
    let small = [0xC1, 1, 0, 4].repeat(300);
    for parameters in [&long[..host_name], &large, &small] {
        let mut pair = Pair::new(1);
        pair.quiet = true;
        let bytes = init(7, parameters);
        pair.z.endpoint.handle_packet(pair.now, from(1), &bytes);
        let (packets, length) = answers(&mut pair, Side::Z);
        assert!(packets <= 1 && length < bytes.len(), "{length} bytes for {}", bytes.len());
        assert!(pair.z.endpoint.associations().is_empty());
    }
}

#[test]
fn guessing_tags_does_nothing_but_count() {
    let (mut pair, _, z) = Pair::established(1);
    pair.quiet = true;
    let (right, peers, mut chance) = (pair.tag_of(Side::Z), pair.tag_of(Side::A), Chance(1));
    pair.quiet = true;
    let abort = |tag_reflected| Chunk::Abort(Abort { tag_reflected, causes: Causes::EMPTY });
    let complete = Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: true });
    let shutdown = Chunk::Shutdown(Shutdown { cum_tsn: Tsn(0) });
    let blind = [abort(false), abort(true), shutdown, Chunk::ShutdownAck, complete, data(1, b"x")];
    let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 1) };
    let mut guesses = 0;
    while guesses < 20_000 {
        let tag = chance.next() as u32;
        if [0, right, peers].contains(&tag) {
            continue;
        }
        let bytes = packet(Side::A, tag, &[blind[guesses % blind.len()]]);
        pair.z.endpoint.handle_packet(pair.now, path, &bytes);
        guesses += 1;
    }
    assert_eq!(answers(&mut pair, Side::Z), (0, 0));
    assert_eq!(pair.z.endpoint.counters().bad_tag, 20_000);
    let status = pair.z.endpoint.status(pair.now, z).unwrap();
    assert_eq!(status.state, AssociationState::Established);
}

#[test]
fn a_window_that_shrinks_or_stays_tiny_costs_a_probe_at_a_time() {
    let (mut pair, a, _) = Pair::established(1);
    let tag = pair.tag_of(Side::A);
    let next = next_tsn_of(&mut pair, Side::A);
    pair.quiet = true;
    pair.cut(1);
    pair.send(Side::A, a, 0, &[1; 100_000]);
    // What is in flight when the window shrinks stays in flight; nothing new leaves.
    let (first, _) = answers(&mut pair, Side::A);
    assert!(first > 1);
    let path = PathAddr { local: address(Side::A, 1), remote: address(Side::Z, 1) };
    for a_rwnd in [5000, 1, 0, 100, 0, 1] {
        let bytes = packet(Side::Z, tag, &[sack(next.wrapping_sub(1), a_rwnd, &[])]);
        pair.a.endpoint.handle_packet(pair.now, path, &bytes);
        assert_eq!(answers(&mut pair, Side::A).0, 0, "at a window of {a_rwnd}");
    }
    // Acknowledged with a window of a few bytes, again and again: one chunk at a time, no crumbs.
    let mut acked = next.wrapping_add(first as u32 - 1);
    let mut all = 0;
    for round in 0..5 {
        let bytes = packet(Side::Z, tag, &[sack(acked, 10, &[])]);
        pair.a.endpoint.handle_packet(pair.now, path, &bytes);
        pair.record = true;
        pair.recorded.clear();
        pair.drive(Duration::from_secs(10));
        let probes: Vec<_> = pair
            .recorded
            .iter()
            .filter(|(from, _, bytes)| *from == Side::A && bytes[12] == 0)
            .collect();
        assert!(probes.len() <= 6, "{} probes in round {round}", probes.len());
        all += probes.len();
        assert!(probes.iter().all(|(.., bytes)| bytes.len() > 1000), "a chunk is not cut up");
        acked = acked.wrapping_add(u32::from(!probes.is_empty()));
    }
    assert!(all >= 5, "{all} probes");
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    assert!(status.unsent + status.outstanding <= 100_000);
}

#[test]
fn optimistic_acknowledgements_buy_no_more_than_there_is() {
    let small = Config { send_buffer: 200_000, ..config(Side::A) };
    let (mut pair, a, _) = Pair::established_with(1, small, config(Side::Z));
    let tag = pair.tag_of(Side::A);
    let mut next = next_tsn_of(&mut pair, Side::A);
    pair.quiet = true;
    pair.cut(1);
    pair.send(Side::A, a, 0, &[1; 190_000]);
    let path = PathAddr { local: address(Side::A, 1), remote: address(Side::Z, 1) };
    let mut most = 0;
    for _ in 0..100 {
        let (packets, _) = answers(&mut pair, Side::A);
        most = most.max(packets);
        if packets == 0 {
            break;
        }
        next = next.wrapping_add(packets as u32);
        // All that has just left is acknowledged before it can have arrived, with a huge window.
        let bytes = packet(Side::Z, tag, &[sack(next.wrapping_sub(1), u32::MAX, &[])]);
        pair.a.endpoint.handle_packet(pair.now, path, &bytes);
    }
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    assert_eq!(status.unsent, 0);
    assert!(most <= 64, "{most} packets for one SACK");
    // The liar does not know how much there is to acknowledge: one TSN too many is the end.
    let bytes = packet(Side::Z, tag, &[sack(next, u32::MAX, &[])]);
    pair.a.endpoint.handle_packet(pair.now, path, &bytes);
    assert!(pair.a.endpoint.associations().is_empty());
    assert_eq!(pair.a.endpoint.counters().protocol_violations, 1);
}

#[test]
fn gap_reports_of_nothing_end_the_association_and_withdrawn_ones_are_believed() {
    let (mut pair, a, _) = Pair::established(1);
    let tag = pair.tag_of(Side::A);
    let next = next_tsn_of(&mut pair, Side::A);
    pair.cut(1);
    pair.send(Side::A, a, 0, &[1; 4000]);
    assert!(answers(&mut pair, Side::A).0 >= 3);
    let path = PathAddr { local: address(Side::A, 1), remote: address(Side::Z, 1) };
    let backwards = [GapBlock { start: 3, end: 2 }];
    let reported = [GapBlock { start: 2, end: 2 }];
    let cum = next.wrapping_sub(1);
    for gaps in [&reported[..], &[], &reported, &backwards] {
        let bytes = packet(Side::Z, tag, &[sack(cum, 100_000, gaps)]);
        pair.a.endpoint.handle_packet(pair.now, path, &bytes);
    }
    assert_eq!(pair.a.endpoint.associations(), [a]);
    let beyond = [GapBlock { start: 2, end: 60 }];
    let bytes = packet(Side::Z, tag, &[sack(cum, 100_000, &beyond)]);
    pair.a.endpoint.handle_packet(pair.now, path, &bytes);
    assert!(pair.a.endpoint.associations().is_empty());
}

#[test]
fn unknown_chunks_and_padding_are_answered_with_no_more_than_came() {
    // Many small ones that ask to be reported, a large one, and PAD, which does not.
    let small = [0xFF, 0, 0, 4].repeat(300);
    let large = [&[0xFF, 0, 4, 0xB0][..], &[7; 1196]].concat();
    let pad = [&[0x84, 0, 4, 0xB0][..], &[0; 1196]].concat();
    for (bytes, most) in [(small, 1200), (large, 600), (pad, 0)] {
        let (mut pair, _, _) = Pair::established(1);
        let tag = pair.tag_of(Side::Z);
        pair.quiet = true;
        let mut chunks = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let unknown = Unknown::from_bytes(rest).unwrap();
            chunks.push(Chunk::Unknown(unknown));
            rest = &rest[unknown.raw().len()..];
        }
        let bytes = packet(Side::A, tag, &chunks);
        let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 1) };
        pair.z.endpoint.handle_packet(pair.now, path, &bytes);
        let (_, length) = answers(&mut pair, Side::Z);
        assert!(length <= most && length < bytes.len(), "{length} bytes for {}", bytes.len());
    }
}

#[test]
fn a_flood_of_duplicates_costs_a_sack_per_packet_and_no_memory() {
    let (mut pair, _, z) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    let next = next_tsn_of(&mut pair, Side::A);
    pair.quiet = true;
    let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 1) };
    let copies = vec![data(next, b"again and again and again and again"); 20];
    let bytes = packet(Side::A, tag, &copies);
    for _ in 0..500 {
        pair.z.endpoint.handle_packet(pair.now, path, &bytes);
        let (packets, length) = answers(&mut pair, Side::Z);
        assert!(packets <= 1 && length < bytes.len() / 4, "{length} bytes for {}", bytes.len());
    }
    assert_eq!(pair.z.endpoint.counters().duplicate_data, 500 * 20 - 1);
    assert_eq!(pair.z.endpoint.status(pair.now, z).unwrap().receive_queued, 0);
    // Not polled in between: one SACK for all of them, with as many duplicates as a SACK lists.
    (0..500).for_each(|_| pair.z.endpoint.handle_packet(pair.now, path, &bytes));
    let (packets, length) = answers(&mut pair, Side::Z);
    assert!(packets == 1 && length < 200, "{packets} packets, {length} bytes");
}

#[test]
fn a_flood_of_heartbeats_gets_no_more_than_it_sends() {
    let (mut pair, _, _) = Pair::established(1);
    let tag = pair.tag_of(Side::Z);
    pair.quiet = true;
    let path = PathAddr { local: address(Side::Z, 1), remote: address(Side::A, 1) };
    let bytes = packet(Side::A, tag, &[Chunk::Heartbeat(Heartbeat { info: &[1; 1200] })]);
    for _ in 0..1000 {
        pair.z.endpoint.handle_packet(pair.now, path, &bytes);
    }
    let (packets, length) = answers(&mut pair, Side::Z);
    assert!(packets <= 64 && length <= 64 * bytes.len(), "{packets} packets");
    assert_eq!(pair.z.endpoint.counters().control_drops, 1000 - 64);
}

/// RFC 5062 section 4: a peer lists addresses of others, so that we bomb them.
#[test]
fn listed_addresses_get_a_few_small_heartbeats_and_no_data() {
    let mut list = vec![0; 1200];
    let mut writer = ParameterWriter::new(&mut list);
    for host in 0..100 {
        writer.push(&Parameter::Ipv4Address(Ipv4Addr::new(10, 1, 1, host))).unwrap();
    }
    let len = writer.finish();
    let mut pair = Pair::new(1);
    pair.quiet = true;
    pair.record = true;
    pair.inject(Side::A, 1, &init(7, &list[..len]));
    pair.drive(millis(15));
    let ack = pair.recorded.last().unwrap().2.clone();
    assert!(ack.len() < 1500, "one INIT ACK, to the source of the INIT alone");
    assert!(
        pair.recorded.iter().all(|(_, addr, _)| {
            [address(Side::A, 1), address(Side::Z, 1)].contains(&addr.remote)
        })
    );
    pair.inject(Side::A, 1, &crate::craft::cookie_echo(&ack));
    pair.recorded.clear();
    pair.drive(millis(15));
    let z = pair.z.endpoint.associations()[0];
    pair.send(Side::Z, z, 0, &[1; 100_000]);
    pair.drive(Duration::from_secs(300));
    let victim = |addr: &PathAddr| addr.remote.ip() != IpAddr::from([10, 1, 0, 1]);
    let hits: Vec<_> =
        pair.recorded.iter().filter(|(from, addr, _)| *from == Side::Z && victim(addr)).collect();
    assert!(hits.iter().all(|(.., bytes)| bytes[12] == 4 && bytes.len() < 60), "only HEARTBEATs");
    let victims: std::collections::BTreeSet<_> =
        hits.iter().map(|(_, addr, _)| addr.remote).collect();
    assert!(victims.len() <= 16, "{} addresses", victims.len());
    let bytes: usize = hits.iter().map(|(.., bytes)| bytes.len()).sum();
    assert!(bytes < 40_000, "{} packets, {bytes} bytes in 5 minutes", hits.len());
}

#[test]
fn one_address_cannot_take_all_associations() {
    let limited = Config { max_associations_per_address: 3, ..config(Side::Z) };
    let mut pair = Pair::with(1, Config { port: 0, ..config(Side::A) }, limited);
    pair.quiet = true;
    for _ in 0..5 {
        pair.connect();
        pair.drive(millis(100));
    }
    assert_eq!(pair.z.endpoint.associations().len(), 3);
    assert_eq!(pair.z.endpoint.counters().address_limit_refusals, 2);
    let refused = pair.a.heard().into_iter().filter(|event| matches!(event, Event::Closed(_)));
    assert_eq!(refused.count(), 2, "the peer is told");
    // There is room again when one has ended.
    let first = pair.a.endpoint.associations()[0];
    pair.a.endpoint.shutdown(pair.now, first);
    pair.drive(millis(500));
    pair.connect();
    pair.drive(millis(100));
    assert_eq!(pair.z.endpoint.associations().len(), 3);
}

#[test]
fn cookies_that_one_address_has_got_count_there_wherever_they_come_from() {
    let limited = Config { max_associations_per_address: 3, ..config(Side::Z) };
    let mut pair = Pair::with(1, Config { port: 0, ..config(Side::A) }, limited);
    (pair.quiet, pair.record) = (true, true);
    pair.lose(Side::A, "COOKIE_ECHO", 1000);
    for _ in 0..5 {
        pair.connect();
    }
    pair.drive(millis(30));
    let echoes =
        pair.recorded.iter().filter(|(side, _, bytes)| *side == Side::A && bytes[12] == 10);
    let echoes: Vec<_> = echoes.map(|(.., bytes)| bytes.clone()).collect();
    assert_eq!(echoes.len(), 5);
    for (host, echo) in (7..).zip(&echoes) {
        pair.z.endpoint.handle_packet(pair.now, from(host), echo);
    }
    assert_eq!(pair.z.endpoint.associations().len(), 3);
    assert_eq!(pair.z.endpoint.counters().address_limit_refusals, 2);
}

#[test]
fn all_associations_share_a_budget_of_memory_and_each_keeps_its_part() {
    let budget = Config { receive_memory: 300_000, receive_buffer: 200_000, ..config(Side::Z) };
    let mut pair = Pair::with(1, Config { port: 0, ..config(Side::A) }, budget);
    pair.quiet = true;
    pair.z.reads = false;
    let ids: Vec<_> = (0..3).map(|_| pair.connect()).collect();
    pair.drive(millis(200));
    for id in &ids {
        (0..15).for_each(|_| pair.send(Side::A, *id, 0, &[1; 20_000]));
        pair.drive(Duration::from_secs(5));
    }
    let held: Vec<_> = (pair.z.endpoint.associations().iter())
        .map(|id| pair.z.endpoint.status(pair.now, *id).unwrap().receive_queued)
        .collect();
    let total: usize = held.iter().sum();
    // The first ones have taken the budget; the last one gets its third nevertheless.
    assert!(total <= 2 * 300_000 && total > 290_000, "{held:?}");
    assert!(held.iter().all(|held| *held >= 80_000), "{held:?}");
    assert!(pair.z.endpoint.counters().receive_memory_drops > 0);
    // Nothing is lost: all arrives when it is read, because no message is larger than a part.
    pair.z.reads = true;
    for id in pair.z.endpoint.associations() {
        pair.z.read_all(id);
    }
    pair.drive(Duration::from_secs(60));
    let received: usize = pair.z.received.iter().map(|(_, text)| text.len()).sum();
    assert_eq!(received, 3 * 300_000);
}

#[test]
fn a_window_within_the_budget_is_announced_honestly() {
    let budget = Config { receive_memory: 50_000, receive_buffer: 200_000, ..config(Side::Z) };
    let (mut pair, a, _) = Pair::established_with(1, config(Side::A), budget);
    pair.z.reads = false;
    pair.send(Side::A, a, 0, &[1; 30_000]);
    pair.drive(Duration::from_secs(1));
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    assert!(status.peer_rwnd <= 20_000, "{} bytes", status.peer_rwnd);
    assert_eq!(status.paths[0].state, PathState::Active);
}

/// Packets that `make` makes, 50,000 a second from 50 addresses of A's own prefix, for two seconds. A begins to connect
/// after one. Returns what Z has sent to those addresses in the second half: packets, and bytes with headers.
fn flood(pair: &mut Pair, make: impl Fn(u32) -> Vec<u8>) -> (usize, usize) {
    (pair.quiet, pair.record) = (true, true);
    for number in 0..100_000 {
        if number == 50_000 {
            pair.recorded.clear();
            pair.a.endpoint.connect(pair.now, address(Side::Z, 1), PORT_Z).unwrap();
        }
        pair.z.endpoint.handle_packet(pair.now, from(100 + number % 50), &make(number + 1));
        pair.drive(Duration::from_micros(20));
    }
    let to_flood = |path: &PathAddr| path.remote != address(Side::A, 1);
    let sent = pair.recorded.iter().filter(|(side, path, _)| *side == Side::Z && to_flood(path));
    sent.fold((0, 0), |(packets, bytes), (.., packet)| (packets + 1, bytes + packet.len() + 28))
}

#[test]
fn a_flood_of_inits_takes_half_of_the_reply_rate_and_a_client_connects_beside_it() {
    let mut pair = Pair::new(1);
    let (_, bytes) = flood(&mut pair, |number| init(number, &[]));
    let rate = Config::default().unverified_reply_rate as usize;
    assert!((rate / 3..rate * 2 / 3).contains(&bytes), "{bytes} bytes in a second");
    assert!(pair.z.endpoint.counters().rate_limited_replies > 80_000);
    assert_eq!(pair.z.endpoint.associations().len(), 1);
    let id = pair.a.endpoint.associations()[0];
    let status = pair.a.endpoint.status(pair.now, id).unwrap();
    assert_eq!(status.state, AssociationState::Established);
}

#[test]
fn a_flood_out_of_the_blue_is_answered_within_the_reply_rate() {
    for chunk in [Chunk::ShutdownAck, Chunk::Heartbeat(Heartbeat { info: &[] })] {
        let mut pair = Pair::new(1);
        let config = |config: &mut Config| config.unverified_reply_rate = 200_000;
        pair.z.endpoint.configure(config);
        let (packets, bytes) = flood(&mut pair, |number| packet(Side::A, number, &[chunk]));
        // Each counts as 128 bytes.
        assert!((66_000..133_000).contains(&(packets * 128)), "{bytes} bytes in {packets} packets");
        assert!(bytes < packets * 64, "{bytes} bytes in {packets} packets");
        assert_eq!(pair.z.endpoint.associations().len(), 1, "a client connects beside it");
        let counters = pair.z.endpoint.counters();
        assert_eq!(counters.out_of_the_blue, 100_000);
        assert!(counters.rate_limited_replies > 90_000);
    }
}
