//! What the rule does: it follows the path and the reader.

use crate::path::{KIB, MIB, Path};
use core::time::Duration;
use manypath_window::{Adjustment, Budget, RoundTrip, Window, WindowConfig};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn follow() -> Window {
    Window::open(WindowConfig::default(), &Budget::new(1 << 30)).unwrap()
}

#[test]
fn it_fills_long_fat_paths_without_tuning() {
    for rtt in [2, 20, 80, 150, 300] {
        let mut path = Path::new(follow(), 500, rtt);
        path.run(20 * rtt);
        let rate = path.run(20 * rtt);
        assert!(rate >= 499, "{rate} Mbit/s at {rtt} ms");
    }
}

#[test]
fn it_comes_to_rest_at_twice_the_bandwidth_delay_product() {
    for rtt in [20, 80, 300] {
        let mut path = Path::new(follow(), 500, rtt);
        path.run(60 * rtt);
        let (size, bdp) = (path.window.size(), path.bdp());
        assert!(size <= 2 * bdp + 256 * KIB, "{size} for a product of {bdp}");
        assert!(size >= 2 * bdp - 256 * KIB, "{size} for a product of {bdp}");
        assert!(path.largest <= 4 * bdp + 256 * KIB, "{} at the top", path.largest);
    }
}

#[test]
fn it_is_never_behind_the_slow_start_of_the_transport() {
    for rtt in [20, 80, 300] {
        let unlimited = Window::open(
            WindowConfig { first: 1 << 30, ..WindowConfig::default() },
            &Budget::new(1 << 32),
        );
        let mut free = Path::new(unlimited.unwrap(), 500, rtt);
        let mut path = Path::new(follow(), 500, rtt);
        free.run(12 * rtt);
        path.run(12 * rtt);
        let lost = free.consumed - path.consumed;
        assert!(lost <= path.bdp() / 100, "{lost} of {} bytes at {rtt} ms", free.consumed);
    }
}

#[test]
fn a_window_that_is_the_limit_doubles_per_round_trip_and_no_faster() {
    let mut window = follow();
    window.on_round_trip(ms(0), ms(100));
    for trip in 0..5 {
        for part in 0..8 {
            let bytes = window.credit();
            assert!(window.on_received(bytes));
            window.on_consumed(ms(100 * trip + 12 * part), bytes);
            window.take_grant();
        }
        assert_eq!(window.size(), (512 * KIB) << trip);
    }
}

#[test]
fn a_reader_that_takes_little_gets_a_small_window_in_the_end() {
    let mut path = Path::new(follow(), 500, 80);
    path.run(2_000);
    assert!(path.window.size() > 8 * MIB);
    path.reader = 1_250; // 10 Mbit/s: 100 kB per round trip
    path.run(20_000);
    assert!(path.window.size() <= 300 * KIB, "{} bytes", path.window.size());
    assert!(path.window.held() <= 300 * KIB, "what was granted before is used up");
    assert_eq!(path.run(2_000), 10, "it still gets all that it takes");
}

#[test]
fn a_reader_that_has_stopped_gets_no_larger_window() {
    let mut path = Path::new(follow(), 500, 80);
    path.run(1_000);
    path.reader = 0;
    let (size, grants) = (path.window.size(), path.grants);
    path.run(10_000);
    assert_eq!(path.window.size(), size);
    assert!(path.grants <= grants + 1);
    assert_eq!(path.window.buffered(), path.window.held(), "all credit was used, none renewed");
    assert!(path.window.held() <= path.largest);
}

#[test]
fn a_reader_that_wakes_up_rarely_is_not_choked() {
    // It takes all there is, once a second, over a path of 20 ms.
    let mut path = Path::new(follow(), 500, 20);
    let mut taken = 0;
    for _ in 0..12 {
        path.reader = 0;
        path.run(999);
        path.reader = u64::MAX;
        let before = path.consumed;
        path.run(1);
        taken = path.consumed - before;
    }
    assert!(taken > 50 * MIB, "{taken} bytes at a time");
}

#[test]
fn a_program_that_sends_little_keeps_its_first_window() {
    let mut path = Path::new(follow(), 500, 80);
    path.source = 1_250;
    path.run(5_000);
    assert_eq!(path.window.size(), 256 * KIB);
}

#[test]
fn neither_the_peers_cap_nor_the_transports_window_is_exceeded() {
    let capped = WindowConfig { cap: 15 * MIB, ..WindowConfig::default() };
    let mut path = Path::new(Window::open(capped, &Budget::new(1 << 30)).unwrap(), 2_000, 300);
    path.run(20_000);
    assert_eq!(path.largest, 15 * MIB);
    let mut path = Path::new(follow(), 500, 300);
    path.window.set_transport_window(6 * MIB);
    path.run(20_000);
    assert_eq!(path.largest, 6 * MIB);
    path.window.set_transport_window(3 * MIB);
    path.run(1_000);
    assert_eq!(path.window.size(), 3 * MIB);
}

#[test]
fn without_a_round_trip_it_grows_to_twice_its_first_size_only() {
    let mut window = follow();
    for now in 0..1_000 {
        let bytes = window.credit();
        assert!(window.on_received(bytes));
        window.on_consumed(ms(now), bytes);
        window.take_grant();
    }
    assert_eq!(window.size(), 512 * KIB);
    window.on_round_trip(ms(1_000), ms(1));
    window.on_consumed(ms(1_002), 0);
    assert_eq!(window.size(), 512 * KIB, "what came before is not taken for one round trip's");
}

#[test]
fn more_than_was_granted_is_refused() {
    let mut window = follow();
    assert!(!window.on_received(256 * KIB + 1));
    assert!(window.on_received(256 * KIB));
    assert!(!window.on_received(1));
    assert_eq!(window.on_consumed(ms(0), 10 * MIB), Adjustment::Grew);
    assert_eq!(window.buffered(), 0, "no more is consumed than has come");
    let grant = window.take_grant();
    assert!(window.on_received(grant));
    assert!(!window.on_returned(1), "there is nothing to return");
}

#[test]
fn nothing_is_granted_after_the_end() {
    let mut window = follow();
    assert!(window.on_received(100 * KIB));
    window.on_end();
    assert_eq!((window.credit(), window.charge()), (0, 100 * KIB));
    window.on_consumed(ms(1), 100 * KIB);
    assert!(!window.is_grant_due());
    assert_eq!((window.take_grant(), window.charge()), (0, 0));
}

#[test]
fn the_round_trip_is_the_range_of_recent_samples() {
    let mut trip = RoundTrip::default();
    assert_eq!((trip.min(), trip.max()), (None, None));
    for (now, sample, min, max) in [
        (0, 80, 80, 80),
        (500, 200, 80, 200),
        (1_900, 70, 70, 200),
        (2_100, 300, 70, 300),
        (4_000, 290, 70, 300),
        (4_100, 310, 290, 310),
        (60_000, 400, 310, 400),
        (60_001, 20, 20, 400),
    ] {
        trip.sample(ms(now), ms(sample));
        assert_eq!((trip.min(), trip.max()), (Some(ms(min)), Some(ms(max))), "at {now} ms");
    }
    trip.set_slowest(ms(500));
    assert_eq!((trip.min(), trip.max()), (Some(ms(20)), Some(ms(500))));
}

#[test]
fn it_follows_the_slowest_path_where_data_takes_several() {
    // What comes over a path of 20 ms waits for what comes over one of 300 ms: 15 products of the fast one.
    let mut window = follow();
    let mut now = 0;
    window.set_slowest_path(ms(300));
    for _ in 0..100 {
        now += 20;
        window.on_round_trip(ms(now), ms(20));
        let bytes = window.credit().min(50 * KIB);
        assert!(window.on_received(bytes));
        window.on_consumed(ms(now), bytes);
        window.take_grant();
    }
    let carried = 50 * KIB * 300 / 20;
    assert!((2 * carried..=4 * carried).contains(&window.size()), "{} of {carried}", window.size());
}
