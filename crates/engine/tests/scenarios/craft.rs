//! Packets made by hand.

use crate::pair::{PORT_A, PORT_Z, Side};
use manypath_wire::VerificationTag;
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::{CommonHeader, PacketWriter};

/// A packet from `from` with `tag`.
pub(crate) fn packet(from: Side, tag: u32, chunks: &[Chunk<'_>]) -> Vec<u8> {
    let (source_port, destination_port) =
        if from == Side::A { (PORT_A, PORT_Z) } else { (PORT_Z, PORT_A) };
    let mut bytes = vec![0; 9000];
    let header = CommonHeader { source_port, destination_port, tag: VerificationTag(tag) };
    let mut writer = PacketWriter::new(&mut bytes, header);
    for chunk in chunks {
        assert!(writer.push(chunk).is_ok());
    }
    let len = writer.finish();
    bytes.truncate(len);
    bytes
}

/// `bytes` with the checksum that belongs to them.
pub(crate) fn checksummed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[8..12].fill(0);
    let crc = manypath_wire::checksum::crc32c(&[&bytes]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}
