//! The paths that coupled algorithms look at together, because they may share a bottleneck: all
//! paths of the association that carry data. Looked at once per SACK, before any window moves.
//!
//! In the notation of the papers `w` is a congestion window, `T` a smoothed round-trip time.

use crate::config::PathSums;
use crate::time::Duration;

/// Rates are bytes per microsecond in units of 2^-24.
const FRACTION_BITS: u32 = 24;

/// One path, as it was when the group was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Member {
    /// w.
    pub cwnd: usize,
    /// The slow start threshold; before the first loss w.
    pub ssthresh: usize,
    /// T, once measured.
    pub srtt: Option<Duration>,
    /// l: see [`LossInterval`].
    pub interval: u64,
}

impl Member {
    /// w / T, 0 if T is unknown.
    pub(super) fn rate(&self) -> u128 {
        self.per_round_trip(self.cwnd as u128)
    }

    /// w / T^2.
    pub(super) fn rate_per_round_trip(&self) -> u128 {
        self.per_round_trip(self.rate())
    }

    /// l^2 / T, which OLIA compares paths by.
    fn quality(&self) -> u128 {
        self.per_round_trip(u128::from(self.interval.min(1 << 40)).pow(2))
    }

    fn per_round_trip(&self, amount: u128) -> u128 {
        let micros = self.srtt.map(|srtt| srtt.as_micros().max(1));
        micros.map_or(0, |micros| (amount << FRACTION_BITS) / micros)
    }
}

/// Bytes acknowledged between losses (l of the OLIA paper): since the last loss, or between the
/// last two if that was more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossInterval {
    current: u64,
    previous: u64,
}

impl LossInterval {
    pub(super) fn on_acked(&mut self, bytes: usize) {
        self.current = self.current.saturating_add(bytes as u64);
    }

    pub(super) fn on_loss(&mut self) {
        self.previous = core::mem::take(&mut self.current);
    }

    pub(super) fn longest(&self) -> u64 {
        self.current.max(self.previous)
    }
}

/// All that the algorithms want to know of the group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    members: usize,
    cwnd: usize,
    ssthresh: usize,
    rate: u128,
    largest_rate_per_round_trip: u128,
    largest_cwnd: usize,
    best_quality: u128,
    /// Members with the largest window.
    at_largest_cwnd: usize,
    /// Members of the best quality that do not have the largest window ("collected paths").
    collected: usize,
}

impl Group {
    /// The group that `members` are.
    pub(crate) fn of(members: impl Iterator<Item = Member> + Clone) -> Self {
        let mut group = Self::default();
        for member in members.clone() {
            group.add(&member);
        }
        for member in members {
            group.at_largest_cwnd += usize::from(group.has_largest_cwnd(&member));
            group.collected += usize::from(group.is_collected(&member));
        }
        group
    }

    fn add(&mut self, member: &Member) {
        self.members += 1;
        self.cwnd += member.cwnd;
        self.ssthresh += member.ssthresh;
        self.rate += member.rate();
        let rate = member.rate_per_round_trip();
        self.largest_rate_per_round_trip = self.largest_rate_per_round_trip.max(rate);
        self.largest_cwnd = self.largest_cwnd.max(member.cwnd);
        self.best_quality = self.best_quality.max(member.quality());
    }

    fn has_largest_cwnd(&self, member: &Member) -> bool {
        member.cwnd == self.largest_cwnd
    }

    fn is_collected(&self, member: &Member) -> bool {
        member.quality() == self.best_quality && !self.has_largest_cwnd(member)
    }
}

/// A path and the group that it stands in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    /// The path.
    pub own: Member,
    /// Its group. A path in none stands alone.
    pub group: &'a Group,
}

impl Standing<'_> {
    /// W: the sum of all w.
    pub(super) fn total_cwnd(&self) -> usize {
        self.group.cwnd.max(self.own.cwnd)
    }

    /// The sum of all w / T.
    pub(super) fn total_rate(&self) -> u128 {
        self.group.rate.max(self.own.rate())
    }

    /// The largest w / T^2.
    pub(super) fn largest_rate_per_round_trip(&self) -> u128 {
        self.group.largest_rate_per_round_trip.max(self.own.rate_per_round_trip())
    }

    /// The path's part of all slow start thresholds.
    pub(super) fn ssthresh_share(&self) -> Share {
        Share::new(self.own.ssthresh as u128, self.group.ssthresh as u128)
    }

    /// The path's part of the sum of all w / T.
    pub(super) fn rate_share(&self) -> Share {
        Share::new(self.own.rate(), self.total_rate())
    }

    /// The group as a control that is not the engine's own sees it.
    pub(super) fn sums(&self) -> PathSums {
        // Bytes per second to the power of `times`.
        let per_second = |rate: u128, times: u32| {
            let (bits, micros) = (FRACTION_BITS * times, 1_000_000_u128.pow(times));
            u64::try_from((rate.saturating_mul(micros) >> (bits - 1)).div_ceil(2))
                .unwrap_or(u64::MAX)
        };
        PathSums {
            cwnd: self.total_cwnd(),
            ssthresh: self.group.ssthresh.max(self.own.ssthresh),
            rate: per_second(self.total_rate(), 1),
            max_rate_per_rtt: per_second(self.largest_rate_per_round_trip(), 2),
        }
    }

    /// What OLIA moves between paths: `Some((1, d))` for a path that is to get one d-th of a chunk,
    /// `Some((-1, d))` for one that gives.
    pub(super) fn shift(&self) -> Option<(i64, usize)> {
        let Group { members, at_largest_cwnd, collected, .. } = *self.group;
        if collected == 0 {
            None
        } else if self.group.is_collected(&self.own) {
            Some((1, members * collected))
        } else if self.group.has_largest_cwnd(&self.own) {
            Some((-1, members * at_largest_cwnd))
        } else {
            None
        }
    }
}

/// A part of a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    part: u128,
    whole: u128,
}

impl Share {
    /// All of it.
    pub(super) const ALL: Self = Self { part: 1, whole: 1 };

    /// `part` of `whole`. Where nothing is known, that is all.
    fn new(part: u128, whole: u128) -> Self {
        let whole = whole.max(part);
        if whole == 0 { Self::ALL } else { Self { part, whole } }
    }

    /// This share of `bytes`, rounded up.
    pub(super) fn of(self, bytes: usize) -> usize {
        usize::try_from((bytes as u128 * self.part).div_ceil(self.whole)).unwrap_or(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, LossInterval, Member, Share, Standing};
    use crate::time::Duration;

    fn member(cwnd: usize, millis: u64, interval: u64) -> Member {
        Member { cwnd, ssthresh: cwnd, srtt: Some(Duration::from_millis(millis)), interval }
    }

    #[test]
    fn shares_of_a_group() {
        let members = [member(3000, 10, 0), member(1000, 10, 0), member(1000, 20, 0)];
        let group = Group::of(members.into_iter());
        let of = |own| Standing { own, group: &group };
        assert_eq!(of(members[0]).total_cwnd(), 5000);
        assert_eq!(of(members[0]).ssthresh_share().of(500), 300);
        let sums = of(members[0]).sums();
        assert_eq!((sums.cwnd, sums.ssthresh), (5000, 5000));
        assert_eq!((sums.rate, sums.max_rate_per_rtt / 100), (450_000, 299_999));
        // Rates as 6 : 2 : 1.
        assert_eq!(of(members[1]).rate_share().of(901).abs_diff(200), 1);
        assert_eq!(of(members[2]).rate_share().of(899), 100);
    }

    #[test]
    fn a_path_alone_has_all() {
        let own = member(3000, 10, 0);
        let group = Group::default();
        let alone = Standing { own, group: &group };
        assert_eq!((alone.ssthresh_share().of(7), alone.rate_share().of(7)), (7, 7));
        let unknown = Standing { own: Member::default(), group: &group };
        assert_eq!(unknown.rate_share(), Share::ALL);
    }

    #[test]
    fn olia_shifts_from_the_largest_window_to_the_best_path() {
        let best = member(1000, 10, 90_000);
        let largest = member(5000, 10, 10_000);
        let other = member(900, 10, 10_000);
        let group = Group::of([best, largest, other].into_iter());
        let shift = |own| Standing { own, group: &group }.shift();
        assert_eq!([best, largest, other].map(shift), [Some((1, 3)), Some((-1, 3)), None]);
        let group = Group::of([largest, other].into_iter());
        let shift = |own| Standing { own, group: &group }.shift();
        assert_eq!([largest, other].map(shift), [Some((-1, 2)), Some((1, 2))]);
        let group = Group::of([member(5000, 10, 90_000), other].into_iter());
        assert_eq!(Standing { own: other, group: &group }.shift(), None);
    }

    #[test]
    fn the_longer_of_two_loss_intervals_counts() {
        let mut interval = LossInterval::default();
        interval.on_acked(500);
        interval.on_loss();
        interval.on_acked(100);
        assert_eq!(interval.longest(), 500);
        interval.on_loss();
        assert_eq!(interval.longest(), 100);
    }
}
