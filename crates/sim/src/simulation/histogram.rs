/// Values with about 3 % resolution in a few kilobytes: 32 steps per octave.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

const STEP_BITS: u32 = 5;
const STEPS: u64 = 1 << STEP_BITS;

impl Histogram {
    pub(super) fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub(super) fn count(&self) -> u64 {
        self.total
    }

    /// Mean; exact.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    /// Maximum; exact.
    pub(super) fn max(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max)
    }

    /// The value that `share` of all values do not exceed, to the resolution of the buckets.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let rank = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(upper_bound(at).min(self.max))
    }
}

/// Small values have a bucket each; larger ones share one with those of the same leading bits.
fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - STEP_BITS;
    (u64::from(shift + 1) * STEPS + (value >> shift) - STEPS) as usize
}

fn upper_bound(bucket: usize) -> u64 {
    let (octave, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    if octave == 0 { step } else { ((STEPS + step + 1) << (octave - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_bound_their_values() {
        for value in (0..5000).chain([1 << 40, (1 << 40) + 12_345]) {
            let at = bucket(value);
            assert!(
                upper_bound(at) >= value && (at == 0 || upper_bound(at - 1) < value),
                "{value}"
            );
        }
    }

    #[test]
    fn quantiles_are_close() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|value| histogram.add(value));
        let p99 = histogram.quantile(0.99).unwrap();
        assert!((98_900..=102_100).contains(&p99), "{p99}");
        assert_eq!(histogram.mean(), Some(50_000.5));
        assert_eq!(histogram.max(), Some(100_000));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
