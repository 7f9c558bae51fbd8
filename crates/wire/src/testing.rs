//! What the unit tests of all chunks share.

use crate::chunk::{Chunk, RawChunk};
use crate::error::ParseError;
use crate::numbers::VerificationTag;
use crate::packet::{CommonHeader, Packet, PacketWriter};
use std::vec::Vec;

pub(crate) const HEADER: CommonHeader =
    CommonHeader { source_port: 1234, destination_port: 5678, tag: VerificationTag(0x0102_0304) };

/// The chunk that `bytes` begin with.
pub(crate) fn parse_chunk(bytes: &[u8]) -> Result<Chunk<'_>, ParseError> {
    RawChunk::split(bytes).and_then(|(raw, _)| Chunk::parse(raw))
}

/// Writes `chunk` into a packet: its bytes must be `expected` and padding, its announced length
/// that of `expected`, and what is read from the packet must be `chunk` again.
pub(crate) fn assert_round_trip(chunk: Chunk<'_>, expected: &[u8]) {
    let mut buffer = [0xFF; 2048];
    let mut writer = PacketWriter::new(&mut buffer, HEADER);
    writer.push(&chunk).unwrap();
    let len = writer.finish();
    let (written, padding) = buffer[CommonHeader::LEN..len].split_at(chunk.encoded_len());
    assert_eq!(written, expected);
    assert!(padding.len() < 4 && len.is_multiple_of(4) && padding.iter().all(|&byte| byte == 0));
    let packet = Packet::parse(&buffer[..len]).unwrap();
    assert_eq!(packet.header(), HEADER);
    assert!(packet.chunks().eq([Ok(chunk)]));
}

/// The chunk in `bytes` is refused with every Length below `minimum`, and accepted with `minimum`.
pub(crate) fn assert_minimum_length(bytes: &[u8], minimum: u16) {
    let type_byte = bytes[0];
    for length in 0..minimum {
        let cut = with_length(bytes, length);
        assert_eq!(parse_chunk(&cut), Err(ParseError::ChunkLength { type_byte, length }));
    }
    assert!(parse_chunk(&with_length(bytes, minimum)).is_ok());
}

/// `bytes` with another Length field.
pub(crate) fn with_length(bytes: &[u8], length: u16) -> Vec<u8> {
    let mut bytes = Vec::from(bytes);
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes
}
