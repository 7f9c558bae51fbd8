//! A station in a Wi-Fi cell with others that send now and then.

use super::Process;
use super::chance::{Wandering, each, happens};
use crate::rng::Rng;

/// Mbit/s of a 20 MHz channel with one spatial stream (IEEE 802.11n, MCS 0 to 7).
const RATES: [f64; 8] = [6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0];

/// Who has the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    We,
    /// Another station, or a collision.
    Others,
}

/// Access to the medium is won at random; who has won sends an aggregate of packets.
#[derive(Debug)]
pub(super) struct Station {
    /// Other stations: whether they have something to send.
    others: [bool; 4],
    holder: Holder,
    /// Milliseconds that it keeps the medium.
    left: u64,
    /// The best MCS of the moment, and the one that is used.
    best: Wandering,
    used: usize,
    millisecond: u32,
}

impl Station {
    const BUSY_MS: f64 = 800.0;
    const QUIET_MS: f64 = 2400.0;
    /// Longest aggregate, below the 5.484 ms that a frame of IEEE 802.11n may last.
    const MAX_TURN_MS: u64 = 4;
    /// Probability that a station sends in a slot with a window of 15 slots, 2 / (15 + 2) (Bianchi:
    /// "Performance Analysis of the IEEE 802.11 Distributed Coordination Function", JSAC 18(3), 2000).
    const SENDS_IN_SLOT: f64 = 2.0 / 17.0;
    const MEAN_BEST: f64 = 5.5;
    /// Minstrel of Linux looks at its statistics ten times a second.
    const ADAPTATION_MS: u32 = 100;
    /// Part of an aggregate that arrives at a rate above the best one.
    const TOO_FAST: f64 = 0.5;

    pub(super) fn new() -> Self {
        Self {
            others: [false; 4],
            holder: Holder::We,
            left: 0,
            best: Wandering::new(1.3, 2000.0),
            used: Self::MEAN_BEST as usize,
            millisecond: 0,
        }
    }

    /// Stations contend for the medium that has become free.
    fn contend(&mut self, rng: &mut Rng) {
        let others = self.others.iter().filter(|busy| **busy).count();
        let silent: f64 =
            self.others.iter().filter(|busy| **busy).map(|_| 1.0 - Self::SENDS_IN_SLOT).product();
        let won = happens(rng, silent) && rng.below(1 + others as u64) == 0;
        self.holder = if won { Holder::We } else { Holder::Others };
        self.left = 1 + rng.below(Self::MAX_TURN_MS);
    }

    /// Steps towards the best MCS, as a rate adaptation that tries its neighbours does.
    fn adapt(&mut self, best: usize, rng: &mut Rng) {
        self.millisecond = (self.millisecond + 1) % Self::ADAPTATION_MS;
        if self.millisecond == 0 {
            let target = if happens(rng, 0.1) { best + 1 } else { best };
            let step = usize::from(self.used < target);
            self.used = (self.used + step - usize::from(self.used > target)).min(RATES.len() - 1);
        }
    }
}

impl Process for Station {
    fn step(&mut self, rng: &mut Rng) -> f64 {
        for busy in &mut self.others {
            *busy ^= each(rng, if *busy { Self::BUSY_MS } else { Self::QUIET_MS });
        }
        let best = (Self::MEAN_BEST + self.best.step(rng)).clamp(0.0, 7.0) as usize;
        self.adapt(best, rng);
        if self.left == 0 {
            self.contend(rng);
        }
        self.left -= 1;
        let arrives = if self.used > best { Self::TOO_FAST } else { 1.0 };
        if self.holder == Holder::We { RATES[self.used] * arrives } else { 0.0 }
    }
}
