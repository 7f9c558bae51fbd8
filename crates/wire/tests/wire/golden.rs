//! A packet of each kind.

use manypath_wire::chunk::{
    Abort, Asconf, AsconfAck, Auth, CookieEcho, Cwr, Data, Dtls, Ecne, Error, ForwardTsn,
    FragmentPlace, GapBlock, GapBlocks, Heartbeat, HeartbeatAck, IData, IForwardTsn, Init, InitAck,
    NrSack, Pad, ReConfig, Sack, Shutdown, ShutdownComplete, SkippedMessage, SkippedMessages,
    SkippedStream, SkippedStreams, Tsns, types,
};
use manypath_wire::parameter::{
    AddStreams, AddressRequest, AddressTypes, ErrorIndication, HmacIds, IncomingSsnReset,
    KeyManagement, OutgoingSsnReset, ReConfigResponse, ReConfigResult, StreamIds, UnknownParameter,
    hmac_ids, types as parameter_types,
};
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
    packets.extend(reconfiguration());
    packets.extend(authenticated());
    packets.extend(protected());
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
    let pad = Pad { data: b"pad" };
    let info = b"address, time and nonce";
    vec![
        ("data", packet(2, &[data(b"hello")])),
        ("sack", packet(1, &[Chunk::Sack(sack), data(b"and data")])),
        ("nr_sack", packet(1, &[Chunk::NrSack(nr_sack)])),
        ("heartbeat", packet(2, &[Chunk::Heartbeat(Heartbeat { info })])),
        ("heartbeat_ack", packet(1, &[Chunk::HeartbeatAck(HeartbeatAck { info })])),
        ("ecne", packet(2, &[Chunk::Ecne(Ecne { lowest_tsn: Tsn(17), packets: None })])),
        ("ecne_count", packet(2, &[Chunk::Ecne(Ecne { lowest_tsn: Tsn(17), packets: Some(3) })])),
        ("cwr", packet(1, &[Chunk::Cwr(Cwr { lowest_tsn: Tsn(17), all_paths: false })])),
        ("cwr_all", packet(1, &[Chunk::Cwr(Cwr { lowest_tsn: Tsn(17), all_paths: true })])),
        ("pad", packet(2, &[Chunk::Pad(pad), Chunk::CookieAck])),
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
    let i_forward = IForwardTsn { cum_tsn: Tsn(4), skipped };
    const STREAMS: [SkippedStream; 2] = [
        SkippedStream { stream: StreamId(1), ssn: Ssn(8) },
        SkippedStream { stream: StreamId(7), ssn: Ssn(0) },
    ];
    let skipped = SkippedStreams::from_slice(&STREAMS);
    let forward = ForwardTsn { cum_tsn: Tsn(4), skipped };
    vec![
        ("forward_tsn", packet(2, &[Chunk::ForwardTsn(forward), data(b"and data")])),
        ("i_data", packet(2, &[Chunk::IData(first), Chunk::IData(last)])),
        ("i_forward_tsn", packet(2, &[Chunk::IForwardTsn(i_forward)])),
    ]
}

fn reconfiguration() -> Vec<(&'static str, Vec<u8>)> {
    const STREAMS: [StreamId; 3] = [StreamId(1), StreamId(2), StreamId(5)];
    let streams = StreamIds::from_slice(&STREAMS);
    let next_tsns = Some((Tsn(0x8000_0001), Tsn(9)));
    let response = |result, next_tsns| {
        Parameter::ReConfigResponse(ReConfigResponse { response: 3, result, next_tsns })
    };
    let outgoing = OutgoingSsnReset { request: 4, response: 3, last_tsn: Tsn(17), streams };
    let incoming = IncomingSsnReset { request: 5, streams: StreamIds::EMPTY };
    let add = AddStreams { request: 4, count: 16 };
    let requests = [
        Parameter::OutgoingSsnReset(outgoing),
        Parameter::IncomingSsnReset(incoming),
        Parameter::SsnTsnReset { request: 4 },
        Parameter::AddOutgoingStreams(add),
        Parameter::AddIncomingStreams(add),
    ];
    let responses = [
        response(ReConfigResult::PERFORMED, next_tsns),
        response(ReConfigResult::IN_PROGRESS, None),
    ];
    let chunk = |list: &[Parameter<'_>], tag| {
        let bytes = parameters(list);
        packet(tag, &[Chunk::ReConfig(ReConfig { parameters: Parameters::from_bytes(&bytes) })])
    };
    vec![("re_config_request", chunk(&requests, 2)), ("re_config_response", chunk(&responses, 1))]
}

fn authenticated() -> Vec<(&'static str, Vec<u8>)> {
    let address = Ipv4Addr::new(192, 0, 2, 1).into();
    let request = AddressRequest { correlation: 7, address };
    let requests = parameters(&[
        Parameter::AddIpAddress(request),
        Parameter::DeleteIpAddress(AddressRequest {
            address: Ipv6Addr::UNSPECIFIED.into(),
            ..request
        }),
        Parameter::SetPrimaryAddress(request),
    ]);
    let refused = causes(&[Cause::DeleteLastAddress(&requests[..16])]);
    let error = ErrorIndication { correlation: 7, causes: Causes::from_bytes(&refused) };
    let answers = parameters(&[Parameter::ErrorIndication(error), Parameter::SuccessIndication(7)]);
    let auth = Chunk::Auth(Auth { key: 1, hmac_id: hmac_ids::SHA_256, hmac: &[0xA5; 32] });
    let asconf = Asconf { sequence: 4, address, parameters: Parameters::from_bytes(&requests) };
    let ack = AsconfAck { sequence: 4, parameters: Parameters::from_bytes(&answers) };
    vec![
        ("auth", packet(2, &[auth, data(b"signed")])),
        ("asconf", packet(2, &[auth, Chunk::Asconf(asconf)])),
        ("asconf_ack", packet(1, &[auth, Chunk::AsconfAck(ack)])),
    ]
}

fn protected() -> Vec<(&'static str, Vec<u8>)> {
    let roles = KeyManagement::CLIENT | KeyManagement::SERVER;
    let offer = KeyManagement { tie_breaker: 0xC1C2_C3C4, flags: roles, methods: &[1, 0] };
    let offer = parameters(&[Parameter::KeyManagement(offer)]);
    let init = Init {
        tag: VerificationTag(0xA1A2_A3A4),
        a_rwnd: 1 << 20,
        outbound_streams: 8,
        inbound_streams: 8,
        initial_tsn: Tsn(9),
        parameters: Parameters::from_bytes(&offer),
    };
    let refusals = causes(&[
        Cause::MissingDtlsSupport,
        Cause::NoCommonKeyManagement,
        Cause::TieBreakerCollision,
        Cause::IncompatibleRoles,
    ]);
    let abort = Abort { tag_reflected: false, causes: Causes::from_bytes(&refusals) };
    let record = b"\x2b\x12\x34an encrypted record and its tag";
    let dtls = Dtls { restart: false, record };
    vec![
        ("init_key_management", packet(0, &[Chunk::Init(init)])),
        ("abort_key_management", packet(1, &[Chunk::Abort(abort)])),
        ("dtls", packet(2, &[Chunk::Dtls(dtls)])),
        ("dtls_restart", packet(2, &[Chunk::Dtls(Dtls { restart: true, ..dtls })])),
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
    const HMAC_IDS: [u16; 2] = [hmac_ids::SHA_256, hmac_ids::SHA_1];
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
        Parameter::Random(&[0x5A; 32]),
        Parameter::Chunks(&[types::ASCONF, types::ASCONF_ACK]),
        Parameter::HmacAlgo(HmacIds::from_slice(&HMAC_IDS)),
    ]
}

fn init_ack_parameters() -> Vec<Parameter<'static>> {
    let unknown = UnknownParameter::from_bytes(b"\x80\x05\x00\x06pa").expect("PAD");
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
        Cause::DeleteLastAddress(b"\xc0\x02\x00\x10\0\0\0\x01\x00\x05\x00\x08\xc0\x00\x02\x01"),
        Cause::ResourceShortage(b""),
        Cause::DeleteSourceAddress(b"\xc0\x02\x00\x10\0\0\0\x01\x00\x05\x00\x08\xc0\x00\x02\x01"),
        Cause::IllegalAsconfAck,
        Cause::NoAuthorization(b""),
        Cause::UnsupportedHmac(2),
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
