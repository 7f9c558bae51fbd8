//! A DSL line that a household shares.

use super::Process;
use super::chance::{each, pareto};
use crate::rng::Rng;

/// The line has a constant rate; other devices load something now and then and get the same share
/// each (fair queueing). How long they load has a heavy tail, as that of traffic does (Willinger et
/// al.: "Self-Similarity Through High-Variability", IEEE/ACM Transactions on Networking 5(1), 1997).
#[derive(Debug)]
pub(super) struct Household {
    /// Milliseconds for which each device still loads; `None` while it is idle.
    devices: [Option<f64>; 4],
}

impl Household {
    const LOADING_MS: f64 = 500.0;
    const IDLE_MS: f64 = 2500.0;
    /// One that never ends would be another model.
    const MAX_LOADING_MS: f64 = 60_000.0;

    pub(super) fn new(rng: &mut Rng) -> Self {
        Self { devices: [Some(pareto(rng, Self::LOADING_MS)), None, None, None] }
    }
}

impl Process for Household {
    fn step(&mut self, rng: &mut Rng) -> f64 {
        for device in &mut self.devices {
            *device = match *device {
                Some(left) => Some(left - 1.0).filter(|left| *left > 0.0),
                None => each(rng, Self::IDLE_MS)
                    .then(|| pareto(rng, Self::LOADING_MS).min(Self::MAX_LOADING_MS)),
            };
        }
        1.0 / (1 + self.devices.iter().flatten().count()) as f64
    }
}
