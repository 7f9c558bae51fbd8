//! An association that sends by other parameters from some moment on, with data under way.

use crate::chance::Chance;
use crate::pair::{Chaos, Pair, Side, address, config, millis};
use manypath_engine::{AssociationId, Config, CongestionControl, Duration, Profile};

const ALL: [CongestionControl; 8] = [
    CongestionControl::Rfc9260,
    CongestionControl::Rfc2960,
    CongestionControl::Cubic,
    CongestionControl::Bbr,
    CongestionControl::RpV1,
    CongestionControl::RpV2,
    CongestionControl::Lia,
    CongestionControl::Olia,
];
const STREAMS: u16 = 4;
const MESSAGE: usize = 20_000;

fn with(congestion: CongestionControl) -> Config {
    Config { congestion, ..config(Side::A) }
}

/// Two paths of 20 and 8 Mbit/s.
fn network(own: Config) -> (Pair, AssociationId) {
    let (mut pair, id, _) = Pair::established_with(2, own, config(Side::Z));
    pair.quiet = true;
    for (number, rate) in [(1, 20_000_000), (2, 8_000_000)] {
        let link = pair.links.get_mut(&number).unwrap();
        (link.rate, link.queue) = (rate, millis(100));
    }
    (pair, id)
}

/// Each message says how many of its stream came before.
fn queue(pair: &mut Pair, id: AssociationId, messages: u16) {
    for number in 0..messages {
        for stream in 0..STREAMS {
            let payload = [&number.to_be_bytes()[..], &[0; MESSAGE]].concat();
            pair.send(Side::A, id, stream, &payload);
        }
    }
}

/// Everything has arrived, in the order of its stream.
fn check(pair: &Pair, messages: u16, what: &str) {
    for stream in 0..STREAMS {
        let of_stream = pair.z.received.iter().filter(|(on, _)| *on == stream);
        let numbers: Vec<_> = of_stream.map(|(_, it)| u16::from_be_bytes([it[0], it[1]])).collect();
        assert_eq!(numbers, (0..messages).collect::<Vec<_>>(), "stream {stream}, {what}");
    }
}

fn congestion(pair: &Pair, id: AssociationId) -> Option<CongestionControl> {
    pair.a.endpoint.status(pair.now, id).unwrap().congestion
}

#[test]
fn every_algorithm_takes_over_from_every_other_in_mid_transfer() {
    for (seed, (old, new)) in ALL.iter().flat_map(|old| ALL.map(|new| (*old, new))).enumerate() {
        let (mut pair, id) = network(with(old));
        let (loss, copies, damage, jitter) = (10, 5, 0, millis(2));
        let chance = Chance(seed as u64);
        pair.chaos = Some(Chaos { loss, copies, damage, jitter, chance });
        queue(&mut pair, id, 5);
        pair.drive(millis(60));
        assert_eq!(congestion(&pair, id), Some(old));
        let now = pair.now;
        pair.a.endpoint.send_like(now, id, &with(new));
        assert_eq!(congestion(&pair, id), Some(new));
        let over = |pair: &Pair| pair.z.received.len() == usize::from(5 * STREAMS);
        assert!(pair.drive_until(Duration::from_secs(20), over), "{} {}", old.name(), new.name());
        check(&pair, 5, new.name());
    }
}

#[test]
fn the_window_stays_and_a_path_that_has_been_measured_does_not_begin_anew() {
    let windows = |pair: &Pair, id| {
        let status = pair.a.endpoint.status(pair.now, id).unwrap();
        status.paths.iter().map(|path| path.cwnd).collect::<Vec<_>>()
    };
    let (mut pair, id) = network(with(CongestionControl::Bbr));
    queue(&mut pair, id, 40);
    pair.drive(millis(600));
    let (before, now) = (windows(&pair, id), pair.now);
    pair.a.endpoint.send_like(now, id, &with(CongestionControl::Cubic));
    assert_eq!(windows(&pair, id), before);
    // Slow start would double it.
    pair.drive(millis(45));
    for (before, after) in before.into_iter().zip(windows(&pair, id)) {
        assert!(after < before * 3 / 2, "{before}, then {after}");
    }
}

#[test]
fn profiles_follow_each_other_and_every_message_arrives_in_order() {
    let (production, dynamic) = (Profile::Production.config(), Profile::Dynamic.config());
    for pause in [0, 3, 30, 120] {
        let (mut pair, id) = network(config(Side::A));
        queue(&mut pair, id, 30);
        for turn in 0..6 {
            pair.drive(millis(pause));
            let like = if turn % 2 == 0 { &dynamic } else { &production };
            let now = pair.now;
            pair.a.endpoint.send_like(now, id, like);
            assert_eq!(congestion(&pair, id), Some(like.congestion));
        }
        let over = |pair: &Pair| pair.z.received.len() == usize::from(30 * STREAMS);
        assert!(pair.drive_until(Duration::from_secs(20), over), "every {pause} ms");
        check(&pair, 30, "profiles");
    }
}

#[test]
fn paths_that_come_later_are_like_the_others_and_the_handshake_is_not_changed() {
    let nr_sack = Profile::Dynamic.config().nr_sack;
    let own = Config { nr_sack, address_reconfiguration: true, ..config(Side::A) };
    let theirs = Config { nr_sack, address_reconfiguration: true, ..config(Side::Z) };
    let (mut pair, id, _) = Pair::established_with(1, own, theirs);
    let now = pair.now;
    assert!(pair.a.endpoint.status(now, id).unwrap().nr_sack);
    pair.a.endpoint.send_like(now, id, &Profile::Production.config());
    let status = pair.a.endpoint.status(now, id).unwrap();
    assert!(status.nr_sack, "agreed on");
    assert_eq!(status.congestion, Some(Profile::Production.config().congestion));
    pair.a.endpoint.send_like(now, AssociationId(99), &Config::default());
}

#[test]
fn all_else_follows_the_endpoint_unless_the_association_began_with_parameters_of_its_own() {
    let (mut pair, id) = network(with(CongestionControl::Bbr));
    let (now, remote) = (pair.now, address(Side::Z, 1));
    let own = pair.a.endpoint.connect_with(now, remote, 77, config(Side::A), None).unwrap();
    for (id, follows) in [(id, true), (own, false)] {
        for like in [CongestionControl::Cubic, CongestionControl::Lia] {
            pair.a.endpoint.send_like(now, id, &with(like));
            let limit = 90 + like as u32;
            pair.a.endpoint.configure(|config| config.path_max_retransmits = limit);
            let supervision = pair.a.endpoint.supervision(id, None).unwrap();
            assert_eq!(supervision.max_retransmits == limit, follows);
            assert_eq!(congestion(&pair, id), Some(like));
        }
    }
}
