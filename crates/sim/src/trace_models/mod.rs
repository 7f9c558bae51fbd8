//! Models of links whose rate varies: each is a stochastic process from which
//! [`Model::generate`] makes a [`Trace`]. docs/traces.md describes them with their sources.
//!
//! Every process goes in steps of a millisecond and uses only operations that IEEE 754 rounds alike
//! everywhere (no logarithms, no sines): a seed gives the same trace on any machine.

mod cellular;
mod chance;
mod dsl;
mod satellite;
mod wifi;

use crate::link::{OPPORTUNITY_BYTES, Trace};
use crate::rng::Rng;

/// A model of a link.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it models.
    pub summary: &'static str,
    /// Mean rate in bit/s where none is asked for.
    pub rate_bps: u64,
    start: fn(&mut Rng) -> Box<dyn Process>,
}

/// All models.
pub const MODELS: [Model; 7] = [
    Model {
        name: "lte-drive",
        summary: "LTE in a car: the rate wanders, outages, handovers",
        rate_bps: 12_000_000,
        start: |rng| Box::new(cellular::Drive::new(rng)),
    },
    Model {
        name: "lte",
        summary: "LTE at rest: jitter of the scheduler, other users come and go",
        rate_bps: 30_000_000,
        start: |_| Box::new(cellular::Stationary::new()),
    },
    Model {
        name: "5g",
        summary: "5G in mid-band: high rate, dips while something blocks the view",
        rate_bps: 200_000_000,
        start: |_| Box::new(cellular::MidBand::new()),
    },
    Model {
        name: "wifi",
        summary: "Wi-Fi among other stations: bursts, rate adaptation",
        rate_bps: 40_000_000,
        start: |_| Box::new(wifi::Station::new()),
    },
    Model {
        name: "leo",
        summary: "low satellites (Starlink): another rate every 15 s, short outages",
        rate_bps: 100_000_000,
        start: |rng| Box::new(satellite::Leo::new(rng)),
    },
    Model {
        name: "geo",
        summary: "geostationary satellite: rain fade, a carrier shared with others",
        rate_bps: 20_000_000,
        start: |_| Box::new(satellite::Geo::new()),
    },
    Model {
        name: "dsl",
        summary: "DSL: constant rate, shared with bursts of a household",
        rate_bps: 50_000_000,
        start: |rng| Box::new(dsl::Household::new(rng)),
    },
];

/// More opportunities than anybody means to ask for.
const MAX_OPPORTUNITIES: u64 = 50_000_000;
/// Longest trace in seconds: a day.
const MAX_SECONDS: u64 = 86_400;

/// A process that goes in steps of a millisecond.
trait Process {
    /// Capacity in the next millisecond, in a unit of the process's own.
    fn step(&mut self, rng: &mut Rng) -> f64;
}

impl Model {
    /// The model with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// A trace of so many seconds whose mean rate is `rate_bps`: the process gives the shape.
    /// Its period is exactly `seconds`, as the last opportunity is at the end.
    ///
    /// # Errors
    /// A length or a rate that is out of bounds; the text says which are allowed.
    pub fn generate(&self, seed: u64, seconds: u64, rate_bps: u64) -> Result<Trace, String> {
        if !(1..=MAX_SECONDS).contains(&seconds) {
            return Err(format!("a trace has 1 to {MAX_SECONDS} seconds, not {seconds}"));
        }
        let bits = u128::from(rate_bps) * u128::from(seconds);
        let opportunities = bits / (8 * u128::from(OPPORTUNITY_BYTES));
        let opportunities = u64::try_from(opportunities)
            .ok()
            .filter(|count| (1..=MAX_OPPORTUNITIES).contains(count))
            .ok_or_else(|| {
                format!(
                    "{rate_bps} bit/s over {seconds} s are {opportunities} packets: \
                     a trace has 1 to {MAX_OPPORTUNITIES}"
                )
            })?;
        let mut rng = Rng::new(seed);
        let mut process = (self.start)(&mut rng);
        let capacities: Vec<_> = (0..seconds * 1000).map(|_| process.step(&mut rng)).collect();
        Trace::new(self.name, times(&capacities, opportunities)).map_err(|e| e.to_string())
    }
}

/// Spreads opportunities over milliseconds in proportion to their capacities; the last comes at the
/// end. What is sent in a millisecond counts when that is over.
fn times(capacities: &[f64], opportunities: u64) -> Vec<u32> {
    let sum: f64 = capacities.iter().sum();
    let (mut times, mut passed) = (Vec::new(), 0.0);
    for (end, capacity) in (1..).zip(capacities) {
        passed += capacity;
        // An outage from beginning to end has no sum: not a number is 0 then.
        let due = ((passed / sum * opportunities as f64) as u64).min(opportunities - 1);
        times.resize(due as usize, end);
    }
    times.resize(opportunities as usize, capacities.len() as u32);
    times
}

#[cfg(test)]
mod tests;
