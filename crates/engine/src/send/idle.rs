//! Why a path sends nothing: for people who wonder, and for congestion control that measures rates.

use super::Sender;
use crate::path::{Path, PathId, PathSet, PathState, Paths, Rank};
use crate::status::IdleReason;
use crate::time::Instant;

impl Sender {
    /// Tells the paths that could send and have nothing to send. What they deliver from then on is
    /// limited by what there was to send.
    pub(super) fn note_starved(&self, now: Instant, paths: &mut Paths) {
        let starves =
            |path: &Path| path.may_starve(now) && !self.has_data_for(now, path.id(), paths);
        let mut starved = PathSet::default();
        paths.iter().filter(|path| starves(path)).for_each(|path| starved.insert(path.id()));
        for path in paths.iter_mut().filter(|path| starved.contains(path.id())) {
            path.on_starved(now);
        }
    }

    /// Why nothing is sent on `id` now, if so.
    pub(crate) fn idle_reason(
        &self,
        now: Instant,
        id: PathId,
        paths: &Paths,
    ) -> Option<IdleReason> {
        let path = paths.get(id)?;
        let usable = self.choice.usable(paths);
        if self.has_data_for(now, id, paths) {
            return None;
        }
        Some(match path.state() {
            PathState::Unconfirmed => IdleReason::Unconfirmed,
            PathState::PotentiallyFailed if !usable.contains(id) => IdleReason::Suspended,
            PathState::Inactive if !usable.contains(id) => IdleReason::Failed,
            PathState::Active | PathState::PotentiallyFailed | PathState::Inactive => {
                self.shortage(now, path, paths, usable)
            }
        })
    }

    fn shortage(&self, now: Instant, path: &Path, paths: &Paths, usable: PathSet) -> IdleReason {
        let taker = self.taker(now, paths, usable, path.id());
        let next = self.queue.next_len(taker, self.fragment_size(paths));
        if !usable.contains(path.id()) {
            excluded(path, paths)
        } else if next.is_none() && self.outstanding.lost() == 0 {
            match self.queue.messages() {
                0 => IdleReason::NoData,
                _ if taker.late => IdleReason::FasterPath,
                _ => IdleReason::OtherStreams,
            }
        } else if path.has_window() && !path.may_follow(now) {
            IdleReason::Burst
        } else if !path.may_send(now, path.in_flight()) {
            let gives_way = path.gives_way_to().is_some();
            if gives_way { IdleReason::SharedBottleneck } else { IdleReason::CongestionWindow }
        } else if next.is_some() && !self.split_allows(path, paths, usable) {
            IdleReason::BufferShare
        } else if next.is_some_and(|len| len > self.outstanding.rwnd_for_new()) {
            IdleReason::ReceiveWindow
        } else if self.outstanding.lost() == 0 {
            IdleReason::FasterPath
        } else {
            IdleReason::NoData
        }
    }
}

/// Why an active path may not carry data.
fn excluded(path: &Path, paths: &Paths) -> IdleReason {
    let active = || paths.iter().filter(|other| other.is_active());
    let best = active().filter_map(|path| path.regime().rank()).min();
    match path.regime().rank() {
        None => IdleReason::Disabled,
        Some(rank) if Some(rank) == best => {
            let cheaper = active().any(|other| {
                other.regime().rank() == best && other.regime().cost() < path.regime().cost()
            });
            if cheaper { IdleReason::Cost } else { IdleReason::Standby }
        }
        Some(Rank::Spent) => IdleReason::Metered,
        Some(Rank::Backup | Rank::Normal) => IdleReason::Backup,
    }
}
