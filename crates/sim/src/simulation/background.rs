use super::network::Network;
use crate::scenario::Background;
use manypath_engine::{Duration, Instant};

/// A source of packets at a constant rate.
#[derive(Debug)]
pub(super) struct Source {
    spec: Background,
    start: Instant,
    sent: u64,
}

impl Source {
    pub(super) fn new(spec: &Background, start: Instant) -> Self {
        Self { spec: spec.clone(), start: start + spec.from, sent: 0 }
    }

    /// When the next packet leaves.
    pub(super) fn next(&self) -> Option<Instant> {
        // Counted from the start, so that no rounding adds up.
        let bits = u128::from(self.sent) * self.spec.packet as u128 * 8;
        let nanos = bits * 1_000_000_000 / u128::from(self.spec.rate_bps);
        let after = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        (self.spec.from + after < self.spec.until).then(|| self.start + after)
    }

    /// Sends what is due.
    pub(super) fn run(&mut self, network: &mut Network) {
        let towards = if self.spec.forth { network.receiver } else { network.sender };
        while self.next().is_some_and(|at| at <= network.world.now()) {
            network.world.send_background(network.paths[self.spec.path], towards, self.spec.packet);
            self.sent += 1;
        }
    }
}
