//! Chunks made of an input's bytes: what is written is read back, and takes as much room as it said.
//! The fuzz targets `wire_emit` and `auth_asconf` use this file as well.

use manypath_wire::chunk::{
    Abort, Asconf, AsconfAck, Auth, Chunk, CookieEcho, Cwr, Data, Dtls, Ecne, Error, ForwardTsn,
    FragmentPlace, GapBlock, GapBlocks, Heartbeat, HeartbeatAck, IData, IForwardTsn, Init, InitAck,
    NrSack, ReConfig, Sack, Shutdown, ShutdownComplete, SkippedMessage, SkippedMessages,
    SkippedStream, SkippedStreams, Tsns,
};
use manypath_wire::parameter::{
    AddStreams, AddressRequest, AddressTypes, ErrorIndication, HmacIds, IncomingSsnReset,
    KeyManagement, OutgoingSsnReset, ReConfigResponse, ReConfigResult, StreamIds,
};
use manypath_wire::{
    Cause, CauseWriter, Causes, CommonHeader, Fsn, Mid, NoRoom, Packet, PacketWriter, Parameter,
    ParameterWriter, Parameters, Ppid, Ssn, StreamId, Tsn, VerificationTag,
};
use std::net::IpAddr;

/// Largest packet that is written.
const PACKET: usize = 1460;

/// Numbers and bytes taken off an input. When it is used up, all numbers are 0.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    fn tsn(&mut self) -> Tsn {
        Tsn(self.u32())
    }

    fn stream(&mut self) -> StreamId {
        StreamId(self.u16())
    }

    /// Some bytes, as they are.
    fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.u8());
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn list<T>(&mut self, item: fn(&mut Self) -> T) -> Vec<T> {
        (0..self.u8() % 12).map(|_| item(self)).collect()
    }

    fn address(&mut self) -> IpAddr {
        if self.flag() {
            self.u32().to_be_bytes().into()
        } else {
            [self.u16(), self.u16(), self.u16(), 0, 0, self.u16(), self.u16(), self.u16()].into()
        }
    }

    fn gap(&mut self) -> GapBlock {
        GapBlock { start: self.u16(), end: self.u16() }
    }
}

/// Writes packets of any chunks.
pub(crate) fn check(bytes: &[u8]) {
    let mut fields = Fields(bytes);
    while !fields.0.is_empty() {
        let kind = fields.u8() % 25;
        any_chunk(kind, &mut fields);
    }
}

/// Writes AUTH, ASCONF and ASCONF-ACK as they belong together.
pub(crate) fn check_authenticated(bytes: &[u8]) {
    let mut fields = Fields(bytes);
    while !fields.0.is_empty() {
        let (key, hmac_id, hmac) = (fields.u16(), fields.u16(), fields.bytes());
        let auth = Chunk::Auth(Auth { key, hmac_id, hmac });
        let (sequence, address) = (fields.u32(), fields.address());
        let list = parameters(&mut fields, address_parameter);
        let parameters = Parameters::from_bytes(&list);
        let request = Chunk::Asconf(Asconf { sequence, address, parameters });
        round_trip(&[auth, request]);
        round_trip(&[auth, Chunk::AsconfAck(AsconfAck { sequence, parameters })]);
    }
}

fn any_chunk(kind: u8, fields: &mut Fields<'_>) {
    match kind {
        0..=3 => data_chunk(kind, fields),
        4..=7 => acknowledgement(kind, fields),
        8..=13 => chunk_of_parameters(kind, fields),
        14..=16 => {
            let list = causes(fields);
            let causes = Causes::from_bytes(&list);
            let tag_reflected = fields.flag();
            round_trip(&[Chunk::Error(Error { causes })]);
            round_trip(&[Chunk::Abort(Abort { tag_reflected, causes })]);
        }
        _ => small_chunk(kind, fields),
    }
}

fn data_chunk(kind: u8, fields: &mut Fields<'_>) {
    let (tsn, stream) = (fields.tsn(), fields.stream());
    let [begin, end, unordered, immediate] = [(); 4].map(|()| fields.flag());
    let (number, label) = (fields.u32(), fields.u32());
    let payload = fields.bytes();
    if kind < 2 {
        let (ssn, ppid) = (Ssn(number as u16), Ppid(label));
        let data = Data { tsn, stream, ssn, ppid, unordered, begin, end, immediate, payload };
        round_trip(&[Chunk::Data(data), Chunk::Data(data)]);
    } else {
        let place = if begin {
            FragmentPlace::First(Ppid(label))
        } else {
            FragmentPlace::Later(Fsn(label))
        };
        let mid = Mid(number);
        let data = IData { tsn, stream, mid, place, unordered, end, immediate, payload };
        round_trip(&[Chunk::IData(data), Chunk::IData(data)]);
    }
}

fn acknowledgement(kind: u8, fields: &mut Fields<'_>) {
    let cum_tsn = fields.tsn();
    match kind {
        4 | 5 => {
            let (flags, a_rwnd) = (fields.u8(), fields.u32());
            let (gaps, nr_gaps) = (fields.list(Fields::gap), fields.list(Fields::gap));
            let duplicates = fields.list(Fields::tsn);
            let (gaps, nr_gaps) = (GapBlocks::from_slice(&gaps), GapBlocks::from_slice(&nr_gaps));
            let duplicates = Tsns::from_slice(&duplicates);
            round_trip(&[Chunk::Sack(Sack { flags, cum_tsn, a_rwnd, gaps, duplicates })]);
            let sack = NrSack { flags, cum_tsn, a_rwnd, gaps, nr_gaps, duplicates };
            round_trip(&[Chunk::NrSack(sack)]);
        }
        6 => {
            let skipped = fields.list(|f| SkippedStream { stream: f.stream(), ssn: Ssn(f.u16()) });
            let skipped = SkippedStreams::from_slice(&skipped);
            round_trip(&[Chunk::ForwardTsn(ForwardTsn { cum_tsn, skipped })]);
        }
        _ => {
            let skipped = fields.list(|f| SkippedMessage {
                stream: f.stream(),
                unordered: f.flag(),
                mid: Mid(f.u32()),
            });
            let skipped = SkippedMessages::from_slice(&skipped);
            round_trip(&[Chunk::IForwardTsn(IForwardTsn { cum_tsn, skipped })]);
        }
    }
}

fn chunk_of_parameters(kind: u8, fields: &mut Fields<'_>) {
    let tag = VerificationTag(fields.u32());
    let (a_rwnd, initial_tsn) = (fields.u32(), fields.tsn());
    let (outbound_streams, inbound_streams) = (fields.u16(), fields.u16());
    let list = parameters(fields, any_parameter);
    let parameters = Parameters::from_bytes(&list);
    round_trip(&[match kind {
        8 | 9 => Chunk::Init(Init {
            tag,
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn,
            parameters,
        }),
        10 | 11 => Chunk::InitAck(InitAck {
            tag,
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn,
            parameters,
        }),
        _ => Chunk::ReConfig(ReConfig { parameters }),
    }]);
}

fn small_chunk(kind: u8, fields: &mut Fields<'_>) {
    let (tsn, tag_reflected, bytes) = (fields.tsn(), fields.flag(), fields.bytes());
    round_trip(&[Chunk::Dtls(Dtls { restart: tag_reflected, record: bytes })]);
    round_trip(&[match kind {
        17 => Chunk::Heartbeat(Heartbeat { info: bytes }),
        18 => Chunk::HeartbeatAck(HeartbeatAck { info: bytes }),
        19 => Chunk::CookieEcho(CookieEcho { cookie: bytes }),
        20 => Chunk::Shutdown(Shutdown { cum_tsn: tsn }),
        21 => Chunk::Ecne(Ecne { lowest_tsn: tsn, packets: tag_reflected.then_some(tsn.0) }),
        22 => Chunk::Cwr(Cwr { lowest_tsn: tsn, all_paths: tag_reflected }),
        23 => Chunk::ShutdownComplete(ShutdownComplete { tag_reflected }),
        _ if tag_reflected => Chunk::ShutdownAck,
        _ => Chunk::CookieAck,
    }]);
}

fn parameters(
    fields: &mut Fields<'_>,
    write: fn(&mut Fields<'_>, &mut ParameterWriter<'_>),
) -> Vec<u8> {
    let mut buffer = vec![0xFF; PACKET];
    let mut writer = ParameterWriter::new(&mut buffer);
    (0..fields.u8() % 8).for_each(|_| write(fields, &mut writer));
    let len = writer.finish();
    buffer.truncate(len);
    buffer
}

/// Writes the parameter, and reads it back alone. Without room nothing is written.
fn put(parameter: &Parameter<'_>, writer: &mut ParameterWriter<'_>) {
    let mut alone = vec![0xFF; 2 * PACKET];
    let mut only = ParameterWriter::new(&mut alone);
    assert_eq!(only.push(parameter), Ok(()));
    let len = only.finish();
    assert!(Parameters::from_bytes(&alone[..len]).iter().eq([Ok(*parameter)]), "{parameter:?}");
    let _full = writer.push(parameter);
}

fn any_parameter(fields: &mut Fields<'_>, writer: &mut ParameterWriter<'_>) {
    let (kind, number) = (fields.u8() % 20, fields.u32());
    let bytes = fields.bytes();
    let streams = fields.list(Fields::stream);
    let numbers: Vec<u16> = streams.iter().map(|stream| stream.0).collect();
    let ids = StreamIds::from_slice(&streams);
    let add = AddStreams { request: number, count: ids.len() as u16 };
    let pair = fields.flag().then(|| (fields.tsn(), fields.tsn()));
    let keys = KeyManagement { tie_breaker: number, flags: number as u8, methods: bytes };
    let parameter = match kind {
        0 => Parameter::Ipv4Address(number.into()),
        1 => Parameter::Ipv6Address(u128::from(number).into()),
        2 => Parameter::CookiePreservative(number),
        3 => Parameter::SupportedAddressTypes(AddressTypes::from_slice(&numbers)),
        4 => Parameter::EcnCapable,
        5 => Parameter::ForwardTsnSupported,
        6 => Parameter::AdaptationIndication(number),
        7 => Parameter::SupportedExtensions(bytes),
        8 => Parameter::Random(bytes),
        9 if number & 1 == 1 => Parameter::KeyManagement(keys),
        9 if number & 2 == 2 => Parameter::Resumption(bytes),
        9 => Parameter::Chunks(bytes),
        10 => Parameter::HmacAlgo(HmacIds::from_slice(&numbers)),
        11 => Parameter::StateCookie(bytes),
        12 => Parameter::UnrecognizedParameter(bytes),
        13 => Parameter::HostNameAddress(bytes),
        14 => Parameter::OutgoingSsnReset(OutgoingSsnReset {
            request: number,
            response: !number,
            last_tsn: Tsn(number),
            streams: ids,
        }),
        15 => Parameter::IncomingSsnReset(IncomingSsnReset { request: number, streams: ids }),
        16 => Parameter::SsnTsnReset { request: number },
        17 => Parameter::AddOutgoingStreams(add),
        18 => Parameter::AddIncomingStreams(add),
        _ => Parameter::ReConfigResponse(ReConfigResponse {
            response: number,
            result: ReConfigResult(!number),
            next_tsns: pair,
        }),
    };
    put(&parameter, writer);
}

fn address_parameter(fields: &mut Fields<'_>, writer: &mut ParameterWriter<'_>) {
    let (kind, correlation) = (fields.u8() % 5, fields.u32());
    let request = AddressRequest { correlation, address: fields.address() };
    let list = causes(fields);
    let error = ErrorIndication { correlation, causes: Causes::from_bytes(&list) };
    let parameter = match kind {
        0 => Parameter::AddIpAddress(request),
        1 => Parameter::DeleteIpAddress(request),
        2 => Parameter::SetPrimaryAddress(request),
        3 => Parameter::SuccessIndication(correlation),
        _ => Parameter::ErrorIndication(error),
    };
    put(&parameter, writer);
}

fn plain_cause(number: u32) -> Cause<'static> {
    match number % 5 {
        0 => Cause::OutOfResource,
        1 => Cause::MissingDtlsSupport,
        2 => Cause::NoCommonKeyManagement,
        3 => Cause::TieBreakerCollision,
        _ => Cause::IncompatibleRoles,
    }
}

/// A few causes, each read back when it has been written.
fn causes(fields: &mut Fields<'_>) -> Vec<u8> {
    let mut buffer = vec![0xFF; PACKET / 2];
    let mut writer = CauseWriter::new(&mut buffer);
    let mut written = 0;
    for _ in 0..fields.u8() % 5 {
        let (kind, number, bytes) = (fields.u8() % 16, fields.u32(), fields.bytes());
        let cause = match kind {
            0 => Cause::InvalidStreamIdentifier(StreamId(number as u16)),
            1 => Cause::StaleCookie { staleness_us: number },
            2 => plain_cause(number),
            3 => Cause::UnresolvableAddress(bytes),
            4 => Cause::UnrecognizedChunkType(bytes),
            5 => Cause::InvalidMandatoryParameter,
            6 => Cause::UnrecognizedParameters(bytes),
            7 => Cause::NoUserData(Tsn(number)),
            8 => Cause::RestartWithNewAddresses(bytes),
            9 => Cause::UserInitiatedAbort(bytes),
            10 => Cause::ProtocolViolation(bytes),
            11 => Cause::DeleteLastAddress(bytes),
            12 => Cause::ResourceShortage(bytes),
            13 => Cause::DeleteSourceAddress(bytes),
            14 => Cause::UnsupportedHmac(number as u16),
            _ => Cause::NoAuthorization(bytes),
        };
        written += usize::from(writer.push(&cause).is_ok());
    }
    let len = writer.finish();
    buffer.truncate(len);
    let read = Causes::from_bytes(&buffer);
    assert_eq!(read.iter().filter(Result::is_ok).count(), written);
    buffer
}

/// Writes the chunks into one packet, as far as they fit, and reads them back.
fn round_trip(chunks: &[Chunk<'_>]) {
    let header = CommonHeader { source_port: 1, destination_port: 2, tag: VerificationTag(3) };
    let mut buffer = vec![0xFF; PACKET];
    let mut writer = PacketWriter::new(&mut buffer, header);
    let mut written = 0;
    for chunk in chunks {
        let (room, before) = (writer.room(), writer.len());
        if writer.push(chunk) == Err(NoRoom) {
            assert!(room < chunk.encoded_len().next_multiple_of(4), "{chunk:?} fits into {room}");
            assert_eq!(writer.len(), before);
            break;
        }
        assert_eq!(writer.len() - before, chunk.encoded_len().next_multiple_of(4));
        written += 1;
    }
    let len = writer.finish();
    let packet = Packet::parse(&buffer[..len]).expect("the checksum is good");
    assert_eq!(packet.header(), header);
    let read: Vec<Chunk<'_>> = packet.chunks().map(|chunk| chunk.expect("well formed")).collect();
    assert_eq!(read, chunks[..written]);
}
