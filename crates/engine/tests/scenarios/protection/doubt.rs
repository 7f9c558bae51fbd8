//! A peer that has lost the association, and others that say so of one that has not.

use super::Protected;
use crate::craft::{cookie_echo, init, packet};
use crate::pair::{Side, address, config, endpoint, millis};
use manypath_engine::{CloseReason, Duration, Event, LocalAddress};
use manypath_wire::cause::Causes;
use manypath_wire::chunk::{Abort, Chunk};

const LOST: Event = Event::Closed(CloseReason::PeerAborted(None));

fn abort(tag_reflected: bool) -> Chunk<'static> {
    Chunk::Abort(Abort { tag_reflected, causes: Causes::EMPTY })
}

impl Protected {
    /// The peer of Z has lost everything, as by a reboot.
    fn forget(&mut self) {
        self.pair.a.endpoint = endpoint(Side::A, 2, config(Side::A), 99);
    }

    /// The tag of packets to A, of which there is one on record.
    pub(super) fn tag_of_peer(&self) -> u32 {
        let sent = self.pair.recorded.iter().rev().find(|(from, ..)| *from == Side::Z);
        u32::from_be_bytes(sent.unwrap().2[4..8].try_into().unwrap())
    }

    fn is_lost(&self) -> bool {
        self.pair.z.heard().contains(&&LOST)
    }
}

#[test]
fn a_peer_that_has_rebooted_and_says_so_is_given_up_soon() {
    let mut it = Protected::new(2);
    it.forget();
    it.pair.send(Side::Z, it.z, 0, b"to nobody");
    it.pair.drive(Duration::from_secs(4));
    assert_eq!(it.counter("doubted_peers"), 1);
    assert!(it.is_lost(), "{:#?}", it.pair.ladder);
}

#[test]
fn what_follows_a_pause_is_answered_by_a_host_that_has_rebooted() {
    let mut it = Protected::new(2);
    for pause in [0, 2_000] {
        it.pair.send(Side::Z, it.z, 0, &[7; 20_000]);
        it.pair.drive(millis(500 + pause));
    }
    it.forget();
    it.pair.send(Side::Z, it.z, 0, b"to nobody");
    it.pair.drive(millis(60));
    assert_eq!(it.counter("doubted_peers"), 1, "not only after a timeout");
}

#[test]
fn a_reboot_that_takes_long_does_not_make_the_proof_take_long() {
    let mut it = Protected::new(2);
    it.pair.cut(1);
    it.pair.cut(2);
    it.pair.send(Side::Z, it.z, 0, b"to nobody");
    it.pair.drive(Duration::from_secs(8));
    it.forget();
    it.pair.restore_all();
    it.pair.inject(Side::A, 1, &packet(Side::A, it.tag_of_peer(), &[abort(true)]));
    it.pair.drive(Duration::from_secs(4));
    assert!(it.is_lost(), "{:#?}", it.pair.ladder);
}

/// Two paths, the second of which has come to take 0.3 s each way.
fn with_a_slow_path() -> Protected {
    let mut it = Protected::new(2);
    it.pair.links.get_mut(&2).unwrap().delay = millis(300);
    it.pair.drive(Duration::from_secs(120));
    it
}

#[test]
fn a_slow_path_does_not_make_the_proof_take_seven_times_as_long() {
    let mut it = with_a_slow_path();
    it.forget();
    let abort = packet(Side::A, it.tag_of_peer(), &[abort(true)]);
    it.pair.inject(Side::A, 1, &abort);
    it.pair.drive(millis(2_500));
    assert!(it.is_lost(), "{:#?}", it.pair.ladder);
}

#[test]
fn the_last_question_has_the_time_of_the_slowest_path() {
    let mut it = with_a_slow_path();
    let abort = packet(Side::A, it.tag_of_peer(), &[abort(true)]);
    it.pair.cut(1);
    it.pair.lose(Side::A, "DTLS", 2);
    it.pair.inject(Side::A, 2, &abort);
    it.pair.drive(Duration::from_secs(20));
    assert_eq!((it.counter("doubted_peers"), it.is_lost()), (1, false));
}

#[test]
fn a_peer_that_connects_again_is_served_when_the_old_association_is_given_up() {
    let mut it = Protected::new(2);
    it.forget();
    let again = it.pair.connect();
    it.pair.send(Side::A, again, 0, b"after the reboot");
    it.pair.drive(Duration::from_secs(8));
    assert!(it.is_lost());
    assert_eq!(it.pair.z.received, [(0, "after the reboot".into())], "{:#?}", it.pair.ladder);
}

#[test]
fn forged_aborts_and_cookies_end_nothing_as_long_as_the_peer_answers() {
    let mut it = Protected::new(2);
    let tag = it.tag();
    it.pair.drive(millis(2_000));
    let peer = it.tag_of_peer();
    let sent = it.pair.recorded.len();
    it.pair.inject(Side::A, 1, &init(77, &[]));
    it.pair.drive(millis(20));
    let acked = it.pair.recorded[sent..].iter().find(|(from, ..)| *from == Side::Z).unwrap();
    let echo = cookie_echo(&acked.2);
    let forged =
        [packet(Side::A, tag, &[abort(false)]), packet(Side::A, peer, &[abort(true)]), echo];
    for (doubts, bytes) in (1..).zip(&forged) {
        for _ in 0..100 {
            it.pair.inject(Side::A, 1, bytes);
        }
        it.pair.drive(millis(15));
        assert_eq!(it.counter("doubted_peers"), doubts, "once for many");
        it.pair.drive(Duration::from_secs(20));
    }
    it.pair.send(Side::A, it.a, 0, b"still there");
    it.pair.drive(millis(500));
    assert_eq!(it.pair.z.received.last(), Some(&(0, "still there".into())));
    assert!(!it.is_lost());
}

#[test]
fn an_answer_over_one_path_is_enough_and_two_may_be_lost() {
    let mut it = Protected::new(2);
    let tag = it.tag();
    it.pair.drive(millis(2_000));
    it.pair.cut(2);
    it.pair.lose(Side::A, "DTLS", 2);
    it.pair.inject(Side::A, 1, &packet(Side::A, tag, &[abort(false)]));
    it.pair.drive(Duration::from_secs(20));
    assert_eq!(it.counter("doubted_peers"), 1);
    assert!(!it.is_lost(), "{:#?}", it.pair.ladder);
}

#[test]
fn a_peer_that_cannot_be_asked_for_a_while_is_not_given_up() {
    let mut it = Protected::new(1);
    let tag = it.tag();
    it.pair.drive(millis(2_000));
    it.pair.inject(Side::A, 1, &packet(Side::A, tag, &[abort(false)]));
    it.pair.cut(1);
    it.pair.drive(millis(15));
    let (now, addr) = (it.pair.now, address(Side::Z, 1));
    it.pair.z.endpoint.suspend_local_address(now, addr.ip());
    it.pair.drive(Duration::from_secs(20));
    assert_eq!((it.counter("doubted_peers"), it.is_lost()), (1, false), "nobody was asked");
    it.pair.restore_all();
    let now = it.pair.now;
    let local = LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 };
    it.pair.z.endpoint.announce_local_address(now, local);
    it.pair.drive(Duration::from_secs(20));
    it.pair.send(Side::A, it.a, 0, b"still there");
    it.pair.drive(millis(500));
    assert_eq!(it.pair.z.received.last(), Some(&(0, "still there".into())));
}

#[test]
fn a_silence_of_a_second_does_not_end_an_association_whose_rto_is_short() {
    let mut it = Protected::new(1);
    let tag = it.tag();
    it.pair.drive(millis(2_000));
    it.pair.inject(Side::A, 1, &packet(Side::A, tag, &[abort(false)]));
    it.pair.cut(1);
    it.pair.drive(millis(1_000));
    assert_eq!((it.counter("doubted_peers"), it.is_lost()), (1, false));
    it.pair.drive(millis(3_000));
    assert!(it.is_lost(), "{:#?}", it.pair.ladder);
}
