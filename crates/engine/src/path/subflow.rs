//! What a path does for the data: the flight, the round trip, and what lets more leave.

use super::congestion::Congestion;
use super::flight::Flight;
use super::{Burst, Pacer, PathCounters, PathEcn, PathId, Rtt};
use crate::config::Config;
use crate::time::{Duration, Instant};

/// The data that one path carries (RFC 9260 sections 6 and 7). Addresses, packet sizes, reachability and policy are
/// those of its [`Path`](super::Path), of which it knows nothing but the number.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub(super) id: PathId,
    /// What is under way, and what is known about it.
    pub(super) flight: Flight,
    pub(super) rtt: Rtt,
    pub(super) congestion: Congestion,
    pub(super) burst: Burst,
    pub(super) pacer: Pacer,
    pub(super) ecn: PathEcn,
    /// What was carried.
    pub(super) stats: PathCounters,
}

impl Subflow {
    pub(super) fn new(id: PathId, congestion: Congestion, config: &Config) -> Self {
        Self {
            id,
            flight: Flight::default(),
            rtt: Rtt::new(config),
            congestion,
            burst: Burst::new(config),
            pacer: Pacer::new(config.pacing),
            ecn: PathEcn::default(),
            stats: PathCounters::default(),
        }
    }

    /// What is carried while the window is full, in bytes per second, once a round trip is known.
    pub(crate) fn window_rate(&self) -> Option<u64> {
        if let Some(bandwidth) = self.congestion.bandwidth() {
            return Some(bandwidth);
        }
        let srtt = self.rtt.smoothed()?.max(Duration::from_nanos(1)).as_nanos();
        let rate = (self.congestion.window() as u128 * 1_000_000_000) / srtt;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Whether less is in flight than the congestion window allows.
    pub(crate) fn has_window(&self) -> bool {
        self.flight.bytes < self.congestion.window()
    }

    /// Whether another chunk may leave now without making a burst.
    pub(crate) fn may_follow(&self, now: Instant) -> bool {
        if self.pacer.is_pacing(&self.congestion, &self.rtt) {
            self.pacer.allows(now)
        } else {
            self.burst.allows(now, self.flight.bytes)
        }
    }

    /// Whether more could leave at `now`, and [`Self::on_starved`] would tell the congestion control something new.
    pub(crate) fn may_starve(&self, now: Instant) -> bool {
        self.congestion.may_starve() && self.may_send(now, self.flight.bytes)
    }

    /// More could leave, but there is nothing to send.
    pub(crate) fn on_starved(&mut self, now: Instant) {
        self.congestion.on_starved(now);
    }
}
