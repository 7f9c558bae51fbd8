//! What is written is read back, for all values of all fields.

use manypath_wire::cause::{Cause, CauseWriter, Causes, ParameterTypes};
use manypath_wire::chunk::{
    Abort, Asconf, AsconfAck, Auth, Chunk, CookieEcho, Cwr, Data, Dtls, Ecne, Error, ForwardTsn,
    FragmentPlace, GapBlock, GapBlocks, Heartbeat, HeartbeatAck, IData, IForwardTsn, Init, InitAck,
    NrSack, Pad, ReConfig, Sack, Shutdown, ShutdownComplete, SkippedMessage, SkippedMessages,
    SkippedStream, SkippedStreams, Tsns, Unknown,
};
use manypath_wire::parameter::{
    AddStreams, AddressRequest, AddressTypes, ErrorIndication, HmacIds, IncomingSsnReset,
    KeyManagement, OutgoingSsnReset, Parameter, ParameterWriter, Parameters, ReConfigResponse,
    ReConfigResult, StreamIds, UnknownParameter,
};
use manypath_wire::{
    CommonHeader, Fsn, Mid, NoRoom, Packet, PacketWriter, Ppid, Ssn, StreamId, Tsn, VerificationTag,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::IpAddr;

/// A parameter that owns what it is made of.
#[derive(Clone, Debug)]
enum OwnedParameter {
    Ipv4([u8; 4]),
    Ipv6([u8; 16]),
    Types(Vec<u16>),
    Number(u8, u32),
    Flag(bool),
    Bytes(u8, Vec<u8>),
    HmacIds(Vec<u16>),
    Keys(u32, u8, Vec<u8>),
    Outgoing([u32; 3], Vec<StreamId>),
    Incoming(u32, Vec<StreamId>),
    Response(u32, u32, Option<(u32, u32)>),
    Add(bool, u32, u16),
    Request(u8, u32, IpAddr),
    /// A correlation, and causes as they are written.
    Error(u32, Vec<u8>),
    /// Type, Length and value.
    Unknown(Vec<u8>),
}

impl OwnedParameter {
    fn borrow(&self) -> Parameter<'_> {
        match self {
            Self::Ipv4(octets) => Parameter::Ipv4Address((*octets).into()),
            Self::Ipv6(octets) => Parameter::Ipv6Address((*octets).into()),
            Self::Types(types) => Parameter::SupportedAddressTypes(AddressTypes::from_slice(types)),
            Self::Number(0, number) => Parameter::CookiePreservative(*number),
            Self::Number(1, number) => Parameter::AdaptationIndication(*number),
            Self::Number(2, number) => Parameter::SsnTsnReset { request: *number },
            Self::Number(_, number) => Parameter::SuccessIndication(*number),
            Self::Flag(false) => Parameter::EcnCapable,
            Self::Flag(true) => Parameter::ForwardTsnSupported,
            Self::Bytes(0, bytes) => Parameter::HeartbeatInfo(bytes),
            Self::Bytes(1, bytes) => Parameter::StateCookie(bytes),
            Self::Bytes(2, bytes) => Parameter::UnrecognizedParameter(bytes),
            Self::Bytes(3, bytes) => Parameter::HostNameAddress(bytes),
            Self::Bytes(4, bytes) => Parameter::Random(bytes),
            Self::Bytes(5, bytes) => Parameter::Chunks(bytes),
            Self::Bytes(6, bytes) => Parameter::Resumption(bytes),
            Self::Bytes(_, bytes) => Parameter::SupportedExtensions(bytes),
            Self::HmacIds(ids) => Parameter::HmacAlgo(HmacIds::from_slice(ids)),
            Self::Keys(tie_breaker, flags, methods) => Parameter::KeyManagement(KeyManagement {
                tie_breaker: *tie_breaker,
                flags: *flags,
                methods,
            }),
            Self::Outgoing(..) | Self::Incoming(..) | Self::Response(..) | Self::Add(..) => {
                self.borrow_reconfiguration()
            }
            Self::Request(kind, correlation, address) => {
                let request = AddressRequest { correlation: *correlation, address: *address };
                match kind {
                    0 => Parameter::AddIpAddress(request),
                    1 => Parameter::DeleteIpAddress(request),
                    _ => Parameter::SetPrimaryAddress(request),
                }
            }
            Self::Error(correlation, causes) => Parameter::ErrorIndication(ErrorIndication {
                correlation: *correlation,
                causes: Causes::from_bytes(causes),
            }),
            Self::Unknown(bytes) => {
                Parameter::Unknown(UnknownParameter::from_bytes(bytes).expect("well formed"))
            }
        }
    }
}

impl OwnedParameter {
    #[expect(clippy::wildcard_enum_match_arm, reason = "`borrow` has the other half of the list")]
    fn borrow_reconfiguration(&self) -> Parameter<'_> {
        match self {
            Self::Outgoing([request, response, last_tsn], streams) => {
                Parameter::OutgoingSsnReset(OutgoingSsnReset {
                    request: *request,
                    response: *response,
                    last_tsn: Tsn(*last_tsn),
                    streams: StreamIds::from_slice(streams),
                })
            }
            Self::Incoming(request, streams) => Parameter::IncomingSsnReset(IncomingSsnReset {
                request: *request,
                streams: StreamIds::from_slice(streams),
            }),
            Self::Response(response, result, next) => {
                Parameter::ReConfigResponse(ReConfigResponse {
                    response: *response,
                    result: ReConfigResult(*result),
                    next_tsns: next.map(|(own, peers)| (Tsn(own), Tsn(peers))),
                })
            }
            Self::Add(outgoing, request, count) => {
                let add = AddStreams { request: *request, count: *count };
                if *outgoing {
                    Parameter::AddOutgoingStreams(add)
                } else {
                    Parameter::AddIncomingStreams(add)
                }
            }
            other => other.borrow(),
        }
    }
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..max)
}

fn streams() -> impl Strategy<Value = Vec<StreamId>> {
    vec(any::<u16>().prop_map(StreamId), 0..6)
}

fn parameter() -> impl Strategy<Value = OwnedParameter> {
    // Types of which the crate knows nothing, with all combinations of the two highest bits.
    let unknown = (0_u16..4, 0x100_u16..0x3000, bytes(40)).prop_map(|(bits, kind, value)| {
        let mut raw = Vec::from((bits << 14 | kind).to_be_bytes());
        raw.extend((4 + value.len() as u16).to_be_bytes());
        raw.extend(value);
        OwnedParameter::Unknown(raw)
    });
    prop_oneof![
        any::<[u8; 4]>().prop_map(OwnedParameter::Ipv4),
        any::<[u8; 16]>().prop_map(OwnedParameter::Ipv6),
        vec(any::<u16>(), 0..5).prop_map(OwnedParameter::Types),
        (0_u8..4, any::<u32>()).prop_map(|(which, number)| OwnedParameter::Number(which, number)),
        any::<bool>().prop_map(OwnedParameter::Flag),
        (0_u8..7, bytes(200)).prop_map(|(which, bytes)| OwnedParameter::Bytes(which, bytes)),
        vec(any::<u16>(), 0..5).prop_map(OwnedParameter::HmacIds),
        (any::<(u32, u8)>(), bytes(40)).prop_map(|((n, f), ids)| OwnedParameter::Keys(n, f, ids)),
        (any::<[u32; 3]>(), streams()).prop_map(|(n, ids)| OwnedParameter::Outgoing(n, ids)),
        (any::<u32>(), streams()).prop_map(|(n, ids)| OwnedParameter::Incoming(n, ids)),
        any::<(u32, u32, Option<(u32, u32)>)>()
            .prop_map(|(to, result, next)| OwnedParameter::Response(to, result, next)),
        any::<(bool, u32, u16)>().prop_map(|(out, n, count)| OwnedParameter::Add(out, n, count)),
        (0_u8..3, any::<u32>(), any::<IpAddr>())
            .prop_map(|(kind, id, address)| OwnedParameter::Request(kind, id, address)),
        (any::<u32>(), vec(cause(), 0..3))
            .prop_map(|(id, causes)| OwnedParameter::Error(id, write_causes(&causes))),
        unknown,
    ]
}

/// A cause that owns what it is made of.
#[derive(Clone, Debug)]
enum OwnedCause {
    Plain(u8),
    Stream(u16),
    Missing(Vec<u16>),
    Hmac(u16),
    Number(bool, u32),
    Bytes(u8, Vec<u8>),
    Unknown(u16, Vec<u8>),
}

impl OwnedCause {
    fn borrow(&self) -> Cause<'_> {
        match self {
            Self::Plain(0) => Cause::OutOfResource,
            Self::Plain(1) => Cause::InvalidMandatoryParameter,
            Self::Plain(2) => Cause::IllegalAsconfAck,
            Self::Plain(3) => Cause::MissingDtlsSupport,
            Self::Plain(4) => Cause::NoCommonKeyManagement,
            Self::Plain(5) => Cause::TieBreakerCollision,
            Self::Plain(6) => Cause::IncompatibleRoles,
            Self::Plain(_) => Cause::CookieReceivedWhileShuttingDown,
            Self::Hmac(id) => Cause::UnsupportedHmac(*id),
            Self::Stream(stream) => Cause::InvalidStreamIdentifier(StreamId(*stream)),
            Self::Missing(types) => {
                Cause::MissingMandatoryParameter(ParameterTypes::from_slice(types))
            }
            Self::Number(false, number) => Cause::StaleCookie { staleness_us: *number },
            Self::Number(true, number) => Cause::NoUserData(Tsn(*number)),
            Self::Bytes(0, bytes) => Cause::UnresolvableAddress(bytes),
            Self::Bytes(1, bytes) => Cause::UnrecognizedChunkType(bytes),
            Self::Bytes(2, bytes) => Cause::UnrecognizedParameters(bytes),
            Self::Bytes(3, bytes) => Cause::RestartWithNewAddresses(bytes),
            Self::Bytes(4, bytes) => Cause::UserInitiatedAbort(bytes),
            Self::Bytes(5, bytes) => Cause::DeleteLastAddress(bytes),
            Self::Bytes(6, bytes) => Cause::ResourceShortage(bytes),
            Self::Bytes(7, bytes) => Cause::DeleteSourceAddress(bytes),
            Self::Bytes(8, bytes) => Cause::NoAuthorization(bytes),
            Self::Bytes(_, bytes) => Cause::ProtocolViolation(bytes),
            Self::Unknown(code, value) => Cause::Unknown { code: *code, value },
        }
    }
}

fn cause() -> impl Strategy<Value = OwnedCause> {
    prop_oneof![
        (0_u8..8).prop_map(OwnedCause::Plain),
        any::<u16>().prop_map(OwnedCause::Hmac),
        any::<u16>().prop_map(OwnedCause::Stream),
        vec(any::<u16>(), 0..5).prop_map(OwnedCause::Missing),
        any::<(bool, u32)>().prop_map(|(which, number)| OwnedCause::Number(which, number)),
        (0_u8..10, bytes(200)).prop_map(|(which, bytes)| OwnedCause::Bytes(which, bytes)),
        (prop_oneof![14_u16..100, 104_u16..0xA0, 0x106_u16..], bytes(40))
            .prop_map(|(code, value)| OwnedCause::Unknown(code, value)),
    ]
}

fn gap_blocks() -> impl Strategy<Value = Vec<GapBlock>> {
    vec(any::<(u16, u16)>().prop_map(|(start, end)| GapBlock { start, end }), 0..40)
}

fn tsns() -> impl Strategy<Value = Vec<Tsn>> {
    vec(any::<u32>().prop_map(Tsn), 0..40)
}

fn write_parameters(parameters: &[OwnedParameter]) -> Vec<u8> {
    let mut buffer = vec![0xFF; 4096];
    let mut writer = ParameterWriter::new(&mut buffer);
    parameters.iter().for_each(|parameter| writer.push(&parameter.borrow()).expect("room"));
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}

fn write_causes(causes: &[OwnedCause]) -> Vec<u8> {
    let mut buffer = vec![0xFF; 4096];
    let mut writer = CauseWriter::new(&mut buffer);
    causes.iter().for_each(|cause| writer.push(&cause.borrow()).expect("room"));
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}

/// Known chunk types beyond those with the lowest numbers.
const KNOWN: [u8; 8] = [64, 0x41, 0x80, 130, 0x84, 192, 0xC1, 194];

const HEADER: CommonHeader =
    CommonHeader { source_port: 1, destination_port: 2, tag: VerificationTag(3) };

/// The chunk fits into just as many bytes as it says, is read back, and does not fit into less.
fn round_trip(chunk: Chunk<'_>) -> Result<(), TestCaseError> {
    let size = CommonHeader::LEN + chunk.encoded_len().next_multiple_of(4);
    let mut buffer = vec![0xFF; size];
    let mut writer = PacketWriter::new(&mut buffer, HEADER);
    prop_assert!(writer.room() >= chunk.encoded_len());
    prop_assert_eq!(writer.push(&chunk), Ok(()));
    prop_assert_eq!(writer.finish(), size);
    let length = u16::from_be_bytes([buffer[14], buffer[15]]);
    prop_assert_eq!(usize::from(length), chunk.encoded_len());
    prop_assert_eq!(buffer[12], chunk.type_byte());
    prop_assert!(buffer[12 + chunk.encoded_len()..].iter().all(|&byte| byte == 0));
    let packet = Packet::parse(&buffer).expect("the checksum is good");
    prop_assert!(packet.chunks().eq([Ok(chunk)]));

    let mut small = vec![0xFF; size - 1];
    let mut writer = PacketWriter::new(&mut small, HEADER);
    prop_assert_eq!(writer.push(&chunk), Err(NoRoom));
    prop_assert!(writer.is_empty());
    Ok(())
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn header(source_port: u16, destination_port: u16, tag: u32) {
        let header = CommonHeader { source_port, destination_port, tag: VerificationTag(tag) };
        let mut buffer = [0; 12];
        let len = PacketWriter::new(&mut buffer, header).finish();
        prop_assert_eq!(Packet::parse(&buffer[..len]).expect("a header").header(), header);
    }

    #[test]
    fn data(
        (tsn, stream, ssn, ppid) in any::<(u32, u16, u16, u32)>(),
        (unordered, begin, end, immediate) in any::<(bool, bool, bool, bool)>(),
        payload in bytes(1500),
    ) {
        round_trip(Chunk::Data(Data {
            tsn: Tsn(tsn),
            stream: StreamId(stream),
            ssn: Ssn(ssn),
            ppid: Ppid(ppid),
            unordered,
            begin,
            end,
            immediate,
            payload: &payload,
        }))?;
    }

    #[test]
    fn init_and_init_ack(
        (tag, a_rwnd, tsn) in any::<(u32, u32, u32)>(),
        (outbound_streams, inbound_streams) in any::<(u16, u16)>(),
        parameters in vec(parameter(), 0..8),
    ) {
        let tag = VerificationTag(tag);
        let initial_tsn = Tsn(tsn);
        let bytes = write_parameters(&parameters);
        let parameters = Parameters::from_bytes(&bytes);
        round_trip(Chunk::Init(Init {
            tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters,
        }))?;
        round_trip(Chunk::InitAck(InitAck {
            tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters,
        }))?;
    }

    #[test]
    fn sack_and_nr_sack(
        (flags, cum_tsn, a_rwnd) in any::<(u8, u32, u32)>(),
        gaps in gap_blocks(),
        nr_gaps in gap_blocks(),
        duplicates in tsns(),
    ) {
        let cum_tsn = Tsn(cum_tsn);
        let gaps = GapBlocks::from_slice(&gaps);
        let nr_gaps = GapBlocks::from_slice(&nr_gaps);
        let duplicates = Tsns::from_slice(&duplicates);
        round_trip(Chunk::Sack(Sack { flags, cum_tsn, a_rwnd, gaps, duplicates }))?;
        round_trip(Chunk::NrSack(NrSack { flags, cum_tsn, a_rwnd, gaps, nr_gaps, duplicates }))?;
    }

    #[test]
    fn opaque_chunks(info in bytes(300)) {
        round_trip(Chunk::Heartbeat(Heartbeat { info: &info }))?;
        round_trip(Chunk::HeartbeatAck(HeartbeatAck { info: &info }))?;
        round_trip(Chunk::CookieEcho(CookieEcho { cookie: &info }))?;
    }

    #[test]
    fn abort_and_error(tag_reflected: bool, causes in vec(cause(), 0..8)) {
        let bytes = write_causes(&causes);
        let causes = Causes::from_bytes(&bytes);
        round_trip(Chunk::Abort(Abort { tag_reflected, causes }))?;
        round_trip(Chunk::Error(Error { causes }))?;
    }

    #[test]
    fn chunks_of_fixed_length(tsn: u32, tag_reflected: bool) {
        let tsn = Tsn(tsn);
        round_trip(Chunk::Shutdown(Shutdown { cum_tsn: tsn }))?;
        let packets = tag_reflected.then_some(tsn.0);
        round_trip(Chunk::Ecne(Ecne { lowest_tsn: tsn, packets }))?;
        round_trip(Chunk::Cwr(Cwr { lowest_tsn: tsn, all_paths: tag_reflected }))?;
        round_trip(Chunk::ShutdownComplete(ShutdownComplete { tag_reflected }))?;
        round_trip(Chunk::ShutdownAck)?;
        round_trip(Chunk::CookieAck)?;
    }

    #[test]
    fn i_data(
        (tsn, stream, mid, field) in any::<(u32, u16, u32, u32)>(),
        (unordered, begin, end, immediate) in any::<(bool, bool, bool, bool)>(),
        payload in bytes(1500),
    ) {
        let place = if begin {
            FragmentPlace::First(Ppid(field))
        } else {
            FragmentPlace::Later(Fsn(field))
        };
        round_trip(Chunk::IData(IData {
            tsn: Tsn(tsn),
            stream: StreamId(stream),
            mid: Mid(mid),
            place,
            unordered,
            end,
            immediate,
            payload: &payload,
        }))?;
    }

    #[test]
    fn i_forward_tsn(tsn: u32, skipped in vec(any::<(u16, bool, u32)>(), 0..40)) {
        let skipped: Vec<_> = skipped
            .into_iter()
            .map(|(stream, unordered, mid)| SkippedMessage {
                stream: StreamId(stream),
                unordered,
                mid: Mid(mid),
            })
            .collect();
        let skipped = SkippedMessages::from_slice(&skipped);
        round_trip(Chunk::IForwardTsn(IForwardTsn { cum_tsn: Tsn(tsn), skipped }))?;
    }

    #[test]
    fn forward_tsn(tsn: u32, skipped in vec(any::<(u16, u16)>(), 0..40)) {
        let skipped: Vec<_> = skipped
            .into_iter()
            .map(|(stream, ssn)| SkippedStream { stream: StreamId(stream), ssn: Ssn(ssn) })
            .collect();
        let skipped = SkippedStreams::from_slice(&skipped);
        round_trip(Chunk::ForwardTsn(ForwardTsn { cum_tsn: Tsn(tsn), skipped }))?;
    }

    #[test]
    fn pad(data in bytes(70)) {
        round_trip(Chunk::Pad(Pad { data: &data }))?;
    }

    #[test]
    fn auth((key, hmac_id) in any::<(u16, u16)>(), hmac in bytes(70)) {
        round_trip(Chunk::Auth(Auth { key, hmac_id, hmac: &hmac }))?;
    }

    #[test]
    fn dtls(restart: bool, record in bytes(1500)) {
        round_trip(Chunk::Dtls(Dtls { restart, record: &record }))?;
    }

    #[test]
    fn chunks_of_parameters(
        sequence: u32,
        address: IpAddr,
        parameters in vec(parameter(), 0..8),
    ) {
        let bytes = write_parameters(&parameters);
        let parameters = Parameters::from_bytes(&bytes);
        round_trip(Chunk::ReConfig(ReConfig { parameters }))?;
        round_trip(Chunk::Asconf(Asconf { sequence, address, parameters }))?;
        round_trip(Chunk::AsconfAck(AsconfAck { sequence, parameters }))?;
    }

    #[test]
    fn unknown(
        type_byte in (17_u8..).prop_filter("known", |byte| !KNOWN.contains(byte)),
        flags: u8,
        value in bytes(200),
    ) {
        let mut bytes = vec![type_byte, flags];
        bytes.extend((4 + value.len() as u16).to_be_bytes());
        bytes.extend(&value);
        let unknown = Unknown::from_bytes(&bytes).expect("well formed");
        prop_assert_eq!(unknown.raw(), &bytes[..]);
        round_trip(Chunk::Unknown(unknown))?;
    }

    #[test]
    fn parameters(owned in vec(parameter(), 0..8)) {
        let bytes = write_parameters(&owned);
        let read = Parameters::from_bytes(&bytes).iter();
        prop_assert!(read.eq(owned.iter().map(|parameter| Ok(parameter.borrow()))));
    }

    #[test]
    fn causes(owned in vec(cause(), 0..8)) {
        let bytes = write_causes(&owned);
        let read = Causes::from_bytes(&bytes).iter();
        prop_assert!(read.eq(owned.iter().map(|cause| Ok(cause.borrow()))));
    }
}
