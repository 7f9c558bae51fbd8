//! CREDIT, WANT and RETURN: how much may be sent. All unordered, all cumulative or idempotent.

use super::reader::Reader;
use crate::error::FlowError;
use alloc::vec::Vec;

/// Grants credit (type 6, unordered, from the receiver of data).
///
/// ```text
/// | header (8) | Window (4) | Flags (1): R | Reserved (3) | Granted (8) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// The window at present: granted and not returned, beyond what the reader has consumed.
    pub window: u32,
    /// Flag R: memory is short, credit beyond the window that is not needed should be returned.
    pub reclaim: bool,
    /// All bytes granted since the beginning of the flow. The largest one received counts.
    pub granted: u64,
}

impl Credit {
    const RECLAIM: u8 = 0x01;

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        let window = reader.u32()?;
        let [flags, _, _, _] = reader.array()?;
        let reclaim = flags & Self::RECLAIM != 0;
        Ok(Self { window, reclaim, granted: reader.u64()? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.reclaim { Self::RECLAIM } else { 0 };
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[flags, 0, 0, 0]);
        out.extend_from_slice(&self.granted.to_be_bytes());
    }
}

/// The sender of data is, or soon will be, short of credit (type 7, unordered).
///
/// ```text
/// | header (8) | Window (4) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The window that is too small: the one last heard of. A want of another window is outdated.
    pub window: u32,
}

impl Want {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        Ok(Self { window: reader.u32()? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.window.to_be_bytes());
    }
}

/// The sender of data gives credit back (type 8, unordered).
///
/// ```text
/// | header (8) | Returned (8) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Return {
    /// All bytes of credit returned since the beginning of the flow. The largest one counts.
    pub returned: u64,
}

impl Return {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        Ok(Self { returned: reader.u64()? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.returned.to_be_bytes());
    }
}
