//! Streams are reset and added while the association is in use (RFC 6525).

use crate::craft::packet;
use crate::pair::{Pair, Side, config, message, millis};
use manypath_engine::StreamDirection::{Incoming, Outgoing};
use manypath_engine::{
    AssociationId, CloseReason, Config, Duration, Event, ReconfigurationError,
    ReconfigurationOutcome, SendError, StreamId,
};
use manypath_wire::chunk::{Chunk, Data, ReConfig};
use manypath_wire::packet::Packet;
use manypath_wire::parameter::{
    AddStreams, IncomingSsnReset, OutgoingSsnReset, Parameter, ParameterWriter, Parameters,
    ReConfigResponse, ReConfigResult, StreamIds,
};
use manypath_wire::{Ssn, Tsn};

const PERFORMED: ReconfigurationOutcome = ReconfigurationOutcome::Performed;
const DENIED: ReconfigurationOutcome = ReconfigurationOutcome::Denied;

/// Wants re-configurations, and allows the peer everything.
fn willing(side: Side) -> Config {
    Config {
        reconfiguration: true,
        accept_stream_resets: true,
        accept_association_resets: true,
        accept_added_streams: true,
        max_streams: 20,
        ..config(side)
    }
}

fn established() -> (Pair, AssociationId, AssociationId) {
    let (mut pair, a, z) = Pair::established_with(1, willing(Side::A), willing(Side::Z));
    pair.record = true;
    (pair, a, z)
}

impl Pair {
    fn reset(&mut self, id: AssociationId, streams: &[u16]) {
        let streams: Vec<_> = streams.iter().map(|id| StreamId(*id)).collect();
        self.a.endpoint.reset_streams(self.now, id, &[Outgoing], &streams).unwrap();
    }

    /// SSNs of the DATA chunks that A has sent on a stream since the last call.
    fn ssns(&mut self, stream: u16) -> Vec<u16> {
        let sent = std::mem::take(&mut self.recorded);
        let data = |bytes: &[u8]| -> Vec<(StreamId, Ssn)> {
            let chunks = Packet::parse(bytes).unwrap().chunks().map(Result::unwrap);
            let data = chunks.filter_map(|chunk| match chunk {
                Chunk::Data(Data { stream, ssn, .. }) => Some((stream, ssn)),
                _ => None,
            });
            data.collect()
        };
        let from_a = sent.iter().filter(|(from, ..)| *from == Side::A);
        let all = from_a.flat_map(|(_, _, bytes)| data(bytes));
        all.filter(|(id, _)| id.0 == stream).map(|(_, ssn)| ssn.0).collect()
    }

    /// The RE-CONFIGs that a side has sent, as text.
    fn re_configs(&self, side: Side) -> Vec<String> {
        let sent = self.recorded.iter().filter(|(from, ..)| *from == side);
        let chunks = sent.flat_map(|(_, _, bytes)| {
            let chunks = Packet::parse(bytes).unwrap().chunks().map(Result::unwrap);
            chunks
                .filter(|c| matches!(c, Chunk::ReConfig(_)))
                .map(|c| c.to_string())
                .collect::<Vec<_>>()
        });
        chunks.collect()
    }

    fn last_re_config(&self, side: Side) -> String {
        self.re_configs(side).pop().unwrap()
    }

    /// A RE-CONFIG made by hand arrives at Z.
    fn inject_re_config(&mut self, tag: u32, parameters: &[Parameter<'_>]) {
        let mut bytes = [0; 512];
        let mut writer = ParameterWriter::new(&mut bytes);
        parameters.iter().for_each(|parameter| writer.push(parameter).unwrap());
        let len = writer.finish();
        let chunk = ReConfig { parameters: Parameters::from_bytes(&bytes[..len]) };
        self.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::ReConfig(chunk)]));
        self.drive(millis(50));
    }

    /// The initial TSN of A: the first request number that Z expects.
    fn initial_tsn(&self) -> u32 {
        let init = self.recorded.iter().find_map(|(_, _, bytes)| {
            match Packet::parse(bytes).unwrap().chunks().next() {
                Some(Ok(Chunk::Init(init))) => Some(init.initial_tsn.0),
                _ => None,
            }
        });
        init.unwrap()
    }
}

fn reset(direction: manypath_engine::StreamDirection, streams: &[u16]) -> Event {
    let streams = streams.iter().map(|id| StreamId(*id)).collect();
    Event::StreamsReset { direction, streams, outcome: PERFORMED }
}

fn results(pair: &Pair) -> Vec<&Event> {
    let wanted = |event: &&Event| {
        matches!(
            event,
            Event::StreamsReset { .. }
                | Event::AssociationReset { .. }
                | Event::StreamsAdded { .. }
                | Event::Closed(_)
        )
    };
    pair.a.heard().into_iter().filter(wanted).collect()
}

#[test]
fn an_outgoing_reset_numbers_messages_from_zero() {
    let (mut pair, a, _) = established();
    for stream in [1, 1, 2] {
        pair.send(Side::A, a, stream, b"before");
    }
    pair.reset(a, &[1]);
    pair.send(Side::A, a, 1, b"after");
    pair.send(Side::A, a, 2, b"after");
    pair.drive(millis(500));
    let text = |at: usize| (pair.z.received[at].0, pair.z.received[at].1.to_vec());
    assert_eq!(pair.z.received.len(), 5);
    assert_eq!(text(4), (1, b"after".to_vec()));
    assert_eq!(results(&pair), [&reset(Outgoing, &[1])]);
    assert!(pair.z.heard().contains(&&reset(Incoming, &[1])));
    let sent = pair.recorded.clone();
    assert_eq!(pair.ssns(1), [0, 1, 0]);
    pair.recorded = sent;
    assert_eq!(pair.ssns(2), [0, 1]);
}

#[test]
fn the_ladder_of_a_reset() {
    let (mut pair, a, _) = established();
    pair.send(Side::A, a, 1, b"before");
    pair.drive(millis(300));
    pair.take_ladder();
    pair.reset(a, &[]);
    pair.drive(millis(300));
    pair.expect(
        "A -> RE_CONFIG -> Z
         A <- RE_CONFIG SACK <- Z",
    );
    assert_eq!(results(&pair), [&reset(Outgoing, &[])]);
}

#[test]
fn a_lost_request_or_response_is_repeated_and_answered_the_same() {
    for side in [Side::A, Side::Z] {
        let (mut pair, a, _) = established();
        pair.send(Side::A, a, 1, b"before");
        pair.drive(millis(300));
        pair.lose(side, "RE_CONFIG", 2);
        pair.reset(a, &[1]);
        pair.drive(Duration::from_secs(3));
        assert_eq!(results(&pair), [&reset(Outgoing, &[1])]);
        let resets = pair.z.heard().into_iter().filter(|e| matches!(e, Event::StreamsReset { .. }));
        assert_eq!(resets.count(), 1);
        let sent = pair.take_ladder().matches("A -> RE_CONFIG").count();
        assert_eq!(sent, 3);
    }
}

#[test]
fn nobody_answers_at_all() {
    let (mut pair, a, _) = established();
    pair.cut(1);
    pair.reset(a, &[1]);
    pair.drive(Duration::from_secs(900));
    assert_eq!(results(&pair), [&Event::Closed(CloseReason::TooManyFailures)]);
}

/// A peer that is asked while it lacks data would say "in progress", which costs an RTO; usrsctp
/// then says so for ever.
#[test]
fn a_reset_is_asked_for_when_what_was_sent_before_is_acknowledged() {
    let (mut pair, a, _) = established();
    pair.send(Side::A, a, 1, &[0; 30_000]);
    pair.drive(millis(500));
    pair.recorded.clear();
    pair.lose(Side::A, "DATA", 12);
    pair.send(Side::A, a, 1, b"lost many times");
    pair.reset(a, &[1]);
    pair.send(Side::A, a, 1, b"after");
    pair.drive(Duration::from_secs(900));
    assert_eq!(results(&pair), [&reset(Outgoing, &[1])]);
    assert_eq!(pair.z.received.len(), 3);
    assert_eq!(&pair.z.received[2].1[..], b"after");
    assert_eq!(pair.re_configs(Side::Z).len(), 1, "one answer, to one request");
    assert_eq!(pair.re_configs(Side::A).len(), 1);
}

#[test]
fn a_reset_waits_for_what_is_missing_and_counts_no_errors_meanwhile() {
    let (mut pair, a, _) = established();
    pair.send(Side::A, a, 1, &[0; 30_000]);
    pair.drive(millis(500));
    pair.send(Side::A, a, 1, b"before");
    pair.reset(a, &[1]);
    pair.drive(millis(1));
    pair.lose(Side::A, "DATA", 12);
    pair.send(Side::A, a, 2, b"of another stream, lost many times");
    pair.drive(millis(300));
    assert!(pair.last_re_config(Side::Z).contains("in progress"));
    pair.send(Side::A, a, 1, b"after");
    pair.drive(Duration::from_secs(900));
    assert_eq!(results(&pair), [&reset(Outgoing, &[1])]);
    assert_eq!(pair.z.received.len(), 4);
    assert_eq!(&pair.z.received[3].1[..], b"after");
}

#[test]
fn an_incoming_request_makes_the_peer_reset() {
    let (mut pair, a, z) = established();
    pair.send(Side::Z, z, 3, b"before");
    pair.drive(millis(300));
    pair.a.endpoint.reset_streams(pair.now, a, &[Incoming], &[StreamId(3)]).unwrap();
    let busy = pair.a.endpoint.reset_streams(pair.now, a, &[Incoming], &[StreamId(4)]);
    assert_eq!(busy, Err(ReconfigurationError::InProgress));
    pair.drive(millis(500));
    pair.send(Side::Z, z, 3, b"after");
    pair.drive(millis(300));
    assert_eq!(results(&pair), [&reset(Incoming, &[3])]);
    assert!(pair.z.heard().contains(&&reset(Outgoing, &[3])));
    assert_eq!(pair.a.received.len(), 2);
    // There is nothing to do on a stream that nobody has used.
    pair.a.endpoint.reset_streams(pair.now, a, &[Incoming], &[StreamId(4)]).unwrap();
    pair.drive(millis(300));
    assert!(pair.last_re_config(Side::Z).contains("nothing to do"));
}

#[test]
fn both_directions_in_one_chunk() {
    let (mut pair, a, z) = established();
    pair.send(Side::A, a, 1, b"a");
    pair.send(Side::Z, z, 1, b"z");
    pair.drive(millis(300));
    let (now, streams) = (pair.now, [StreamId(1)]);
    pair.a.endpoint.reset_streams(now, a, &[Outgoing, Incoming], &streams).unwrap();
    pair.drive(millis(500));
    let mut heard = results(&pair);
    heard.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(heard, [&reset(Incoming, &[1]), &reset(Outgoing, &[1])]);
    pair.send(Side::A, a, 1, b"a");
    pair.send(Side::Z, z, 1, b"z");
    pair.drive(millis(300));
    assert_eq!((pair.a.received.len(), pair.z.received.len()), (2, 2));
}

#[test]
fn all_begins_anew_tsns_included() {
    let (mut pair, a, z) = established();
    for _ in 0..3 {
        pair.send(Side::A, a, 1, &[1; 5000]);
        pair.send(Side::Z, z, 1, &[2; 5000]);
    }
    pair.drive(millis(500));
    pair.send(Side::A, a, 1, b"before");
    pair.a.endpoint.reset_association(pair.now, a).unwrap();
    pair.send(Side::A, a, 1, b"after");
    pair.drive(millis(500));
    let Event::AssociationReset { outcome: PERFORMED, local_tsn, peer_tsn } = *results(&pair)[0]
    else {
        panic!("{:?}", results(&pair));
    };
    let tsns = pair.recorded.iter().filter(|(from, ..)| *from == Side::A);
    let tsns =
        tsns.filter_map(|(_, _, bytes)| match Packet::parse(bytes).unwrap().chunks().last() {
            Some(Ok(Chunk::Data(data))) => Some(data.tsn.0),
            _ => None,
        });
    // The message that waited has gone out with the first new TSN.
    let [.., last, first] = tsns.collect::<Vec<_>>()[..] else { panic!("no DATA") };
    assert_eq!(first.wrapping_sub(last + 1), 1 << 31);
    assert_eq!(local_tsn.0, first);
    let told = pair.z.heard().into_iter().find_map(|event| match event {
        Event::AssociationReset { local_tsn, peer_tsn, .. } => Some((*peer_tsn, *local_tsn)),
        _ => None,
    });
    assert_eq!(told, Some((local_tsn, peer_tsn)));
    pair.recorded.clear();
    for _ in 0..3 {
        pair.send(Side::A, a, 1, &[3; 5000]);
        pair.send(Side::Z, z, 1, &[4; 5000]);
    }
    pair.lose(Side::A, "DATA", 1);
    pair.drive(Duration::from_secs(2));
    assert_eq!((pair.z.received.len(), pair.a.received.len()), (8, 6));
    let status = pair.a.endpoint.status(pair.now, a).unwrap();
    assert_eq!((status.outstanding, status.unsent), (0, 0));
}

#[test]
fn streams_are_added_in_both_directions_up_to_a_limit() {
    let (mut pair, a, z) = established();
    let too_many = pair.a.endpoint.send(pair.now, a, message(16, b"x"));
    assert_eq!(too_many, Err(SendError::InvalidStream));
    pair.a.endpoint.add_streams(pair.now, a, 2, 3).unwrap();
    pair.drive(millis(500));
    let added = |outbound_streams, inbound_streams| Event::StreamsAdded {
        outcome: PERFORMED,
        outbound_streams,
        inbound_streams,
    };
    let last = |pair: &Pair| results(pair).last().copied().cloned();
    assert_eq!(last(&pair), Some(added(18, 19)));
    pair.send(Side::A, a, 17, b"a");
    pair.send(Side::Z, z, 18, b"z");
    pair.drive(millis(300));
    assert_eq!((pair.z.received[0].0, pair.a.received[0].0), (17, 18));
    pair.a.endpoint.add_streams(pair.now, a, 3, 0).unwrap();
    pair.drive(millis(300));
    let denied = Event::StreamsAdded { outcome: DENIED, outbound_streams: 18, inbound_streams: 19 };
    assert_eq!(last(&pair), Some(denied));
    let (now, a_end) = (pair.now, &mut pair.a.endpoint);
    let invalid = a_end.add_streams(now, a, 65_530, 0);
    assert_eq!(invalid, Err(ReconfigurationError::InvalidStreams));
    assert_eq!(a_end.add_streams(now, a, 0, 0), Err(ReconfigurationError::InvalidStreams));
}

#[test]
fn a_peer_that_does_not_allow_it_denies() {
    let unwilling = Config { reconfiguration: true, ..config(Side::Z) };
    let (mut pair, a, _) = Pair::established_with(1, willing(Side::A), unwilling);
    pair.send(Side::A, a, 1, b"before");
    pair.drive(millis(300));
    pair.reset(a, &[1]);
    pair.send(Side::A, a, 1, b"after");
    pair.drive(millis(300));
    pair.a.endpoint.reset_association(pair.now, a).unwrap();
    pair.drive(millis(300));
    pair.a.endpoint.add_streams(pair.now, a, 1, 1).unwrap();
    pair.drive(millis(300));
    let outcomes = results(&pair).into_iter().map(|event| match event {
        Event::StreamsReset { outcome, .. }
        | Event::AssociationReset { outcome, .. }
        | Event::StreamsAdded { outcome, .. } => *outcome,
        other => panic!("{other:?}"),
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), [DENIED; 4]);
    assert_eq!(pair.z.received.len(), 2);
}

#[test]
fn a_peer_that_does_not_know_it_is_not_asked() {
    for (a, z) in [(willing(Side::A), config(Side::Z)), (config(Side::A), willing(Side::Z))] {
        let (mut pair, a, _) = Pair::established_with(1, a, z);
        let refused = pair.a.endpoint.reset_association(pair.now, a);
        assert_eq!(refused, Err(ReconfigurationError::NotSupported));
    }
    let mut pair = Pair::with(1, willing(Side::A), willing(Side::Z));
    let a = pair.connect();
    let early = pair.a.endpoint.add_streams(pair.now, a, 1, 1);
    assert_eq!(early, Err(ReconfigurationError::NotEstablished));
}

#[test]
fn with_i_data_message_identifiers_begin_anew() {
    let both = |side| Config { interleaving: true, ..willing(side) };
    let (mut pair, a, _) = Pair::established_with(1, both(Side::A), both(Side::Z));
    for round in 0..3 {
        for _ in 0..3 {
            pair.send(Side::A, a, 1, &[round; 3000]);
        }
        let unordered = manypath_engine::Outgoing { unordered: true, ..message(1, b"loose") };
        pair.a.endpoint.send(pair.now, a, unordered).unwrap();
        pair.drive(millis(500));
        pair.reset(a, &[1]);
        pair.drive(millis(500));
    }
    assert_eq!(pair.z.received.len(), 12);
    assert_eq!(results(&pair).len(), 3);
}

#[test]
fn wrong_numbers_streams_and_combinations() {
    let (mut pair, a, _) = {
        let mut pair = Pair::with(1, willing(Side::A), willing(Side::Z));
        pair.record = true;
        let a = pair.connect();
        pair.drive(millis(500));
        let z = pair.z.endpoint.associations()[0];
        (pair, a, z)
    };
    let first = pair.initial_tsn();
    let tag = pair.tag_of(Side::Z);
    let outgoing = |request, streams| {
        Parameter::OutgoingSsnReset(OutgoingSsnReset {
            request,
            response: 0,
            last_tsn: Tsn(first),
            streams: StreamIds::from_slice(streams),
        })
    };
    pair.inject_re_config(tag, &[outgoing(first.wrapping_add(1), &[])]);
    assert!(pair.last_re_config(Side::Z).contains("bad sequence number"));
    pair.inject_re_config(tag, &[outgoing(first, &[StreamId(16)])]);
    assert!(pair.last_re_config(Side::Z).contains("wrong SSN"));
    // The same again is answered with the same.
    pair.inject_re_config(tag, &[outgoing(first, &[StreamId(1)])]);
    assert!(pair.last_re_config(Side::Z).contains("wrong SSN"));
    let incoming = |request, streams| {
        Parameter::IncomingSsnReset(IncomingSsnReset {
            request,
            streams: StreamIds::from_slice(streams),
        })
    };
    pair.inject_re_config(tag, &[incoming(first.wrapping_add(1), &[StreamId(99)])]);
    assert!(pair.last_re_config(Side::Z).contains("wrong SSN"));
    let add = AddStreams { request: first.wrapping_add(2), count: 1 };
    let response = Parameter::ReConfigResponse(ReConfigResponse {
        response: 1,
        result: ReConfigResult::PERFORMED,
        next_tsns: None,
    });
    pair.take_ladder();
    for bad in [
        &[Parameter::AddOutgoingStreams(add), outgoing(add.request, &[])][..],
        &[Parameter::SsnTsnReset { request: add.request }, response],
        &[response, response, response],
        &[],
        &[Parameter::EcnCapable],
    ] {
        pair.inject_re_config(tag, bad);
        pair.expect("A -> RE_CONFIG -> Z\nA <- ERROR <- Z");
    }
    // Responses to nothing are nothing.
    pair.inject_re_config(tag, &[response]);
    pair.expect("A -> RE_CONFIG -> Z");
    pair.send(Side::A, a, 1, b"still alive");
    pair.drive(millis(100));
    assert_eq!(pair.z.received.len(), 1);
}

#[test]
fn a_storm_of_requests_costs_an_answer_each() {
    let (mut pair, a, _) = {
        let mut pair = Pair::with(1, willing(Side::A), willing(Side::Z));
        pair.record = true;
        let a = pair.connect();
        pair.drive(millis(500));
        (pair, a, ())
    };
    let first = pair.initial_tsn();
    let tag = pair.tag_of(Side::Z);
    for n in 0..500 {
        let request = first.wrapping_add(n);
        let incoming = IncomingSsnReset { request, streams: StreamIds::EMPTY };
        let bytes = &mut [0; 64];
        let mut writer = ParameterWriter::new(bytes);
        writer.push(&Parameter::IncomingSsnReset(incoming)).unwrap();
        let len = writer.finish();
        let chunk = ReConfig { parameters: Parameters::from_bytes(&bytes[..len]) };
        pair.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::ReConfig(chunk)]));
    }
    pair.take_ladder();
    pair.drive(millis(500));
    assert!(pair.take_ladder().lines().count() < 1100);
    pair.send(Side::A, a, 1, b"still alive");
    pair.drive(millis(500));
    assert_eq!(pair.z.received.len(), 1);
}

#[test]
fn a_request_is_repeated_after_pauses_that_double() {
    let (mut pair, a, _) = established();
    pair.cut(1);
    pair.reset(a, &[1]);
    let mut sent = Vec::new();
    for count in 1..=4 {
        let repeated = |pair: &Pair| {
            pair.ladder.iter().filter(|line| line.starts_with("A -> RE_CONFIG")).count() == count
        };
        assert!(pair.drive_until(Duration::from_secs(60), repeated));
        sent.push(pair.now);
    }
    let pauses: Vec<_> = sent.windows(2).map(|two| two[1].since(two[0])).collect();
    // The HEARTBEATs that ask whether the path works are as unanswered, and back off as well.
    assert!(pauses.windows(2).all(|two| two[1] >= two[0] * 2), "{pauses:?}");
    let errors = pair.a.endpoint.status(pair.now, a).unwrap().paths[0].error_count;
    assert!(errors >= 3, "{errors}");
}

#[test]
fn an_incoming_request_for_all_streams_lists_none() {
    let (mut pair, a, z) = established();
    pair.send(Side::Z, z, 3, b"before");
    pair.drive(millis(300));
    pair.a.endpoint.reset_streams(pair.now, a, &[Incoming], &[]).unwrap();
    pair.drive(millis(5));
    assert!(pair.last_re_config(Side::A).contains("streams=[]"));
    pair.drive(millis(500));
    assert_eq!(results(&pair), [&reset(Incoming, &[])]);
}

#[test]
fn only_the_answer_to_an_association_reset_tells_tsns() {
    let (mut pair, a, _) = established();
    pair.send(Side::A, a, 1, b"before");
    pair.drive(millis(300));
    pair.reset(a, &[1]);
    pair.drive(millis(300));
    let said = pair.last_re_config(Side::Z);
    assert!(said.contains("performed") && !said.contains("next_tsns"), "{said}");
    pair.a.endpoint.add_streams(pair.now, a, 1, 0).unwrap();
    pair.drive(millis(300));
    assert!(!pair.last_re_config(Side::Z).contains("next_tsns"));
    pair.a.endpoint.reset_association(pair.now, a).unwrap();
    pair.drive(millis(300));
    let said = pair.last_re_config(Side::Z);
    assert!(said.contains("performed") && said.contains("next_tsns"), "{said}");
}

#[test]
fn requests_that_cross_are_both_answered() {
    let (mut pair, a, z) = established();
    for stream in [1, 2] {
        pair.send(Side::A, a, stream, b"before");
    }
    pair.drive(millis(300));
    pair.reset(a, &[1]);
    let both = [StreamId(1), StreamId(2)];
    pair.z.endpoint.reset_streams(pair.now, z, &[Incoming], &both).unwrap();
    pair.drive(Duration::from_secs(2));
    for stream in [1, 2] {
        pair.send(Side::A, a, stream, b"after");
    }
    pair.recorded.clear();
    pair.drive(millis(300));
    assert_eq!(pair.z.received.len(), 4);
    assert_eq!(results(&pair), [&reset(Outgoing, &[1]), &reset(Outgoing, &[1, 2])]);
}
