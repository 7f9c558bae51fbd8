//! How large fragments are (RFC 9260 section 6.9): as large as every path takes, less what is left for other things.

use crate::config::Config;
use crate::path::Paths;
use manypath_wire::chunk::Data;

/// What bounds a fragment beside the paths.
#[derive(Debug)]
pub(crate) struct Fragmentation {
    /// Most bytes of a fragment, by the user's wish.
    limit: usize,
    /// Bytes of a packet that are not for chunks with user data.
    reserved: usize,
    /// A packet is filled with the beginning of a message that needs several.
    fills: bool,
}

impl Fragmentation {
    pub(super) fn new(config: &Config) -> Self {
        let limit = limit(config.fragment_limit);
        Self { limit, reserved: 0, fills: config.experiment.fill_packets }
    }

    /// The user's wish is as in `other`.
    pub(super) fn adopt_limit(&mut self, other: &Self) {
        self.limit = other.limit;
    }

    /// No fragment of a message is to have more than so many bytes.
    pub(crate) fn set_limit(&mut self, most: Option<u16>) {
        self.limit = limit(most);
    }

    /// Every packet with user data leaves so many bytes for something else.
    pub(crate) fn leave_room(&mut self, bytes: usize) {
        self.reserved = bytes;
    }

    /// Bytes of a packet that are not for chunks with user data.
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Largest payload that travels as one chunk with a header of `header` bytes on every path.
    pub(super) fn size(&self, header: usize, paths: &Paths) -> usize {
        let taken = header + self.reserved;
        (paths.fragment_size() + Data::HEADER_LEN).saturating_sub(taken).min(self.limit)
    }

    /// How much of a fragment of `len` bytes goes into `room` bytes of a packet. Whether its message `needs_more`.
    pub(super) fn fitting(
        &self,
        len: usize,
        room: usize,
        needs_more: impl FnOnce() -> bool,
    ) -> Option<usize> {
        // Whoever says how large fragments are at most wants them of that size.
        let fills = || self.fills && self.limit == usize::MAX && needs_more();
        if len <= room { Some(len) } else { fills().then_some(room) }
    }
}

/// Most bytes of a fragment, of which the user has said this.
fn limit(most: Option<u16>) -> usize {
    most.map_or(usize::MAX, |most| usize::from(most).max(1))
}
