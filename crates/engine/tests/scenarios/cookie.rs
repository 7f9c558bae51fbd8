//! Cookies that come too late, changed, or to the wrong place (RFC 9260 section 5.1.5).

use crate::craft::checksummed;
use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{Config, Duration, Event};
use manypath_wire::packet::{CommonHeader, Packet, PacketWriter};

/// The COOKIE ECHO that A has sent, taken off the network.
fn cookie_echo(pair: &mut Pair) -> Vec<u8> {
    pair.lose(Side::A, "COOKIE_ECHO", 1);
    pair.connect();
    pair.drive(millis(50));
    pair.ladder.clear();
    pair.last_lost.clone().unwrap()
}

/// The same packet with its header changed and its checksum made good.
fn rewritten(bytes: &[u8], change: impl Fn(&mut CommonHeader)) -> Vec<u8> {
    let packet = Packet::parse(bytes).unwrap();
    let mut header = packet.header();
    change(&mut header);
    let mut out = vec![0; bytes.len()];
    let mut writer = PacketWriter::new(&mut out, header);
    packet.chunks().for_each(|chunk| writer.push(&chunk.unwrap()).unwrap());
    assert_eq!(writer.finish(), bytes.len());
    out
}

#[test]
fn a_stale_cookie_makes_the_peer_begin_anew() {
    let short = Config { cookie_life: millis(100), ..config(Side::Z) };
    let mut pair = Pair::with(1, config(Side::A), short);
    pair.lose(Side::A, "COOKIE_ECHO", 1);
    let id = pair.connect();
    pair.send(Side::A, id, 0, b"hello");
    pair.drive(millis(2000));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA /lost/ -> Z
         A -> COOKIE_ECHO DATA -> Z
         A <- ERROR <- Z
         A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA -> Z
         A <- COOKIE_ACK SACK <- Z",
    );
    assert_eq!(pair.z.endpoint.counters().stale_cookie, 1);
    assert_eq!(pair.z.received, [(0, "hello".into())]);
}

/// What was in flight on the paths of the first attempt is sent again.
#[test]
fn data_outlasts_a_stale_cookie_on_two_paths() {
    for uplinks in [false, true] {
        let short = Config { cookie_life: millis(100), ..config(Side::Z) };
        let mut pair = match uplinks {
            false => Pair::with(2, config(Side::A), short),
            true => Pair::uplinks(&[20, 10], config(Side::A), short),
        };
        pair.lose(Side::A, "COOKIE_ECHO", 2);
        let id = if uplinks { pair.connect_to_server() } else { pair.connect() };
        pair.send(Side::A, id, 0, b"hello");
        pair.drive(millis(8000));
        assert!(pair.z.endpoint.counters().stale_cookie > 0);
        assert_eq!(pair.z.received, [(0, "hello".into())], "uplinks: {uplinks}");
    }
}

#[test]
fn a_changed_cookie_is_dropped_in_silence() {
    let mut pair = Pair::new(1);
    let echo = cookie_echo(&mut pair);
    for at in [20, 60, echo.len() - 5] {
        let mut forged = rewritten(&echo, |_| {});
        forged[at] ^= 1;
        let forged = checksummed(forged);
        pair.inject(Side::A, 1, &forged);
    }
    pair.drive(millis(50));
    pair.expect("A -> COOKIE_ECHO -> Z\nA -> COOKIE_ECHO -> Z\nA -> COOKIE_ECHO -> Z");
    assert_eq!(pair.z.endpoint.counters().bad_cookie, 3);
    assert!(pair.z.endpoint.associations().is_empty());
}

#[test]
fn a_cookie_with_other_ports_or_another_tag_is_dropped_in_silence() {
    let mut pair = Pair::new(1);
    let echo = cookie_echo(&mut pair);
    let changes: [fn(&mut CommonHeader); 3] =
        [|h| h.tag.0 ^= 1, |h| h.source_port ^= 1, |h| h.destination_port ^= 1];
    for change in changes {
        pair.inject(Side::A, 1, &rewritten(&echo, change));
    }
    pair.drive(millis(50));
    assert_eq!(pair.z.endpoint.counters().bad_cookie, 3);
    assert_eq!(pair.take_ladder().matches("<-").count(), 0);
}

#[test]
fn a_stale_cookie_of_the_living_association_is_valid() {
    let short = Config { cookie_life: millis(100), ..config(Side::Z) };
    let mut pair = Pair::with(1, config(Side::A), short);
    pair.lose(Side::Z, "COOKIE_ACK", 1);
    pair.connect();
    pair.drive(millis(1000));
    assert!(pair.take_ladder().ends_with("A -> COOKIE_ECHO -> Z\nA <- COOKIE_ACK <- Z"));
    assert_eq!(pair.z.endpoint.counters().stale_cookie, 0);
}

#[test]
fn an_old_cookie_is_stale_and_a_very_old_one_is_unknown() {
    let mut pair = Pair::new(1);
    let echo = cookie_echo(&mut pair);
    pair.cut(1);
    pair.drive(Duration::from_secs(300));
    assert!(matches!(pair.a.heard()[..], [Event::Closed(_)]));
    pair.restore(1);
    pair.inject(Side::A, 1, &echo);
    pair.drive(Duration::from_secs(3 * 3600));
    pair.inject(Side::A, 1, &echo);
    pair.drive(millis(100));
    let counters = pair.z.endpoint.counters();
    assert_eq!((counters.stale_cookie, counters.bad_cookie), (1, 1));
}
