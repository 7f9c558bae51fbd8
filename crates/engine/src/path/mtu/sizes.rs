//! Which sizes a path may have, and which of them are common.

use crate::path::{PathAddr, headers};

/// Largest packets of common links and tunnels, and a few in between. What is found is at most one
/// step too small.
const COMMON: [u16; 22] = [
    1280, 1320, 1360, 1400, 1420, 1440, 1460, 1472, 1480, 1492, 1500, 1600, 2000, 4000, 4352, 8000,
    8500, 8900, 9000, 9216, 16_384, 32_768,
];

/// Every host takes that over IPv4 (RFC 1122 section 3.3.2).
pub(super) const LEAST_PACKET: u16 = 576;

/// What nearly every path takes that takes less than its interface.
pub(super) const ETHERNET: u16 = 1500;

/// The sizes between which a search goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    /// Every path takes that (MIN_PLPMTU).
    pub(super) min: u16,
    /// Most paths take that (BASE_PLPMTU).
    pub(super) base: u16,
    /// The interface takes no more (MAX_PLPMTU).
    pub(super) max: u16,
}

impl Sizes {
    /// Those of a path behind a `link`, where IP packets of the first `least` size always pass and SCTP
    /// packets of the second are expected to; without a search what the link takes is all that there is.
    pub(super) fn new(addr: &PathAddr, link: u16, least: Option<(u16, u16)>) -> Self {
        let is_ipv6 = addr.remote.is_ipv6();
        // "For IPv6, this size is greater than or equal to [...] an 1280-byte IPv6 packet"
        let (min, base_plpmtu) = least.unwrap_or((LEAST_PACKET, link));
        let least = if is_ipv6 { min.max(1280) } else { min.max(LEAST_PACKET) };
        let max = link.max(LEAST_PACKET);
        let base = base_plpmtu.saturating_add(headers(addr) as u16).clamp(least, u16::MAX).min(max);
        Self { min: base.min(least), base, max }
    }
}

/// The next common size above `found` and below `top`, or else `top`.
pub(super) fn step(found: u16, top: u16) -> u16 {
    COMMON.into_iter().find(|size| *size > found && *size < top).unwrap_or(top)
}
