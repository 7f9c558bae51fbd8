//! Cellular links. A step is a subframe of LTE, or two slots of 5G at 30 kHz.

use super::Process;
use super::chance::{Crowd, Wandering, between, each, happens, normal, step_function, uniform};
use crate::rng::Rng;

/// In a moving car: the rate does a Brownian motion between 0 and twice its mean, as in Sprout's model
/// (Winstein, Sivaraman, Balakrishnan: "Stochastic Forecasts Achieve High Throughput and Low Delay
/// over Cellular Networks", NSDI 2013, section 3.1), and is interrupted by handovers.
#[derive(Debug)]
pub(super) struct Drive {
    /// Relative to its mean.
    rate: f64,
    /// Milliseconds that the handover in progress still takes.
    handover: u32,
}

impl Drive {
    /// Sprout's 200 packets/s per root of a second, where rates go to 1000 packets/s: 0.4 of the
    /// middle per root of a second, here per root of a millisecond.
    const VOLATILITY: f64 = 0.012_649;
    const MAX_RATE: f64 = 2.0;
    /// When the rate has come down to nothing, the phone finds another cell after a second on average
    /// (Sprout's rate of escape).
    const OUTAGE_MS: f64 = 1000.0;
    /// Cells of 500 m at 60 km/h.
    const BETWEEN_HANDOVERS_MS: f64 = 30_000.0;
    /// 3GPP TR 36.881 counts 49.5 ms without data.
    const HANDOVER_MS: u32 = 50;
    /// Subframes of which one is ours.
    const TURN: f64 = 4.0;

    pub(super) fn new(rng: &mut Rng) -> Self {
        Self { rate: between(rng, 0.5, 1.5), handover: 0 }
    }

    fn wander(&mut self, rng: &mut Rng) {
        if self.rate > 0.0 {
            let rate = self.rate + Self::VOLATILITY * normal(rng);
            self.rate = if rate > Self::MAX_RATE { 2.0 * Self::MAX_RATE - rate } else { rate };
        } else if each(rng, Self::OUTAGE_MS) {
            self.enter_cell(rng);
        }
    }

    fn enter_cell(&mut self, rng: &mut Rng) {
        self.rate = between(rng, 0.0, Self::MAX_RATE);
    }
}

impl Process for Drive {
    fn step(&mut self, rng: &mut Rng) -> f64 {
        self.wander(rng);
        if self.handover > 0 {
            self.handover -= 1;
            return 0.0;
        }
        if each(rng, Self::BETWEEN_HANDOVERS_MS) {
            self.handover = Self::HANDOVER_MS;
            self.enter_cell(rng);
        }
        let ours = uniform(rng) * Self::TURN < 1.0;
        if ours { self.rate.max(0.0) } else { 0.0 }
    }
}

/// Where each CQI begins, in dB of signal to noise (Mehlführer et al.: "The Vienna LTE simulators",
/// EURASIP Journal on Advances in Signal Processing 2011), and its bits per symbol (3GPP TS 36.213
/// table 7.2.3-1).
const LTE: [(f64, f64); 15] = [
    (-6.934, 0.1523),
    (-5.147, 0.2344),
    (-3.18, 0.3770),
    (-1.254, 0.6016),
    (0.761, 0.8770),
    (2.70, 1.1758),
    (4.697, 1.4766),
    (6.528, 1.9141),
    (8.576, 2.4063),
    (10.37, 2.7305),
    (12.3, 3.3223),
    (14.18, 3.9023),
    (15.89, 4.5234),
    (17.82, 5.1152),
    (19.83, 5.5547),
];

/// At rest: the channel varies little, but the cell is shared, and some blocks need a second attempt.
#[derive(Debug)]
pub(super) struct Stationary {
    signal: Wandering,
    others: Crowd,
    /// Blocks that are sent again, by the subframe in which that happens.
    again: [f64; Self::ROUND_TRIP],
    subframe: usize,
}

impl Stationary {
    const MEAN_DB: f64 = 12.0;
    /// A failed block is sent again after 8 ms (HARQ of FDD, 3GPP TS 36.213).
    const ROUND_TRIP: usize = 8;
    /// The modulation is chosen so that a tenth of the blocks fails (3GPP TS 36.213 section 7.2.3).
    const FAILURES: f64 = 0.1;

    pub(super) fn new() -> Self {
        Self {
            signal: Wandering::new(2.0, 500.0),
            others: Crowd::new(200.0, 400.0),
            again: [0.0; Self::ROUND_TRIP],
            subframe: 0,
        }
    }
}

impl Process for Stationary {
    fn step(&mut self, rng: &mut Rng) -> f64 {
        let block = step_function(&LTE, Self::MEAN_DB + self.signal.step(rng));
        let users = 1 + self.others.step(rng);
        self.subframe = (self.subframe + 1) % Self::ROUND_TRIP;
        let slot = &mut self.again[self.subframe];
        let repeated = std::mem::take(slot);
        if repeated > 0.0 || !happens(rng, 1.0 / users as f64) {
            return repeated;
        }
        if happens(rng, Self::FAILURES) {
            *slot = block;
            return 0.0;
        }
        block
    }
}

/// Bits per symbol of each CQI (3GPP TS 38.214 table 5.2.2.1-3) and the signal in dB that it needs by
/// Shannon's bound as Mogensen et al. fit it ("LTE Capacity Compared to the Shannon Bound", VTC Spring
/// 2007): 0.75 log2(1 + signal / 1.25).
const NR: [(f64, f64); 15] = [
    (-7.2, 0.1523),
    (-2.8, 0.3770),
    (1.9, 0.8770),
    (5.6, 1.4766),
    (7.8, 1.9141),
    (10.1, 2.4063),
    (11.6, 2.7305),
    (14.1, 3.3223),
    (16.5, 3.9023),
    (19.1, 4.5234),
    (21.5, 5.1152),
    (23.2, 5.5547),
    (25.9, 6.2266),
    (28.7, 6.9141),
    (30.7, 7.4063),
];

/// 5G in mid-band with time division: the signal is good until something comes between.
#[derive(Debug)]
pub(super) struct MidBand {
    signal: Wandering,
    blocked: bool,
    /// Loss by what is in the way, in dB; it comes and goes gradually.
    loss_db: f64,
    millisecond: usize,
}

impl MidBand {
    const MEAN_DB: f64 = 25.0;
    const BLOCKED_DB: f64 = 18.0;
    /// A body that walks through the beam darkens it within about 100 ms.
    const SLOPE_DB_PER_MS: f64 = 0.2;
    const FREE_MS: f64 = 4000.0;
    const BLOCKED_MS: f64 = 500.0;
    /// Downlink slots in each millisecond of the pattern DDDSU DDDSU; S is ten symbols of fourteen.
    const DOWNLINK: [f64; 5] = [2.0, 12.0 / 7.0, 1.0, 2.0, 5.0 / 7.0];

    pub(super) fn new() -> Self {
        let signal = Wandering::new(1.5, 200.0);
        Self { signal, blocked: false, loss_db: 0.0, millisecond: 0 }
    }
}

impl Process for MidBand {
    fn step(&mut self, rng: &mut Rng) -> f64 {
        self.blocked ^= each(rng, if self.blocked { Self::BLOCKED_MS } else { Self::FREE_MS });
        let change = if self.blocked { Self::SLOPE_DB_PER_MS } else { -Self::SLOPE_DB_PER_MS };
        self.loss_db = (self.loss_db + change).clamp(0.0, Self::BLOCKED_DB);
        self.millisecond = (self.millisecond + 1) % Self::DOWNLINK.len();
        let signal = Self::MEAN_DB + self.signal.step(rng) - self.loss_db;
        step_function(&NR, signal) * Self::DOWNLINK[self.millisecond]
    }
}
