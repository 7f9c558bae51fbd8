//! The SCTP packet: common header and chunks (RFC 9260 section 3).

use crate::bytes::{Output, Reader};
use crate::checksum::crc32c;
use crate::chunk::{Chunk, RawChunk};
use crate::error::{NoRoom, ParseError};
use crate::numbers::VerificationTag;

/// The common header (RFC 9260 section 3.1) without its checksum, which [`Packet::parse`] checks
/// and [`PacketWriter::finish`] sets.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |      Source Port Number       |    Destination Port Number    |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                       Verification Tag                        |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                           Checksum                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CommonHeader {
    /// SCTP port of the sender.
    pub source_port: u16,
    /// SCTP port of the receiver.
    pub destination_port: u16,
    /// The tag that the receiver expects; zero with an INIT.
    pub tag: VerificationTag,
}

impl CommonHeader {
    /// Size in bytes, checksum included.
    pub const LEN: usize = 12;
}

/// Where the checksum stands in the packet.
const CHECKSUM_AT: usize = 8;
/// Bytes of the checksum.
const CHECKSUM_LEN: usize = 4;

/// A received packet, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    header: CommonHeader,
    chunks: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks the length of the common header and the CRC32c. The chunks are parsed by
    /// [`Self::chunks`].
    ///
    /// # Errors
    /// [`ParseError::TooShort`], [`ParseError::BadChecksum`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let packet = Self::parse_unchecked(bytes)?;
        if stored_checksum(bytes) == Some(checksum(bytes)) {
            Ok(packet)
        } else {
            Err(ParseError::BadChecksum)
        }
    }

    /// Like [`Self::parse`], without looking at the checksum: for packets that come cut short
    /// inside an ICMP message, and for fuzzing.
    ///
    /// # Errors
    /// [`ParseError::TooShort`].
    pub fn parse_unchecked(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (head, chunks) =
            bytes.split_at_checked(CommonHeader::LEN).ok_or(ParseError::TooShort)?;
        let mut reader = Reader::new(head);
        let (Some(source_port), Some(destination_port), Some(tag)) =
            (reader.u16(), reader.u16(), reader.u32())
        else {
            return Err(ParseError::TooShort);
        };
        let header = CommonHeader { source_port, destination_port, tag: VerificationTag(tag) };
        Ok(Self { header, chunks })
    }

    /// The common header.
    pub const fn header(&self) -> CommonHeader {
        self.header
    }

    /// The chunks in order. After an error nothing more comes.
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks { rest: self.chunks }
    }
}

/// Iterator over the chunks of a [`Packet`].
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let chunk = RawChunk::split(self.rest).and_then(|(raw, rest)| {
            self.rest = rest;
            Chunk::parse(raw)
        });
        if chunk.is_err() {
            self.rest = &[];
        }
        Some(chunk)
    }
}

/// Appends chunks to a caller's buffer, whose length is the limit of the packet's size.
#[derive(Debug)]
pub struct PacketWriter<'b> {
    out: Output<'b>,
}

impl<'b> PacketWriter<'b> {
    /// Begins a packet. If `buffer` is shorter than the common header, no chunk fits either and
    /// [`Self::finish`] returns 0.
    pub fn new(buffer: &'b mut [u8], header: CommonHeader) -> Self {
        let mut out = Output::new(buffer);
        let CommonHeader { source_port, destination_port, tag } = header;
        // Without room for it nothing is written, and `push` refuses every chunk.
        let _no_room = out.whole(|out| {
            out.u16(source_port)?;
            out.u16(destination_port)?;
            out.u32(tag.0)?;
            out.bytes(&[0; CHECKSUM_LEN])
        });
        Self { out }
    }

    /// Appends a chunk and its padding, or nothing.
    ///
    /// # Errors
    /// [`NoRoom`] if the rest of the buffer or the chunk's 16-bit Length is too small for it.
    pub fn push(&mut self, chunk: &Chunk<'_>) -> Result<(), NoRoom> {
        if self.out.len() < CommonHeader::LEN {
            return Err(NoRoom);
        }
        chunk.emit(&mut self.out)
    }

    /// Bytes left for one more chunk, its chunk header included and its padding excluded.
    pub const fn room(&self) -> usize {
        if self.out.len() < CommonHeader::LEN {
            return 0;
        }
        // Padding must fit as well: a rest of one to three bytes is of no use.
        (self.out.capacity() - self.out.len()) & !3
    }

    /// Bytes written, the common header included.
    pub const fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether no chunk has been written yet.
    pub const fn is_empty(&self) -> bool {
        self.out.len() <= CommonHeader::LEN
    }

    /// Sets the CRC32c and returns the packet's length in bytes.
    pub fn finish(mut self) -> usize {
        let checksum = checksum(self.out.written());
        self.out.overwrite(CHECKSUM_AT, &checksum.to_le_bytes());
        self.out.len()
    }
}

/// CRC32c of a packet, its checksum field taken as zero (RFC 9260 section 6.8).
fn checksum(packet: &[u8]) -> u32 {
    let before = packet.get(..CHECKSUM_AT).unwrap_or_default();
    let after = packet.get(CommonHeader::LEN..).unwrap_or_default();
    crc32c(&[before, &[0; CHECKSUM_LEN], after])
}

/// The checksum field. Its bytes stand in the order in which the CRC comes out, lowest first
/// (RFC 9260 appendix A).
fn stored_checksum(packet: &[u8]) -> Option<u32> {
    packet.get(CHECKSUM_AT..)?.first_chunk().copied().map(u32::from_le_bytes)
}
