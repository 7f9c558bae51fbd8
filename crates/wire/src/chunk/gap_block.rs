//! Gap Ack Blocks and lists of TSNs, as SACK and NR-SACK carry them.

use crate::list::{List, item};
use crate::numbers::Tsn;
use core::fmt;

/// Gap Ack Block (RFC 9260 section 3.3.4): the TSNs from `cum_tsn + start` to `cum_tsn + end` have
/// been received, both ends included. Nothing keeps a peer from sending `start > end` or zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct GapBlock {
    /// Offset of the lowest TSN from the Cumulative TSN Ack.
    pub start: u16,
    /// Offset of the highest TSN from the Cumulative TSN Ack.
    pub end: u16,
}

item!(GapBlock, [u8; 4], Self::from_be_bytes, Self::to_be_bytes);

impl GapBlock {
    pub(crate) fn from_be_bytes([s0, s1, e0, e1]: [u8; 4]) -> Self {
        Self { start: u16::from_be_bytes([s0, s1]), end: u16::from_be_bytes([e0, e1]) }
    }

    pub(crate) fn to_be_bytes(self) -> [u8; 4] {
        let ([s0, s1], [e0, e1]) = (self.start.to_be_bytes(), self.end.to_be_bytes());
        [s0, s1, e0, e1]
    }
}

impl fmt::Display for GapBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

/// Gap Ack Blocks in the order of the chunk.
pub type GapBlocks<'a> = List<'a, GapBlock>;

/// TSNs in the order of the chunk.
pub type Tsns<'a> = List<'a, Tsn>;
