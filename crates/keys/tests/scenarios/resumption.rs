//! Associations with known peers: no round trip more than without protection, and nothing that can be replayed.

use crate::chance::Chance;
use crate::craft::checksummed;
use crate::hostile::alter;
use crate::managed::Managed;
use crate::messages::{identity, offering};
use crate::pair::{Chaos, PORT_Z, Pair, Side, address, millis};
use manypath_engine::{
    Announce, AssociationState, CloseReason, Config, Duration, Endpoint, Event, Instant, PathAddr,
    PathState,
};
use manypath_keys::{Failure, TicketIssuer};
use manypath_wire::chunk::{Chunk, types};
use manypath_wire::packet::Packet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The time from connect to the arrival of the first message.
fn time_of_first(it: &mut Managed) -> Duration {
    let begun = it.pair.now;
    it.waiting = vec![b"first"];
    it.connect();
    it.run(Duration::from_secs(2));
    assert_eq!(it.peers(), it.identities());
    assert_eq!(it.z.received[0].0, "first");
    it.z.received[0].1.since(begun)
}

/// The same without protection.
fn time_of_plain_first() -> Duration {
    let mut pair = Pair::new(1);
    let id = pair.connect();
    pair.send(Side::A, id, 1, b"first");
    assert!(pair.drive_until(Duration::from_secs(2), |pair| !pair.z.received.is_empty()));
    pair.now.since(Instant::ZERO)
}

fn is_resumed(it: &Managed, side: Side) -> bool {
    let (node, end) = match side {
        Side::A => (&it.pair.a, &it.a),
        Side::Z => (&it.pair.z, &it.z),
    };
    end.id.and_then(|id| node.endpoint.key_use(id)).is_some_and(|usage| usage.resumed)
}

/// Round trips of 20 ms, the serialization of a few packets aside.
fn is_longer_by(time: Duration, plain: Duration, round_trips: u32) -> bool {
    let more = time.checked_sub(plain + millis(20) * round_trips);
    more.is_some_and(|more| more < millis(1))
}

#[test]
fn a_known_peer_costs_no_round_trip_and_a_new_one_costs_one() {
    let plain = time_of_plain_first();
    let cold = time_of_first(&mut Managed::new(1));
    assert!(is_longer_by(cold, plain, 1), "{cold:?}, plain {plain:?}");
    for paths in [1, 2] {
        let mut it = Managed::acquainted(paths);
        for round in 0..3 {
            let known = time_of_first(&mut it);
            assert!(is_longer_by(known, plain, 0), "round {round}: {known:?}, plain {plain:?}");
            assert!(is_resumed(&it, Side::A) && is_resumed(&it, Side::Z));
            // The handshake is made up for at once, and brings another ticket.
            assert_eq!(it.epochs().0, 4);
            assert_eq!(it.pair.z.endpoint.counters().resumptions, round + 1);
            it.disconnect();
        }
    }
}

/// The addresses of both ends that carry.
fn working(it: &Managed) -> [usize; 2] {
    [(&it.pair.a, &it.a), (&it.pair.z, &it.z)].map(|(node, end)| {
        let status = node.endpoint.status(it.pair.now, end.id.unwrap()).unwrap();
        let active = status.paths.iter().filter(|path| path.state == PathState::Active);
        active.map(|path| path.addr.local.ip()).collect::<BTreeSet<_>>().len()
    })
}

#[test]
fn addresses_that_were_withheld_are_announced_when_an_association_has_resumed() {
    let announce = Announce::Authenticated;
    let withholding = |side| Config { announce, address_reconfiguration: true, ..offering(side) };
    let mut it = Managed::with(2, withholding(Side::A), withholding(Side::Z));
    it.issue_tickets();
    for resumes in [false, true] {
        it.connect();
        it.run(Duration::from_secs(5));
        assert_eq!(it.peers(), it.identities());
        assert_eq!([is_resumed(&it, Side::A), is_resumed(&it, Side::Z)], [resumes; 2]);
        assert_eq!(working(&it), [2, 2], "resumes: {resumes}");
        it.disconnect();
    }
}

#[test]
fn nothing_but_the_set_up_is_without_protection() {
    let mut it = Managed::acquainted(1);
    let _time = time_of_first(&mut it);
    let expected =
        ["A -> INIT -> Z", "A <- INIT_ACK <- Z", "A -> COOKIE_ECHO -> Z", "A -> DTLS -> Z"];
    assert_eq!(it.pair.ladder[..4], expected);
    assert!(it.pair.ladder[4..].iter().all(|line| line.contains(" DTLS ")));
    assert!(
        it.pair.recorded.iter().all(|(_, _, bytes)| !bytes.windows(5).any(|it| it == b"first"))
    );
}

#[test]
fn any_packet_of_the_set_up_may_be_lost() {
    let packets = [
        (Side::A, "INIT"),
        (Side::Z, "INIT_ACK"),
        (Side::A, "COOKIE_ECHO"),
        (Side::A, "DTLS"),
        (Side::Z, "DTLS"),
    ];
    for paths in [1, 2] {
        for (from, chunk) in packets {
            for count in [1, 2, 3] {
                let mut it = Managed::acquainted(paths);
                it.waiting = vec![b"whole"];
                it.pair.lose(from, chunk, count);
                it.connect();
                it.run(Duration::from_secs(25));
                assert_eq!(it.peers(), it.identities(), "{count} {chunk} lost");
                assert_eq!(it.z.received.len(), 1, "{count} {chunk} lost");
                assert!(is_resumed(&it, Side::Z), "{count} {chunk} lost");
                assert_eq!(it.epochs().0, 4, "{count} {chunk} lost");
            }
        }
    }
}

#[test]
fn a_copy_of_the_cookie_over_another_path_is_answered_at_once() {
    let mut it = Managed::acquainted(2);
    it.pair.lose(Side::A, "COOKIE_ECHO", 1);
    it.connect();
    it.run(millis(100));
    let status = it.pair.a.endpoint.status(it.pair.now, it.a.id.unwrap()).unwrap();
    assert_eq!(status.state, AssociationState::Established);
    assert_eq!(it.pair.z.endpoint.counters().unverified_drops, 0);
}

#[test]
fn losses_copies_and_changes_of_order_over_two_paths_are_survived() {
    for seed in 0..40 {
        let mut it = Managed::acquainted(2);
        it.pair.quiet = true;
        let (loss, copies, damage, jitter) = (150, 100, 20, millis(60));
        it.pair.chaos = Some(Chaos { loss, copies, damage, jitter, chance: Chance(seed) });
        it.waiting = vec![b"one", b"two", b"three"];
        it.connect();
        it.run(Duration::from_secs(29));
        assert_eq!(it.peers(), it.identities(), "seed {seed}");
        let received: Vec<_> = it.z.received.iter().map(|(message, _)| &message[..]).collect();
        assert_eq!(received, [&b"one"[..], b"two", b"three"], "seed {seed}");
    }
}

#[test]
fn a_ticket_that_is_of_no_use_costs_the_usual_handshake_and_nothing_else() {
    let plain = time_of_plain_first();
    // Its time is over; its key is gone; the server has restarted.
    for (hours, restarted) in [(24, false), (31, false), (0, true)] {
        let mut it = Managed::acquainted(1);
        it.pair.now = it.pair.now + Duration::from_secs(hours * 3600);
        if restarted {
            let issuer = Arc::new(TicketIssuer::default());
            it.pair.z.endpoint.set_resumption(issuer.clone());
            it.z.issuer = Some(issuer);
        }
        let time = time_of_first(&mut it);
        assert!(is_longer_by(time, plain, 1), "{hours} hours: {time:?}");
        assert!(!is_resumed(&it, Side::A) && !is_resumed(&it, Side::Z));
        let counters = it.pair.z.endpoint.counters();
        let declined = (counters.expired_tickets, counters.unknown_tickets);
        assert_eq!(declined, if hours == 24 { (1, 0) } else { (0, 1) });
        assert_eq!(counters.resumptions, 0);
        // There is a new one.
        it.disconnect();
        assert!(is_longer_by(time_of_first(&mut it), plain, 0));
    }
}

#[test]
fn two_handshakes_that_cross_do_without() {
    let mut it = both_accepting(1);
    crossed_after(&mut it, Duration::ZERO);
    it.run(Duration::from_secs(5));
    assert_eq!(it.peers(), it.identities());
    assert!(!is_resumed(&it, Side::A) && !is_resumed(&it, Side::Z));
    it.send(Side::Z, b"crossed");
    it.run(Duration::from_secs(1));
    assert_eq!(it.a.received.last().unwrap().0, "crossed");
}

/// Its clients have tickets that say which key it has.
#[test]
fn a_server_that_has_another_key_declines_the_tickets_of_its_former_one() {
    let plain = time_of_plain_first();
    let mut it = Managed::acquainted(1);
    it.z.identity = identity();
    it.z.issuer.as_ref().unwrap().forget();
    assert!(is_longer_by(time_of_first(&mut it), plain, 1));
    assert_eq!(it.pair.z.endpoint.counters().unknown_tickets, 1);
    it.disconnect();
    assert!(is_longer_by(time_of_first(&mut it), plain, 0));
}

/// Both ends accept, and A has a ticket of Z's.
fn both_accepting(paths: u8) -> Managed {
    let accepting = |side| Config { accept: true, ..offering(side) };
    let mut it = Managed::with(paths, accepting(Side::A), accepting(Side::Z));
    it.issue_tickets();
    it.connect();
    it.run(Duration::from_secs(2));
    it.disconnect();
    assert!(it.a.ticket.is_some());
    it
}

/// A connects by its ticket, and Z connects from the same ports that much later, unless it has the association by then.
fn crossed_after(it: &mut Managed, pause: Duration) {
    it.waiting = vec![b"whole"];
    it.connect();
    it.run(pause);
    if it.pair.z.endpoint.associations().is_empty() {
        let id = it.pair.connect_from(Side::Z);
        it.z.id = Some(id);
        it.offer(Side::Z, id);
    }
}

#[test]
fn a_server_that_connects_while_its_answer_is_under_way_gives_way_to_the_ticket() {
    let plain = time_of_plain_first();
    for paths in [1, 2] {
        let mut it = both_accepting(paths);
        let begun = it.pair.now;
        // The INIT takes 10 ms, and so does the INIT ACK.
        crossed_after(&mut it, millis(15));
        let own = it.z.id;
        it.run(millis(200));
        assert_eq!(it.peers(), it.identities());
        assert!(is_resumed(&it, Side::A) && is_resumed(&it, Side::Z));
        assert!(is_longer_by(it.z.received[0].1.since(begun), plain, 0));
        assert_eq!(it.pair.z.endpoint.associations(), Vec::from_iter(own), "that which it began");
        it.send(Side::Z, b"crossed");
        it.run(millis(100));
        assert_eq!(it.a.received.last().unwrap().0, "crossed");
        let connected = |event: &Event| matches!(event, Event::Connected { .. });
        let of_own = it.pair.z.events.iter().filter(|(id, _)| Some(*id) == own);
        assert_eq!(of_own.filter(|(_, event)| connected(event)).count(), 1);
    }
}

#[test]
fn whenever_both_ends_connect_no_timer_has_to_end_it() {
    for seed in 0..300 {
        let mut it = both_accepting(2);
        it.pair.quiet = true;
        let mut chance = Chance(seed);
        let pause = millis(chance.below(80));
        let (loss, copies, damage, jitter) = (0, 100, 0, millis(40));
        it.pair.chaos = Some(Chaos { loss, copies, damage, jitter, chance });
        crossed_after(&mut it, pause);
        // RTO.Initial is a second.
        it.run(millis(900));
        assert_eq!(it.peers(), it.identities(), "seed {seed}, after {pause:?}");
        let received: Vec<_> = it.z.received.iter().map(|(message, _)| &message[..]).collect();
        assert_eq!(received, [b"whole"], "seed {seed}, after {pause:?}");
        assert_eq!(is_resumed(&it, Side::A), is_resumed(&it, Side::Z), "seed {seed}");
        let both = [&it.pair.a, &it.pair.z].map(|node| node.endpoint.associations().len());
        assert_eq!(both, [1, 1], "seed {seed}");
    }
}

#[test]
fn a_cookie_that_was_used_takes_no_connect_over() {
    let (mut it, sent) = recorded_with(both_accepting(1));
    let echo = sent.iter().find(|bytes| bytes[12] == types::COOKIE_ECHO).unwrap();
    let id = it.pair.connect_from(Side::Z);
    (it.z.id, it.pair.handled) = (Some(id), None);
    it.offer(Side::Z, id);
    let before = it.pair.z.endpoint.counters().used_cookie;
    it.pair.inject(Side::A, 1, echo);
    it.pair.drive(millis(15));
    assert_eq!(it.pair.z.endpoint.counters().used_cookie, before + 1);
    assert!(it.pair.z.endpoint.key_use(id).is_none());
    // Its sender is told, by the tag that it has chosen (RFC 9260 section 5.1).
    let (_, _, answer) = it.pair.recorded.last().unwrap();
    assert_eq!((answer[12], &answer[4..8]), (types::ABORT, &sent[0][16..20]));
}

#[test]
fn a_cookie_that_takes_no_connect_over_ends_both_attempts_at_once() {
    let mut it = both_accepting(1);
    crossed_after(&mut it, millis(15));
    // The key of the ticket goes while the COOKIE ECHO is under way.
    it.run(millis(8));
    it.z.issuer.as_ref().unwrap().forget();
    it.run(millis(100));
    assert_eq!(it.a.closed, Some(CloseReason::PeerAborted(None)), "{:#?}", it.pair.ladder);
    assert_eq!(it.pair.z.endpoint.counters().unknown_tickets, 1);
    let both = [&it.pair.a, &it.pair.z].map(|node| node.endpoint.associations().len());
    assert_eq!(both, [0, 0], "no timer has to end them");
}

/// Somebody with a ticket, at an address of its own, sends its cookie from the address that the server connects to.
#[test]
fn a_cookie_of_another_address_takes_no_connect_over() {
    let mut it = both_accepting(2);
    it.pair.lose(Side::A, "COOKIE_ECHO", 20);
    let (now, remote) = (it.pair.now, address(Side::Z, 2));
    let id = it.pair.a.endpoint.connect(now, remote, PORT_Z).unwrap();
    it.a.id = Some(id);
    it.offer(Side::A, id);
    it.run(millis(50));
    let is_echo = |bytes: &[u8]| bytes[12] == types::COOKIE_ECHO;
    let echo = it.pair.recorded.iter().find(|(_, _, bytes)| is_echo(bytes)).unwrap().2.clone();
    it.pair.a.endpoint.abort(it.pair.now, id, b"");
    it.run(millis(50));
    let id = it.pair.connect_from(Side::Z);
    it.pair.handled = None;
    let resumptions = it.pair.z.endpoint.counters().resumptions;
    it.pair.inject(Side::A, 1, &echo);
    it.pair.drive(millis(15));
    assert!(it.pair.z.endpoint.key_use(id).is_none());
    assert_eq!(it.pair.z.endpoint.counters().resumptions, resumptions);
}

/// The packets of A in a resumed association that is over.
fn recorded() -> (Managed, Vec<Vec<u8>>) {
    recorded_with(Managed::acquainted(1))
}

fn recorded_with(mut it: Managed) -> (Managed, Vec<Vec<u8>>) {
    it.waiting = vec![b"pay 5"];
    it.connect();
    it.run(Duration::from_secs(1));
    let sent = it.pair.recorded.iter().filter(|(from, _, _)| *from == Side::A);
    let sent = sent.map(|(_, _, bytes)| bytes.clone()).collect();
    it.disconnect();
    (it, sent)
}

#[test]
fn a_flight_that_is_replayed_does_nothing_once_more() {
    let (mut it, sent) = recorded();
    let counters = it.pair.z.endpoint.counters().clone();
    for _ in 0..3 {
        for bytes in &sent {
            it.pair.inject(Side::A, 1, bytes);
            it.run(millis(50));
        }
    }
    assert!(it.pair.z.endpoint.associations().is_empty());
    assert_eq!(it.z.received.len(), 0);
    let after = it.pair.z.endpoint.counters();
    assert_eq!(after.used_cookie, counters.used_cookie + 3);
    assert_eq!(after.resumptions, counters.resumptions);
    // An hour later the cookie is forgotten, and of no use.
    it.run(Duration::from_secs(3600));
    sent.iter().for_each(|bytes| it.pair.inject(Side::A, 1, bytes));
    it.run(Duration::from_secs(1));
    assert!(it.pair.z.endpoint.associations().is_empty());
}

#[test]
fn a_cookie_that_many_others_have_followed_is_remembered_still() {
    let (mut it, sent) = recorded();
    let cookie = sent.iter().find(|bytes| bytes[12] == types::COOKIE_ECHO).unwrap();
    it.pair.quiet = true;
    let pair = &mut it.pair;
    (pair.handled, pair.record) = (None, false);
    // More than the endpoint keeps of associations that are over.
    for _ in 0..11 {
        let remote = crate::pair::address(Side::Z, 1);
        let begin = |endpoint: &mut Endpoint| {
            endpoint.connect_from_free_port(pair.now, remote, crate::pair::PORT_Z).unwrap()
        };
        let ids: Vec<_> = (0..100).map(|_| begin(&mut pair.a.endpoint)).collect();
        pair.drive(millis(200));
        assert_eq!(pair.z.endpoint.associations().len(), 100);
        ids.into_iter().for_each(|id| pair.a.endpoint.abort(pair.now, id, b""));
        pair.drive(millis(50));
    }
    let used = pair.z.endpoint.counters().used_cookie;
    pair.inject(Side::A, 1, cookie);
    pair.drive(millis(50));
    assert!(pair.z.endpoint.associations().is_empty());
    assert_eq!(pair.z.endpoint.counters().used_cookie, used + 1);
}

#[test]
fn a_stolen_ticket_opens_nothing() {
    let mut it = Managed::acquainted(1);
    it.a.is_thief = true;
    it.waiting = vec![b"let me in"];
    it.connect();
    it.run(Duration::from_secs(20));
    assert_eq!(it.z.protected, None, "nobody is believed to be the ticket's owner");
    it.run(Duration::from_secs(20));
    assert_eq!((it.z.failure.clone(), it.z.received.len()), (Some(Failure::Timeout), 0));
    assert!(it.pair.z.endpoint.associations().is_empty());
}

/// Where the value of the Resumption parameter is in an INIT or INIT ACK.
fn parameter(bytes: &[u8]) -> Option<usize> {
    let setup = matches!(bytes.get(12), Some(1 | 2));
    bytes.windows(3).position(|it| it == [0x90, 0x92, 0]).filter(|_| setup)
}

fn strip(bytes: &mut Vec<u8>, kind: u8) {
    if let Some(at) = parameter(bytes).filter(|_| bytes[12] == kind) {
        bytes[at + 1] = 0x93;
        *bytes = checksummed(std::mem::take(bytes));
    }
}

#[test]
fn who_takes_the_ticket_out_on_the_way_gets_the_usual_handshake() {
    let mut it = Managed::acquainted(1);
    it.pair.mangle = Some(|bytes| strip(bytes, 1));
    it.waiting = vec![b"first"];
    it.connect();
    it.run(Duration::from_secs(2));
    assert_eq!(it.peers(), it.identities());
    assert!(!is_resumed(&it, Side::A) && !is_resumed(&it, Side::Z));
}

/// Says in an INIT ACK that the server resumes.
fn lie(bytes: &mut Vec<u8>) {
    if bytes[12] == types::INIT_ACK && parameter(bytes).is_none() {
        let len = u16::from_be_bytes([bytes[14], bytes[15]]).next_multiple_of(4) + 4;
        bytes[14..16].copy_from_slice(&len.to_be_bytes());
        bytes.extend([0x90, 0x92, 0, 4]);
        *bytes = checksummed(std::mem::take(bytes));
    }
}

#[test]
fn whatever_somebody_on_the_way_changes_nothing_is_read_or_taken() {
    type Forgery = (&'static str, fn(&mut Vec<u8>));
    let forgeries: [Forgery; 3] = [
        ("the answer is taken out", |bytes| strip(bytes, 2)),
        ("what keys are derived from is changed", alter),
        ("an answer is put in", lie),
    ];
    for (name, mangle) in forgeries {
        let mut it = Managed::acquainted(1);
        if name == "an answer is put in" {
            it.z.issuer = Some(Arc::default());
            it.pair.z.endpoint.set_resumption(it.z.issuer.clone().unwrap());
        }
        it.pair.mangle = Some(mangle);
        it.waiting = vec![b"SECRET"];
        it.connect();
        it.run(Duration::from_secs(200));
        assert_eq!((it.z.protected, it.z.received.len()), (None, 0), "{name}");
        assert!(it.a.closed.is_some(), "{name}");
        assert!(it.pair.z.endpoint.associations().is_empty(), "{name}");
        let read = |bytes: &[u8]| bytes.windows(6).any(|it| it == b"SECRET");
        assert!(!it.pair.recorded.iter().any(|(_, _, bytes)| read(bytes)), "{name}");
    }
}

#[test]
fn a_server_that_refuses_the_cookie_is_believed() {
    let mut it = Managed::acquainted(1);
    it.waiting = vec![b"first"];
    it.connect();
    it.run(millis(25));
    // Between INIT ACK and COOKIE ECHO.
    it.pair.z.endpoint.set_resumption(Arc::new(TicketIssuer::default()));
    it.run(Duration::from_secs(1));
    assert!(matches!(it.a.closed, Some(CloseReason::PeerAborted(_))), "{:?}", it.a.closed);
    assert!(it.pair.z.endpoint.associations().is_empty() && it.z.received.is_empty());
}

#[test]
fn a_hundred_thousand_forged_tickets_and_cookies_change_nothing() {
    let (mut it, sent) = recorded();
    it.pair.quiet = true;
    it.pair.record = false;
    let init = sent.iter().find(|bytes| bytes[12] == types::INIT).unwrap();
    let echo = sent.iter().find(|bytes| bytes[12] == types::COOKIE_ECHO).unwrap();
    let ticket = parameter(init).unwrap();
    let before = it.pair.z.endpoint.counters().clone();
    let mut chance = Chance(7);
    let (local, remote) = (crate::pair::address(Side::Z, 1), crate::pair::address(Side::A, 1));
    let path = PathAddr { local, remote };
    for round in 0..100_000 {
        let (mut bytes, from) = match round % 2 {
            0 => (init.clone(), ticket + 4),
            _ => (echo.clone(), 16),
        };
        for _ in 0..=chance.below(3) {
            let at = from + chance.below((bytes.len() - from) as u64) as usize;
            bytes[at] ^= 1 << chance.below(8);
        }
        if &bytes == init || &bytes == echo {
            continue;
        }
        it.pair.z.endpoint.handle_packet(it.pair.now, path, &checksummed(bytes));
        assert!(it.pair.z.endpoint.associations().is_empty(), "round {round}");
        it.pair.now = it.pair.now + millis(if round % 100 == 0 { 1 } else { 0 });
    }
    let after = it.pair.z.endpoint.counters();
    assert_eq!(after.resumptions, before.resumptions);
    assert!(after.bad_cookie >= before.bad_cookie + 49_000, "{}", after.bad_cookie);
    assert!(after.unknown_tickets > before.unknown_tickets);
    // Who is known is served as before.
    it.pair.now = it.pair.now + Duration::from_secs(60);
    let _answers = time_of_first(&mut it);
    assert!(is_resumed(&it, Side::Z));
}

#[test]
fn no_two_associations_have_the_same_keys() {
    let mut it = Managed::acquainted(1);
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let _time = time_of_first(&mut it);
        it.disconnect();
    }
    for end in [&it.a, &it.z] {
        let lines = end.key_log.iter().map(|line| line.split(' ').collect::<Vec<_>>());
        for fields in lines {
            seen.insert(fields[4..].join(" "));
        }
    }
    // Of the first association, and of two epochs of each other one, for two directions; both ends log the same.
    assert_eq!(seen.len(), 2 * (1 + 2 * 20));
}

#[test]
fn records_of_the_first_flight_may_overtake_the_cookie() {
    let mut it = Managed::acquainted(1);
    it.pair.record = true;
    it.waiting = vec![b"whole"];
    it.pair.lose(Side::A, "COOKIE_ECHO", 1);
    it.connect();
    it.run(Duration::from_secs(10));
    assert!(it.pair.z.endpoint.counters().out_of_the_blue > 0, "a record came first");
    assert_eq!(it.peers(), it.identities());
    assert_eq!(it.z.received.len(), 1);
    let plain = |bytes: &Vec<u8>| {
        let packet = Packet::without_checksum(bytes).or_else(|| Packet::parse(bytes).ok()).unwrap();
        packet.chunks().map(Result::unwrap).any(|chunk| matches!(chunk, Chunk::Data(_)))
    };
    assert!(!it.pair.recorded.iter().any(|(_, _, bytes)| plain(bytes)));
}
