//! What both ends want of one path.

use super::{Meter, Notice, PathPolicy, PathRole};
use crate::time::Instant;

/// How much a path is wanted for data: others only carry some while none of a lower rank is usable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// As any path without a policy.
    Normal,
    /// In place of normal ones.
    Backup,
    /// Its allowance is used up, or it has none.
    Spent,
}

/// The policies that hold on a path, of which at least one is or was something else than the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regime {
    own: Notice,
    peers: Notice,
    /// What the peer has heard of `own`.
    told: Notice,
    effective: PathPolicy,
    meter: Option<Meter>,
}

impl Regime {
    /// What we want.
    pub(crate) fn own(&self) -> PathPolicy {
        self.own.policy
    }

    /// What the peer wants.
    pub(crate) fn peers(&self) -> PathPolicy {
        self.peers.policy
    }

    /// What holds.
    pub(crate) fn effective(&self) -> PathPolicy {
        self.effective
    }

    /// We want something else. Whether it is.
    pub(crate) fn set_own(&mut self, policy: PathPolicy) -> bool {
        if self.own.policy == policy {
            return false;
        }
        self.own = Notice { number: self.own.number.wrapping_add(1), policy };
        self.combine();
        true
    }

    /// The peer has said what it wants. Whether that is news.
    pub(crate) fn hear(&mut self, notice: Notice) -> bool {
        let ahead = notice.number.wrapping_sub(self.peers.number);
        if ahead == 0 || ahead > u32::MAX / 2 {
            return false;
        }
        self.peers = notice;
        self.combine();
        true
    }

    /// What HEARTBEATs are to tell the peer, if anything.
    pub(crate) fn notice(&self) -> Option<Notice> {
        (self.own != Notice::default()).then_some(self.own)
    }

    /// Whether the peer has not heard of our policy yet.
    pub(crate) fn is_untold(&self) -> bool {
        self.told != self.own
    }

    /// The peer has echoed `notice`.
    pub(crate) fn on_echo(&mut self, notice: Notice) {
        if notice == self.own {
            self.told = notice;
        }
    }

    /// How much the path is wanted for data. `None`: not at all.
    pub(crate) fn rank(&self) -> Option<Rank> {
        let allows = self.meter.is_none_or(|meter| meter.allows(0));
        match self.effective.role {
            PathRole::Disabled => None,
            PathRole::Normal | PathRole::Backup if !allows => Some(Rank::Spent),
            PathRole::Normal => Some(Rank::Normal),
            PathRole::Backup => Some(Rank::Backup),
        }
    }

    /// The allowance, if bytes count on the path.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }

    /// Gives the allowance until `now`.
    pub(crate) fn refill(&mut self, now: Instant) {
        if let Some(meter) = &mut self.meter {
            meter.refill(now);
        }
    }

    /// `bytes` have left on the path.
    pub(crate) fn spend(&mut self, bytes: usize) {
        if let Some(meter) = &mut self.meter {
            meter.spend(bytes);
        }
    }

    fn combine(&mut self) {
        self.effective = self.own.policy.and(self.peers.policy);
        let rate = self.effective.metered;
        if self.meter.map(|meter| meter.rate()) != rate {
            self.meter = rate.map(Meter::new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Notice, PathPolicy, PathRole, Rank, Regime};

    fn backup() -> PathPolicy {
        PathPolicy { role: PathRole::Backup, cost: 5, ..PathPolicy::default() }
    }

    #[test]
    fn the_wishes_of_both_ends_hold_together() {
        let mut regime = Regime::default();
        assert!(regime.set_own(backup()) && !regime.set_own(backup()));
        let metered = PathPolicy { cost: 3, metered: Some(9000), ..PathPolicy::default() };
        assert!(regime.hear(Notice { number: 1, policy: metered }));
        let both = regime.effective();
        assert_eq!((both.role, both.cost, both.metered), (PathRole::Backup, 8, Some(9000)));
        assert_eq!(regime.rank(), Some(Rank::Backup));
        regime.spend(9000);
        assert_eq!(regime.rank(), Some(Rank::Spent));
        assert!(regime.set_own(PathPolicy { role: PathRole::Disabled, ..backup() }));
        assert_eq!(regime.rank(), None);
    }

    #[test]
    fn what_was_overtaken_is_not_heard() {
        let mut regime = Regime::default();
        assert!(regime.hear(Notice { number: 2, policy: backup() }));
        assert!(!regime.hear(Notice { number: 1, policy: PathPolicy::default() }));
        assert!(!regime.hear(Notice { number: 2, policy: PathPolicy::default() }));
        assert_eq!(regime.peers(), backup());
    }

    #[test]
    fn a_policy_is_told_until_it_is_echoed() {
        let mut regime = Regime::default();
        assert!(!regime.is_untold() && regime.notice().is_none());
        regime.set_own(backup());
        let first = regime.notice().unwrap();
        assert!(regime.is_untold());
        regime.set_own(PathPolicy::default());
        regime.on_echo(first);
        assert!(regime.is_untold(), "that was the one before");
        regime.on_echo(regime.notice().unwrap());
        assert!(!regime.is_untold());
    }
}
