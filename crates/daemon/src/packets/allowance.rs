//! How many echo requests a relay sends on for a peer.

use manypath_engine::{Duration, Instant};
use manypath_keys::PublicKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Echo requests of one peer in a second, and how many may come at once.
const RATE_OF_PEER: u64 = 512;

/// What each peer may still send, by all engine loops of a process together.
#[derive(Clone, Debug, Default)]
pub struct SharedAllowances(Arc<Mutex<BTreeMap<PublicKey, Allowance>>>);

impl SharedAllowances {
    /// Takes one request of `peer`. False if it has none left.
    pub(crate) fn take(&self, now: Instant, peer: PublicKey) -> bool {
        self.lock().entry(peer).or_insert(Allowance::full(now)).take(now)
    }

    /// Forgets those that are full, which a new one would be, too.
    pub(crate) fn forget_full(&self, now: Instant) {
        self.lock().retain(|_, allowance| !allowance.is_full(now));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Allowance>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Echo requests that a peer may send on: as many as in a second can be saved up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Allowance {
    /// Nanoseconds, of which a request costs [`Self::ONE`].
    saved: u64,
    at: Instant,
}

impl Allowance {
    const ONE: u64 = 1_000_000_000 / RATE_OF_PEER;
    const MOST: u64 = Self::ONE * RATE_OF_PEER;

    const fn full(at: Instant) -> Self {
        Self { saved: Self::MOST, at }
    }

    /// Takes one. False if there is none.
    fn take(&mut self, now: Instant) -> bool {
        let elapsed = now.since(self.at).as_nanos();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        // The clock of another loop may be ahead.
        (self.saved, self.at) =
            (self.saved.saturating_add(elapsed).min(Self::MOST), now.max(self.at));
        let left = self.saved.checked_sub(Self::ONE);
        self.saved = left.unwrap_or(self.saved);
        left.is_some()
    }

    fn is_full(&self, now: Instant) -> bool {
        now.since(self.at) >= Duration::from_secs(1)
    }
}
