//! How much a user should have queued.

use super::{Bench, FULL, classic};

#[test]
fn what_may_leave_now_and_four_milliseconds_more_are_wanted() {
    // Round trips of 100 ms.
    let mut bench = Bench::opened(2);
    let windows = bench.cwnd(0) + bench.cwnd(1);
    let wanted = bench.sender.wanted(&bench.paths);
    assert!(wanted.abs_diff(windows + windows * 4 / 100) <= 2, "{wanted}");
    bench.queue(60);
    bench.send_all(0);
    let flight = bench.path(0).in_flight();
    assert!(flight > 60_000, "{flight}");
    assert!(bench.sender.wanted(&bench.paths).abs_diff(wanted - flight) <= FULL);
}

#[test]
fn two_packets_are_always_wanted() {
    let bench = Bench::new(0, &classic());
    let least = 2 * bench.sender.fragment_size(&bench.paths);
    assert_eq!(bench.sender.wanted(&bench.paths), least);
}
