//! Which paths may carry data at all, and which of them the path scheduler prefers. It owns the scheduler and reads
//! paths, which only `couple` changes; what waits it is told as a [`Demand`]. What each of these paths may send now is another question
//! (`Opportunity`).

use crate::config::{Config, Demand, PathScheduling};
use crate::path::congestion::Group;
use crate::path::policy::{no_dearer, standby};
use crate::path::{Loss, PathId, PathSet, Paths};
use crate::schedule::path::{PathOrder, PathSelector, usable};
use crate::time::Instant;

/// The choice of paths.
#[derive(Debug)]
pub(crate) struct PathChoice {
    selector: PathSelector,
    multipath: bool,
    /// What times out on the one path in use goes to another (RFC 9260 section 6.4).
    alternates: bool,
}

impl PathChoice {
    pub(super) fn new(config: &Config) -> Self {
        let scheduling = config.experiment.scheduling();
        Self {
            selector: PathSelector::new(&config.experiment),
            multipath: config.multipath && scheduling != PathScheduling::Primary,
            alternates: !config.multipath,
        }
    }

    /// The paths that may carry data.
    pub(crate) fn usable(&self, paths: &Paths) -> PathSet {
        self.selector.admitted(paths, usable(paths, self.multipath))
    }

    /// The paths that may carry the `lost` bytes that are to be sent again: those that are `carrying` data, and, where
    /// that is one at a time, all active ones for what has timed out on it (RFC 9260 section 6.4.1).
    pub(super) fn repeaters(&self, paths: &Paths, carrying: PathSet, lost: usize) -> PathSet {
        let timed_out =
            || paths.iter().any(|path| path.flight().lost().first(Loss::TimedOut).is_some());
        if self.alternates && lost > 0 && timed_out() {
            return self.selector.admitted(paths, usable(paths, true));
        }
        carrying
    }

    /// Paths that only wait for those of `usable` to fail.
    pub(super) fn standby(&self, paths: &Paths, usable: PathSet) -> PathSet {
        match paths.is_regulated() && self.multipath {
            true => standby(paths, usable),
            false => PathSet::default(),
        }
    }

    /// Looks at all paths that carry data, for congestion control that couples them.
    pub(crate) fn couple(&self, paths: &mut Paths) -> Group {
        paths.couple(self.usable(paths))
    }

    /// Lets the scheduler take a look at the paths before it is asked.
    pub(super) fn observe(&mut self, now: Instant, paths: &Paths, usable: PathSet, demand: Demand) {
        self.selector.observe(now, paths, usable, demand);
    }

    /// The order in which the scheduler serves the paths of `served`; the last SACK came over `sack`.
    pub(super) fn order(
        &self,
        paths: &Paths,
        served: PathSet,
        sack: Option<PathId>,
        demand: Demand,
    ) -> PathOrder {
        self.selector.order(paths, served, sack, demand)
    }

    /// Whether `id` should carry something of what waits, as far as the scheduler has a say.
    pub(super) fn is_worth_using(
        &self,
        paths: &Paths,
        usable: PathSet,
        id: PathId,
        demand: Demand,
    ) -> bool {
        self.selector.is_worth_using(paths, beside(paths, usable, id), id, demand)
    }

    /// Whether another path delivers a short message sooner than `id`, where `sparse` streams have one.
    pub(super) fn is_late(
        &self,
        paths: &Paths,
        usable: PathSet,
        id: PathId,
        sparse: usize,
    ) -> bool {
        self.selector.is_late(paths, beside(paths, usable, id), id, sparse)
    }
}

/// The paths that `id` is compared with: the usable ones, but none that costs more.
fn beside(paths: &Paths, usable: PathSet, id: PathId) -> PathSet {
    let path = paths.get(id).filter(|_| paths.is_regulated());
    path.map_or(usable, |path| no_dearer(paths, usable, path))
}
