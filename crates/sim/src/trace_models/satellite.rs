//! Links over satellites.

use super::Process;
use super::chance::{Crowd, Wandering, between, each, step_function};
use crate::rng::Rng;

/// A terminal of Starlink. Satellites and beams are assigned anew every 15 s for all terminals at once,
/// which shows as a step of the rate and a short interruption (Tanveer et al.: "Making Sense of
/// Constellations", CoNEXT Companion 2023; Mohan et al.: "A Multifaceted Look at Starlink Performance",
/// WWW 2024; Garcia et al.: "Multi-Timescale Evaluation of Starlink Throughput", LEO-NET 2023).
#[derive(Debug)]
pub(super) struct Leo {
    /// Of this assignment, relative to the mean.
    rate: f64,
    /// Load of the beam within an assignment.
    load: Wandering,
    /// Milliseconds that the outage in progress still takes.
    outage: f64,
    millisecond: u64,
}

impl Leo {
    const SLOT_MS: u64 = 15_000;
    /// Assignments change 12, 27, 42 and 57 s after the full minute, at which the trace begins.
    const FIRST_MS: u64 = 12_000;
    const RATES: (f64, f64) = (0.5, 1.5);
    const HANDOVER_MS: (f64, f64) = (20.0, 200.0);
    /// Something else than a handover interrupts the link: an obstacle, a satellite that is missing.
    const BETWEEN_OUTAGES_MS: f64 = 60_000.0;
    const OUTAGE_MS: (f64, f64) = (200.0, 2000.0);

    pub(super) fn new(rng: &mut Rng) -> Self {
        let rate = between(rng, Self::RATES.0, Self::RATES.1);
        Self { rate, load: Wandering::new(0.1, 1000.0), outage: 0.0, millisecond: 0 }
    }
}

impl Process for Leo {
    fn step(&mut self, rng: &mut Rng) -> f64 {
        if self.millisecond % Self::SLOT_MS == Self::FIRST_MS {
            self.rate = between(rng, Self::RATES.0, Self::RATES.1);
            self.outage = between(rng, Self::HANDOVER_MS.0, Self::HANDOVER_MS.1);
        } else if each(rng, Self::BETWEEN_OUTAGES_MS) {
            self.outage = between(rng, Self::OUTAGE_MS.0, Self::OUTAGE_MS.1);
        }
        self.millisecond += 1;
        self.outage = (self.outage - 1.0).max(0.0);
        let load = 1.0 + self.load.step(rng);
        if self.outage > 0.0 { 0.0 } else { self.rate * load.max(0.0) }
    }
}

/// Signal in dB from which on a modulation and code can be used, and its bits per symbol (ETSI EN 302
/// 307, DVB-S2, table 13).
const DVB_S2: [(f64, f64); 14] = [
    (1.00, 0.988_858),
    (2.23, 1.188_304),
    (3.10, 1.322_253),
    (4.03, 1.487_473),
    (4.68, 1.587_196),
    (5.18, 1.654_663),
    (5.50, 1.779_991),
    (6.62, 1.980_636),
    (7.91, 2.228_124),
    (8.97, 2.637_201),
    (10.21, 2.966_728),
    (11.03, 3.165_623),
    (11.61, 3.300_184),
    (12.89, 3.567_342),
];

/// A terminal of a geostationary satellite: adaptive coding follows the rain, and each frame of the
/// carrier is divided among the terminals that have something to receive.
#[derive(Debug)]
pub(super) struct Geo {
    rain: Wandering,
    others: Crowd,
    efficiency: f64,
    /// End of our part of the frame.
    turn: f64,
    millisecond: u32,
}

impl Geo {
    const CLEAR_SKY_DB: f64 = 13.0;
    /// The signal must be this much better than the table says.
    const MARGIN_DB: f64 = 1.0;
    /// The terminal's report takes a way over the satellite.
    const ADAPTATION_MS: u32 = 500;
    const FRAME_MS: u32 = 20;
    /// A terminal gets at least this part of a frame.
    const MIN_SHARE: f64 = 0.125;

    pub(super) fn new() -> Self {
        Self {
            // Changes by about 0.4 dB within a second, which is a usual fade slope (ITU-R P.1623).
            rain: Wandering::new(3.0, 100_000.0),
            others: Crowd::new(1500.0, 3000.0),
            efficiency: 0.0,
            turn: 0.0,
            millisecond: 0,
        }
    }
}

impl Process for Geo {
    fn step(&mut self, rng: &mut Rng) -> f64 {
        let rain_db = self.rain.step(rng).abs();
        let others = self.others.step(rng);
        if self.millisecond.is_multiple_of(Self::ADAPTATION_MS) {
            let signal = Self::CLEAR_SKY_DB - Self::MARGIN_DB - rain_db;
            self.efficiency = step_function(&DVB_S2, signal);
        }
        let place = self.millisecond % Self::FRAME_MS;
        if place == 0 {
            let share = (1.0 / (1 + others) as f64).max(Self::MIN_SHARE);
            self.turn = share * f64::from(Self::FRAME_MS);
        }
        self.millisecond += 1;
        self.efficiency * (self.turn - f64::from(place)).clamp(0.0, 1.0)
    }
}
