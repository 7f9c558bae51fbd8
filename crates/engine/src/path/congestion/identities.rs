//! What the coupled algorithms must have in common: on one path all grow like RFC 9260, and on two
//! equal paths together no faster than one flow.

use super::Congestion;
use super::group::{Group, Member};
use super::testing::{P, acked, avoiding};
use crate::config::CongestionControl;
use crate::time::Duration;
use alloc::vec::Vec;

const COUPLED: [CongestionControl; 4] = [
    CongestionControl::RpV1,
    CongestionControl::RpV2,
    CongestionControl::Lia,
    CongestionControl::Olia,
];

fn millis(millis: u64) -> Option<Duration> {
    Some(Duration::from_millis(millis))
}

fn group(paths: &mut [&mut Congestion], srtts: &[u64]) -> Group {
    let members: Vec<Member> =
        paths.iter_mut().zip(srtts).map(|(path, srtt)| path.take_stand(millis(*srtt))).collect();
    Group::of(members.into_iter())
}

/// Acknowledges one window; returns by how much it has grown.
fn one_window(path: &mut Congestion, group: &Group) -> usize {
    let before = path.window();
    for _ in 0..before / P {
        path.on_acked(&acked(P), group);
    }
    path.window() - before
}

#[test]
fn one_path_behaves_as_rfc_9260_says() {
    for name in COUPLED {
        for srtt in [1, 20, 500, 60_000] {
            let mut plain = Congestion::new(CongestionControl::Rfc9260, P, false, false);
            let mut coupled = Congestion::new(name, P, false, false);
            coupled.begin(1);
            // Slow start, a loss, avoidance, a timeout, slow start, avoidance, a loss.
            for step in 0..2000 {
                let group = group(&mut [&mut coupled], &[srtt]);
                let used = plain.window();
                for path in [&mut plain, &mut coupled] {
                    match step {
                        20 | 1900 => path.on_loss(&group),
                        1000 => path.on_timeout(used, &group),
                        _ => path.on_acked(&acked(P * (1 + step % 3)), &group),
                    }
                }
                let (plain, coupled) = (&plain.window, &coupled.window);
                assert_eq!(coupled.cwnd, plain.cwnd, "{name} {srtt} step {step}");
                assert_eq!(coupled.ssthresh, plain.ssthresh, "{name} {srtt} step {step}");
            }
        }
    }
}

#[test]
fn two_equal_paths_grow_together_like_one_or_slower() {
    let expected = [
        (CongestionControl::Rfc9260, P),
        (CongestionControl::RpV1, P / 2),
        (CongestionControl::RpV2, P / 2),
        (CongestionControl::Lia, P / 4),
        (CongestionControl::Olia, P / 4),
    ];
    for (name, growth) in expected {
        let (mut a, mut b) = (avoiding(name, 40 * P), avoiding(name, 40 * P));
        let group = group(&mut [&mut a, &mut b], &[40, 40]);
        for path in [&mut a, &mut b] {
            // Fractions of a byte are rounded up.
            assert!(one_window(path, &group).abs_diff(growth) <= 1, "{name}");
        }
    }
}

#[test]
fn resource_pooling_takes_half_of_the_sum_from_the_path_with_the_loss() {
    for name in [CongestionControl::RpV1, CongestionControl::RpV2] {
        let (mut large, mut small) = (avoiding(name, 60 * P), avoiding(name, 20 * P));
        let group = group(&mut [&mut large, &mut small], &[40, 40]);
        large.on_loss(&group);
        assert!(large.window().abs_diff(20 * P) <= 1, "{name}");
        // Less than nothing would be left: a path keeps its share of four chunks, here one.
        small.on_loss(&group);
        assert_eq!(small.window(), P, "{name}");
        let (mut large, mut small) = (avoiding(name, 60 * P), avoiding(name, 20 * P));
        let group = self::group(&mut [&mut large, &mut small], &[40, 40]);
        large.on_timeout(60 * P, &group);
        assert_eq!(large.window(), P, "{name}");
        assert!(large.ssthresh().abs_diff(20 * P) <= 1, "{name}");
        assert_eq!(one_window(&mut small, &group), P / 4, "{name}");
    }
}

#[test]
fn resource_pooling_divides_the_initial_window_and_slow_start() {
    for name in [CongestionControl::RpV1, CongestionControl::RpV2] {
        let mut paths = [0; 2].map(|_| Congestion::new(name, P, false, false));
        paths.iter_mut().for_each(|path| path.begin(2));
        let [a, b] = &mut paths;
        assert_eq!((a.window(), b.window()), (2202, 2202));
        let group = group(&mut [a, b], &[40, 40]);
        a.on_acked(&acked(P), &group);
        assert_eq!(a.window(), 2202 + P / 2, "{name}");
        let mut tiny = Congestion::new(name, P, false, false);
        tiny.begin(8);
        assert_eq!(tiny.window(), P);
    }
}

#[test]
fn linked_increases_take_no_more_than_one_flow_on_the_best_path() {
    // 10 chunks per 10 ms and 10 per 100 ms: alpha = 20 * (10 / 10^2) / (1 + 0.1)^2 = 1.65; the
    // windows grow by 10 * 1.65 / 20 = 0.83 chunks each.
    let (mut fast, mut slow) =
        (avoiding(CongestionControl::Lia, 10 * P), avoiding(CongestionControl::Lia, 10 * P));
    let group = group(&mut [&mut fast, &mut slow], &[10, 100]);
    let growth = [one_window(&mut fast, &group), one_window(&mut slow, &group)];
    assert_eq!(growth, [P * 1000 / 1210 + 1; 2]);
}

#[test]
fn olia_lets_the_largest_window_shrink_in_favour_of_a_better_path() {
    let mut large = avoiding(CongestionControl::Olia, 100 * P);
    let mut better = avoiding(CongestionControl::Olia, 10 * P);
    better.on_acked(&acked(50 * P), &Group::default());
    better.window.partial_bytes_acked = 0;
    let before = (large.window(), better.window());
    let group = group(&mut [&mut large, &mut better], &[100, 100]);
    for (path, window) in [(&mut large, before.0), (&mut better, before.1)] {
        path.on_acked(&acked(window), &group);
    }
    // (100 / 111)^2 - 1/2 and (11 / 111)^2 + 1/2 chunks.
    let (large, better) = (large.window() - before.0, better.window() - before.1);
    assert!(large.abs_diff(P * 31 / 100) < 20, "{large}");
    assert!(better.abs_diff(P * 51 / 100) < 20, "{better}");
}

#[test]
fn names_say_which_are_coupled() {
    for name in CongestionControl::ALL {
        assert_eq!(name.is_coupled(), COUPLED.contains(name), "{name}");
    }
}
