//! Counters of errors, and which path carries data meanwhile (RFC 9260 sections 6.4.1, 6.9, 8.1, 8.2 and
//! 8.3).

use crate::pair::{Pair, Side, address, config, endpoint, millis};
use manypath_engine::{
    AssociationId, Config, Duration, Event, LocalAddress, LossRecovery, PathId, PathState,
    PathStatus,
};
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::Packet;

fn path(pair: &Pair, id: AssociationId, number: usize) -> PathStatus {
    pair.a.endpoint.status(pair.now, id).unwrap().paths[number - 1].clone()
}

fn changed(path: u8, state: PathState) -> Event {
    Event::PathChanged { path: PathId(path), state }
}

#[test]
fn any_acknowledgement_of_data_clears_the_count_of_the_association() {
    // Without probes, so that each repetition is by T3-rtx.
    let loss_recovery = LossRecovery::Rfc9260;
    let few = Config { association_max_retransmits: 3, loss_recovery, ..config(Side::A) };
    let (mut pair, a, _) = Pair::established_with(1, few, config(Side::Z));
    for number in 0..5 {
        // Two retransmissions each time: ten in all, but never more than three in a row.
        pair.lose(Side::A, "DATA", 2);
        pair.send(Side::A, a, 0, &[number; 10]);
        pair.drive(Duration::from_secs(20));
    }
    assert!(path(&pair, a, 1).timeouts >= 10);
    assert_eq!(pair.z.received.len(), 5);
    assert_eq!(pair.a.endpoint.associations(), [a]);
}

#[test]
fn a_heartbeat_ack_clears_the_count_of_the_association() {
    let few = Config { association_max_retransmits: 3, ..config(Side::A) };
    let (mut pair, a, _) = Pair::established_with(1, few, config(Side::Z));
    for _ in 0..4 {
        pair.lose(Side::A, "HEARTBEAT", 3);
        pair.drive(Duration::from_secs(60));
        assert_eq!(path(&pair, a, 1).state, PathState::Active);
    }
    assert_eq!(pair.a.endpoint.associations(), [a]);
    pair.cut(1);
    pair.drive(Duration::from_secs(120));
    assert!(pair.a.endpoint.associations().is_empty(), "without answers it ends");
}

#[test]
fn an_idle_path_that_fails_is_reported_probed_on_and_reported_again() {
    let (mut pair, a, _) = Pair::established(2);
    pair.cut(2);
    pair.drive(Duration::from_secs(300));
    assert_eq!(path(&pair, a, 2).state, PathState::Inactive);
    // One more than Path.Max.Retrans, and not growing.
    assert_eq!(path(&pair, a, 2).error_count, 6);
    let told = [changed(1, PathState::PotentiallyFailed), changed(1, PathState::Inactive)];
    assert_eq!(pair.a.heard(), told.iter().collect::<Vec<_>>());
    pair.ladder.clear();
    pair.drive(Duration::from_secs(300));
    assert!(pair.take_ladder().matches("A -2> HEARTBEAT /lost/").count() > 4);
    assert_eq!(path(&pair, a, 2).error_count, 6);
    pair.restore(2);
    pair.drive(Duration::from_secs(60));
    assert_eq!(pair.a.heard().last(), Some(&&changed(1, PathState::Active)));
    let back = path(&pair, a, 2);
    assert_eq!((back.state, back.error_count), (PathState::Active, 0));
    assert!(back.srtt.is_some_and(|srtt| srtt.as_millis() == 20));
}

#[test]
fn without_multipath_one_alternate_carries_everything_when_the_primary_fails() {
    // Without a probe all that has timed out fits the window of one path.
    let loss_recovery = LossRecovery::Rfc9260;
    let single = |side| Config { multipath: false, loss_recovery, ..config(side) };
    let (mut pair, a, _) = Pair::established_with(3, single(Side::A), single(Side::Z));
    pair.cut(1);
    pair.send(Side::A, a, 0, &vec![1; 500_000]);
    pair.drive(Duration::from_secs(30));
    assert_eq!(pair.z.received.len(), 1);
    let ladder = pair.take_ladder();
    let [second, third] = ["A -2> DATA", "A -3> DATA"].map(|line| ladder.contains(line));
    assert!(second != third, "{second} {third}");
}

#[test]
fn chunks_fit_the_narrowest_path_so_that_any_path_can_repeat_them() {
    let mut pair = Pair::new(2);
    pair.record = true;
    for (side, node) in [(Side::A, &mut pair.a), (Side::Z, &mut pair.z)] {
        node.endpoint = endpoint(side, 1, config(side), 5);
        let addr = address(side, 2);
        let narrow = LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1300 };
        node.endpoint.add_local_address(narrow);
    }
    let a = pair.connect();
    pair.drive(millis(200));
    assert_eq!(path(&pair, a, 2).mtu, 1300);
    pair.recorded.clear();
    pair.send(Side::A, a, 0, &vec![1; 300_000]);
    pair.drive(Duration::from_secs(2));
    assert_eq!(pair.z.received.len(), 1);
    let mut wide = 0;
    for (_, addr, bytes) in &pair.recorded {
        for chunk in Packet::parse(bytes).unwrap().chunks() {
            if let Ok(Chunk::Data(data)) = chunk {
                assert!(data.payload.len() <= 1300 - 28 - 12 - 16, "{}", data.payload.len());
                wide += usize::from(addr.remote == address(Side::Z, 1));
            }
        }
    }
    assert!(wide > 20);
}

#[test]
fn sending_on_a_failed_path_changes_neither_its_state_nor_its_errors() {
    let (mut pair, a, _) = Pair::established(1);
    pair.cut(1);
    pair.send(Side::A, a, 0, &[1; 1000]);
    let mut seen = Vec::new();
    for errors in 1..=8 {
        let counted = |pair: &Pair| path(pair, a, 1).error_count >= errors.min(6);
        assert!(pair.drive_until(Duration::from_secs(120), counted));
        pair.ladder.clear();
        let before = path(&pair, a, 1);
        let sent = |pair: &Pair| pair.ladder.iter().any(|line| line.contains("DATA"));
        assert!(pair.drive_until(Duration::from_secs(120), sent), "data goes on to be sent");
        let after = path(&pair, a, 1);
        assert!(after.error_count >= before.error_count && after.state != PathState::Active);
        seen.push(after.state);
    }
    assert!(seen.contains(&PathState::PotentiallyFailed) && seen.contains(&PathState::Inactive));
}

#[test]
fn a_failed_path_is_not_probed_where_heartbeats_are_off() {
    for (heartbeats, probed) in [(true, true), (false, false)] {
        let off = Config { heartbeats, ..config(Side::A) };
        let (mut pair, a, _) = Pair::established_with(2, off, config(Side::Z));
        pair.cut(1);
        pair.send(Side::A, a, 0, &vec![1; 300_000]);
        pair.drive(Duration::from_secs(5));
        assert_eq!(path(&pair, a, 1).state, PathState::PotentiallyFailed);
        assert_eq!(pair.take_ladder().contains("A -> HEARTBEAT /lost/"), probed);
        assert_eq!(pair.z.received.len(), 1);
    }
}

/// The host of one side is suspended: the other one waits as long as it is patient, and the association goes on at once
/// when it is back.
#[test]
fn an_association_outlasts_the_suspension_of_a_host() {
    let patient = |side| Config {
        data_patience: Duration::from_secs(924),
        idle_patience: Duration::from_secs(7875),
        ..config(side)
    };
    let (mut pair, a, z) = Pair::established_with(2, patient(Side::A), patient(Side::Z));
    let minutes = |count: u64| Duration::from_secs(60 * count);
    pair.cut(1);
    pair.cut(2);
    pair.drive(minutes(100));
    assert_eq!(pair.z.endpoint.associations(), [z], "nothing is under way");
    pair.restore_all();
    pair.a.endpoint.resume(pair.now, a);
    pair.drive(minutes(2));

    pair.cut(1);
    pair.cut(2);
    pair.send(Side::Z, z, 0, b"while it sleeps");
    pair.send(Side::A, a, 0, b"before it sleeps");
    pair.drive(minutes(14));
    assert_eq!(
        (pair.a.endpoint.associations(), pair.z.endpoint.associations()),
        (vec![a], vec![z])
    );
    pair.restore_all();
    pair.a.endpoint.resume(pair.now, a);
    assert_eq!((path(&pair, a, 1).error_count, path(&pair, a, 2).error_count), (0, 0));
    pair.drive(millis(500));
    assert_eq!(pair.z.received, [(0, "before it sleeps".into())]);
    pair.drive(Duration::from_secs(3));
    assert_eq!(pair.a.received, [(0, "while it sleeps".into())]);

    pair.cut(1);
    pair.cut(2);
    pair.send(Side::Z, z, 0, b"nobody is there any more");
    pair.drive(minutes(14));
    assert_eq!(pair.z.endpoint.associations(), [z]);
    pair.drive(minutes(4));
    assert!(pair.z.endpoint.associations().is_empty(), "no longer than TCP");
}
