//! What each path carries and may use: measured at work, and decided anew whenever there is something
//! new to decide from (`shares`).

use super::gauge::Gauge;
use super::shares::{PathNeed, Share, WHOLE, shares};
use crate::path::{Path, PathId, PathSet, Paths};
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The buffers in which everything is as long as it is not acknowledged for good or has to wait at
/// the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The smaller one of both sides.
    pub(crate) window: usize,
    /// What has arrived and still occupies it.
    pub(crate) waiting: usize,
    /// Whether what has arrived leaves the send buffer whatever was sent before (NR-SACK).
    pub(crate) non_renegable: bool,
}

/// What is known about the streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tenants {
    /// Streams that take all they can get.
    pub(crate) saturated: usize,
    /// Paths that streams are pinned to.
    pub(crate) pins: PathSet,
}

/// How long it is believed that streams are coupled.
const COUPLED: Duration = Duration::from_secs(60);
/// Bytes that have left before that is judged.
const EVIDENCE: u64 = 256 << 10;

/// Measures and shares.
#[derive(Debug, Default)]
pub(crate) struct PathShares {
    /// Bytes that have left, and those of them that a fast path has taken off a slow one's streams. A
    /// user that gives streams equal parts whatever they get (coupled streams) leaves the fast
    /// path without data of its own while the slow one's streams fill the buffer.
    left: u64,
    taken: u64,
    coupled_until: Instant,
    gauges: BTreeMap<PathId, Gauge>,
    shares: Vec<Share>,
    admitted: PathSet,
    /// What the shares were made from, besides the measures.
    basis: Option<(PathSet, usize, bool)>,
    /// Part of what a fast path carries that must wait for a slow one.
    joint: u64,
}

impl PathShares {
    /// Looks at what the paths carry, and shares `room` between those that are `usable`.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        paths: &Paths,
        usable: PathSet,
        (room, tenants): (Room, Tenants),
    ) {
        let basis = Some((usable, room.window, room.non_renegable));
        if !self.measure(now, paths) && self.basis == basis {
            return;
        }
        self.basis = basis;
        let carrying = || paths.among(usable);
        let quickest = carrying().filter_map(|path| path.rtt().least()).min().unwrap_or_default();
        let need = |path| self.need(now, path, quickest, tenants.pins);
        let needs: Vec<PathNeed> = carrying().map(need).collect();
        self.judge(now);
        self.joint = self.joint(now, room, tenants);
        self.shares = shares(&needs, room.window, self.joint);
        self.admitted = PathSet::default();
        let with_share = self.shares.iter().filter(|share| share.most > 0);
        with_share.for_each(|share| self.admitted.insert(share.id));
    }

    /// `bytes` of a stream of `home` have left on `path`.
    pub(crate) fn on_sent(&mut self, path: PathId, home: PathId, bytes: usize) {
        self.left += bytes as u64;
        let round_trip = |id| self.share(id).map(|share| share.round_trip);
        if path != home
            && let Some((here, there)) = round_trip(path).zip(round_trip(home))
            && here * 5 < there * 4
        {
            self.taken += bytes as u64;
        }
    }

    /// Whether streams are coupled.
    fn judge(&mut self, now: Instant) {
        if self.left < EVIDENCE {
            return;
        }
        if self.taken * 20 > self.left {
            self.coupled_until = now + COUPLED;
        }
        (self.left, self.taken) = (0, 0);
    }

    /// Which part of what a fast path carries must wait for a slow one.
    fn joint(&self, now: Instant, room: Room, tenants: Tenants) -> u64 {
        match tenants.saturated {
            2.. if room.non_renegable && now >= self.coupled_until => 0,
            2.. if room.non_renegable => WHOLE / tenants.saturated as u64,
            _ => WHOLE,
        }
    }

    /// Completes the samples that are due. Returns whether there was one.
    fn measure(&mut self, now: Instant, paths: &Paths) -> bool {
        let mut news = false;
        for path in paths.iter() {
            let gauge = self.gauges.entry(path.id()).or_insert_with(|| Gauge::new(now, path));
            gauge.follow(now, path);
            if gauge.is_due(now, path) {
                let share = self.shares.iter().find(|share| share.id == path.id());
                gauge.sample(now, path, share.map_or(usize::MAX, |share| share.most));
                news = true;
            }
        }
        news
    }

    /// `quickest`: the shortest round trip of all paths. SACKs come back over that path, mostly.
    fn need(&self, now: Instant, path: &Path, quickest: Duration, pins: PathSet) -> PathNeed {
        let there_and_back = (path.rtt().least().unwrap_or_default() + quickest) / 2;
        let gauge = self.gauges.get(&path.id());
        let round_trip = gauge.and_then(Gauge::round_trip).unwrap_or(there_and_back);
        PathNeed {
            id: path.id(),
            rate: self.rate(path.id()),
            sure: gauge.is_some_and(Gauge::is_sure),
            grows: gauge.is_some_and(|gauge| gauge.may_carry_more(now)),
            round_trip,
            loss: gauge.map_or(0, Gauge::loss),
            packet: path.search().mtu().into(),
            used: self.admitted.contains(path.id()),
            pinned: pins.contains(path.id()),
        }
    }

    /// Bytes per second that `path` carries, once measured.
    pub(crate) fn rate(&self, path: PathId) -> Option<u64> {
        self.gauges.get(&path)?.rate()
    }

    /// The paths that streams should use.
    pub(crate) fn admitted(&self) -> PathSet {
        self.admitted
    }

    /// Whether something of what fast paths carry must wait for slow ones.
    pub(crate) fn is_joint(&self) -> bool {
        self.joint > 0
    }

    /// What `path` may have in flight at most.
    pub(crate) fn most(&self, path: PathId) -> usize {
        self.share(path).map_or(usize::MAX, |share| share.most)
    }

    /// Whether `path` may send more of its own streams.
    pub(crate) fn allows(&self, path: &Path, room: Room) -> bool {
        let Some(share) = self.share(path.id()) else { return true };
        let packet = usize::from(path.search().mtu());
        let fits = path.in_flight() + packet <= share.most
            && (share.faster == 0
                || share.faster + room.waiting + path.in_flight() + packet <= room.window);
        fits || path.in_flight() == 0
    }

    /// Whether `helper` may send what `home`, a faster path, has in its streams: there must be room
    /// for all that `home` delivers until it arrives.
    pub(crate) fn allows_joint(&self, helper: &Path, room: Room) -> bool {
        let Some(share) = self.share(helper.id()) else { return true };
        share.joined + helper.in_flight() + usize::from(helper.search().mtu()) <= room.window
    }

    /// Whether something of the `left` bytes that wait for `path` arrives earlier if `helper` sends it
    /// now than if it waits for its turn.
    pub(crate) fn is_earlier(&self, helper: &Path, path: &Path, left: usize) -> bool {
        self.delay(helper, 0) <= self.delay(path, left)
    }

    /// Time until the last of `more` bytes that would be sent now on `path` arrives, behind what is in
    /// flight.
    fn delay(&self, path: &Path, more: usize) -> Duration {
        let least = self.least(path);
        let Some(rate) = self.rate(path.id()) else { return least / 2 };
        let time = |bytes: usize| {
            let nanos = bytes as u128 * 1_000_000_000 / u128::from(rate.max(1));
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        least / 2 + time(path.in_flight()).saturating_sub(least) + time(more)
    }

    /// What a round trip takes at least.
    fn least(&self, path: &Path) -> Duration {
        let measured = self.gauges.get(&path.id()).and_then(Gauge::round_trip);
        measured.or(path.rtt().least()).unwrap_or_default()
    }

    fn share(&self, path: PathId) -> Option<&Share> {
        self.shares.iter().find(|share| share.id == path)
    }
}

#[cfg(test)]
mod tests {
    use super::{PathShares, Room, Tenants, WHOLE};
    use crate::path::testing::measured;
    use crate::path::{Path, PathId, PathSet, Paths};
    use crate::time::{Duration, Instant};

    const FAST: PathId = PathId(0);
    const SLOW: PathId = PathId(1);

    /// Two paths of 20 and 200 ms that have carried 1 MB/s each.
    fn two(room: Room, streams: usize) -> (PathShares, Paths) {
        let (mut paths, usable) = measured(&[20, 200]);
        let (mut shares, mut now) = (PathShares::default(), Instant::ZERO);
        let tenants = Tenants { saturated: streams, pins: PathSet::default() };
        for _ in 0..4 {
            shares.observe(now, &paths, usable, (room, tenants));
            now = now + Duration::from_secs(1);
            for path in paths.iter_mut() {
                path.stats_mut().bytes_acked += 1_000_000;
                path.set_share_filled(Some(now));
            }
        }
        shares.observe(now, &paths, usable, (room, tenants));
        (shares, paths)
    }

    fn room(window: usize, non_renegable: bool) -> Room {
        Room { window, waiting: 0, non_renegable }
    }

    fn get(paths: &mut Paths, id: PathId) -> &mut Path {
        paths.get_mut(id).unwrap()
    }

    #[test]
    fn where_everything_waits_for_the_slow_path_it_is_left_out_of_small_buffers() {
        let is_used = |room, streams| two(room, streams).0.admitted().contains(SLOW);
        assert!(!is_used(room(80_000, false), 10));
        assert!(!is_used(room(80_000, true), 1));
        assert!(is_used(room(80_000, true), 2));
        assert!(is_used(room(400_000, false), 10));
    }

    #[test]
    fn streams_are_coupled_if_a_fast_path_lives_on_those_of_a_slow_one() {
        let (mut shares, _) = two(room(80_000, true), 2);
        let tenants = |saturated| Tenants { saturated, pins: PathSet::default() };
        let joint = |shares: &PathShares, now, streams| {
            shares.joint(
                Instant::ZERO + Duration::from_secs(now),
                room(80_000, true),
                tenants(streams),
            )
        };
        shares.on_sent(FAST, FAST, 250_000);
        shares.on_sent(SLOW, SLOW, 25_000);
        shares.on_sent(SLOW, FAST, 25_000);
        shares.judge(Instant::ZERO);
        assert_eq!((joint(&shares, 1, 2), joint(&shares, 1, 1)), (0, WHOLE));
        shares.on_sent(FAST, FAST, 250_000);
        shares.on_sent(FAST, SLOW, 20_000);
        shares.judge(Instant::ZERO);
        assert_eq!((joint(&shares, 1, 2), joint(&shares, 59, 4)), (WHOLE / 2, WHOLE / 4));
        assert_eq!(joint(&shares, 60, 2), 0);
    }

    #[test]
    fn a_slow_path_leaves_room_for_what_waits_and_for_the_fast_one() {
        let (shares, mut paths) = two(room(150_000, true), 2);
        let slow = get(&mut paths, SLOW);
        slow.set_flight(20_000);
        let with = |waiting| Room { waiting, ..room(150_000, true) };
        assert!(shares.allows(slow, with(0)));
        assert!(!shares.allows(slow, with(110_000)));
        // One packet at least.
        slow.set_flight(0);
        assert!(shares.allows(slow, with(110_000)));
        let fast = get(&mut paths, FAST);
        fast.set_flight(10_000);
        assert!(shares.allows(fast, with(110_000)));
        fast.set_flight(shares.most(FAST));
        assert!(!shares.allows(fast, with(0)));
    }

    #[test]
    fn the_slow_path_takes_what_would_have_to_wait_longer_for_the_fast_one() {
        let (shares, mut paths) = two(room(1 << 20, true), 1);
        let [fast, slow] = [FAST, SLOW].map(|id| paths.get(id).unwrap());
        // There it takes 10 ms, here 100: what arrives there in 90 ms is sent earlier.
        assert!(!shares.is_earlier(slow, fast, 80_000));
        assert!(shares.is_earlier(slow, fast, 95_000));
        assert!(shares.is_earlier(fast, slow, 1));
        get(&mut paths, FAST).set_flight(120_000);
        let [fast, slow] = [FAST, SLOW].map(|id| paths.get(id).unwrap());
        assert!(shares.is_earlier(slow, fast, 1));
    }
}
