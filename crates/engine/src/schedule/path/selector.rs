//! The path scheduler of one association: the order of the paths, and whether one that has a window
//! should be used at all.

use super::blest::Blest;
use super::custom;
use super::ecf::{Verdict, decide};
use super::{
    PathOrder, by_least_recently_used, by_lsfr, by_smallest_srtt, is_late, is_worth_using,
    without_errors,
};
use crate::config::{Demand, Experiment, PathScheduler, PathScheduling};
use crate::path::{Path, PathId, PathSet, Paths};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;

/// A path scheduler with its state.
#[derive(Debug)]
pub(crate) struct PathSelector {
    scheduling: PathScheduling,
    /// ECF: the last decision was to wait for the fastest path.
    waiting: bool,
    blest: Blest,
    /// In place of all that.
    custom: Option<Box<dyn PathScheduler>>,
}

impl PathSelector {
    pub(crate) fn new(config: &Experiment) -> Self {
        let custom = config.path_scheduler.as_ref().map(|schedulers| schedulers.begin());
        Self { scheduling: config.scheduling(), waiting: false, blest: Blest::new(), custom }
    }

    /// Of the paths that are `usable`, those that the scheduler may use at all.
    pub(crate) fn admitted(&self, paths: &Paths, usable: PathSet) -> PathSet {
        match self.scheduling {
            PathScheduling::Lsfr => without_errors(paths, usable),
            PathScheduling::Primary
            | PathScheduling::LeastRecentlyUsed
            | PathScheduling::SmallestSrtt
            | PathScheduling::EarliestCompletion
            | PathScheduling::Ecf
            | PathScheduling::Blest
            | PathScheduling::Redundant
            | PathScheduling::RedundantInteractive => usable,
        }
    }

    /// The paths in the order in which they are to be served. `sack` is the path over which the last
    /// SACK came.
    pub(crate) fn order(
        &self,
        paths: &Paths,
        usable: PathSet,
        sack: Option<PathId>,
        demand: Demand,
    ) -> PathOrder {
        if let Some(custom) = self.custom.as_deref() {
            return custom::order(custom, paths, usable, demand);
        }
        match self.scheduling {
            PathScheduling::LeastRecentlyUsed => by_least_recently_used(paths, usable, sack),
            PathScheduling::Lsfr => by_lsfr(paths, usable),
            PathScheduling::Primary
            | PathScheduling::SmallestSrtt
            | PathScheduling::EarliestCompletion
            | PathScheduling::Ecf
            | PathScheduling::Blest
            | PathScheduling::Redundant
            | PathScheduling::RedundantInteractive => by_smallest_srtt(paths, usable),
        }
    }

    /// Takes the state of the paths into account, before they are served.
    pub(crate) fn observe(&mut self, now: Instant, paths: &Paths, usable: PathSet, demand: Demand) {
        if let Some(custom) = self.custom.as_deref_mut() {
            return custom::with_view(paths, usable, demand, |view| custom.observe(now, view));
        }
        let order = || by_smallest_srtt(paths, usable).filter_map(|id| paths.get(id));
        match self.scheduling {
            PathScheduling::Ecf => {
                let mut order = order();
                let Some(fast) = order.next() else { return };
                let Some(slow) = order.find(|path| path.subflow().has_window()) else { return };
                match decide(fast, slow, demand.left, self.waiting) {
                    Verdict::Wait => self.waiting = true,
                    Verdict::Use => {}
                    Verdict::UseAndForget => self.waiting = false,
                }
            }
            PathScheduling::Blest => {
                let mut order = order();
                let (Some(fast), Some(slow)) = (order.next(), order.next()) else { return };
                let blocked =
                    demand.sendable == 0 && demand.left > 0 && fast.subflow().has_window();
                let srtt = slow.rtt().smoothed().unwrap_or(Duration::ZERO);
                self.blest.observe(now, srtt, blocked && slow.in_flight() > 0);
            }
            PathScheduling::Primary
            | PathScheduling::LeastRecentlyUsed
            | PathScheduling::SmallestSrtt
            | PathScheduling::EarliestCompletion
            | PathScheduling::Lsfr
            | PathScheduling::Redundant
            | PathScheduling::RedundantInteractive => {}
        }
    }

    /// Whether sparse streams, `waiting` of which have something to send, should leave `id` to bulk data, because another
    /// path delivers sooner. Never true for all paths, nor for the only one that [`Self::is_worth_using`].
    pub(crate) fn is_late(
        &self,
        paths: &Paths,
        usable: PathSet,
        id: PathId,
        waiting: usize,
    ) -> bool {
        let by_completion = matches!(
            self.scheduling,
            PathScheduling::EarliestCompletion | PathScheduling::RedundantInteractive
        );
        by_completion && self.custom.is_none() && is_late(paths, usable, id, waiting)
    }

    /// Whether `id` should carry something. True for the fastest path, so that something is always
    /// sent.
    pub(crate) fn is_worth_using(
        &self,
        paths: &Paths,
        usable: PathSet,
        id: PathId,
        demand: Demand,
    ) -> bool {
        if let Some(custom) = self.custom.as_deref() {
            return custom::is_worth_using(custom, paths, usable, id, demand);
        }
        let beside_fastest = |decide: &dyn Fn(&Path, &Path) -> bool| {
            let fast = by_smallest_srtt(paths, usable).next().and_then(|id| paths.get(id));
            let pair = fast.zip(paths.get(id)).filter(|(fast, slow)| fast.id() != slow.id());
            pair.is_none_or(|(fast, slow)| decide(fast, slow))
        };
        match self.scheduling {
            PathScheduling::EarliestCompletion | PathScheduling::RedundantInteractive => {
                is_worth_using(paths, usable, id, demand.sendable)
            }
            PathScheduling::Ecf => beside_fastest(&|fast, slow| {
                decide(fast, slow, demand.left, self.waiting) != Verdict::Wait
            }),
            PathScheduling::Blest => {
                beside_fastest(&|fast, slow| self.blest.allows(fast, slow, demand.window))
            }
            PathScheduling::Primary
            | PathScheduling::LeastRecentlyUsed
            | PathScheduling::SmallestSrtt
            | PathScheduling::Lsfr
            | PathScheduling::Redundant => true,
        }
    }
}
