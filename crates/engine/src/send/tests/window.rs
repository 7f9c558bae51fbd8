//! The peer's window, its probing, and the limits of the send buffer.

use super::{Bench, FULL, SackView, Sender, classic, experiment};
use crate::config::{Config, WindowProbing};
use crate::path::PathId;
use crate::send::outstanding::SentChunk;
use crate::send::queue::{Fragment, Number};
use crate::send::reliability::Terms;
use crate::send::{Outgoing, SendError};
use crate::time::Duration;
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::{Ppid, Ssn, StreamId, Tsn};

const A: PathId = PathId(0);

/// Three paths, path 0 the fastest, window closed, one chunk waiting.
fn closed() -> Bench {
    let mut bench = Bench::opened(3);
    bench.paths.get_mut(A).unwrap().rtt_mut().on_sample(bench.now, Duration::from_millis(20));
    bench.push(0, 1);
    bench.a_rwnd = 0;
    bench.sack(1, &[], 0);
    bench.queue(2);
    bench
}

fn send_everywhere(bench: &mut Bench) -> Vec<u64> {
    (0..3).flat_map(|id| bench.send_all(id)).collect()
}

#[test]
fn nothing_new_leaves_beyond_the_peers_window() {
    let mut bench = Bench::opened(1);
    bench.a_rwnd = 3 * FULL as u32 + 10;
    bench.push(0, 1);
    bench.sack(1, &[], 0);
    bench.queue(9);
    assert_eq!(bench.send_all(0), [2, 3, 4]);
    assert_eq!(bench.sender.outstanding().window().rwnd(), 10);
    bench.a_rwnd = FULL as u32;
    bench.sack(3, &[], 0);
    assert_eq!(bench.send_all(0), Vec::<u64>::new());
    bench.sack(4, &[], 0);
    assert_eq!(bench.send_all(0), [5]);
}

#[test]
fn a_slow_path_is_left_out_when_the_peers_window_is_nearly_used_up() {
    let mut bench = Bench::opened(2);
    let slow = Duration::from_secs(2);
    bench.paths.get_mut(PathId(1)).unwrap().rtt_mut().on_sample(bench.now, slow);
    bench.queue(400);
    assert_eq!(bench.send(1), [1]);
    bench.a_rwnd = 20 * FULL as u32;
    bench.sack(1, &[], 1);
    assert_eq!(bench.send(1), Vec::<u64>::new());
    assert_eq!(bench.send(0), [2]);
}

#[test]
fn retransmissions_do_not_wait_for_the_peers_window() {
    let mut bench = Bench::opened(1);
    bench.push(0, 5);
    bench.pass(100);
    bench.a_rwnd = 0;
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 0);
    }
    assert_eq!(bench.send(0), [1]);
}

#[test]
fn one_probe_for_the_association_after_one_rto() {
    let mut bench = closed();
    assert_eq!(send_everywhere(&mut bench), Vec::<u64>::new());
    let due = bench.sender.deadline(&bench.paths).unwrap();
    assert_eq!(due, bench.now + bench.path(0).rtt().rto());
    bench.now = due;
    assert_eq!(send_everywhere(&mut bench), [2]);
    assert_eq!(bench.path(0).in_flight(), 1460, "the probe goes over the fastest path");
    assert_eq!(bench.sender.deadline(&bench.paths), None);
}

#[test]
fn immediate_probing_keeps_one_chunk_in_flight_whatever_the_window_is() {
    let window_probing = WindowProbing::Immediate;
    let mut bench = Bench::opened_with(1, &experiment(|it| it.window_probing = window_probing));
    bench.push(0, 1);
    bench.a_rwnd = 0;
    bench.sack(1, &[], 0);
    bench.queue(2);
    assert_eq!(bench.send_all(0), [2]);
    let rto = bench.path(0).rtt().rto();
    assert_eq!(bench.path(0).flight().t3(), Some(bench.now + rto));
    bench.now = bench.now + rto;
    assert!(!bench.sender.handle_t3(A, &mut bench.paths), "nobody has answered");
    assert_eq!(bench.send(0), [2]);
    assert_eq!(bench.path(0).flight().t3(), Some(bench.now + rto * 2), "the pause is doubled once");
    bench.a_rwnd = 100_000;
    bench.sack(1, &[], 0);
    assert!(bench.send_all(0).is_empty(), "the probe is left to its timer");
}

#[test]
fn a_probe_that_pacing_holds_back_does_not_ask_to_be_sent_now() {
    let mut bench = closed();
    let path = bench.paths.get_mut(A).unwrap();
    path.pace_slowly(bench.now);
    let due = path.pacer().deadline();
    assert!(due > Some(bench.now + path.rtt().rto()));
    assert_eq!(bench.sender.deadline(&bench.paths), due);
}

#[test]
fn answered_probes_are_no_errors_and_become_rarer() {
    let mut bench = closed();
    let rto = bench.path(0).rtt().rto();
    bench.now = bench.sender.deadline(&bench.paths).unwrap();
    assert_eq!(bench.send(0), [2]);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        bench.pass(20);
        bench.sack(1, &[], 0);
        let expiry = bench.path(0).flight().t3().unwrap();
        let sent = bench.now;
        bench.now = expiry;
        assert!(bench.sender.handle_t3(A, &mut bench.paths));
        assert_eq!(bench.send(0), [2]);
        pauses.push(expiry.since(sent) + Duration::from_millis(20));
    }
    assert_eq!(pauses[..3], [rto * 2, rto * 4, rto * 8]);
    assert_eq!(pauses.last(), Some(&Duration::from_secs(60)));
    // Only the idle time has told on the window.
    assert_eq!((bench.cwnd(0), bench.path(0).rtt().rto()), (4 * (FULL + 16), rto));
    assert_eq!(bench.path(0).stats().timeouts, 0);
}

#[test]
fn a_probe_without_any_answer_is_a_timeout() {
    let mut bench = closed();
    bench.now = bench.sender.deadline(&bench.paths).unwrap();
    assert_eq!(bench.send(0), [2]);
    bench.now = bench.path(0).flight().t3().unwrap();
    assert!(!bench.sender.handle_t3(A, &mut bench.paths));
    assert_eq!(send_everywhere(&mut bench), [2]);
}

#[test]
fn when_the_window_opens_the_probe_is_repeated_at_once() {
    let mut bench = closed();
    bench.now = bench.sender.deadline(&bench.paths).unwrap();
    assert_eq!(bench.send(0), [2]);
    bench.pass(20);
    bench.sack(1, &[], 0);
    assert_eq!(send_everywhere(&mut bench), Vec::<u64>::new());
    bench.a_rwnd = 1 << 20;
    bench.sack(1, &[], 0);
    assert_eq!(bench.send(0), [2]);
    assert_eq!(bench.send_all(0), [3]);
    bench.sack(3, &[], 0);
    assert!(bench.sender.is_drained());
}

#[test]
fn an_accepted_probe_is_followed_by_the_next_after_a_longer_pause() {
    let mut bench = closed();
    bench.now = bench.sender.deadline(&bench.paths).unwrap();
    let sent = bench.now;
    assert_eq!(bench.send(0), [2]);
    bench.pass(20);
    bench.sack(2, &[], 0);
    let rto = bench.path(0).rtt().rto();
    assert_eq!(bench.sender.deadline(&bench.paths), Some(sent + rto * 2));
}

#[test]
fn the_send_buffer_bounds_what_is_accepted() {
    let config = Config { send_buffer: 10_000, ..classic() };
    let mut bench = Bench::new(1, &config);
    assert_eq!(bench.sender.space(), 10_000);
    bench.queue_bytes(9000);
    assert_eq!(bench.sender.space(), 1000);
    let message = |stream, len| Outgoing {
        stream: StreamId(stream),
        ppid: Ppid(0),
        unordered: false,
        payload: Bytes::from(alloc::vec![0; len]),
    };
    assert_eq!(bench.enqueue(message(0, 1001)), Err(SendError::BufferFull));
    assert_eq!(bench.enqueue(message(10, 1)), Err(SendError::InvalidStream));
    assert_eq!(bench.enqueue(message(0, 0)), Err(SendError::Empty));
    let sent = bench.send_all(0);
    assert_eq!((bench.sender.queue().bytes(), bench.sender.unacked()), (9000 - 4 * FULL, 4 * FULL));
    bench.sack(*sent.last().unwrap(), &[], 0);
    assert_eq!(bench.sender.space(), 1000 + 4 * FULL);
}

#[test]
fn tiny_messages_are_bounded_by_their_number() {
    let config = Config { send_buffer: 6400, ..classic() };
    let mut bench = Bench::new(1, &config);
    (0..100).for_each(|_| bench.queue_bytes(1));
    assert_eq!(bench.sender.space(), 0);
    bench.send_all(0);
    assert_eq!(bench.sender.space(), 0);
    bench.sack(50, &[], 0);
    assert_eq!(bench.sender.space(), 6350);
}

#[test]
fn nothing_is_sent_beyond_what_gap_ack_blocks_can_report() {
    let mut bench = Bench::opened(1);
    let fragment = Fragment {
        terms: Terms::Reliable,
        stream: StreamId(0),
        number: Number::Ssn(Ssn(0)),
        ppid: Ppid(0),
        unordered: true,
        begin: true,
        end: true,
        prompt: false,
        payload: Bytes::from_static(b"x"),
    };
    bench.queue(1);
    for _ in 1..u16::MAX {
        bench.sender.outstanding.push(SentChunk::new(fragment.clone(), A, bench.now));
    }
    assert!(bench.sender.has_data_for(bench.now, A, &bench.paths));
    bench.sender.outstanding.push(SentChunk::new(fragment, A, bench.now));
    assert!(!bench.sender.has_data_for(bench.now, A, &bench.paths));
}

#[test]
fn tsns_wrap_to_zero() {
    let config = classic();
    let mut bench = Bench::new(1, &config);
    bench.sender = Sender::new(&config, Tsn(u32::MAX - 1), 1 << 20, 10);
    bench.queue(4);
    let wrapped = [u32::MAX - 1, u32::MAX, 0, 1].map(u64::from);
    assert_eq!(bench.send_all(0), wrapped);
    let view = SackView::of_shutdown(Tsn(0));
    bench.sender.handle_sack(bench.now, &view, A, &mut bench.paths).unwrap();
    bench.check();
    assert_eq!(bench.path(0).in_flight(), 1460, "all but TSN 1 are acknowledged");
}

#[test]
fn small_messages_are_bundled_and_large_ones_cut() {
    let mut bench = Bench::new(1, &experiment(|it| it.fill_packets = false));
    (0..3).for_each(|_| bench.queue_bytes(100));
    bench.queue_bytes(FULL + 1);
    assert_eq!(bench.send(0), [1, 2, 3]);
    assert_eq!(bench.send(0), [4]);
    assert_eq!(bench.send(0), [5]);
}

#[test]
fn a_message_of_several_packets_begins_in_what_is_left_of_one() {
    let mut bench = Bench::new(1, &classic());
    bench.queue_bytes(2 * FULL - 100);
    bench.queue_bytes(2 * FULL);
    let packets: Vec<_> = (0..5).map(|_| bench.send(0)).collect();
    assert_eq!(packets, [&[1][..], &[2, 3], &[4], &[5], &[]]);
    let len = |tsn| bench.sender.outstanding.get(Tsn64::initial(Tsn(tsn))).unwrap().data_len();
    let lengths: Vec<_> = (1..=5).map(len).collect();
    assert_eq!(lengths, [FULL, FULL - 100, 84, FULL, FULL - 84], "16 bytes are the header");
    bench.check();
}

#[test]
fn a_message_that_fits_a_packet_is_not_cut_to_fill_one() {
    let mut bench = Bench::new(1, &classic());
    bench.queue_bytes(FULL - 100);
    bench.queue_bytes(FULL);
    assert_eq!(bench.send(0), [1]);
    assert_eq!(bench.send(0), [2]);
}

#[test]
fn streams_that_the_peer_refuses_lose_what_waits_on_them() {
    let mut bench = Bench::new(1, &classic());
    bench.queue(2);
    let message = Outgoing {
        stream: StreamId(9),
        ppid: Ppid(0),
        unordered: true,
        payload: Bytes::from_static(b"x"),
    };
    bench.enqueue(message).unwrap();
    assert_eq!(bench.sender.set_peer(5000, 9, false), 1);
    assert_eq!(
        (bench.sender.queue().bytes(), bench.sender.outstanding().window().rwnd()),
        (2 * FULL, 5000)
    );
    bench.check();
}
