//! ECN: agreed on in the handshake, marks told by ECNE until a CWR answers them, paths that do not bear it
//! (RFC 3168 section 6.1; RFC 4960 appendix A).

use crate::craft::packet;
use crate::pair::{Bits, Pair, Side, config, endpoint, millis};
use manypath_engine::{
    AssociationId, Config, CongestionControl, Duration, Ecn, EcnState, EcnUse, PathStatus,
};
use manypath_wire::chunk::{Chunk, Cwr, Ecne};
use manypath_wire::packet::Packet;
use manypath_wire::{Parameter, Tsn};

/// With the congestion control that halves windows.
fn capable(side: Side) -> Config {
    let congestion = CongestionControl::Rfc9260;
    Config { ecn: EcnUse::On, immediate_sacks: false, congestion, ..config(side) }
}

/// An association that uses ECN, after it has sent enough to have a window of many packets.
fn established(paths: u8) -> (Pair, AssociationId, AssociationId) {
    let (mut pair, a, z) = Pair::established_with(paths, capable(Side::A), capable(Side::Z));
    pair.send(Side::A, a, 0, &[0; 100_000]);
    // Less than an RTO: an idle window would decay.
    pair.drive(millis(150));
    pair.ladder.clear();
    pair.runs.clear();
    (pair, a, z)
}

fn path(pair: &Pair, side: Side, id: AssociationId, number: usize) -> PathStatus {
    let node = if side == Side::A { &pair.a } else { &pair.z };
    node.endpoint.status(pair.now, id).unwrap().paths[number].clone()
}

#[test]
fn a_mark_is_told_with_the_next_sack_until_it_is_answered() {
    let (mut pair, a, z) = established(1);
    let window = path(&pair, Side::A, a, 0).cwnd;
    pair.mark(Side::A, "DATA", 1);
    pair.send(Side::A, a, 0, b"one");
    pair.drive(millis(100));
    pair.expect(
        "A -> DATA -> Z /CE/
         A <- ECNE SACK <- Z
         A -> CWR -> Z",
    );
    let told = path(&pair, Side::A, a, 0);
    assert_eq!((told.ecne_received, told.ecn_reductions, told.ecn), (1, 1, EcnState::On));
    assert_eq!(told.cwnd, window / 2);
    assert_eq!(told.ssthresh, told.cwnd);
    assert_eq!(path(&pair, Side::Z, z, 0).ce_received, 1);
    pair.send(Side::A, a, 0, b"two");
    pair.drive(millis(100));
    pair.expect(
        "A -> DATA -> Z
         A <- SACK <- Z",
    );
}

#[test]
fn a_lost_cwr_is_asked_for_again_and_the_window_cut_once() {
    let (mut pair, a, _) = established(1);
    pair.mark(Side::A, "DATA", 1);
    pair.lose(Side::A, "CWR", 1);
    pair.send(Side::A, a, 0, b"one");
    pair.drive(millis(100));
    pair.send(Side::A, a, 0, b"two");
    pair.drive(millis(100));
    pair.expect(
        "A -> DATA -> Z /CE/
         A <- ECNE SACK <- Z
         A -> CWR /lost/ -> Z
         A -> DATA -> Z
         A <- ECNE SACK <- Z
         A -> CWR -> Z",
    );
    let told = path(&pair, Side::A, a, 0);
    assert_eq!((told.ecne_received, told.ecn_reductions), (2, 1));
}

#[test]
fn a_lost_ecne_comes_again_with_the_next_sack() {
    let (mut pair, a, _) = established(1);
    pair.mark(Side::A, "DATA", 1);
    pair.lose(Side::Z, "ECNE", 1);
    pair.send(Side::A, a, 0, b"one");
    pair.drive(millis(15));
    pair.send(Side::A, a, 0, b"two");
    pair.drive(millis(100));
    assert!(pair.take_ladder().ends_with("A <- ECNE SACK <- Z\nA -> CWR -> Z"));
    assert_eq!(path(&pair, Side::A, a, 0).ecn_reductions, 1);
}

#[test]
fn many_marks_in_one_window_cut_it_once() {
    for congestion in CongestionControl::ALL {
        let with = |side| Config { congestion: *congestion, hystart: false, ..capable(side) };
        let (mut pair, a, _) = Pair::established_with(1, with(Side::A), with(Side::Z));
        pair.quiet = true;
        pair.send(Side::A, a, 0, &[0; 400_000]);
        pair.drive(millis(65));
        let before = path(&pair, Side::A, a, 0);
        pair.mark(Side::A, "DATA", before.cwnd as usize / 1472 / 2);
        pair.drive(millis(60));
        let after = path(&pair, Side::A, a, 0);
        assert_eq!(after.ecn_reductions, 1, "{congestion}");
        assert_eq!((after.fast_retransmits, after.timeouts), (0, 0), "{congestion}");
        assert!(after.ecne_received >= 1 && after.cwnd < before.cwnd * 2, "{congestion}");
        pair.drive(Duration::from_secs(2));
        assert_eq!(pair.z.received.len(), 1);
    }
}

#[test]
fn a_loss_and_a_mark_in_one_window_cut_it_once() {
    let (mut pair, a, _) = established(1);
    let before = path(&pair, Side::A, a, 0).cwnd;
    pair.lose(Side::A, "DATA", 1);
    pair.mark(Side::A, "DATA", 3);
    pair.send(Side::A, a, 0, &[0; 30_000]);
    pair.drive(millis(25));
    let after = path(&pair, Side::A, a, 0);
    assert!(after.ecne_received > 0);
    assert_eq!(after.cwnd, before / 2);
    pair.drive(millis(500));
    assert_eq!(path(&pair, Side::A, a, 0).fast_retransmits, 1);
}

#[test]
fn each_path_answers_its_own_marks() {
    let (mut pair, a, _) = established(2);
    pair.quiet = true;
    pair.send(Side::A, a, 0, &[0; 200_000]);
    pair.drive(millis(5));
    pair.mark(Side::A, "DATA", 1);
    let before = [0, 1].map(|number| path(&pair, Side::A, a, number).ecn_reductions);
    pair.drive(Duration::from_secs(1));
    let after = [0, 1].map(|number| path(&pair, Side::A, a, number).ecn_reductions);
    assert_eq!(after.iter().sum::<u64>() - before.iter().sum::<u64>(), 1);
    assert_eq!(pair.a.endpoint.counters().strange_ecnes, 0);
}

#[test]
fn only_packets_of_new_data_are_ecn_capable() {
    let (mut pair, a, z) = established(1);
    pair.record = true;
    pair.runs.clear();
    pair.recorded.clear();
    for _ in 0..5 {
        pair.lose(Side::A, "DATA", 1);
        pair.send(Side::A, a, 0, &[0; 50_000]);
        pair.send(Side::Z, z, 0, &[0; 3000]);
        pair.drive(millis(300));
    }
    let mut packets = pair.recorded.iter();
    let (mut capable, mut repeated) = (0, 0);
    let mut highest = [Tsn(0); 2];
    for run in &pair.runs {
        for _ in 0..run.packets {
            let (from, _, bytes) = packets.next().unwrap();
            let chunks = Packet::parse(bytes).unwrap().chunks().map(Result::unwrap);
            let tsns: Vec<_> = chunks
                .filter_map(
                    |chunk| if let Chunk::Data(data) = chunk { Some(data.tsn) } else { None },
                )
                .collect();
            let last = &mut highest[*from as usize];
            let fresh = !tsns.is_empty()
                && tsns.iter().all(|tsn| {
                    *last == Tsn(0) || tsn.0.wrapping_sub(last.0) < 1 << 31 && tsn != last
                });
            if fresh {
                *last = *tsns.last().unwrap();
                capable += 1;
            } else {
                repeated += usize::from(!tsns.is_empty());
            }
            let wanted = if fresh { Ecn::Ect0 } else { Ecn::NotEct };
            assert_eq!(run.ecn, wanted, "{tsns:?}");
        }
    }
    assert!(packets.next().is_none() && capable > 100 && repeated >= 5, "{capable} {repeated}");
}

#[test]
fn the_probe_of_a_closed_window_is_not_ecn_capable() {
    let z = Config { receive_buffer: 5000, ..capable(Side::Z) };
    let (mut pair, a, _) = Pair::established_with(1, capable(Side::A), z);
    pair.z.reads = false;
    pair.send(Side::A, a, 0, &[0; 4000]);
    pair.send(Side::A, a, 0, &[0; 1400]);
    pair.drive(millis(100));
    pair.runs.clear();
    pair.drive(Duration::from_secs(3));
    let probes: Vec<_> = pair.runs.iter().filter(|run| run.segment_size > 1000).collect();
    assert!(!probes.is_empty() && probes.iter().all(|run| run.ecn == Ecn::NotEct), "{probes:?}");
}

#[test]
fn nothing_of_the_handshake_is_ecn_capable() {
    let mut pair = Pair::with(1, capable(Side::A), capable(Side::Z));
    let a = pair.connect();
    pair.send(Side::A, a, 0, b"early");
    pair.drive(millis(25));
    pair.expect(
        "A -> INIT -> Z
         A <- INIT_ACK <- Z
         A -> COOKIE_ECHO DATA -> Z",
    );
    assert!(pair.runs.iter().all(|run| run.ecn == Ecn::NotEct));
}

#[test]
fn without_ecn_on_both_sides_there_is_none() {
    let (on, off) = (EcnUse::On, EcnUse::Off);
    for (one, other) in [(off, on), (on, off), (off, off)] {
        let a = Config { ecn: one, ..config(Side::A) };
        let z = Config { ecn: other, ..config(Side::Z) };
        let mut pair = Pair::with(1, a, z);
        pair.record = true;
        let a = pair.connect();
        pair.drive(millis(100));
        let says = |at: usize| {
            let packet = Packet::parse(&pair.recorded[at].2).unwrap();
            let parameters = match packet.chunks().next().unwrap().unwrap() {
                Chunk::Init(init) => init.parameters,
                Chunk::InitAck(ack) => ack.parameters,
                other => panic!("{other}"),
            };
            parameters.iter().any(|parameter| parameter == Ok(Parameter::EcnCapable))
        };
        assert_eq!((says(0), says(1)), (one == on, false), "the answer is no offer");
        pair.bits = Bits::Marked;
        pair.send(Side::A, a, 0, &[0; 50_000]);
        pair.drive(Duration::from_secs(1));
        assert!(pair.runs.iter().all(|run| run.ecn == Ecn::NotEct));
        assert_eq!(path(&pair, Side::A, a, 0).ecn, EcnState::Off);
    }
}

#[test]
fn where_it_is_not_sure_that_the_peer_sees_the_bits_marks_are_told_but_not_asked_for() {
    for (own, peers, sends) in
        [(Some(7), Some(7), true), (Some(7), Some(8), false), (None, None, false)]
    {
        let with = |side, adaptation| {
            let ecn = if side == Side::A { EcnUse::WhereSeen } else { EcnUse::On };
            Config { ecn, adaptation, ..config(side) }
        };
        let (mut pair, a, z) = Pair::established_with(1, with(Side::A, own), with(Side::Z, peers));
        pair.runs.clear();
        pair.send(Side::A, a, 0, &[0; 5000]);
        pair.drive(millis(100));
        assert_eq!(pair.runs.iter().any(|run| run.ecn == Ecn::Ect0), sends, "{own:?} {peers:?}");
        pair.mark(Side::Z, "DATA", 1);
        pair.ladder.clear();
        pair.send(Side::Z, z, 0, b"marked");
        pair.drive(millis(100));
        pair.expect(
            "A <- DATA <- Z /CE/
             A -> ECNE SACK -> Z
             A <- CWR <- Z",
        );
    }
}

#[test]
fn a_path_that_drops_ecn_capable_packets_gets_others() {
    let (mut pair, a, _) = Pair::established_with(1, capable(Side::A), capable(Side::Z));
    pair.bits = Bits::Dropped;
    let start = pair.now;
    pair.send(Side::A, a, 0, &[7; 100_000]);
    assert!(pair.drive_until(Duration::from_secs(3), |pair| !pair.z.received.is_empty()));
    assert!(pair.now.since(start) < millis(700), "{:?}", pair.now.since(start));
    assert_eq!(path(&pair, Side::A, a, 0).ecn, EcnState::BlackHole);
    assert_eq!(pair.a.endpoint.counters().ecn_failures, 1);
    pair.runs.clear();
    pair.send(Side::A, a, 0, b"later");
    pair.drive(millis(100));
    assert!(pair.runs.iter().all(|run| run.ecn == Ecn::NotEct));
}

#[test]
fn a_path_that_begins_to_drop_them_is_found_too() {
    let (mut pair, a, _) = established(1);
    pair.bits = Bits::Dropped;
    pair.send(Side::A, a, 0, &[7; 100_000]);
    assert!(pair.drive_until(Duration::from_secs(5), |pair| pair.z.received.len() == 2));
    assert_eq!(path(&pair, Side::A, a, 0).ecn, EcnState::BlackHole);
}

#[test]
fn one_path_without_ecn_leaves_the_other_with_it() {
    let (mut pair, a, _) = established(2);
    pair.quiet = true;
    pair.send(Side::A, a, 0, &[7; 300_000]);
    pair.drive(Duration::from_secs(2));
    let states = [0, 1].map(|number| path(&pair, Side::A, a, number).ecn);
    assert_eq!(states, [EcnState::On; 2]);
}

#[test]
fn a_path_that_clears_the_bits_does_no_harm() {
    let (mut pair, a, z) = established(1);
    pair.bits = Bits::Cleared;
    pair.mark(Side::A, "DATA", 1000);
    pair.send(Side::A, a, 0, &[7; 100_000]);
    pair.drive(Duration::from_secs(1));
    assert_eq!(pair.z.received.len(), 2);
    let told = path(&pair, Side::A, a, 0);
    assert_eq!((told.ecn, told.ecn_reductions), (EcnState::On, 0));
    assert_eq!(path(&pair, Side::Z, z, 0).ce_received, 0);
}

#[test]
fn a_path_that_marks_everything_is_used_without_ecn() {
    let (mut pair, a, _) = Pair::established_with(1, capable(Side::A), capable(Side::Z));
    pair.quiet = true;
    pair.bits = Bits::Marked;
    pair.send(Side::A, a, 0, &[7; 400_000]);
    assert!(pair.drive_until(Duration::from_secs(5), |pair| !pair.z.received.is_empty()));
    assert_eq!(path(&pair, Side::A, a, 0).ecn, EcnState::AlwaysMarked);
    assert_eq!(pair.a.endpoint.counters().ecn_failures, 1);
    let before = path(&pair, Side::A, a, 0);
    pair.send(Side::A, a, 0, &[7; 400_000]);
    pair.drive(Duration::from_secs(2));
    let after = path(&pair, Side::A, a, 0);
    assert_eq!(before.ecn_reductions, after.ecn_reductions);
    assert!(before.cwnd > 10 * 1460, "the window grows again");
}

#[test]
fn ecnes_about_what_was_never_sent_change_nothing() {
    let (mut pair, a, z) = established(1);
    let tag = pair.tag_of(Side::A);
    let sent = pair.z.endpoint.status(pair.now, z).unwrap().cum_tsn.unwrap();
    let ecne = Ecne { lowest_tsn: Tsn(sent.0.wrapping_add(1)), packets: Some(u32::MAX) };
    pair.inject(Side::Z, 1, &packet(Side::Z, tag, &[Chunk::Ecne(ecne)]));
    pair.drive(millis(100));
    assert_eq!(path(&pair, Side::A, a, 0).ecn_reductions, 0);
    assert_eq!(pair.a.endpoint.counters().strange_ecnes, 1);
    pair.expect("A <- ECNE <- Z");
}

#[test]
fn a_cwr_for_nothing_has_no_answer() {
    let (mut pair, _, _) = established(1);
    let tag = pair.tag_of(Side::Z);
    let cwr = Cwr { lowest_tsn: Tsn(7), all_paths: true };
    pair.inject(Side::A, 1, &packet(Side::A, tag, &[Chunk::Cwr(cwr)]));
    pair.drive(millis(100));
    pair.expect("A -> CWR -> Z");
}

#[test]
fn a_message_after_a_restart_is_ecn_capable_again() {
    let (mut pair, _, _) = established(1);
    pair.a.endpoint = endpoint(Side::A, 1, capable(Side::A), 9);
    let a = pair.connect();
    pair.drive(millis(500));
    pair.runs.clear();
    pair.send(Side::A, a, 0, b"anew");
    pair.drive(millis(100));
    assert!(pair.runs.iter().any(|run| run.ecn == Ecn::Ect0));
}

#[test]
fn ecn_goes_on_after_the_peer_has_restarted() {
    let (mut pair, _, z) = established(1);
    pair.a.endpoint = endpoint(Side::A, 1, capable(Side::A), 9);
    let a = pair.connect();
    pair.drive(millis(500));
    pair.runs.clear();
    pair.send(Side::Z, z, 0, b"welcome back");
    pair.drive(millis(100));
    assert!(pair.runs.iter().any(|run| run.ecn == Ecn::Ect0), "{:?}", pair.runs);
    pair.mark(Side::A, "DATA", 1);
    pair.send(Side::A, a, 0, b"thank you");
    pair.drive(millis(100));
    assert_eq!(path(&pair, Side::A, a, 0).ecn_reductions, 1);
}
