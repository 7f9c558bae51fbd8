//! Congestion Window Reduced (CWR, type 13).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::numbers::Tsn;
use core::fmt;

/// Congestion Window Reduced. RFC 9260 reserves the type; the format is that of RFC 4960
/// appendix A.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Chunk Type=13 | Flags=00000000|    Chunk Length = 8           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Lowest TSN Number                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cwr {
    /// The TSN of the ECNE that is answered.
    pub lowest_tsn: Tsn,
}

impl Cwr {
    pub(super) fn parse(raw: RawChunk<'_>) -> Result<Self, ParseError> {
        let lowest_tsn = raw.reader().u32().ok_or(raw.length_error())?;
        Ok(Self { lowest_tsn: Tsn(lowest_tsn) })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::CWR, 0], |out| out.u32(self.lowest_tsn.0))
    }
}

impl fmt::Display for Cwr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CWR lowest_tsn={}", self.lowest_tsn.0)
    }
}
