//! NR-SACK: telling the sender what the receiver will never throw away
//! (draft-tuexen-tsvwg-sctp-multipath section 4).
//!
//! A sender keeps what is only gap-acked, because RFC 9260 lets the receiver renege on it. With
//! several paths that is most of the send buffer: the cumulative TSN waits for the slowest path.
//! What is acknowledged as non-renegable leaves the send buffer at once.
//!
//! Which TSNs a receiver may call non-renegable depends on the receiver; the draft has three cases.

use crate::config::NrSack;
use manypath_wire::chunk::types;

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
    use crate::config::NrSack;

    #[test]
    fn both_sides_must_list_it() {
        assert_eq!(NrSack::Case2.agreed(&[0x82, 0x10]), NrSack::Case2);
        assert_eq!(NrSack::Case2.agreed(&[0x82]), NrSack::Off);
        assert_eq!(NrSack::Off.agreed(&[0x10]), NrSack::Off);
        assert_eq!((NrSack::Off.extension(), NrSack::Case1.extension()), (None, Some(0x10)));
    }
}
