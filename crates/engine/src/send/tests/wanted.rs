//! How much a user should have queued.

use super::{Bench, FULL, classic};
use crate::send::wanted;

#[test]
fn what_may_leave_now_and_four_milliseconds_more_are_wanted() {
    // Round trips of 100 ms.
    let mut bench = Bench::opened(2);
    let windows = bench.cwnd(0) + bench.cwnd(1);
    let before = wanted(&bench.sender, &bench.paths);
    assert!(before.abs_diff(windows + windows * 4 / 100) <= 2, "{before}");
    bench.queue(60);
    bench.send_all(0);
    let flight = bench.path(0).in_flight();
    assert!(flight > 60_000, "{flight}");
    assert!(wanted(&bench.sender, &bench.paths).abs_diff(before - flight) <= FULL);
}

#[test]
fn two_packets_are_always_wanted() {
    let bench = Bench::new(0, &classic());
    let least = 2 * bench.sender.fragment_size(&bench.paths);
    assert_eq!(wanted(&bench.sender, &bench.paths), least);
}
