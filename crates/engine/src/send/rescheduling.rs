//! Chunk rescheduling (the option of the simulation model of Dreibholz et al.): when a path's share
//! of a buffer is full of what waits for the cumulative TSN, the chunk that holds it up is sent
//! again on that path, ahead of new data.
//!
//! The path that the chunk was sent on is treated as if it had lost it: its window is cut once; if
//! that has just been done, it takes no new data for a round trip.

use super::Sender;
use super::opportunity::Opportunity;
use super::outstanding::Outstanding;
use crate::path::{ChunkState, Loss, PathId, PathSet, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;

/// Chunks that a new path overtakes: those of a first window.
const MOST_OVERTAKEN: usize = 10;

impl Opportunity<'_> {
    /// The chunk that the path should send again now.
    pub(super) fn to_reschedule(&self) -> Option<Tsn64> {
        let Self { sender, path, now, .. } = *self;
        let percent = sender.rules.experiment.rescheduling_percent as usize;
        let busy = path.flight().is_recovering() || path.pacer().is_held_back(now);
        if percent == 0 || busy || !path.subflow().may_send(now, self.flight) {
            return None;
        }
        let outstanding = &sender.outstanding;
        let waiting = path.flight().booked().saturating_sub(path.in_flight());
        let limit = sender.buffer.limit().min(outstanding.window().rwnd() + sender.unacked());
        if waiting * 100 * self.usable.len().max(1) < limit * percent {
            return None;
        }
        let tsn = outstanding.cum().next();
        let chunk = outstanding.get(tsn)?;
        let old = now.since(chunk.record.last_sent) > path.rtt().smoothed()? * 2;
        let fresh = chunk.may_be_repeated(now) && !chunk.record.moved && !chunk.record.rescheduled;
        let due = chunk.record.path != path.id() || old;
        (chunk.record.state == ChunkState::InFlight && fresh && due).then_some(tsn)
    }
}

impl Sender {
    /// Path `id` has just been confirmed. What little was sent before over a path so slow that a round trip of this one
    /// is over before it arrives goes over this one, too: the first message of a user, which left with the COOKIE ECHO.
    pub(crate) fn overtake(&mut self, now: Instant, id: PathId, paths: &mut Paths) {
        let usable = self.choice.usable(paths);
        if !usable.contains(id) || self.outstanding.len() > MOST_OVERTAKEN {
            return;
        }
        let Some(arrival) = paths.get(id).and_then(|path| Some(now + path.rtt().smoothed()?))
        else {
            return;
        };
        let first = self.outstanding.cum().next();
        for tsn in (0..MOST_OVERTAKEN as u64).map(|ahead| first.plus(ahead)) {
            let Some(chunk) = self.outstanding.get(tsn) else { break };
            let slow = paths.get(chunk.record.path).map(|path| path.rtt().forward_delay());
            let later = chunk.record.path != id
                && chunk.record.last_sent + slow.unwrap_or_default() > arrival;
            if chunk.may_be_repeated(now) && later && chunk.record.state == ChunkState::InFlight {
                self.outstanding.lose(tsn, paths, Loss::TimedOut);
            }
        }
    }
}

impl Outstanding {
    /// Chunk `tsn` is about to leave the path that it was sent on.
    pub(super) fn reschedule(
        &mut self,
        now: Instant,
        tsn: Tsn64,
        usable: PathSet,
        paths: &mut Paths,
    ) {
        let group = paths.couple(usable);
        let Some(chunk) = self.get_mut(tsn) else { return };
        chunk.record.rescheduled = true;
        let from: PathId = chunk.record.path;
        self.lose(tsn, paths, Loss::Reported);
        if let Some(path) = paths.get_mut(from) {
            path.subflow_mut().on_rescheduled(now, self.cum(), &group);
        }
    }
}
