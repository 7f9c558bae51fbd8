//! Partial reliability (RFC 3758, RFC 7496): used if both ends want it; what is given up holds up
//! nothing.

use crate::craft::packet;
use crate::pair::{Pair, Side, config, message, millis};
use manypath_engine::{
    Abandoned, AssociationId, CloseReason, Config, Duration, Event, NrSack, Reliability,
    ReliabilityPolicy, StreamScheduling, Tsn,
};
use manypath_wire::chunk::{Chunk, ForwardTsn, IForwardTsn, SkippedMessages, SkippedStreams};

const ONCE: Reliability = Reliability::Retransmissions(0);

fn wanting(side: Side, partial_reliability: bool) -> Config {
    let stream_scheduling = StreamScheduling::Fcfs;
    Config { partial_reliability, stream_scheduling, ..config(side) }
}

fn established(a: bool, z: bool) -> (Pair, AssociationId) {
    let (pair, id, _) = Pair::established_with(1, wanting(Side::A, a), wanting(Side::Z, z));
    (pair, id)
}

impl Pair {
    fn send_with(&mut self, id: AssociationId, stream: u16, payload: &[u8], how: Reliability) {
        let now = self.now;
        self.a.endpoint.send_with(now, id, message(stream, payload), how).unwrap();
    }

    /// (stream, sent) of the messages that A has given up.
    fn failed(&self) -> Vec<(u16, bool)> {
        let failed = self.a.heard().into_iter().filter_map(|event| match event {
            Event::SendFailed { message, sent, .. } => Some((message.stream.0, *sent)),
            _ => None,
        });
        failed.collect()
    }
}

fn streams(pair: &Pair) -> Vec<u16> {
    pair.z.received.iter().map(|message| message.0).collect()
}

#[test]
fn a_lost_message_that_is_sent_only_once_is_skipped() {
    let (mut pair, a) = established(true, true);
    pair.lose(Side::A, "DATA", 1);
    pair.send_with(a, 1, &[1; 1000], ONCE);
    pair.drive(millis(300));
    pair.expect(
        "A -> DATA /lost/ -> Z
         A -> HEARTBEAT -> Z
         A -> FORWARD_TSN -> Z
         A <- HEARTBEAT_ACK <- Z
         A <- SACK <- Z",
    );
    assert_eq!((pair.failed(), streams(&pair)), ([(1, true)].into(), [].into()));
    pair.send_with(a, 1, b"next", ONCE);
    pair.drive(millis(100));
    assert_eq!(streams(&pair), [1]);
    let by = |policy| pair.a.endpoint.abandoned(a, None, Some(policy));
    assert_eq!(by(ReliabilityPolicy::Retransmissions), Abandoned { unsent: 0, sent: 1 });
    assert_eq!(by(ReliabilityPolicy::Lifetime), Abandoned::default());
}

#[test]
fn what_follows_on_the_stream_is_delivered_at_once() {
    let (mut pair, a) = established(true, true);
    pair.lose(Side::A, "DATA", 1);
    pair.send_with(a, 1, &[1; 1000], ONCE);
    pair.drive(millis(1));
    for stream in [1, 1, 2, 1] {
        pair.send(Side::A, a, stream, &[2; 1400]);
    }
    // Three missing reports, and the FORWARD-TSN.
    pair.drive(millis(40));
    assert_eq!(streams(&pair), [2, 1, 1, 1]);
    assert_eq!(pair.failed(), [(1, true)]);
}

#[test]
fn a_lost_forward_tsn_is_repeated_until_it_has_arrived() {
    let (mut pair, a) = established(true, true);
    pair.lose(Side::A, "DATA", 1);
    pair.lose(Side::A, "FORWARD_TSN", 3);
    pair.send_with(a, 1, &[1; 1000], ONCE);
    pair.drive(Duration::from_secs(10));
    let ladder = pair.take_ladder();
    assert_eq!(ladder.matches("FORWARD_TSN").count(), 4, "{ladder}");
    pair.send(Side::A, a, 1, b"next");
    pair.drive(millis(100));
    assert_eq!(streams(&pair), [1]);
}

#[test]
fn the_association_ends_if_nobody_answers_the_forward_tsn() {
    let (mut pair, a) = established(true, true);
    pair.cut(1);
    pair.send_with(a, 1, &[1; 1000], ONCE);
    pair.drive(Duration::from_secs(600));
    let last = pair.a.heard().last().copied();
    assert_eq!(last, Some(&Event::Closed(CloseReason::TooManyFailures)));
    assert_eq!(pair.failed(), [(1, true)]);
}

#[test]
fn it_must_be_wanted_by_both() {
    for (a, z) in [(true, false), (false, true), (false, false)] {
        let (mut pair, id) = established(a, z);
        assert!(!pair.a.endpoint.status(pair.now, id).unwrap().partial_reliability);
        pair.lose(Side::A, "DATA", 1);
        pair.send_with(id, 1, &[1; 1000], ONCE);
        pair.drive(Duration::from_secs(2));
        assert_eq!((streams(&pair), pair.failed()), ([1].into(), [].into()));
    }
    let (pair, id) = established(true, true);
    let status = pair.a.endpoint.status(pair.now, id).unwrap();
    assert!(status.partial_reliability && status.peer_extensions.contains(&192));
}

#[test]
fn a_message_that_could_not_be_sent_in_time_is_never_sent() {
    for (a, z) in [(true, true), (false, false)] {
        let (mut pair, id) = established(a, z);
        pair.send(Side::A, id, 0, &[0; 200_000]);
        let soon = Reliability::Lifetime(millis(5));
        pair.send_with(id, 1, b"urgent", soon);
        pair.send_with(id, 2, b"less urgent", Reliability::Lifetime(Duration::from_secs(5)));
        pair.drive(millis(6));
        let Event::SendFailed { message, policy, sent: false } = pair.a.heard()[0] else {
            panic!("{:?}", pair.a.heard());
        };
        assert_eq!((&message.payload[..], *policy), (&b"urgent"[..], ReliabilityPolicy::Lifetime));
        pair.drive(Duration::from_secs(2));
        assert_eq!(streams(&pair), [0, 2]);
    }
}

#[test]
fn a_restless_sender_fills_no_buffer_with_what_is_over() {
    let small = Config { send_buffer: 22_000, ..wanting(Side::A, true) };
    let (mut pair, a, _) = Pair::established_with(1, small, wanting(Side::Z, true));
    pair.cut(1);
    for n in 0..200_u64 {
        pair.send_with(a, 1, &[n as u8; 1000], Reliability::Lifetime(millis(15)));
        pair.drive(millis(1));
    }
    pair.restore(1);
    pair.send(Side::A, a, 1, b"last");
    pair.drive(Duration::from_secs(5));
    let received: Vec<u8> = pair.z.received.iter().map(|message| message.1[0]).collect();
    assert_eq!(received.last(), Some(&b'l'));
    assert_eq!(pair.failed().len() + received.len(), 201);
}

#[test]
fn a_shutdown_waits_for_the_peer_to_skip_what_was_given_up() {
    let (mut pair, a) = established(true, true);
    pair.lose(Side::A, "DATA", 1);
    pair.send_with(a, 1, &[1; 1000], ONCE);
    pair.drive(millis(1));
    pair.a.endpoint.shutdown(pair.now, a);
    pair.drive(Duration::from_secs(2));
    pair.expect(
        "A -> DATA /lost/ -> Z
         A -> HEARTBEAT -> Z
         A -> FORWARD_TSN -> Z
         A <- HEARTBEAT_ACK <- Z
         A <- SACK <- Z
         A -> SHUTDOWN -> Z
         A <- SHUTDOWN_ACK <- Z
         A -> SHUTDOWN_COMPLETE -> Z",
    );
}

#[test]
fn messages_of_many_packets_are_given_up_whole_on_two_paths() {
    for nr_sack in [NrSack::Off, NrSack::Case3] {
        let both = |side| Config { nr_sack, ..wanting(side, true) };
        let (mut pair, a, _) = Pair::established_with(2, both(Side::A), both(Side::Z));
        pair.send(Side::A, a, 0, &[0; 100_000]);
        pair.drive(millis(500));
        for stream in 1..5 {
            pair.send_with(a, stream, &[stream as u8; 20_000], ONCE);
        }
        pair.lose(Side::A, "DATA", 1);
        pair.send(Side::A, a, 1, b"after");
        pair.drive(Duration::from_secs(5));
        assert_eq!(pair.failed(), [(1, true)], "{nr_sack}");
        let received = pair.z.received.iter().map(|message| (message.0, message.1.len()));
        let mut received: Vec<_> = received.collect();
        received.sort_unstable();
        let all = [(0, 100_000), (1, 5), (2, 20_000), (3, 20_000), (4, 20_000)];
        assert_eq!(received, all, "{nr_sack}");
        let status = pair.a.endpoint.status(pair.now, a).unwrap();
        assert_eq!((status.outstanding, status.unsent), (0, 0));
        assert!(status.paths.iter().all(|path| path.in_flight == 0));
    }
}

#[test]
fn with_i_data_it_is_i_forward_tsn() {
    let both = |side| Config { interleaving: true, ..wanting(side, true) };
    let (mut pair, a, _) = Pair::established_with(1, both(Side::A), both(Side::Z));
    pair.lose(Side::A, "I_DATA", 1);
    pair.send_with(a, 1, &[1; 1000], ONCE);
    pair.drive(millis(300));
    pair.expect(
        "A -> I_DATA /lost/ -> Z
         A -> HEARTBEAT -> Z
         A -> I_FORWARD_TSN -> Z
         A <- HEARTBEAT_ACK <- Z
         A <- SACK <- Z",
    );
    let tag = pair.tag_of(Side::Z);
    let forward = ForwardTsn { cum_tsn: Tsn(1), skipped: SkippedStreams::EMPTY };
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::ForwardTsn(forward)]));
    pair.drive(millis(100));
    assert!(matches!(pair.z.heard()[..], [Event::Closed(CloseReason::ProtocolViolation(_))]));
}

#[test]
fn an_end_that_did_not_offer_it_reports_forward_tsn_as_unknown() {
    let forward = ForwardTsn { cum_tsn: Tsn(1), skipped: SkippedStreams::EMPTY };
    let i_forward = IForwardTsn { cum_tsn: Tsn(1), skipped: SkippedMessages::EMPTY };
    for chunk in [Chunk::ForwardTsn(forward), Chunk::IForwardTsn(i_forward)] {
        let interleaving = matches!(chunk, Chunk::IForwardTsn(_));
        let with = |side, partial| Config { interleaving, ..wanting(side, partial) };
        let (a, z) = (with(Side::A, true), with(Side::Z, false));
        let (mut pair, ..) = Pair::established_with(1, a, z);
        let tag = pair.tag_of(Side::Z);
        pair.take_ladder();
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[chunk]));
        pair.drive(millis(100));
        assert!(pair.take_ladder().ends_with("FORWARD_TSN -> Z\nA <- ERROR <- Z"));
        assert_eq!(pair.z.endpoint.counters().unknown_chunks, 1);
    }
}

#[test]
fn a_forward_tsn_is_followed_however_far_it_goes() {
    let (mut pair, _) = established(true, true);
    let tag = pair.tag_of(Side::Z);
    let recorded = |pair: &Pair, side: Side, wanted: fn(Chunk<'_>) -> Option<u32>| {
        pair.recorded.iter().rev().find_map(|(from, _, bytes)| {
            let packet = manypath_wire::Packet::parse(bytes).unwrap();
            let found = packet.chunks().map_while(Result::ok).find_map(wanted);
            found.filter(|_| *from == side)
        })
    };
    let data =
        |chunk: Chunk<'_>| if let Chunk::Data(data) = chunk { Some(data.tsn.0) } else { None };
    let sack =
        |chunk: Chunk<'_>| if let Chunk::Sack(sack) = chunk { Some(sack.cum_tsn.0) } else { None };
    let cum_tsn = Tsn(recorded(&pair, Side::A, data).unwrap().wrapping_add(1 << 30));
    let forward = ForwardTsn { cum_tsn, skipped: SkippedStreams::EMPTY };
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::ForwardTsn(forward)]));
    pair.drive(millis(100));
    assert_eq!(recorded(&pair, Side::Z, sack), Some(cum_tsn.0));
    assert_eq!(pair.z.endpoint.counters().tsns_too_far_ahead, 0);
}

#[test]
fn a_forward_tsn_goes_to_a_confirmed_address() {
    let mut pair = Pair::with(2, wanting(Side::A, true), wanting(Side::Z, true));
    pair.cut(2);
    let a = pair.connect();
    pair.drive(millis(500));
    pair.ladder.clear();
    pair.lose(Side::A, "DATA", 1);
    pair.lose(Side::A, "FORWARD_TSN", 2);
    pair.send_with(a, 1, &[1; 1000], ONCE);
    pair.drive(Duration::from_secs(5));
    let ladder = pair.take_ladder();
    assert!(!ladder.contains("A -2> FORWARD_TSN"), "{ladder}");
    assert_eq!(ladder.matches("A -> FORWARD_TSN").count(), 3, "{ladder}");
}

#[test]
fn a_forward_tsn_takes_data_along() {
    let (mut pair, a) = established(true, true);
    pair.send_with(a, 1, &[1; 1000], ONCE);
    pair.lose(Side::A, "DATA", 1);
    pair.drive(millis(1));
    // Each leaves in a packet of its own while the window has room.
    for _ in 0..40 {
        pair.send(Side::A, a, 2, &[2; 700]);
    }
    pair.drive(millis(200));
    let ladder = pair.take_ladder();
    assert!(ladder.contains("A -> FORWARD_TSN DATA"), "{ladder}");
}
