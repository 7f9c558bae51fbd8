//! How fast the connections of a peer are together, where a rule says so.
//!
//! A token bucket for each peer and rate, for both directions together. A relay moves no more than there are tokens,
//! and waits while there are none: then the program's writes fill its socket, and the peer gets no new credit.

use crate::base::proven::PeerId;
use crate::ids::RelayId;
use manypath_engine::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// What a bucket holds, as a part of what its rate allows in a second; at least [`MIN_BURST`] bytes.
const BURST: u64 = 8;
const MIN_BURST: u64 = 16 << 10;
/// What each of many connections may move in its turn, so that none waits for ever.
const MIN_PART: u64 = 1460;
const NANOS: u128 = 1_000_000_000;

/// Which bucket: a peer, and the bytes per second that it may have.
type Key = (PeerId, u64);

/// The buckets.
#[derive(Debug, Default)]
pub(crate) struct Rates(BTreeMap<Key, Bucket>);

#[derive(Debug)]
struct Bucket {
    level: i64,
    filled: Instant,
    /// Connections that share it.
    users: u64,
    /// Those that wait for tokens, the first one longest.
    waiting: VecDeque<RelayId>,
    /// When they get some.
    due: Option<Instant>,
}

/// The part of a connection in a bucket.
#[derive(Debug)]
pub(crate) struct Share {
    key: Key,
    /// Tokens that it was given when it had waited.
    granted: u64,
    waits: bool,
}

/// Bytes that a relay may move now that it has waited.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) relay: RelayId,
    bytes: u64,
}

impl Rates {
    /// Another connection of a peer that may have `rate` bytes per second.
    pub(super) fn join(&mut self, now: Instant, peer: PeerId, rate: u64) -> Share {
        // One that is not full yet stays: its peer would begin anew with each connection.
        self.0.retain(|(_, rate), it| it.users > 0 || !it.is_full(now, *rate));
        let (key, level) = ((peer, rate), signed(burst(rate)));
        let full = || Bucket { level, filled: now, users: 0, waiting: VecDeque::new(), due: None };
        self.0.entry(key).or_insert_with(full).users += 1;
        Share { key, granted: 0, waits: false }
    }

    /// A connection is over.
    pub(super) fn leave(&mut self, share: &Share, relay: RelayId) {
        if let Some(bucket) = self.0.get_mut(&share.key) {
            bucket.users -= 1;
            bucket.level += signed(share.granted);
            if share.waits {
                bucket.waiting.retain(|one| *one != relay);
            }
        }
    }

    /// How many bytes a connection may move now in each direction.
    ///
    /// # Errors
    /// When there are none: [`Self::release`] grants some later. The time for that, unless it is known.
    pub(super) fn allowance(
        &mut self,
        now: Instant,
        share: &mut Share,
        relay: RelayId,
    ) -> Result<u64, Option<Instant>> {
        let Some(bucket) = self.0.get_mut(&share.key) else { return Ok(u64::MAX) };
        if share.granted > 0 {
            return Ok(share.granted);
        }
        if share.waits {
            return Err(None);
        }
        bucket.fill(now, share.key.1);
        let is_first = bucket.waiting.is_empty();
        if let Some(bytes) = bucket.part().filter(|_| is_first) {
            return Ok(bytes);
        }
        bucket.waiting.push_back(relay);
        share.waits = true;
        if bucket.due.is_some() {
            return Err(None);
        }
        bucket.due = Some(now + bucket.pause(share.key.1));
        Err(bucket.due)
    }

    /// A connection has moved so many bytes.
    pub(super) fn spend(&mut self, share: &mut Share, bytes: u64) {
        if let Some(bucket) = self.0.get_mut(&share.key) {
            bucket.level += signed(std::mem::take(&mut share.granted)) - signed(bytes);
        }
    }

    /// Grants tokens to those that have waited longest, and tells when more of them may get some.
    pub(super) fn release(&mut self, now: Instant) -> (Vec<Grant>, Option<Instant>) {
        let mut grants = Vec::new();
        let is_due = |bucket: &Bucket| bucket.due.is_some_and(|at| at <= now);
        for (key, bucket) in self.0.iter_mut().filter(|(_, it)| is_due(it)) {
            bucket.fill(now, key.1);
            while let Some(bytes) = bucket.part() {
                let Some(relay) = bucket.waiting.pop_front() else { break };
                bucket.level -= signed(bytes);
                grants.push(Grant { relay, bytes });
            }
            let more = !bucket.waiting.is_empty();
            bucket.due = more.then(|| now + bucket.pause(key.1));
        }
        (grants, self.0.values().filter_map(|bucket| bucket.due).min())
    }
}

impl Share {
    /// The connection gets what it has waited for.
    pub(super) fn give(&mut self, grant: &Grant) {
        (self.granted, self.waits) = (grant.bytes, false);
    }
}

impl Bucket {
    /// What one of its connections may have, if there is anything.
    fn part(&self) -> Option<u64> {
        let level = u64::try_from(self.level).ok().filter(|level| *level > 0)?;
        Some((level / self.users.max(1)).max(MIN_PART))
    }

    fn fill(&mut self, now: Instant, rate: u64) {
        let added = earned(now, self.filled, rate);
        // What is less than a byte counts the next time.
        if added > 0 {
            let nanos = u128::from(added.unsigned_abs()) * NANOS / u128::from(rate.max(1));
            let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            self.filled = (self.filled + time).min(now);
            self.level = self.level.saturating_add(added).min(signed(burst(rate)));
        }
    }

    fn is_full(&self, now: Instant, rate: u64) -> bool {
        signed(burst(rate)) - self.level <= earned(now, self.filled, rate)
    }

    /// How long it takes until there is an eighth of a second's worth, or half of what it holds.
    fn pause(&self, rate: u64) -> Duration {
        let wanted = (rate / BURST).clamp(1, MIN_BURST / 2);
        let missing = u128::from(self.level.unsigned_abs() + wanted);
        let nanos = missing * NANOS / u128::from(rate.max(1)) + 1;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// What a rate has brought since then.
fn earned(now: Instant, since: Instant, rate: u64) -> i64 {
    let bytes = u128::from(rate) * now.since(since).as_nanos() / NANOS;
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn burst(rate: u64) -> u64 {
    (rate / BURST).max(MIN_BURST)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn peer(last: u8) -> PeerId {
        PeerId::Address(Some([192, 0, 2, last].into()))
    }

    #[test]
    fn connections_of_a_peer_share_its_rate_and_those_of_others_do_not() {
        let mut rates = Rates::default();
        let mut shares = [1, 1, 2].map(|last| rates.join(at(0), peer(last), RATE));
        let mut moved = [0; 3];
        for ms in 0..10_000 {
            for grant in rates.release(at(ms)).0 {
                let share = &mut shares[usize::try_from(grant.relay.0).unwrap()];
                share.give(&grant);
            }
            for (id, share) in shares.iter_mut().enumerate() {
                if let Ok(bytes) = rates.allowance(at(ms), share, RelayId(id as u64)) {
                    let bytes = bytes.min(4000);
                    rates.spend(share, bytes);
                    moved[id] += bytes;
                }
            }
        }
        let fits = |bytes: u64| (9_900_000..10_200_000).contains(&bytes);
        assert!(fits(moved[0] + moved[1]) && fits(moved[2]), "{moved:?}");
        assert!(moved[0].min(moved[1]) > 4_000_000, "{moved:?}");
    }

    #[test]
    fn whoever_must_wait_is_told_until_when_and_a_new_connection_changes_nothing() {
        let mut rates = Rates::default();
        let mut first = rates.join(at(0), peer(1), 1000);
        rates.spend(&mut first, 2 * MIN_BURST);
        let until = rates.allowance(at(0), &mut first, RelayId(7)).unwrap_err().unwrap();
        assert_eq!(until.since(at(0)).as_millis(), u128::from(MIN_BURST) + 125);
        assert_eq!(rates.allowance(at(1), &mut first, RelayId(7)), Err(None));
        rates.leave(&first, RelayId(7));
        let mut second = rates.join(at(1), peer(1), 1000);
        assert_eq!(rates.allowance(at(1), &mut second, RelayId(8)), Err(None), "it is known when");
        let (grants, next) = rates.release(until);
        assert_eq!((grants[0].relay, grants.len(), next), (RelayId(8), 1, None));
        second.give(&grants[0]);
        let allowed = rates.allowance(until, &mut second, RelayId(8));
        assert!(allowed.is_ok_and(|bytes| bytes >= MIN_PART), "{allowed:?}");
    }
}
