//! Policies of the paths of one association.

use super::headers;
use super::policy::{CostCeiling, PathPolicy, PathRule, Rank, Regime};
use super::{Notice, Path, PathId, PathSet, Paths};
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What is known of the policies of all paths.
#[derive(Debug, Default)]
pub(super) struct Regulation {
    /// What holds in this association in place of what is wanted in all.
    own: Option<Box<[PathRule]>>,
    /// Paths have come whose policies were not looked up yet.
    pub(super) is_stale: bool,
    /// Whether a path has a policy.
    is_on: bool,
    ceiling: CostCeiling,
}

impl Regulation {
    /// Of an association whose paths begin anew.
    pub(super) fn for_new_paths(&self) -> Self {
        Self { own: self.own.clone(), is_stale: true, ..Self::default() }
    }
}

/// What is wanted of a path, if anything ever was.
#[derive(Debug, Default)]
pub(crate) struct PathRegime(Option<Box<Regime>>);

impl PathRegime {
    /// What holds on it.
    pub(crate) fn policy(&self) -> PathPolicy {
        self.0.as_ref().map_or_else(PathPolicy::default, |regime| regime.effective())
    }

    /// What this end wants of it.
    pub(crate) fn own_policy(&self) -> PathPolicy {
        self.0.as_ref().map_or_else(PathPolicy::default, |regime| regime.own())
    }

    /// What the peer wants of it.
    pub(crate) fn peer_policy(&self) -> PathPolicy {
        self.0.as_ref().map_or_else(PathPolicy::default, |regime| regime.peers())
    }

    /// What the next HEARTBEAT says of its policy.
    pub(super) fn notice(&self) -> Option<Notice> {
        self.0.as_ref().and_then(|regime| regime.notice())
    }

    /// Whether the peer has not heard yet what this end wants.
    pub(crate) fn has_untold_policy(&self) -> bool {
        self.0.as_ref().is_some_and(|regime| regime.is_untold())
    }

    /// The peer has read what a HEARTBEAT said.
    pub(crate) fn on_policy_heard(&mut self, notice: Notice) {
        if let Some(regime) = &mut self.0 {
            regime.on_echo(notice);
        }
    }

    /// How much it is wanted for data. `None`: not at all.
    pub(crate) fn rank(&self) -> Option<Rank> {
        self.0.as_ref().map_or(Some(Rank::Normal), |regime| regime.rank())
    }

    /// What it costs.
    pub(crate) fn cost(&self) -> u16 {
        self.0.as_ref().map_or(0, |regime| regime.effective().cost)
    }

    /// Whether its bytes count.
    pub(crate) fn is_metered(&self) -> bool {
        self.policy().metered.is_some()
    }

    /// Whether its allowance has room for a packet after `bytes` that are about to leave. While nothing else
    /// is usable nobody asks.
    pub(crate) fn may_spend(&self, bytes: usize) -> bool {
        let Some(regime) = self.0.as_ref().filter(|it| it.rank() != Some(Rank::Spent)) else {
            return true;
        };
        regime.meter().is_none_or(|meter| meter.allows(bytes))
    }

    pub(super) fn set_policy(&mut self, policy: PathPolicy) -> bool {
        if self.0.is_none() && policy == PathPolicy::default() {
            return false;
        }
        self.0.get_or_insert_default().set_own(policy)
    }
}

impl Path {
    /// `packets` with `bytes` in all have left.
    pub(crate) fn on_packets_sent(&mut self, packets: usize, bytes: usize) {
        self.subflow.stats.packets_sent += packets as u64;
        self.subflow.stats.bytes_sent += bytes as u64;
        let overhead = packets * headers(&self.addr);
        if let Some(regime) = &mut self.regime.0 {
            regime.spend(bytes + overhead);
        }
    }
}

impl Paths {
    /// Whether any path has a policy.
    pub(crate) fn is_regulated(&self) -> bool {
        self.regulation.is_on
    }

    /// The cost up to which paths are used.
    pub(crate) fn ceiling(&self) -> &CostCeiling {
        &self.regulation.ceiling
    }

    /// As [`Self::ceiling`].
    pub(crate) fn ceiling_mut(&mut self) -> &mut CostCeiling {
        &mut self.regulation.ceiling
    }

    /// The path that is wanted as the primary one is, as soon as it works.
    pub(crate) fn apply_wished_primary(&mut self) {
        if let Some(wished) = self.wished_primary() {
            self.set_primary(wished);
        }
    }

    /// The addresses of paths may have changed: their policies are to be looked up again.
    pub(crate) fn forget_policies(&mut self) {
        self.regulation.is_stale = true;
    }

    /// From now on these rules hold in this association, and none of the endpoint's.
    pub(crate) fn set_own_policies(&mut self, rules: Vec<PathRule>) {
        self.regulation.own = Some(rules.into());
        self.forget_policies();
    }

    /// Looks up the policies of all paths, if paths have come since. Returns those whose policy is another
    /// one now.
    pub(crate) fn look_up_policies(&mut self, rules: &[PathRule]) -> PathSet {
        let mut changed = PathSet::default();
        if !core::mem::take(&mut self.regulation.is_stale) {
            return changed;
        }
        let own = self.regulation.own.take();
        for path in self.iter_mut() {
            let policy = PathRule::policy(own.as_deref().unwrap_or(rules), &path.addr);
            if path.regime.set_policy(policy) {
                changed.insert(path.id());
            }
        }
        self.regulation.own = own;
        self.note_regulation();
        changed
    }

    /// The peer has said what it wants of path `id`. Whether that is news.
    pub(crate) fn hear(&mut self, id: PathId, notice: Notice) -> bool {
        let Some(path) = self.get_mut(id) else { return false };
        if path.regime.0.is_none() && notice.policy == PathPolicy::default() {
            return false;
        }
        let is_news = path.regime.0.get_or_insert_default().hear(notice);
        self.note_regulation();
        is_news
    }

    /// Allowances and the cost that is paid as they are now.
    pub(crate) fn regulate_at(&mut self, now: Instant) {
        if !self.regulation.is_on {
            return;
        }
        for regime in self.iter_mut().filter_map(|path| path.regime.0.as_mut()) {
            regime.refill(now);
        }
        let mut ceiling = self.regulation.ceiling;
        ceiling.adjust(now, self);
        self.regulation.ceiling = ceiling;
    }

    /// The path that was said to be the primary one: by us, else by the peer. Only one that is active.
    pub(crate) fn wished_primary(&self) -> Option<PathId> {
        let regimes = || self.active().filter_map(with_regime);
        let ours = regimes().find(|(_, regime)| regime.own().primary);
        let wished = ours.or_else(|| regimes().find(|(_, regime)| regime.peers().primary));
        wished.map(|(path, _)| path.id())
    }

    /// Whether `taker` may repeat what has timed out: only the primary path, if that was chosen and has a
    /// window.
    pub(crate) fn lets_repeat(&self, taker: PathId, candidates: PathSet) -> bool {
        let chosen = || self.wished_primary().filter(|id| candidates.contains(*id));
        let Some(primary) = self.is_regulated().then(chosen).flatten() else { return true };
        primary == taker || !self.get(primary).is_some_and(|path| path.subflow.has_window())
    }

    /// When more may be sent than now because time has passed.
    pub(crate) fn regulation_deadline(&self) -> Option<Instant> {
        if !self.regulation.is_on {
            return None;
        }
        let meters = self.active().filter_map(with_regime);
        let refills = meters.filter_map(|(_, regime)| regime.meter()?.deadline());
        refills.chain(self.regulation.ceiling.deadline(self)).min()
    }

    pub(super) fn note_regulation(&mut self) {
        let default = PathPolicy::default();
        self.regulation.is_on = self.iter().any(|path| path.regime.policy() != default);
    }
}

fn with_regime(path: &Path) -> Option<(&Path, &Regime)> {
    Some((path, path.regime.0.as_deref()?))
}
