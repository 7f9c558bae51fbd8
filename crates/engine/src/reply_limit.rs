//! How much leaves in answer to sources that have proven nothing: a flood of INITs from forged addresses
//! must not fill our uplink with INIT ACKs.
//!
//! Answers of the last second, in bytes, are at most `Config::unverified_reply_rate`, all together. Of what is
//! left of that, the prefix of a source (/24, /48 with IPv6) may have used as much as is still free: one prefix gets
//! half of the rate, N greedy ones each get one part of N + 1, and one part stays free for who comes
//! next (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998).
//! So a flood from elsewhere does not take the place of a handshake that is meant.
//!
//! Prefixes share [`SLOTS`] counters by a keyed hash, so that nobody can choose with whom to collide.

use crate::path::{PathAddr, ip_len};
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::IpAddr;

const SLOTS: u16 = 1024;
/// What was used counts half after this time. It falls by half of itself in so long all the way, so that
/// what is used all the time sums up to the use of twice that: a second.
const HALF_LIFE: Duration = Duration::from_millis(500);
/// Fractions of a byte: small steps in time must not be lost.
const SCALE: u32 = 16;

/// Bytes used, fading.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    scaled: u64,
    at: Instant,
}

impl Usage {
    /// What counts of it at `now`.
    fn bytes(&mut self, now: Instant) -> u64 {
        let (passed, half) = (now.since(self.at).as_nanos(), HALF_LIFE.as_nanos());
        let halvings = u32::try_from(passed / half).unwrap_or(u32::MAX);
        let left = u128::from(self.scaled.checked_shr(halvings).unwrap_or(0));
        let faded = left - left * (passed % half) / (2 * half);
        *self = Self { scaled: u64::try_from(faded).unwrap_or(u64::MAX), at: now };
        self.scaled >> SCALE
    }

    fn add(&mut self, now: Instant, bytes: usize) {
        self.bytes(now);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.scaled = self.scaled.saturating_add(bytes.saturating_mul(1 << SCALE));
    }
}

/// What was sent in answer to sources that have proven nothing, all together and by prefix.
#[derive(Debug, Default)]
pub(crate) struct ReplyLimit {
    key: u64,
    all: Usage,
    /// [`SLOTS`] of them from the first answer on: most endpoints never give one.
    by_prefix: Vec<Usage>,
}

impl ReplyLimit {
    /// A limit that hashes by `seed`, which is the endpoint's.
    pub(crate) fn new(mut seed: [u8; 32]) -> Self {
        // Another stream of numbers than the one for tags, which nobody may learn about from this.
        seed[0] ^= 0x5A;
        Self { key: Rng::new(seed).next_u64() | 1, ..Self::default() }
    }

    /// Whether another answer may leave over `addr`.
    pub(crate) fn affords(&mut self, now: Instant, rate: u32, addr: &PathAddr) -> bool {
        // Nobody else can forge the addresses of this host to itself.
        if rate == u32::MAX || addr.remote.ip().is_loopback() {
            return true;
        }
        let free = u64::from(rate).saturating_sub(self.all.bytes(now));
        self.used_by(addr).bytes(now) < free
    }

    /// An SCTP packet of `len` bytes leaves over `addr` in answer.
    pub(crate) fn spend(&mut self, now: Instant, addr: &PathAddr, len: usize) {
        let bytes = ip_len(addr, len);
        self.used_by(addr).add(now, bytes);
        self.all.add(now, bytes);
    }

    fn used_by(&mut self, addr: &PathAddr) -> &mut Usage {
        if self.by_prefix.is_empty() {
            self.by_prefix.resize(usize::from(SLOTS), Usage::default());
        }
        let slot = slot_of(self.key, prefix_of(addr.remote.ip()));
        &mut self.by_prefix[slot]
    }
}

/// The first 24 bits of an IPv4 address, 48 of an IPv6 address: what one customer of a network may have.
fn prefix_of(addr: IpAddr) -> u64 {
    match addr {
        IpAddr::V4(v4) => u64::from(v4.to_bits() >> 8),
        IpAddr::V6(v6) => u64::try_from(v6.to_bits() >> 80).unwrap_or(0) | 1 << 63,
    }
}

/// Mixes as the finalizer of MurmurHash3 does, with a secret before and after.
fn slot_of(key: u64, prefix: u64) -> usize {
    let mix = |mut word: u64| {
        word = (word ^ word >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        word = (word ^ word >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        word ^ word >> 33
    };
    let mixed = mix(mix(prefix.wrapping_add(key)) ^ key.rotate_left(32));
    usize::try_from(mixed % u64::from(SLOTS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{ReplyLimit, SLOTS, prefix_of, slot_of};
    use crate::path::PathAddr;
    use crate::time::{Duration, Instant};
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::vec::Vec;

    const RATE: u32 = 1 << 20;
    const ANSWER: usize = 292;

    fn from(addr: u32) -> PathAddr {
        let remote = SocketAddr::new(Ipv4Addr::from_bits(addr).into(), 9899);
        PathAddr { local: "10.0.0.1:9899".parse().unwrap(), remote }
    }

    /// `rate` packets a second for `seconds` from `prefixes` prefixes in turn; how many are answered.
    fn flood(
        limit: &mut ReplyLimit,
        begin: Instant,
        rate: u64,
        seconds: u64,
        prefixes: u32,
    ) -> u64 {
        let mut answered = 0;
        for number in 0..rate * seconds {
            let now = begin + Duration::from_nanos(number * 1_000_000_000 / rate);
            let addr = from((number as u32 % prefixes) << 8);
            if limit.affords(now, RATE, &addr) {
                limit.spend(now, &addr, ANSWER);
                answered += 1;
            }
        }
        answered
    }

    #[test]
    fn one_prefix_gets_half_of_the_rate_and_many_get_no_more_than_all_of_it() {
        for (prefixes, least, most) in [(1, 45, 65), (3, 70, 90), (100_000, 90, 115)] {
            let mut limit = ReplyLimit::new([7; 32]);
            // What is saved up at first is spent in the first seconds.
            flood(&mut limit, Instant::ZERO, 50_000, 2, prefixes);
            let begin = Instant::ZERO + Duration::from_secs(2);
            let answered = flood(&mut limit, begin, 50_000, 4, prefixes) / 4;
            let percent = answered * (ANSWER as u64 + 28) * 100 / u64::from(RATE);
            assert!(
                (least..=most).contains(&percent),
                "{prefixes} prefixes: {percent} % of the rate"
            );
        }
    }

    #[test]
    fn who_comes_from_elsewhere_is_answered_during_a_flood() {
        for prefixes in [1, 10, 200] {
            let mut limit = ReplyLimit::new([7; 32]);
            flood(&mut limit, Instant::ZERO, 50_000, 3, prefixes);
            let now = Instant::ZERO + Duration::from_secs(3);
            assert!(!limit.affords(now, RATE, &from(0)), "the flood goes on");
            let others =
                (0..100).filter(|host| limit.affords(now, RATE, &from(0x0A00_0000 | host << 8)));
            // With 200 greedy prefixes some share a counter with one of those.
            let wanted = if prefixes < 200 { 98 } else { 75 };
            assert!(others.count() >= wanted, "{prefixes} prefixes");
        }
    }

    #[test]
    fn a_pause_gives_all_of_it_back_and_time_in_small_steps_counts() {
        let mut limit = ReplyLimit::new([7; 32]);
        flood(&mut limit, Instant::ZERO, 50_000, 1, 1);
        let mut now = Instant::ZERO + Duration::from_secs(1);
        assert!(!limit.affords(now, RATE, &from(0)));
        for _ in 0..1_000_000 {
            now = now + Duration::from_nanos(1000);
            limit.affords(now, RATE, &from(0));
        }
        let left = limit.all.bytes(now);
        assert!((150_000..250_000).contains(&left), "{left} bytes after a second");
        assert_eq!(limit.all.bytes(now + Duration::from_secs(60)), 0);
        assert_eq!(limit.all.bytes(now + Duration::from_secs(1 << 33)), 0);
    }

    #[test]
    fn no_limit_and_nothing_at_all() {
        let mut limit = ReplyLimit::new([7; 32]);
        assert!(!limit.affords(Instant::ZERO, 0, &from(0)));
        (0..5000).for_each(|_| limit.spend(Instant::ZERO, &from(0), ANSWER));
        assert!(limit.affords(Instant::ZERO, u32::MAX, &from(0)));
        assert!(limit.affords(Instant::ZERO, RATE, &from(0x7F00_0001)), "this host itself");
    }

    #[test]
    fn neighbours_share_a_counter_and_others_are_spread_by_the_key() {
        let prefix = |addr: &str| prefix_of(addr.parse().unwrap());
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.255"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("2001:db8:1:2::1"), prefix("2001:db8:1:3::2"));
        assert_ne!(prefix("2001:db8:1::1"), prefix("2001:db8:2::1"));
        let slots =
            |key| (0..u64::from(SLOTS)).map(|prefix| slot_of(key, prefix)).collect::<Vec<_>>();
        // Of n balls in n bins, 1 - 1/e of the bins are hit.
        let hit = slots(1).into_iter().collect::<BTreeSet<_>>().len();
        assert!((600..700).contains(&hit), "{hit} of 1024");
        assert_ne!(slots(1), slots(3));
    }
}
