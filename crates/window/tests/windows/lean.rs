//! The smaller rule: what the path carries and a quarter.

use crate::path::{KIB, Path};
use manypath_window::{Budget, Policy, Window, WindowConfig};

fn lean(gain: u32) -> Window {
    let config = WindowConfig { policy: Policy::Path, gain, ..WindowConfig::default() };
    Window::open(config, &Budget::new(1 << 30)).unwrap()
}

#[test]
fn it_fills_long_fat_paths_and_comes_to_rest_a_quarter_above_the_product() {
    for rtt in [20, 80, 150, 300] {
        let mut path = Path::new(lean(125), 500, rtt);
        path.run(30 * rtt);
        let rate = path.run(20 * rtt);
        assert!(rate >= 499, "{rate} Mbit/s at {rtt} ms");
        let (size, bdp) = (path.window.size(), path.bdp());
        assert!(size <= bdp + bdp * 3 / 10 + 256 * KIB, "{size} for a product of {bdp}");
    }
}

#[test]
fn its_gain_is_what_is_asked_for() {
    let mut path = Path::new(lean(200), 500, 80);
    path.run(60 * 80);
    let twice = 2 * path.bdp() + 256 * KIB;
    assert!(path.window.size().abs_diff(twice) < twice / 20, "{}", path.window.size());
}

#[test]
fn its_slow_start_is_never_behind_that_of_the_transport() {
    for rtt in [20, 80, 300] {
        let fixed = WindowConfig::fixed(1 << 30, manypath_window::Refresh::Fine);
        let unlimited = Window::open(fixed, &Budget::new(1 << 40)).unwrap();
        let (mut bare, mut path) = (Path::new(unlimited, 500, rtt), Path::new(lean(125), 500, rtt));
        bare.run(20 * rtt);
        path.run(22 * rtt);
        assert!(path.consumed >= bare.consumed, "{} of {}", path.consumed, bare.consumed);
    }
}

#[test]
fn a_reader_that_pauses_has_the_whole_path_when_it_goes_on() {
    let mut path = Path::new(lean(125), 500, 80);
    path.run(30 * 80);
    path.reader = 0;
    path.run(2000);
    path.reader = u64::MAX;
    path.run(4 * 80);
    let rate = path.run(20 * 80);
    assert!(rate >= 490, "{rate} Mbit/s after the pause");
}

#[test]
fn what_comes_at_once_after_pauses_does_not_enlarge_it() {
    let mut path = Path::new(lean(125), 500, 80);
    path.run(30 * 80);
    for _ in 0..20 {
        path.reader = 0;
        path.run(80);
        path.reader = u64::MAX;
        path.run(5 * 80);
        let (size, bdp) = (path.window.size(), path.bdp());
        assert!(size <= bdp * 3 / 2 + 256 * KIB, "{size} for a product of {bdp}");
    }
}
