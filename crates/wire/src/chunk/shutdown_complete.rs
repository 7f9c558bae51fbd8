//! Shutdown Complete (SHUTDOWN COMPLETE, type 14).

use super::abort::FLAG_TAG_REFLECTED;
use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::NoRoom;
use core::fmt;

/// Shutdown Complete (RFC 9260 section 3.3.13).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 14   |  Reserved   |T|          Length = 4           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShutdownComplete {
    /// T: the packet's verification tag is the one that the sender received, not the one that the
    /// receiver expects.
    pub tag_reflected: bool,
}

impl ShutdownComplete {
    pub(super) const fn parse(raw: RawChunk<'_>) -> Self {
        Self { tag_reflected: raw.flags() & FLAG_TAG_REFLECTED != 0 }
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        let flags = if self.tag_reflected { FLAG_TAG_REFLECTED } else { 0 };
        out.block([types::SHUTDOWN_COMPLETE, flags], |_| Ok(()))
    }
}

impl fmt::Display for ShutdownComplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reflected = if self.tag_reflected { " (tag reflected)" } else { "" };
        write!(f, "SHUTDOWN COMPLETE{reflected}")
    }
}
