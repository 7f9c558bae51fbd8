//! How packets arrive.

use crate::ecn::Ecn;

/// What the layers below know about the arrival of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// The ECN bits of its IP header (RFC 3168 section 5).
    pub ecn: Ecn,
    /// Packets are delivered in order, as by TCP (RFC 9293): each waits until those sent before it have arrived.
    pub in_order: bool,
}

impl Delivery {
    /// By a transport that delivers in order and tells no ECN bits.
    pub const IN_ORDER: Self = Self { ecn: Ecn::NotEct, in_order: true };
}

impl From<Ecn> for Delivery {
    /// In an IP packet of its own.
    fn from(ecn: Ecn) -> Self {
        Self { ecn, in_order: false }
    }
}
