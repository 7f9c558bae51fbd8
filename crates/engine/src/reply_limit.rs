//! How much leaves in answer to sources that have proven nothing: a flood of INITs from forged addresses
//! must not fill our uplink with INIT ACKs.
//!
//! Answers of the last second, in bytes, are at most `Config::unverified_reply_rate`, all together. The prefix of a
//! source (/24, /48 with IPv6) may have used as much of that as is left, and the source itself (/64 with IPv6) as much as is left
//! of what its prefix may use: N greedy prefixes get one part of N + 1 each, and one part stays free for who comes
//! next (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998); so among the addresses
//! of a prefix. A flood from other addresses does not take the place of a handshake that is meant.
//!
//! Prefixes, and addresses, share [`SLOTS`] counters by a keyed hash, so that nobody can choose with whom to collide.

use crate::path::{PathAddr, ip_len};
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::IpAddr;

const SLOTS: usize = 1024;
/// What was used counts half after this time. It falls by half of itself in so long all the way, so that
/// what is used all the time sums up to the use of twice that: a second.
const HALF_LIFE: Duration = Duration::from_millis(500);
/// What the smallest answer counts as, in bytes of IP packet: each costs a system call, however small it is.
const MIN_ANSWER: usize = 128;
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

/// What was sent in answer to sources that have proven nothing.
#[derive(Debug, Default)]
pub(crate) struct ReplyLimit {
    key: u64,
    all: Usage,
    /// [`SLOTS`] for prefixes and as many for addresses, from the first answer on: most endpoints never give one.
    by_source: Vec<Usage>,
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
        let [by_prefix, by_address] = self.used_by(addr).map(|usage| usage.bytes(now));
        by_address < free.saturating_sub(by_prefix)
    }

    /// An SCTP packet of `len` bytes leaves over `addr` in answer.
    pub(crate) fn spend(&mut self, now: Instant, addr: &PathAddr, len: usize) {
        let bytes = ip_len(addr, len).max(MIN_ANSWER);
        for usage in self.used_by(addr) {
            usage.add(now, bytes);
        }
        self.all.add(now, bytes);
    }

    /// What the prefix of a source has used, and the source.
    fn used_by(&mut self, addr: &PathAddr) -> [&mut Usage; 2] {
        if self.by_source.is_empty() {
            self.by_source.resize(2 * SLOTS, Usage::default());
        }
        let [prefix, address] = words_of(addr.remote.ip()).map(|word| slot_of(self.key, word));
        let (prefixes, addresses) = self.by_source.split_at_mut(SLOTS);
        [&mut prefixes[prefix], &mut addresses[address]]
    }
}

/// The prefix, which is what one customer of a network may have, and the address. Both differ from those of the other family.
fn words_of(addr: IpAddr) -> [u64; 2] {
    match addr {
        IpAddr::V4(v4) => [v4.to_bits() >> 8, v4.to_bits()].map(u64::from),
        IpAddr::V6(v6) => [v6.to_bits() >> 80, v6.to_bits() >> 64]
            .map(|bits| u64::try_from(bits).unwrap_or(0) ^ 1 << 63),
    }
}

/// Mixes as the finalizer of MurmurHash3 does, with a secret before and after.
fn slot_of(key: u64, word: u64) -> usize {
    let mix = |mut word: u64| {
        word = (word ^ word >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        word = (word ^ word >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        word ^ word >> 33
    };
    let mixed = mix(mix(word.wrapping_add(key)) ^ key.rotate_left(32));
    usize::try_from(mixed % SLOTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{ReplyLimit, SLOTS, slot_of, words_of};
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

    /// 50,000 packets a second for `seconds` from sources that `source` makes of numbers; how many are answered.
    fn flood(limit: &mut ReplyLimit, begin: Instant, seconds: u32, source: fn(u32) -> u32) -> u64 {
        let mut answered = 0;
        for number in 0..50_000 * seconds {
            let (now, addr) = (begin + Duration::from_micros(20) * number, from(source(number)));
            if limit.affords(now, RATE, &addr) {
                limit.spend(now, &addr, ANSWER);
                answered += 1;
            }
        }
        answered
    }

    const ONE: fn(u32) -> u32 = |_| 0;
    const NEIGHBOURS: fn(u32) -> u32 = |number| number % 200;
    const TEN_PREFIXES: fn(u32) -> u32 = |number| ((number % 10) << 8) | (number % 50);
    const ALL: fn(u32) -> u32 = |number| number << 8;

    #[test]
    fn one_address_gets_a_third_of_the_rate_a_prefix_half_and_many_all_of_it() {
        let floods = [(ONE, 30, 45), (NEIGHBOURS, 45, 65), (TEN_PREFIXES, 75, 105), (ALL, 90, 115)];
        for (source, least, most) in floods {
            let mut limit = ReplyLimit::new([7; 32]);
            // What is saved up at first is spent in the first seconds.
            flood(&mut limit, Instant::ZERO, 2, source);
            let begin = Instant::ZERO + Duration::from_secs(2);
            let answered = flood(&mut limit, begin, 4, source) / 4;
            let percent = answered * (ANSWER as u64 + 28) * 100 / u64::from(RATE);
            assert!(
                (least..=most).contains(&percent),
                "{percent} % of the rate, not {least} to {most}"
            );
        }
    }

    #[test]
    fn who_comes_from_elsewhere_or_next_door_is_answered_during_a_flood() {
        for source in [ONE, NEIGHBOURS, TEN_PREFIXES] {
            let mut limit = ReplyLimit::new([7; 32]);
            flood(&mut limit, Instant::ZERO, 3, source);
            let now = Instant::ZERO + Duration::from_secs(3);
            assert!(!limit.affords(now, RATE, &from(0)), "the flood goes on");
            let mut answered = |addr: u32| limit.affords(now, RATE, &from(addr));
            let others = (0..100).map(|host| 0x0A00_0000 | host << 8).chain(200..250);
            // Some share a counter with a greedy one.
            assert!(others.filter(|addr| answered(*addr)).count() >= 110);
        }
    }

    #[test]
    fn a_pause_gives_all_of_it_back_and_time_in_small_steps_counts() {
        let mut limit = ReplyLimit::new([7; 32]);
        flood(&mut limit, Instant::ZERO, 1, ONE);
        let mut now = Instant::ZERO + Duration::from_secs(1);
        for _ in 0..1_000_000 {
            now = now + Duration::from_nanos(1000);
            limit.affords(now, RATE, &from(0));
        }
        let left = limit.all.bytes(now);
        assert!((80_000..200_000).contains(&left), "{left} bytes after a second");
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
        let words = |addr: &str| words_of(addr.parse().unwrap());
        let [prefix, address] = words("192.0.2.1");
        assert!(words("192.0.2.255")[0] == prefix && words("192.0.2.255")[1] != address);
        assert_ne!(words("192.0.3.1")[0], prefix);
        let [prefix, address] = words("2001:db8:1:2::1");
        assert_eq!(words("2001:db8:1:2::ffff"), [prefix, address]);
        assert!(words("2001:db8:1:3::1")[0] == prefix && words("2001:db8:1:3::1")[1] != address);
        assert_ne!(words("2001:db8:2::1")[0], prefix);
        let slots = |key| (0..SLOTS as u64).map(|word| slot_of(key, word)).collect::<Vec<_>>();
        // Of n balls in n bins, 1 - 1/e of the bins are hit.
        let hit = slots(1).into_iter().collect::<BTreeSet<_>>().len();
        assert!((600..700).contains(&hit), "{hit} of 1024");
        assert_ne!(slots(1), slots(3));
    }
}
