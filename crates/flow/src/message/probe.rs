//! PROBE and REPORT: how long a round trip between the two muxes takes, and how much waits.

use super::reader::Reader;
use crate::error::FlowError;
use alloc::vec::Vec;

/// Asks for a REPORT (type 128, unordered, from the receiver of data).
///
/// ```text
/// | header (8) | Stamp (8) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Means nothing to whoever answers.
    pub stamp: u64,
}

impl Probe {
    pub(super) const KIND: u8 = 128;

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        Ok(Self { stamp: reader.u64()? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.stamp.to_be_bytes());
    }
}

/// Answers a PROBE (type 129, ordered, from the sender of data): it arrives behind the data that was
/// handed to the association before it.
///
/// ```text
/// | header (8) | Stamp (8) | Queued (8) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// That of the probe.
    pub stamp: u64,
    /// Bytes of the flow that wait at the sender and have not been handed to the association.
    pub queued: u64,
}

impl Report {
    pub(super) const KIND: u8 = 129;

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, FlowError> {
        Ok(Self { stamp: reader.u64()?, queued: reader.u64()? })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.stamp.to_be_bytes());
        out.extend_from_slice(&self.queued.to_be_bytes());
    }
}
