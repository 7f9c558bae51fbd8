//! Packets made by hand.

use manypath_wire::chunk::{Chunk, Init};
use manypath_wire::parameter::{Parameter, ParameterWriter, Parameters};
use manypath_wire::{CommonHeader, PacketWriter, Tsn, VerificationTag};

/// SCTP port of a stack that accepts flows.
pub(crate) const SERVICE: u16 = 29899;
/// The code point by which manypath hosts know each other.
pub(crate) const FLOWS: u32 = 0x6d50_0001;
/// The largest packet that is made here: it fits into an Ethernet frame with IP and UDP.
const LARGEST: usize = 1452;

/// A packet from SCTP port `from` with these chunks. What does not fit is left out.
pub(crate) fn packet(from: u16, tag: u32, chunks: &[Chunk<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; LARGEST];
    let header =
        CommonHeader { source_port: from, destination_port: SERVICE, tag: VerificationTag(tag) };
    let mut writer = PacketWriter::new(&mut bytes, header);
    for chunk in chunks {
        let _left_out = writer.push(chunk);
    }
    let len = writer.finish();
    bytes.truncate(len);
    bytes
}

/// Parameters one after the other.
pub(crate) fn parameters(list: &[Parameter<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; LARGEST];
    let mut writer = ParameterWriter::new(&mut bytes);
    for parameter in list {
        let _left_out = writer.push(parameter);
    }
    let len = writer.finish();
    bytes.truncate(len);
    bytes
}

/// The INIT chunk of an attacker, in a packet of its own.
pub(crate) fn init(from: u16, tag: u32, window: u32, parameters: &[u8]) -> Vec<u8> {
    let init = Init {
        tag: VerificationTag(tag),
        a_rwnd: window,
        outbound_streams: 1024,
        inbound_streams: 1024,
        initial_tsn: Tsn(tag),
        parameters: Parameters::from_bytes(parameters),
    };
    packet(from, 0, &[Chunk::Init(init)])
}

/// A number that nobody can guess and that is not zero.
pub(crate) fn random() -> u32 {
    getrandom::u32().map_or(1, |number| number.max(1))
}
