//! What tests do to a path, and what they look at.

use super::{Flight, Loss};
use crate::config::{Config, CwndUpdate, Pacing};
use crate::path::{Burst, Pace, Pacer, Path, PathCounters, Rtt};
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

/// A round-trip time without variation.
pub(super) fn rtt(millis: u64) -> Rtt {
    let mut rtt = Rtt::new(&Config::default());
    (0..100).for_each(|round| rtt.on_sample(at(round), ms(millis)));
    rtt
}

impl Path {
    pub(crate) fn set_flight(&mut self, bytes: usize) {
        self.subflow.flight.bytes = bytes;
    }

    /// Bytes that copies occupy.
    pub(crate) fn copies_flight(&self) -> usize {
        let copies = self.subflow.flight.copies.as_ref().map(|copies| copies.under_way.iter());
        copies.into_iter().flatten().map(|copy| copy.wire).sum()
    }

    pub(crate) fn set_last_data(&mut self, at: Option<Instant>) {
        self.subflow.flight.last_data = at;
    }

    pub(crate) fn set_share_filled(&mut self, at: Option<Instant>) {
        self.subflow.flight.share_filled = at;
    }

    pub(crate) fn set_pacing(&mut self, pacing: Pacing) {
        self.subflow.pacer = Pacer::new(pacing);
    }

    /// Pacing holds back what comes next for some seconds.
    pub(crate) fn pace_slowly(&mut self, now: Instant) {
        self.set_pacing(Pacing::On);
        let pace = Pace::of_window(1000, false, Duration::from_secs(1));
        self.subflow.pacer.on_packet(now, 2500, pace);
    }

    pub(crate) fn set_burst(&mut self, config: &Config) {
        self.subflow.burst = Burst::new(config);
    }

    /// Chunk `tsn` waits to be sent again.
    pub(crate) fn have_lost(&mut self, tsn: Tsn64, loss: Loss) {
        self.subflow.flight.lost.insert(tsn, loss);
    }

    pub(crate) fn raise_loss_level(&mut self) {
        self.subflow.flight.loss_rate.on_lost();
    }

    /// Nothing was ever sent, but windows and measurements stay.
    pub(crate) fn forget_transmissions(&mut self, config: &Config) {
        let Flight { bytes, hidden, t3, window_filled, share_filled, .. } = self.subflow.flight;
        self.subflow.flight =
            Flight { bytes, hidden, t3, window_filled, share_filled, ..Flight::default() };
        self.subflow.stats = PathCounters::default();
        self.set_burst(config);
    }

    /// Whether the pseudo-cumulative acknowledgements have to be looked for.
    pub(crate) fn wants_earliest(&self) -> (bool, bool) {
        self.subflow.flight.cuc.wants()
    }

    /// Whether the last SACK lets the window grow.
    pub(crate) fn advances(&self, update: CwndUpdate) -> bool {
        update.advances(&self.subflow.flight.news, &self.subflow.flight.cuc)
    }

    /// For how long a chunk may be late.
    pub(crate) fn reordering_window(&self) -> Duration {
        self.subflow.flight.rack.window(&self.subflow.rtt, false)
    }
}
