//! Abort Association (ABORT, type 6).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::cause::Causes;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// The T bit of ABORT and SHUTDOWN COMPLETE.
pub(super) const FLAG_TAG_REFLECTED: u8 = 0x01;

/// Abort Association (RFC 9260 section 3.3.7).
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |   Type = 6    |  Reserved   |T|            Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /                   zero or more Error Causes                   /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abort<'a> {
    /// T: the packet's verification tag is the one that the sender received, not the one that the
    /// receiver expects.
    pub tag_reflected: bool,
    /// Why.
    pub causes: Causes<'a>,
}

impl<'a> Abort<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        Ok(Self {
            tag_reflected: raw.flags() & FLAG_TAG_REFLECTED != 0,
            causes: Causes::from_bytes(raw.value()),
        })
    }

    pub(super) fn value_len(&self) -> usize {
        self.causes.encoded_len()
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        let flags = if self.tag_reflected { FLAG_TAG_REFLECTED } else { 0 };
        out.block([types::ABORT, flags], |out| out.bytes(self.causes.unpadded()))
    }
}

impl fmt::Display for Abort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reflected = if self.tag_reflected { " (tag reflected)" } else { "" };
        write!(f, "ABORT{reflected} {}", self.causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::chunk::Chunk;
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec::Vec;

    /// usrsctp's user aborts with the reason "bye".
    const CAPTURE: &[u8] = b"\x06\x00\x00\x0b\x00\x0c\x00\x07bye";
    /// usrsctp's answer to a packet of an association that it does not have.
    const REFLECTED: &[u8] = b"\x06\x01\x00\x04";

    #[test]
    fn reads_and_writes_the_capture() {
        let abort = Abort { tag_reflected: false, causes: Causes::from_bytes(&CAPTURE[4..]) };
        assert_eq!(parse_chunk(CAPTURE), Ok(Chunk::Abort(abort)));
        assert_round_trip(Chunk::Abort(abort), CAPTURE);
        let causes: Vec<_> = abort.causes.iter().collect();
        assert_eq!(causes, [Ok(Cause::UserInitiatedAbort(b"bye"))]);
        assert_eq!(abort.to_string(), "ABORT {user-initiated abort \"bye\"}");
    }

    #[test]
    fn the_tag_may_be_reflected_and_causes_missing() {
        let abort = Abort { tag_reflected: true, causes: Causes::EMPTY };
        assert_eq!(parse_chunk(REFLECTED), Ok(Chunk::Abort(abort)));
        assert_round_trip(Chunk::Abort(abort), REFLECTED);
        assert_eq!(abort.to_string(), "ABORT (tag reflected) {}");
        assert_minimum_length(REFLECTED, 4);
    }
}
