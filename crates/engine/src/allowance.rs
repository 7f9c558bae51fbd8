//! What may be sent to an address before its owner has answered from there: it may be somebody else's
//! (RFC 5062).
//!
//! Three times as many bytes as have come (`Config::amplification_limit`), as a QUIC server may send to an address
//! that it has not validated (RFC 9000 section 8.1). Bytes are those of IP packets, with the headers of IP and UDP, on both sides of
//! the comparison: what counts for the network that a victim is behind.

use crate::path::{PathAddr, ip_len};

/// What can be saved up: some rounds of HEARTBEATs on all paths of an association, and not more although it may
/// have received gigabytes.
const MOST: u32 = 1 << 16;

/// Bytes that may be sent to unverified addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Allowance {
    left: u32,
}

impl Allowance {
    /// What an SCTP packet of `len` bytes allows that has come over `addr`: `limit` times its size.
    pub(crate) fn of(limit: u32, addr: &PathAddr, len: usize) -> Self {
        Self { left: cost(addr, len).saturating_mul(limit) }
    }

    /// Another packet has come.
    pub(crate) fn earn(&mut self, limit: u32, addr: &PathAddr, len: usize) {
        let earned = Self::of(limit, addr, len).left;
        self.left = self.left.saturating_add(earned).min(MOST.max(earned));
    }

    /// Whether an SCTP packet of `len` bytes may leave over `addr`.
    pub(crate) fn affords(&self, addr: &PathAddr, len: usize) -> bool {
        cost(addr, len) <= self.left
    }

    /// The longest SCTP packet that may leave over `addr`.
    pub(crate) fn room(&self, addr: &PathAddr) -> usize {
        self.left.saturating_sub(cost(addr, 0)) as usize
    }

    /// What it was if `bytes` had not come.
    pub(crate) fn without(mut self, limit: u32, bytes: usize) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.left < u32::MAX {
            self.left = self.left.saturating_sub(bytes.saturating_mul(limit));
        }
        self
    }

    /// An SCTP packet of `len` bytes leaves over `addr`. False if it is not allowed to.
    pub(crate) fn spend(&mut self, addr: &PathAddr, len: usize) -> bool {
        let left = self.left.checked_sub(cost(addr, len));
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

fn cost(addr: &PathAddr, len: usize) -> u32 {
    u32::try_from(ip_len(addr, len)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Allowance, MOST};
    use crate::path::PathAddr;

    fn over(local: &str, remote: &str) -> PathAddr {
        PathAddr { local: local.parse().unwrap(), remote: remote.parse().unwrap() }
    }

    #[test]
    fn three_bytes_leave_for_each_that_has_come_with_all_headers() {
        let (udp, raw) = (over("10.0.0.1:9899", "10.0.0.2:9899"), over("10.0.0.1:0", "10.0.0.2:0"));
        let v6 = over("[fd00::1]:9899", "[fd00::2]:9899");
        for (addr, headers) in [(udp, 28), (raw, 20), (v6, 48)] {
            let mut allowance = Allowance::default();
            assert!(!allowance.affords(&addr, 0) && !allowance.spend(&addr, 0));
            allowance.earn(3, &addr, 100);
            let room = 3 * (100 + headers) - headers;
            assert_eq!(allowance.room(&addr), room);
            assert!(!allowance.spend(&addr, room + 1) && allowance.affords(&addr, room));
            assert!(allowance.spend(&addr, room) && allowance.room(&addr) == 0);
        }
    }

    #[test]
    fn what_is_saved_up_is_bounded() {
        let addr = over("10.0.0.1:9899", "10.0.0.2:9899");
        let mut allowance = Allowance::default();
        (0..1_000_000).for_each(|_| allowance.earn(3, &addr, 1472));
        assert_eq!(allowance, Allowance { left: MOST });
        allowance.earn(3, &addr, 40_000);
        assert_eq!(
            allowance,
            Allowance::of(3, &addr, 40_000),
            "the answer to one packet is never cut"
        );
    }
}
