//! Shares of the buffers.

use super::{PathNeed, Share, WHOLE, shares};
use crate::path::PathId;
use crate::time::Duration;
use alloc::vec::Vec;
use proptest::prelude::*;

const PACKET: usize = 1500;

/// Paths of these rates in bytes per second and round trips in ms, all in use.
fn paths(of: &[(u64, u64)]) -> Vec<PathNeed> {
    let path = |(id, (rate, millis)): (u8, &(u64, u64))| PathNeed {
        id: PathId(id),
        rate: Some(*rate),
        sure: true,
        round_trip: Duration::from_millis(*millis),
        grows: false,
        loss: 0,
        packet: PACKET,
        used: true,
        pinned: false,
    };
    (0..).zip(of).map(path).collect()
}

fn most(shares: &[Share], id: u8) -> usize {
    shares.iter().find(|share| share.id == PathId(id)).unwrap().most
}

/// 10 Mbit/s each, 20 ms and 85 ms: 28 and 109 kB.
const TWO: [(u64, u64); 2] = [(1_250_000, 20), (1_250_000, 85)];

#[test]
fn all_get_what_they_need_and_what_is_left_in_proportion() {
    let both = shares(&paths(&TWO), 137_250 * 2, 0);
    assert_eq!((most(&both, 0), most(&both, 1)), (56_000, 218_500));
}

#[test]
fn the_fast_path_comes_first() {
    let both = shares(&paths(&TWO), 60_000, 0);
    assert_eq!((most(&both, 0), most(&both, 1)), (28_000, 32_000));
}

#[test]
fn a_slow_path_is_left_out_if_others_must_wait_for_it_and_cannot() {
    // While a packet is on the slow path the fast one carries 109 kB.
    assert_eq!(most(&shares(&paths(&TWO), 110_000, WHOLE), 1), 0);
    assert_eq!(most(&shares(&paths(&TWO), 110_000, WHOLE), 0), 110_000);
    assert_eq!(most(&shares(&paths(&TWO), 120_000, WHOLE), 1), 10_750);
    // What was left out comes back when there is clearly room.
    let mut unused = paths(&TWO);
    unused[1].used = false;
    assert_eq!(most(&shares(&unused, 130_000, WHOLE), 1), 0);
    assert!(most(&shares(&unused, 140_000, WHOLE), 1) > 0);
    // Half of what the fast path carries need not wait.
    assert_eq!(most(&shares(&paths(&TWO), 110_000, WHOLE / 2), 1), 41_375);
}

#[test]
fn a_path_that_loses_much_is_left_out_earlier() {
    let mut lossy = paths(&TWO);
    assert!(most(&shares(&lossy, 150_000, WHOLE), 1) > 0);
    // In one of a hundred packets' time the fast path loses 92 kB: less than the slow one gives.
    lossy[1].loss = 10_000;
    assert!(most(&shares(&lossy, 150_000, WHOLE), 1) > 0);
    lossy[1].loss = 20_000;
    assert_eq!(most(&shares(&lossy, 150_000, WHOLE), 1), 0);
    // Nobody waits for it.
    assert!(most(&shares(&lossy, 150_000, 0), 1) > 0);
}

#[test]
fn a_path_that_may_carry_more_gets_a_quarter_more_and_a_slow_one_less() {
    let mut fast = paths(&TWO);
    fast[0].grows = true;
    let both = shares(&fast, 60_000, 0);
    assert_eq!((most(&both, 0), most(&both, 1)), (34_250, 25_750));
}

#[test]
fn a_path_with_pinned_streams_is_always_used() {
    let mut pinned = paths(&TWO);
    pinned[1].pinned = true;
    assert_eq!(most(&shares(&pinned, 30_000, WHOLE), 1), 2 * PACKET);
}

#[test]
fn paths_alike_share_alike() {
    let alike = shares(&paths(&[(1_250_000, 20), (1_250_000, 21)]), 32_000, 0);
    let (first, second) = (most(&alike, 0), most(&alike, 1));
    assert!(first + second <= 32_000 && first.abs_diff(second) < PACKET, "{first} {second}");
}

/// Three paths of 5 Mbit/s in a window of 64 KiB: one of them had to leave room for all that the others need.
#[test]
fn paths_alike_leave_no_room_for_each_other() {
    let faster = |of: &[(u64, u64)]| -> Vec<usize> {
        shares(&paths(of), 65_536, 0).iter().map(|share| share.faster).collect()
    };
    assert_eq!(faster(&[(625_000, 40), (625_000, 41), (625_000, 42)]), [0; 3]);
    assert_eq!(faster(&[(625_000, 20), (625_000, 42), (625_000, 41)]), [0, 15_500, 15_500]);
}

#[test]
fn what_is_not_known_yet_keeps_nobody_away() {
    let mut unknown = paths(&TWO);
    unknown.iter_mut().for_each(|path| (path.rate, path.used) = (None, false));
    assert!(shares(&unknown, 32_000, WHOLE).iter().all(|share| share.most > 0));
}

/// A path of 10 kB/s beside one of 8 MB/s: its part of a small buffer was less than a packet.
#[test]
fn a_path_in_use_has_room_for_two_packets() {
    let paths = paths(&[(10_000, 202), (8_173_750, 252)]);
    let shares = shares(&paths, 16_000, 0);
    assert!(shares.iter().all(|share| share.most >= 2 * PACKET), "{shares:?}");
    assert!(shares.iter().map(|share| share.most).sum::<usize>() <= 16_008);
}

proptest! {
    /// No path gets more than it needs while another one goes short, the needs of the fast are met
    /// first, and nothing is given that is not there.
    #[test]
    fn nothing_is_given_twice(
        of in prop::collection::vec((10_000_u64..12_500_000, 2_u64..700), 1..8),
        window in 16_000_usize..8_000_000,
        joint in 0..=WHOLE,
    ) {
        let paths = paths(&of);
        let shares = shares(&paths, window, joint);
        prop_assert_eq!(shares.len(), paths.len());
        let sum: usize = shares.iter().map(|share| share.most).sum();
        // Rounding, and the first one gets two packets in any case.
        prop_assert!(sum <= window.max(2 * PACKET) + 8, "{} of {}", sum, window);
        prop_assert!(shares[0].most > 0);
        prop_assert!(shares.iter().all(|share| share.most == 0 || share.most >= PACKET));
        for pair in shares.windows(2) {
            let of = |share: &Share| paths[usize::from(share.id.0)].round_trip;
            prop_assert!(of(&pair[0]) <= of(&pair[1]));
        }
    }

    /// What waits for others makes shares smaller, and leaves paths out that were in, never the reverse.
    #[test]
    fn waiting_only_costs(
        of in prop::collection::vec((10_000_u64..12_500_000, 2_u64..700), 2..5),
        window in 16_000_usize..4_000_000,
    ) {
        let mut paths = paths(&of);
        paths.sort_by_key(|path| path.round_trip);
        // Of two that take about as long, the one that is served first may leave nothing where nobody waits.
        prop_assume!(paths.is_sorted_by_key(PathNeed::hold));
        let admitted = |joint| shares(&paths, window, joint).iter().filter(|s| s.most > 0).count();
        prop_assert!(admitted(WHOLE) <= admitted(0));
        prop_assert_eq!(shares(&paths, window, WHOLE), shares(&paths, window, WHOLE));
    }
}
