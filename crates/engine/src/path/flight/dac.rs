//! Delayed acknowledgement for CMT (Iyengar, Amer, Stewart 2006; draft-tuexen-tsvwg-sctp-multipath
//! 5.3).
//!
//! Several paths bring chunks out of order all the time. A receiver that acknowledges every gap at
//! once (RFC 9260 section 6.7) sends a SACK for each packet. With DAC gaps do not hurry it; instead
//! each SACK tells how many packets with DATA have come since the last one, and the sender counts
//! that many missing reports where it can.
//!
//! The draft leaves the encoding open. Bits 7 and 6 of the chunk flags hold the number, up to 3: an
//! implementation that looks at bit 7 alone (FreeBSD) reads "two or more".

use super::{Reach, Sent};

/// The largest number that the flags can hold.
const MOST: u8 = 3;
const SHIFT: u32 = 6;

/// The chunk flags of an acknowledgement for so many packets.
pub(crate) fn flags(packets: u8) -> u8 {
    packets.min(MOST) << SHIFT
}

/// How many missing reports a SACK counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reports {
    packets: u8,
}

impl Reports {
    /// One, as without DAC.
    pub(crate) const ONE: Self = Self { packets: 1 };

    /// What an acknowledgement with these `flags` says, which newly acknowledged chunks of `paths`
    /// paths. If it is about several, nobody knows how many of the packets came over which.
    pub(crate) fn new(flags: u8, paths: usize) -> Self {
        if paths > 1 { Self::ONE } else { Self { packets: (flags >> SHIFT).max(1) } }
    }

    /// The number of reports for `sent`. Packets that were sent before it say nothing: among mixed
    /// ones only the highest counts.
    pub(crate) fn against(self, sent: Sent, reach: Reach) -> u8 {
        if reach.begins_before(sent) { 1 } else { self.packets }
    }
}

#[cfg(test)]
mod tests {
    use super::{Reports, flags};
    use crate::path::flight::{Extent, Reach, Sent};
    use crate::tsn::Tsn64;
    use manypath_wire::Tsn;

    #[test]
    fn up_to_three_packets_fit_into_the_flags() {
        assert_eq!([0, 1, 2, 3, 4, 200].map(flags), [0, 0x40, 0x80, 0xC0, 0xC0, 0xC0]);
    }

    #[test]
    fn all_packets_count_only_if_all_were_sent_later_on_the_one_path() {
        let against = |flags, paths, number| {
            let sent = Sent { number, tsn: Tsn64::initial(Tsn(0)) };
            let reach = Reach::Numbers(Extent { least: 5, most: 9 });
            Reports::new(flags, paths).against(sent, reach)
        };
        assert_eq!([0, 0x40, 0x80, 0xC0, 0x3F].map(|flags| against(flags, 1, 4)), [1, 1, 2, 3, 1]);
        // Between what has arrived; of several paths.
        assert_eq!((against(0xC0, 1, 7), against(0xC0, 2, 4)), (1, 1));
    }
}
