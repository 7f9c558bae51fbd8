//! NR-SACK: telling the sender what the receiver will never throw away
//! (draft-tuexen-tsvwg-sctp-multipath section 4).
//!
//! A sender keeps what is only gap-acked, because RFC 9260 lets the receiver renege on it. With
//! several paths that is most of the send buffer: the cumulative TSN waits for the slowest path.
//! What is acknowledged as non-renegable leaves the send buffer at once.
//!
//! Which TSNs a receiver may call non-renegable depends on the receiver; the draft has three cases.

use manypath_wire::chunk::types;

crate::names::named! {
    /// Whether and how acknowledgements say what is non-renegable. Used only if the peer knows
    /// NR-SACK as well; then nothing but NR-SACKs is sent.
    pub enum NrSack as "NR-SACK case" {
        /// SACK only.
        Off = "off",
        /// NR-SACK, and every TSN beyond the cumulative one might be reneged on.
        Case1 = "case-1",
        /// What was or can be delivered to the user is safe: complete messages that are unordered
        /// or whose predecessors in their stream have arrived.
        Case2 = "case-2",
        /// Everything that was received is safe, which is the truth about this receiver.
        Case3 = "case-3",
    }
}

impl NrSack {
    /// The extension to list in INIT and INIT ACK, if there is one (section 4.1).
    pub(crate) fn extension(self) -> Option<u8> {
        (self != Self::Off).then_some(types::NR_SACK)
    }

    /// What is used with a peer that has listed `extensions`.
    pub(crate) fn agreed(self, extensions: &[u8]) -> Self {
        if extensions.contains(&types::NR_SACK) { self } else { Self::Off }
    }
}

#[cfg(test)]
mod tests {
    use super::NrSack;

    #[test]
    fn both_sides_must_list_it() {
        assert_eq!(NrSack::Case2.agreed(&[0x82, 0x10]), NrSack::Case2);
        assert_eq!(NrSack::Case2.agreed(&[0x82]), NrSack::Off);
        assert_eq!(NrSack::Off.agreed(&[0x10]), NrSack::Off);
        assert_eq!((NrSack::Off.extension(), NrSack::Case1.extension()), (None, Some(0x10)));
    }
}
