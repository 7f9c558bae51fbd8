//! Why a path sends nothing: for people who wonder, and for congestion control that measures rates.

use super::Sender;
use super::opportunity::Opportunity;
use crate::path::{Path, PathId, PathSet, PathState, Paths, Rank};
use crate::status::IdleReason;
use crate::time::Instant;

impl Sender {
    /// Nothing more may be sent now. Tells the paths that could send and have nothing to send, because what they deliver
    /// from then on is limited by what there was to send; and the ceiling, whether the paths that may carry data carry
    /// all they can.
    pub(crate) fn note_waiting(&self, now: Instant, paths: &mut Paths) {
        let starves = |path: &Path| {
            path.subflow().may_starve(now) && !self.has_data_for(now, path.id(), paths)
        };
        let mut starved = PathSet::default();
        paths.iter().filter(|path| starves(path)).for_each(|path| starved.insert(path.id()));
        for path in paths.iter_mut().filter(|path| starved.contains(path.id())) {
            path.subflow_mut().on_starved(now);
        }
        if !paths.is_regulated() {
            return;
        }
        let usable = self.choice.usable(paths);
        let is_full = |path: &Path| !path.subflow().may_send(now, path.in_flight());
        let waits = (self.queue.messages() > 0 || self.tail.backlog > 0)
            && self.outstanding.rwnd_for_new() >= self.fragment_size(paths)
            && paths.among(usable).all(is_full);
        paths.ceiling_mut().note_waiting(now, waits);
    }

    /// Why nothing is sent on `id` now, if so.
    pub(crate) fn idle_reason(
        &self,
        now: Instant,
        id: PathId,
        paths: &Paths,
    ) -> Option<IdleReason> {
        let is_idle = !self.has_data_for(now, id, paths);
        self.opportunity(now, id, paths).filter(|_| is_idle).map(|it| it.idle_reason())
    }
}

impl Opportunity<'_> {
    /// Why the path sends nothing, which it does not.
    fn idle_reason(&self) -> IdleReason {
        match self.path.health().state() {
            PathState::Unconfirmed => IdleReason::Unconfirmed,
            PathState::PotentiallyFailed if !self.is_usable() => IdleReason::Suspended,
            PathState::Inactive if !self.is_usable() => IdleReason::Failed,
            PathState::Active | PathState::PotentiallyFailed | PathState::Inactive => {
                self.shortage()
            }
        }
    }

    fn is_usable(&self) -> bool {
        self.usable.contains(self.path.id())
    }

    fn shortage(&self) -> IdleReason {
        let Self { sender, paths, path, now, .. } = *self;
        let (queue, outstanding, taker) = (&sender.queue, &sender.outstanding, self.taker());
        let next = queue.next_len(taker, sender.fragment_size(paths));
        if !self.is_usable() {
            excluded(path, paths)
        } else if next.is_none() && outstanding.lost() == 0 {
            match queue.messages() {
                0 => IdleReason::NoData,
                _ if taker.late => IdleReason::FasterPath,
                _ => IdleReason::OtherStreams,
            }
        } else if path.subflow().has_window() && !path.subflow().may_follow(now) {
            IdleReason::Burst
        } else if !path.subflow().may_send(now, path.in_flight()) {
            let gives_way = path.gives_way_to().is_some();
            if gives_way { IdleReason::SharedBottleneck } else { IdleReason::CongestionWindow }
        } else if next.is_some() && !self.split_allows(path) {
            IdleReason::BufferShare
        } else if next.is_some_and(|len| len > outstanding.rwnd_for_new()) {
            IdleReason::ReceiveWindow
        } else if outstanding.lost() == 0 {
            IdleReason::FasterPath
        } else {
            IdleReason::NoData
        }
    }
}

/// Why an active path may not carry data.
fn excluded(path: &Path, paths: &Paths) -> IdleReason {
    let active = || paths.iter().filter(|other| other.health().is_active());
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
