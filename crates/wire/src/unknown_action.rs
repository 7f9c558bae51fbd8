//! What the types of chunks and parameters say to those who do not know them.

/// What to do with a chunk (RFC 9260 section 3.2, table 2) or parameter (section 3.2.1, table 3) of
/// unknown type. The two highest bits of the type say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownAction {
    /// Process nothing that follows: in the packet for a chunk, in the chunk for a parameter.
    pub stop: bool,
    /// Tell the sender.
    pub report: bool,
}

impl UnknownAction {
    /// What the first byte of a type says.
    pub(crate) const fn of(byte: u8) -> Self {
        Self { stop: byte & 0x80 == 0, report: byte & 0x40 != 0 }
    }
}
