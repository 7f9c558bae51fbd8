//! Random variables from uniform ones, by arithmetic that is the same everywhere.

use crate::rng::Rng;

/// Uniform in [0, 1).
pub(super) fn uniform(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Uniform in [from, to).
pub(super) fn between(rng: &mut Rng, from: f64, to: f64) -> f64 {
    from + (to - from) * uniform(rng)
}

/// Whether something happens that has this probability.
pub(super) fn happens(rng: &mut Rng, probability: f64) -> bool {
    uniform(rng) < probability
}

/// Whether something happens in this millisecond that happens every `mean_ms` on average: geometric
/// times, the discrete kind of exponential ones.
pub(super) fn each(rng: &mut Rng, mean_ms: f64) -> bool {
    uniform(rng) * mean_ms < 1.0
}

/// Nearly normal, of mean 0 and variance 1: the sum of twelve uniform variables, less 6.
pub(super) fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
}

/// Pareto with exponent 4/3 and this mean.
pub(super) fn pareto(rng: &mut Rng, mean: f64) -> f64 {
    let (share, least) = (1.0 - uniform(rng), mean / 4.0);
    // share^(3/4); the exponent is one of those that square roots can do.
    least / (share.sqrt() * share.sqrt().sqrt())
}

/// An autoregressive process of first order around 0 (a sampled Ornstein-Uhlenbeck process).
#[derive(Debug)]
pub(super) struct Wandering {
    value: f64,
    pull: f64,
    step: f64,
}

impl Wandering {
    /// Its standard deviation, and the time in ms after which its correlation has fallen to 1/e.
    pub(super) fn new(deviation: f64, correlation_ms: f64) -> Self {
        let pull = 1.0 / correlation_ms;
        Self { value: 0.0, pull, step: deviation * (pull * (2.0 - pull)).sqrt() }
    }

    /// Its value a millisecond later.
    pub(super) fn step(&mut self, rng: &mut Rng) -> f64 {
        self.value += self.step * normal(rng) - self.pull * self.value;
        self.value
    }
}

/// How many others are there: they come at random and stay for a random time (M/M/infinity).
#[derive(Debug)]
pub(super) struct Crowd {
    present: usize,
    between_ms: f64,
    stay_ms: f64,
}

impl Crowd {
    /// One comes every `between_ms` and stays for `stay_ms` on average.
    pub(super) fn new(between_ms: f64, stay_ms: f64) -> Self {
        Self { present: (stay_ms / between_ms) as usize, between_ms, stay_ms }
    }

    /// Their number a millisecond later.
    pub(super) fn step(&mut self, rng: &mut Rng) -> usize {
        let leave = (0..self.present).filter(|_| each(rng, self.stay_ms)).count();
        self.present = self.present - leave + usize::from(each(rng, self.between_ms));
        self.present
    }
}

/// The last entry of a table (threshold, value) whose threshold `x` reaches; 0 below the first.
pub(super) fn step_function(table: &[(f64, f64)], x: f64) -> f64 {
    table.iter().take_while(|(threshold, _)| *threshold <= x).last().map_or(0.0, |(_, y)| *y)
}
