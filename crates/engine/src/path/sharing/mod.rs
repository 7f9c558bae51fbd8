//! Paths that share a bottleneck: what fills its queue delays all of them at the same moments.
//!
//! While several paths carry data, a small HEARTBEAT leaves on each of them at the same instant, ten times a
//! second. If the times that these take rise and fall together, the paths share a queue. The
//! idea is that of RFC 8382; its statistics are of one-way delays, which SCTP does not measure. SACKs
//! would not do: those of all paths come back over one of them, with its delays in common.
//!
//! * `delays` - the round trips of one path, and how two paths correlate.
//! * `groups` - which path gives way to which.

mod delays;
mod groups;

pub(crate) use delays::Delays;
pub(crate) use groups::Schedule;

use crate::config::Config;
use crate::path::{Path, PathId, Paths, heartbeat};
use crate::rng::Rng;
use crate::time::{Duration, Instant};

/// The pause between two HEARTBEATs of a path.
pub(crate) const SLOT: Duration = Duration::from_millis(100);

/// The slot that `now` lies in.
pub(crate) fn slot_of(now: Instant) -> u64 {
    now.as_nanos() / SLOT.as_nanos() as u64
}

/// When the slot after that of `now` begins.
pub(crate) fn next_slot(now: Instant) -> Instant {
    Instant::from_nanos((slot_of(now) + 1).saturating_mul(SLOT.as_nanos() as u64))
}

/// Whether delays of the path are measured: it carries data, and what it carries costs nothing.
fn is_measured(path: &Path) -> bool {
    path.in_flight() > 0 && path.health().is_active() && !path.regime().is_metered()
}

impl Paths {
    /// When [`Self::next_measurement`] must be called.
    pub(crate) fn measurement_deadline(&self) -> Option<Instant> {
        let several = || self.iter().filter(|path| is_measured(path)).nth(1).is_some();
        // One that gives way must be released when the other one carries nothing any more.
        let gives_way = || self.iter().any(|path| path.gives_way_to.is_some());
        let is_due = self.sharing.is_on && (several() || gives_way());
        is_due.then_some(self.sharing.next_slot)
    }

    /// The next HEARTBEAT that is due to measure a delay: its path, which takes packets, and its information. With each
    /// slot there is one for each path that carries data, and it is decided anew which paths give way.
    pub(crate) fn next_measurement(
        &mut self,
        now: Instant,
        config: &Config,
        rng: &mut Rng,
    ) -> Option<(PathId, [u8; heartbeat::INFO_LEN])> {
        if self.measurement_deadline()? <= now {
            if self.sharing.advance(now) {
                self.decide(now, config.queue_bound);
            }
            for path in self.iter_mut().filter(|path| is_measured(path)) {
                if path.health.supervision(config).heartbeats {
                    path.delays.get_or_insert_with(|| Delays::new(rng.next_u64())).ask(now);
                }
            }
        }
        let is_due = |path: &&Path| path.delays.as_ref().is_some_and(|delays| delays.is_due());
        let id = self.iter().filter(is_due).find(|path| self.is_open(path.id()))?.id();
        let path = self.get_mut(id)?;
        let (nonce, at) = path.delays.as_mut()?.on_sent()?;
        Some((id, heartbeat::info(nonce, at, (id, path.addr.remote))))
    }

    /// A HEARTBEAT ACK with `info` has arrived. Returns whether it answers such a HEARTBEAT.
    pub(crate) fn end_measurement(&mut self, now: Instant, info: &[u8]) -> bool {
        let path = heartbeat::path_of(info).and_then(|id| self.get_mut(id));
        let Some((path, at)) = path.zip(heartbeat::sent_at(info)) else { return false };
        let to = (path.id(), path.addr.remote);
        let Some(delays) = &mut path.delays else { return false };
        let is_ours = info.starts_with(&heartbeat::info(delays.nonce(), at, to)) && at <= now;
        if is_ours {
            delays.on_answer(at, now.since(at));
        }
        is_ours
    }
}
