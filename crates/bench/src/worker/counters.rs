//! What a part counts while it works, for another thread to read.

use crate::job::{Progress, Times};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most times that are kept between two questions; later ones are only counted.
const MOST_TIMES: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Counters {
    origin: Instant,
    opened: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    operations: AtomicU64,
    flows: AtomicU32,
    times: Mutex<Vec<u64>>,
}

impl Counters {
    pub(super) fn new() -> Self {
        Self {
            origin: Instant::now(),
            opened: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            flows: AtomicU32::new(0),
            times: Mutex::default(),
        }
    }

    /// Counts sent bytes; says how many there are now.
    pub(super) fn add_sent(&self, bytes: usize) -> u64 {
        self.sent.fetch_add(bytes as u64, Relaxed) + bytes as u64
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(super) fn add_flow(&self) {
        self.flows.fetch_add(1, Relaxed);
        self.begin();
    }

    /// What is measured begins now, if it has not begun before.
    pub(super) fn begin(&self) {
        let _ = self.opened.compare_exchange(0, self.nanos(), Relaxed, Relaxed);
    }

    pub(super) fn remove_flow(&self) {
        self.flows.fetch_sub(1, Relaxed);
    }

    /// An operation is done, and has taken so long.
    pub(super) fn note(&self, time: Duration) {
        self.operations.fetch_add(1, Relaxed);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() < MOST_TIMES {
            times.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            nanos: self.nanos(),
            opened: self.opened.load(Relaxed),
            sent: self.sent.load(Relaxed),
            received: self.received.load(Relaxed),
            operations: self.operations.load(Relaxed),
            flows: self.flows.load(Relaxed),
        }
    }

    fn nanos(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A summary of the times noted since the last call.
    pub(super) fn take_times(&self) -> Times {
        let taken = std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        summary(taken)
    }
}

fn summary(mut times: Vec<u64>) -> Times {
    times.sort_unstable();
    let at = |share: f64| {
        let rank = (share * times.len() as f64).ceil() as usize;
        times.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    };
    Times {
        count: times.len() as u64,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        max: times.last().copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_noted() {
        let times = summary((1..=200).rev().collect());
        assert_eq!((times.count, times.p50, times.p95), (200, 100, 190));
        assert_eq!((times.p99, times.max), (198, 200));
        assert_eq!(summary(vec![7]).p99, 7);
        assert_eq!(summary(Vec::new()), Times::default());
    }

    #[test]
    fn times_are_told_once() {
        let counters = Counters::new();
        counters.note(Duration::from_nanos(5));
        assert_eq!(counters.take_times().count, 1);
        assert_eq!(counters.take_times().count, 0);
        assert_eq!(counters.progress().operations, 1);
    }
}
