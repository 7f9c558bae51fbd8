//! How a sequence of bytes becomes messages.
//!
//! Protocols that run over both TCP and SCTP say in a header how long each message is, because TCP
//! keeps no boundaries. Over SCTP each of them is one user message with an identifier of its own.

use manypath_engine::{Ppid, StreamId};

/// Bytes of a header that tell the length: the longest that any of the protocols needs.
pub(super) const HEAD: usize = 8;

/// What the bytes of a connection are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// Anything: pieces as they come, without an identifier, in stream 0.
    #[default]
    Pieces,
    /// Diameter messages (RFC 6733 section 3), with identifier 46, in stream 0.
    Diameter,
    /// M3UA messages (RFC 4666 section 1.4.7 and 3.1), with identifier 3: those of class Transfer in
    /// stream 1 if there is one, because stream 0 is not for them, all others in stream 0.
    M3ua,
}

/// The next message of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    pub(super) len: usize,
    pub(super) ppid: Ppid,
    pub(super) stream: StreamId,
}

impl Framing {
    /// What `head` begins.
    ///
    /// # Errors
    /// It begins no message of the protocol; why.
    pub(super) fn frame(self, head: [u8; HEAD]) -> Result<Frame, &'static str> {
        let [version, a, b, c, length @ ..] = head;
        match self {
            Self::Pieces => Ok(Frame { len: 1, ppid: crate::PPID_DIRECT, stream: StreamId(0) }),
            Self::Diameter if version != 1 => Err("not a message of Diameter version 1"),
            Self::Diameter => {
                let len = u32::from_be_bytes([0, a, b, c]);
                let frame = Frame { len: size(len), ppid: Ppid(46), stream: StreamId(0) };
                if len < 20 { Err("a Diameter message shorter than its header") } else { Ok(frame) }
            }
            Self::M3ua if version != 1 => Err("not a message of M3UA version 1"),
            Self::M3ua => {
                const TRANSFER: u8 = 1;
                let (class, len) = (b, u32::from_be_bytes(length));
                let stream = StreamId(u16::from(class == TRANSFER));
                let frame = Frame { len: size(len), ppid: Ppid(3), stream };
                if len < 8 { Err("an M3UA message shorter than its header") } else { Ok(frame) }
            }
        }
    }

    /// Streams that it makes use of.
    pub const fn streams(self) -> u16 {
        match self {
            Self::Pieces | Self::Diameter => 1,
            Self::M3ua => 2,
        }
    }
}

fn size(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
