//! The other rules, as they are known: what they are compared with.

use crate::path::{KIB, MIB, Path};
use manypath_window::{Budget, Policy, Refresh, Window, WindowConfig};

fn fixed(size: u64, refresh: Refresh) -> Path {
    let config = WindowConfig::fixed(size, refresh);
    Path::new(Window::open(config, &Budget::new(1 << 30)).unwrap(), 500, 80)
}

fn steady(mut path: Path) -> u64 {
    path.run(4_000);
    path.run(16_000)
}

#[test]
fn a_static_window_carries_itself_per_round_trip() {
    for size in [64 * KIB, 512 * KIB, 2 * MIB] {
        let law = size * 8 / 80 / 1_000;
        let rate = steady(fixed(size, Refresh::Bytes(1)));
        assert!(rate * 20 >= law * 19 && rate <= law + 1, "{rate}, by the law {law}");
    }
}

#[test]
fn refresh_at_half_of_the_window_loses_much_of_it() {
    let law = 2 * MIB * 8 / 80 / 1_000;
    let half = steady(fixed(2 * MIB, Refresh::Half));
    let openssh = steady(fixed(2 * MIB, Refresh::Bytes(96 * KIB)));
    let fine = steady(fixed(2 * MIB, Refresh::Fine));
    assert!(half * 100 <= law * 80, "{half} of {law}");
    assert!(fine * 100 >= law * 87, "{fine} of {law}");
    assert!(openssh * 100 >= law * 92, "{openssh} of {law}");
}

#[test]
fn a_static_window_stays_what_it_is() {
    let mut path = fixed(512 * KIB, Refresh::Half);
    path.run(10_000);
    assert_eq!((path.largest, path.window.size()), (512 * KIB, 512 * KIB));
    path.window.set_transport_window(64 * MIB);
    path.run(1_000);
    assert_eq!(path.window.size(), 512 * KIB);
}

#[test]
fn the_rule_of_hpn_follows_the_socket_buffer_and_never_shrinks() {
    let config = WindowConfig {
        policy: Policy::SocketBuffer,
        refresh: Refresh::Bytes(96 * KIB),
        first: 2 * MIB,
        ..WindowConfig::default()
    };
    let window = Window::open(config, &Budget::new(1 << 30)).unwrap();
    let mut path = Path::new(window, 500, 80);
    path.run(2_000);
    assert_eq!(path.window.size(), 2 * MIB, "it does not know the socket");
    for (buffer, size) in [(6, 6), (16, 16), (4, 16), (200, 128)] {
        path.window.set_transport_window(buffer * MIB);
        path.run(2_000);
        assert_eq!(path.window.size(), size * MIB);
    }
    assert_eq!(path.run(1_000), 500);
    path.reader = 1;
    path.run(10_000);
    assert_eq!(path.window.size(), 128 * MIB, "whatever the reader does");
}

#[test]
fn steps_are_never_nothing_and_never_more_than_the_window() {
    for size in [0, 1, 2, 7, 8, 100, 64 * KIB, 8 * MIB] {
        for refresh in [Refresh::Fine, Refresh::Half, Refresh::Bytes(0), Refresh::Bytes(1 << 40)] {
            let step = refresh.step(size);
            assert!(step >= 1 && step <= size.max(1), "{refresh:?} of {size}: {step}");
        }
    }
    assert_eq!(Refresh::Fine.step(64 * KIB), 8 * KIB);
    assert_eq!(Refresh::Fine.step(64 * MIB), 256 * KIB);
}
