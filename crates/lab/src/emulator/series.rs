use manypath_sim::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes delivered per bucket of time, for the last hour.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// Number of the bucket at the front.
    first: u64,
    buckets: VecDeque<u64>,
}

impl Series {
    /// Length of a bucket.
    pub(crate) const BUCKET: Duration = Duration::from_millis(50);
    const KEPT: usize = 72_000;

    /// Number of the bucket that `now` lies in.
    pub(crate) fn bucket_of(now: Instant) -> u64 {
        now.as_nanos() / Self::BUCKET.as_nanos() as u64
    }

    pub(crate) fn add(&mut self, now: Instant, bytes: usize) {
        let bucket = Self::bucket_of(now);
        let index = bucket.saturating_sub(self.first);
        if index >= self.buckets.len() as u64 + Self::KEPT as u64 {
            // A pause longer than what is kept: nothing of the past remains.
            self.buckets.clear();
            self.first = bucket;
        }
        while self.first + self.buckets.len() as u64 <= bucket {
            self.buckets.push_back(0);
        }
        while self.buckets.len() > Self::KEPT {
            self.buckets.pop_front();
            self.first += 1;
        }
        if let Some(sum) = self.buckets.get_mut((bucket.saturating_sub(self.first)) as usize) {
            *sum += bytes as u64;
        }
    }

    /// The buckets from number `from` up to, not including, number `to`; zero where nothing came.
    pub(crate) fn range(&self, from: u64, to: u64) -> Vec<u64> {
        let get = |bucket: u64| {
            let index = usize::try_from(bucket.checked_sub(self.first)?).ok()?;
            self.buckets.get(index).copied()
        };
        (from..to).map(|bucket| get(bucket).unwrap_or(0)).collect()
    }

    /// The first bucket that is still known at the time of bucket `now`.
    pub(crate) fn oldest(now: u64) -> u64 {
        now.saturating_sub(Self::KEPT as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn bytes_fall_into_their_buckets() {
        let mut series = Series::default();
        series.add(at_ms(0), 1);
        series.add(at_ms(49), 2);
        series.add(at_ms(50), 4);
        series.add(at_ms(210), 8);
        assert_eq!(series.range(0, 6), [3, 4, 0, 0, 8, 0]);
        assert_eq!(series.range(1, 2), [4]);
    }

    #[test]
    fn only_the_last_hour_is_kept() {
        let mut series = Series::default();
        for hours in 0..30 {
            series.add(at_ms(hours * 600_000), 1);
        }
        assert!(series.buckets.len() <= Series::KEPT);
        assert_eq!(series.range(Series::bucket_of(at_ms(29 * 600_000)), 348_001), [1]);
        series.add(at_ms(100 * 3_600_000), 7);
        assert_eq!(series.buckets.len(), 1);
    }
}
