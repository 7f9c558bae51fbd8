//! FINISH: how a direction ends in order. (RESET, type 5, has a header only.)

use super::reader::Reader;
use crate::error::FlowError;
use alloc::vec::Vec;

/// The sender sends no more (type 4, ordered, from either side).
///
/// ```text
/// | header (8) | Bytes (8) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finish {
    /// How many bytes the sender has sent on the flow.
    pub bytes: u64,
}

impl Finish {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        Ok(Self { bytes: reader.u64()? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes.to_be_bytes());
    }
}
