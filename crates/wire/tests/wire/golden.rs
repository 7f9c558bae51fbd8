//! A packet of each kind.

use manypath_wire::chunk::{
    Abort, CookieEcho, Cwr, Data, Ecne, Error, FragmentPlace, GapBlock, GapBlocks, Heartbeat,
    HeartbeatAck, IData, IForwardTsn, Init, InitAck, NrSack, Sack, Shutdown, ShutdownComplete,
    SkippedMessage, SkippedMessages, Tsns, Unknown, types,
};
use manypath_wire::parameter::{AddressTypes, UnknownParameter, types as parameter_types};
use manypath_wire::{
    Cause, CauseWriter, Causes, Chunk, CommonHeader, Fsn, Mid, PacketWriter, Parameter,
    ParameterWriter, Parameters, Ppid, Ssn, StreamId, Tsn, VerificationTag, cause,
};
use std::net::{Ipv4Addr, Ipv6Addr};

const GAPS: [GapBlock; 3] = [
    GapBlock { start: 2, end: 5 },
    GapBlock { start: 8, end: 8 },
    GapBlock { start: 10, end: 65_535 },
];
const DUPLICATES: [Tsn; 2] = [Tsn(0xFFFF_FFFF), Tsn(0)];

/// Names and bytes of the packets: every chunk type, every parameter, every cause.
pub(crate) fn packets() -> Vec<(&'static str, Vec<u8>)> {
    let mut packets = setup();
    packets.extend(transfer());
    packets.extend(interleaving());
    packets.extend(teardown());
    packets
}

fn setup() -> Vec<(&'static str, Vec<u8>)> {
    let initial = parameters(&init_parameters());
    let answer = parameters(&init_ack_parameters());
    let init = Init {
        tag: VerificationTag(0xA1A2_A3A4),
        a_rwnd: 1 << 20,
        outbound_streams: 1024,
        inbound_streams: 65_535,
        initial_tsn: Tsn(0xFFFF_FFF0),
        parameters: Parameters::from_bytes(&initial),
    };
    let init_ack = InitAck {
        tag: VerificationTag(0xB1B2_B3B4),
        a_rwnd: 1 << 20,
        outbound_streams: 1024,
        inbound_streams: 1024,
        initial_tsn: Tsn(0x7FFF_FFFF),
        parameters: Parameters::from_bytes(&answer),
    };
    let echo = Chunk::CookieEcho(CookieEcho { cookie: b"a cookie of 21 bytes." });
    vec![
        ("init", packet(0, &[Chunk::Init(init)])),
        ("init_ack", packet(1, &[Chunk::InitAck(init_ack)])),
        ("cookie_echo", packet(2, &[echo, data(b"early"), data(b"birds")])),
        ("cookie_ack", packet(1, &[Chunk::CookieAck])),
    ]
}

fn transfer() -> Vec<(&'static str, Vec<u8>)> {
    let sack = Sack {
        flags: 0x40,
        cum_tsn: Tsn(3),
        a_rwnd: 4000,
        gaps: GapBlocks::from_slice(&GAPS),
        duplicates: Tsns::from_slice(&DUPLICATES),
    };
    let nr_sack = NrSack {
        flags: 0xC0,
        cum_tsn: Tsn(3),
        a_rwnd: 4000,
        gaps: GapBlocks::from_slice(&GAPS[2..]),
        nr_gaps: GapBlocks::from_slice(&GAPS[..2]),
        duplicates: Tsns::from_slice(&DUPLICATES),
    };
    let pad = Unknown::from_bytes(b"\x84\x00\x00\x07pad").expect("a PAD chunk");
    let info = b"address, time and nonce";
    vec![
        ("data", packet(2, &[data(b"hello")])),
        ("sack", packet(1, &[Chunk::Sack(sack), data(b"and data")])),
        ("nr_sack", packet(1, &[Chunk::NrSack(nr_sack)])),
        ("heartbeat", packet(2, &[Chunk::Heartbeat(Heartbeat { info })])),
        ("heartbeat_ack", packet(1, &[Chunk::HeartbeatAck(HeartbeatAck { info })])),
        ("ecne", packet(2, &[Chunk::Ecne(Ecne { lowest_tsn: Tsn(17) })])),
        ("cwr", packet(1, &[Chunk::Cwr(Cwr { lowest_tsn: Tsn(17) })])),
        ("unknown", packet(2, &[Chunk::Unknown(pad), Chunk::CookieAck])),
    ]
}

fn interleaving() -> Vec<(&'static str, Vec<u8>)> {
    const SKIPPED: [SkippedMessage; 2] = [
        SkippedMessage { stream: StreamId(1), unordered: false, mid: Mid(8) },
        SkippedMessage { stream: StreamId(1), unordered: true, mid: Mid(u32::MAX) },
    ];
    let first = IData {
        tsn: Tsn(5),
        stream: StreamId(1),
        mid: Mid(9),
        place: FragmentPlace::First(Ppid(51)),
        unordered: false,
        end: false,
        immediate: false,
        payload: b"begin",
    };
    let last = IData { tsn: Tsn(6), place: FragmentPlace::Later(Fsn(1)), end: true, ..first };
    let skipped = SkippedMessages::from_slice(&SKIPPED);
    let forward = IForwardTsn { cum_tsn: Tsn(4), skipped };
    vec![
        ("i_data", packet(2, &[Chunk::IData(first), Chunk::IData(last)])),
        ("i_forward_tsn", packet(2, &[Chunk::IForwardTsn(forward)])),
    ]
}

fn teardown() -> Vec<(&'static str, Vec<u8>)> {
    let all = causes(&all_causes());
    let reason = causes(&[Cause::UserInitiatedAbort(b"bye")]);
    let error = Error { causes: Causes::from_bytes(&all) };
    let abort = Abort { tag_reflected: true, causes: Causes::from_bytes(&reason) };
    let complete = ShutdownComplete { tag_reflected: true };
    vec![
        ("error", packet(2, &[Chunk::Error(error)])),
        ("abort", packet(1, &[Chunk::Abort(abort)])),
        ("shutdown", packet(2, &[Chunk::Shutdown(Shutdown { cum_tsn: Tsn(99) })])),
        ("shutdown_ack", packet(1, &[Chunk::ShutdownAck])),
        ("shutdown_complete", packet(2, &[Chunk::ShutdownComplete(complete)])),
    ]
}

fn init_parameters() -> Vec<Parameter<'static>> {
    const TYPES: [u16; 2] = [parameter_types::IPV4_ADDRESS, parameter_types::IPV6_ADDRESS];
    vec![
        Parameter::Ipv4Address(Ipv4Addr::new(192, 0, 2, 1)),
        Parameter::Ipv6Address(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1)),
        Parameter::CookiePreservative(60_000),
        Parameter::SupportedAddressTypes(AddressTypes::from_slice(&TYPES)),
        Parameter::EcnCapable,
        Parameter::ForwardTsnSupported,
        Parameter::AdaptationIndication(0x6D70),
        Parameter::SupportedExtensions(&[types::NR_SACK]),
    ]
}

fn init_ack_parameters() -> Vec<Parameter<'static>> {
    let unknown = UnknownParameter::from_bytes(b"\x80\x03\x00\x06\x80\xc1").expect("CHUNKS");
    vec![
        Parameter::StateCookie(b"a cookie of 21 bytes."),
        Parameter::UnrecognizedParameter(b"\xc1\x23\x00\x04"),
        Parameter::Unknown(unknown),
        Parameter::HostNameAddress(b"host.example\0"),
        Parameter::HeartbeatInfo(b"out of place"),
    ]
}

fn all_causes() -> Vec<Cause<'static>> {
    vec![
        Cause::InvalidStreamIdentifier(StreamId(1024)),
        Cause::MissingMandatoryParameter(cause::ParameterTypes::from_slice(&[7])),
        Cause::StaleCookie { staleness_us: 1_000_000 },
        Cause::OutOfResource,
        Cause::UnresolvableAddress(b"\x00\x0b\x00\x06a\0"),
        Cause::UnrecognizedChunkType(b"\xfe\x00\x00\x04"),
        Cause::InvalidMandatoryParameter,
        Cause::UnrecognizedParameters(b"\xc1\x23\x00\x04"),
        Cause::NoUserData(Tsn(4)),
        Cause::CookieReceivedWhileShuttingDown,
        Cause::RestartWithNewAddresses(b"\x00\x05\x00\x08\xc0\x00\x02\x01"),
        Cause::ProtocolViolation(b"first fragment expected"),
        Cause::Unknown { code: 0xB0, value: b"?" },
    ]
}

fn data(payload: &'static [u8]) -> Chunk<'static> {
    Chunk::Data(Data {
        tsn: Tsn(0xFFFF_FFF0),
        stream: StreamId(7),
        ssn: Ssn(3),
        ppid: Ppid(0x6D70_0001),
        unordered: false,
        begin: true,
        end: true,
        immediate: true,
        payload,
    })
}

fn packet(tag: u32, chunks: &[Chunk<'_>]) -> Vec<u8> {
    let header =
        CommonHeader { source_port: 5002, destination_port: 5001, tag: VerificationTag(tag) };
    let mut buffer = vec![0; 1472];
    let mut writer = PacketWriter::new(&mut buffer, header);
    chunks.iter().for_each(|chunk| writer.push(chunk).expect("room"));
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}

fn parameters(parameters: &[Parameter<'_>]) -> Vec<u8> {
    let mut buffer = vec![0; 512];
    let mut writer = ParameterWriter::new(&mut buffer);
    parameters.iter().for_each(|parameter| writer.push(parameter).expect("room"));
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}

fn causes(causes: &[Cause<'_>]) -> Vec<u8> {
    let mut buffer = vec![0; 512];
    let mut writer = CauseWriter::new(&mut buffer);
    causes.iter().for_each(|cause| writer.push(cause).expect("room"));
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}
