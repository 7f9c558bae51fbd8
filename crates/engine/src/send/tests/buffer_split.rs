//! Who may put how much into the buffers of both sides.

use super::{Bench, FULL, classic, experiment};
use crate::config::{Config, CongestionControl, WindowProbing};
use crate::send::window::PeerWindow;

/// Two paths with wide windows and a send buffer of `send` full chunks.
fn bench(split: &str, send: usize) -> Bench {
    let buffer_split = split.parse().unwrap();
    let path_scheduling = crate::config::PathScheduling::SmallestSrtt;
    let loss_recovery = crate::config::LossRecovery::Repeat;
    let congestion = CongestionControl::Rfc9260;
    let config = experiment(|it| {
        (it.buffer_split, it.path_scheduling) = (buffer_split, path_scheduling);
    });
    let config = Config { loss_recovery, congestion, ..config };
    let mut bench = Bench::opened_with(2, &config);
    bench.sender.buffer.resize(send * FULL);
    bench
}

#[test]
fn a_path_takes_its_share_of_the_send_buffer_less_a_packet() {
    for (split, most) in [
        ("none", 20),
        ("sender-queued-equal", 9),
        ("both-queued-equal", 9),
        ("sender-outstanding-equal", 9),
        ("receiver-queued-equal", 20),
    ] {
        let mut bench = bench(split, 20);
        bench.queue(20);
        assert_eq!(bench.send_all(0).len(), most, "{split}");
        assert_eq!(bench.send_all(1).len(), (20 - most).min(most), "{split}");
    }
}

#[test]
fn a_path_takes_its_share_of_the_peers_window_and_a_packet() {
    for (split, most) in
        [("none", 20), ("receiver-queued-equal", 11), ("receiver-outstanding-equal", 10)]
    {
        let mut bench = bench(split, 100);
        *bench.sender.outstanding.window_mut() =
            PeerWindow::new(WindowProbing::Rfc9260, 20 * FULL as u32);
        bench.queue(40);
        assert_eq!(bench.send_all(0).len(), most, "{split}");
    }
}

#[test]
fn what_is_only_gap_acked_is_queued_but_not_outstanding() {
    for (split, more) in [("sender-queued-equal", 0), ("sender-outstanding-equal", 4)] {
        let mut bench = bench(split, 20);
        bench.queue(20);
        assert_eq!(bench.send_all(0).len(), 9, "{split}");
        bench.pass(100);
        bench.sack(0, &[(2, 5)], 0);
        assert_eq!(bench.send_all(0).len(), more, "{split}");
    }
}

#[test]
fn retransmissions_are_not_held_back_and_move_the_booking() {
    let mut bench = bench("both-queued-equal", 20);
    bench.queue(20);
    bench.send_all(0);
    bench.send_all(1);
    bench.pass(3000);
    bench.sender.handle_t3(crate::path::PathId(0), &mut bench.paths);
    let again = bench.send_all(1);
    assert_eq!(again.len(), 9);
    assert_eq!((bench.path(0).flight().booked(), bench.path(1).flight().booked()), (0, 18 * FULL));
    // Above its share now, the path takes nothing new.
    bench.sender.buffer.resize(30 * FULL);
    bench.queue(1);
    assert_eq!(bench.send(1), []);
}

#[test]
fn with_buffers_smaller_than_a_packet_each_path_still_sends() {
    let mut bench = bench("both-queued-equal", 1);
    bench.queue(1);
    assert_eq!(bench.send_all(1), [1]);
    bench.pass(100);
    bench.sack(1, &[], 1);
    bench.queue(1);
    assert_eq!(bench.send_all(0), [2]);
}

#[test]
fn proportional_shares_follow_the_windows() {
    let mut bench = bench("sender-queued-proportional", 300);
    // A loss halves the window of the second path.
    bench.push(1, 10);
    bench.pass(100);
    for last in 2..=4 {
        bench.sack(0, &[(2, last)], 1);
    }
    assert_eq!(bench.send(1), [1]);
    bench.pass(100);
    bench.sack(10, &[], 1);
    assert_eq!(bench.cwnd(0), 2 * bench.cwnd(1));
    bench.paths.iter_mut().for_each(|path| path.set_burst(&classic()));
    bench.sender.buffer.resize(30 * FULL);
    bench.queue(30);
    assert_eq!((bench.send_all(0).len(), bench.send_all(1).len()), (19, 9));
}
