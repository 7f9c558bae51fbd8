//! An INIT as a question, and what is read from the answer. It costs the peer no memory (RFC 9260 section 5.1.3).

use manypath_wire::cause::Cause;
use manypath_wire::chunk::{Abort, Chunk, Init};
use manypath_wire::parameter::KeyManagement;
use manypath_wire::parameter::types::PADDING;
use manypath_wire::{
    CommonHeader, Packet, PacketWriter, Parameter, ParameterWriter, Parameters, Tsn,
    VerificationTag,
};
use std::net::{IpAddr, SocketAddr};

/// Header of a parameter in bytes.
const PARAMETER_HEADER: usize = 4;
/// Room for the parameters that are not padding.
const PARAMETERS: usize = 32;
/// Bytes of the INIT chunk without parameters, and its packet's header.
const BARE: usize = CommonHeader::LEN + 20;
/// The least size of a question: the answer has three times as many bytes at most, and lists all addresses of the peer.
const LEAST: usize = 228;

/// What an answer says.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// The peer refuses associations.
    pub(super) aborted: bool,
    /// It does because it takes encrypted ones only, and was not offered any.
    pub(super) wants_keys: bool,
    /// The peer's tag and State Cookie, to go on with.
    pub(super) tag: u32,
    pub(super) cookie: Vec<u8>,
    /// The TSN of its first DATA chunk.
    pub(super) initial_tsn: u32,
    /// The peer's other addresses.
    pub(super) addresses: Vec<IpAddr>,
    /// Where the peer has seen the question come from.
    pub(super) outside: Option<SocketAddr>,
    /// Whether the peer takes part in ECN, and whether it is a manypath.
    pub(super) ecn: bool,
    pub(super) manypath: bool,
}

/// An SCTP packet with an INIT, padded to `size` bytes, but no less than [`LEAST`]. `keys`: it offers encryption.
pub(super) fn question(tag: u32, source_port: u16, size: usize, keys: bool) -> Vec<u8> {
    let mut room = [0; PARAMETERS];
    let mut writer = ParameterWriter::new(&mut room);
    // There is room for all.
    let _ = writer.push(&Parameter::AdaptationIndication(manypath_flow::ADAPTATION));
    let _ = writer.push(&Parameter::EcnCapable);
    if keys {
        let _ = writer.push(&Parameter::KeyManagement(offer(tag)));
    }
    let length = writer.finish();
    let mut parameters = room[..length].to_vec();
    pad(&mut parameters, size.max(LEAST) - BARE);
    let init = Init {
        tag: VerificationTag(tag),
        a_rwnd: 1 << 16,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(tag),
        parameters: Parameters::from_bytes(&parameters),
    };
    let header = header(source_port, 0);
    let mut packet = vec![0; BARE + parameters.len()];
    let mut writer = PacketWriter::new(&mut packet, header);
    let _ = writer.push(&Chunk::Init(init));
    let length = writer.finish();
    packet.truncate(length);
    packet
}

/// What stacks offer: either role, and the one method. The first bit of the tie breaker is that of an INIT ACK.
const fn offer(tag: u32) -> KeyManagement<'static> {
    let flags = KeyManagement::CLIENT | KeyManagement::SERVER;
    KeyManagement { tie_breaker: tag >> 1, flags, methods: &[manypath_keys::METHOD] }
}

/// The header of a packet to the peer's manypath.
pub(super) fn header(source_port: u16, tag: u32) -> CommonHeader {
    let destination_port = manypath_daemon::SCTP_PORT;
    CommonHeader { source_port, destination_port, tag: VerificationTag(tag) }
}

/// Appends a padding parameter so that there are `size` bytes, if there is room for one.
fn pad(parameters: &mut Vec<u8>, size: usize) {
    let Some(value) = size.checked_sub(parameters.len() + PARAMETER_HEADER) else { return };
    let Ok(length) = u16::try_from(value + PARAMETER_HEADER) else { return };
    parameters.extend(PADDING.to_be_bytes());
    parameters.extend(length.to_be_bytes());
    parameters.resize(parameters.len() + value, 0);
}

/// The tag of the question that a packet answers, and what it says; nothing if it is no answer.
pub(super) fn answer(bytes: &[u8]) -> Option<(u32, Answer)> {
    let packet = Packet::parse(bytes).ok()?;
    let tag = packet.header().tag.0;
    let chunk = packet.chunks().next()?.ok()?;
    if let Chunk::Abort(Abort { causes, .. }) = chunk {
        let wants_keys = causes.iter().any(|cause| cause == Ok(Cause::MissingDtlsSupport));
        return Some((tag, Answer { aborted: true, wants_keys, ..Answer::default() }));
    }
    let Chunk::InitAck(ack) = chunk else { return None };
    let (peers, initial_tsn) = (ack.tag.0, ack.initial_tsn.0);
    let mut said = Answer { tag: peers, initial_tsn, ..Answer::default() };
    ack.parameters.iter().flatten().for_each(|one| read(&mut said, &one, ack.tag));
    Some((tag, said))
}

fn read(answer: &mut Answer, parameter: &Parameter<'_>, tag: VerificationTag) {
    if let Parameter::StateCookie(cookie) = parameter {
        answer.outside = manypath_engine::seen_source(cookie, tag);
        answer.cookie = cookie.to_vec();
    }
    if let Parameter::Ipv4Address(address) = parameter {
        answer.addresses.push((*address).into());
    }
    if let Parameter::Ipv6Address(address) = parameter {
        answer.addresses.push((*address).into());
    }
    answer.ecn |= matches!(parameter, Parameter::EcnCapable);
    answer.manypath |= matches!(parameter,
        Parameter::AdaptationIndication(value) if *value == manypath_flow::ADAPTATION);
}

#[cfg(test)]
mod tests {
    use super::{answer, question};
    use manypath_wire::chunk::Chunk;
    use manypath_wire::{Packet, Parameter};

    #[test]
    fn questions_have_the_size_that_is_asked_for() {
        let sizes = [0, 100, 1252, 1452, 8972].into_iter();
        for (size, keys) in sizes.flat_map(|size| [(size, false), (size, true)]) {
            let packet = question(7, 1234, size, keys);
            assert_eq!(packet.len(), size.max(super::LEAST));
            let parsed = Packet::parse(&packet).unwrap();
            let chunk = parsed.chunks().next().unwrap().unwrap();
            let Chunk::Init(init) = chunk else { panic!("{chunk}") };
            assert!(init.tag.0 == 7 && init.parameters.iter().all(|one| one.is_ok()));
            let is_offer = |one| matches!(one, Ok(Parameter::KeyManagement(_)));
            assert_eq!(init.parameters.iter().any(is_offer), keys);
            assert!(answer(&packet).is_none(), "a question is no answer");
        }
        assert!(answer(&[0; 40]).is_none());
    }
}
