//! Packets made by hand.

use crate::pair::{PORT_A, PORT_Z, Side};
use manypath_wire::chunk::{Chunk, CookieEcho, Init};
use manypath_wire::packet::{CommonHeader, Packet, PacketWriter};
use manypath_wire::parameter::{Parameter, Parameters};
use manypath_wire::{Tsn, VerificationTag};

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

/// An INIT of A's.
pub(crate) fn init(tag: u32, parameters: &[u8]) -> Vec<u8> {
    let init = Init {
        tag: VerificationTag(tag),
        a_rwnd: 100_000,
        outbound_streams: 16,
        inbound_streams: 16,
        initial_tsn: Tsn(tag),
        parameters: Parameters::from_bytes(parameters),
    };
    packet(Side::A, 0, &[Chunk::Init(init)])
}

/// `bytes` with the checksum that belongs to them.
pub(crate) fn checksummed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[8..12].fill(0);
    let crc = manypath_wire::checksum::crc32c(&[&bytes]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The COOKIE ECHO that A answers an INIT ACK with.
pub(crate) fn cookie_echo(init_ack: &[u8]) -> Vec<u8> {
    let parsed = Packet::parse(init_ack).unwrap();
    let Some(Ok(Chunk::InitAck(ack))) = parsed.chunks().next() else { panic!("no INIT ACK") };
    let cookie = ack.parameters.iter().find_map(|parameter| match parameter {
        Ok(Parameter::StateCookie(cookie)) => Some(cookie),
        _ => None,
    });
    packet(Side::A, ack.tag.0, &[Chunk::CookieEcho(CookieEcho { cookie: cookie.unwrap() })])
}
