//! The dispatcher: any chunk.

use super::{
    Abort, Asconf, AsconfAck, Auth, CookieEcho, Cwr, Data, Dtls, Ecne, Error, ForwardTsn,
    Heartbeat, HeartbeatAck, IData, IForwardTsn, Init, InitAck, NrSack, Pad, RawChunk, ReConfig,
    Sack, Shutdown, ShutdownComplete, Unknown, cookie_ack, shutdown_ack, types,
};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// A chunk of any type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chunk<'a> {
    /// Payload Data (0).
    Data(Data<'a>),
    /// Initiation (1).
    Init(Init<'a>),
    /// Initiation Acknowledgement (2).
    InitAck(InitAck<'a>),
    /// Selective Acknowledgement (3).
    Sack(Sack<'a>),
    /// Heartbeat Request (4).
    Heartbeat(Heartbeat<'a>),
    /// Heartbeat Acknowledgement (5).
    HeartbeatAck(HeartbeatAck<'a>),
    /// Abort Association (6).
    Abort(Abort<'a>),
    /// Shutdown Association (7).
    Shutdown(Shutdown),
    /// Shutdown Acknowledgement (8); it has no fields.
    ShutdownAck,
    /// Operation Error (9).
    Error(Error<'a>),
    /// State Cookie (10).
    CookieEcho(CookieEcho<'a>),
    /// Cookie Acknowledgement (11); it has no fields.
    CookieAck,
    /// Explicit Congestion Notification Echo (12).
    Ecne(Ecne),
    /// Congestion Window Reduced (13).
    Cwr(Cwr),
    /// Shutdown Complete (14).
    ShutdownComplete(ShutdownComplete),
    /// Authentication (15).
    Auth(Auth<'a>),
    /// Selective Acknowledgement with non-renegable blocks (16).
    NrSack(NrSack<'a>),
    /// Payload Data supporting Interleaving (64).
    IData(IData<'a>),
    /// DTLS chunk (0x41).
    Dtls(Dtls<'a>),
    /// Address Configuration Acknowledgment (0x80).
    AsconfAck(AsconfAck<'a>),
    /// Re-configuration (130).
    ReConfig(ReConfig<'a>),
    /// Padding (0x84).
    Pad(Pad<'a>),
    /// Forward Cumulative TSN (192).
    ForwardTsn(ForwardTsn<'a>),
    /// Address Configuration Change (0xC1).
    Asconf(Asconf<'a>),
    /// Forward Cumulative TSN supporting Interleaving (194).
    IForwardTsn(IForwardTsn<'a>),
    /// A chunk of another type.
    Unknown(Unknown<'a>),
}

impl<'a> Chunk<'a> {
    /// Reads a chunk's fields.
    ///
    /// # Errors
    /// [`ParseError::ChunkLength`], [`ParseError::AckCounts`], [`ParseError::NoHeartbeatInfo`],
    /// [`ParseError::NoAddress`].
    /// Parameters and causes are not looked at: their iterators report what is wrong with them.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        match raw.type_byte() {
            types::DATA => Data::parse(raw).map(Self::Data),
            types::INIT => Init::parse(raw).map(Self::Init),
            types::INIT_ACK => InitAck::parse(raw).map(Self::InitAck),
            types::SACK => Sack::parse(raw).map(Self::Sack),
            types::HEARTBEAT => Heartbeat::parse(raw).map(Self::Heartbeat),
            types::HEARTBEAT_ACK => HeartbeatAck::parse(raw).map(Self::HeartbeatAck),
            types::ABORT => Ok(Self::Abort(Abort::parse(raw))),
            types::SHUTDOWN => Shutdown::parse(raw).map(Self::Shutdown),
            types::SHUTDOWN_ACK => Ok(Self::ShutdownAck),
            types::ERROR => Ok(Self::Error(Error::parse(raw))),
            types::COOKIE_ECHO => Ok(Self::CookieEcho(CookieEcho::parse(raw))),
            types::COOKIE_ACK => Ok(Self::CookieAck),
            types::ECNE => Ecne::parse(raw).map(Self::Ecne),
            types::CWR => Cwr::parse(raw).map(Self::Cwr),
            types::SHUTDOWN_COMPLETE => Ok(Self::ShutdownComplete(ShutdownComplete::parse(raw))),
            types::AUTH => Auth::parse(raw).map(Self::Auth),
            types::NR_SACK => NrSack::parse(raw).map(Self::NrSack),
            types::I_DATA => IData::parse(raw).map(Self::IData),
            types::DTLS => Dtls::parse(raw).map(Self::Dtls),
            types::ASCONF_ACK => AsconfAck::parse(raw).map(Self::AsconfAck),
            types::RE_CONFIG => Ok(Self::ReConfig(ReConfig::parse(raw))),
            types::PAD => Ok(Self::Pad(Pad::parse(raw))),
            types::FORWARD_TSN => ForwardTsn::parse(raw).map(Self::ForwardTsn),
            types::ASCONF => Asconf::parse(raw).map(Self::Asconf),
            types::I_FORWARD_TSN => IForwardTsn::parse(raw).map(Self::IForwardTsn),
            _ => Ok(Self::Unknown(Unknown::parse(raw))),
        }
    }

    /// Chunk type as it stands in the chunk's first byte.
    pub const fn type_byte(&self) -> u8 {
        match self {
            Self::Data(_) => types::DATA,
            Self::Init(_) => types::INIT,
            Self::InitAck(_) => types::INIT_ACK,
            Self::Sack(_) => types::SACK,
            Self::Heartbeat(_) => types::HEARTBEAT,
            Self::HeartbeatAck(_) => types::HEARTBEAT_ACK,
            Self::Abort(_) => types::ABORT,
            Self::Shutdown(_) => types::SHUTDOWN,
            Self::ShutdownAck => types::SHUTDOWN_ACK,
            Self::Error(_) => types::ERROR,
            Self::CookieEcho(_) => types::COOKIE_ECHO,
            Self::CookieAck => types::COOKIE_ACK,
            Self::Ecne(_) => types::ECNE,
            Self::Cwr(_) => types::CWR,
            Self::ShutdownComplete(_) => types::SHUTDOWN_COMPLETE,
            Self::Auth(_) => types::AUTH,
            Self::NrSack(_) => types::NR_SACK,
            Self::IData(_) => types::I_DATA,
            Self::Dtls(_) => types::DTLS,
            Self::AsconfAck(_) => types::ASCONF_ACK,
            Self::ReConfig(_) => types::RE_CONFIG,
            Self::Pad(_) => types::PAD,
            Self::ForwardTsn(_) => types::FORWARD_TSN,
            Self::Asconf(_) => types::ASCONF,
            Self::IForwardTsn(_) => types::I_FORWARD_TSN,
            Self::Unknown(chunk) => chunk.type_byte,
        }
    }

    /// Bytes from the chunk's type to its end: the Length field, without the padding.
    pub fn encoded_len(&self) -> usize {
        RawChunk::HEADER_LEN + self.value_len()
    }

    fn value_len(&self) -> usize {
        match self {
            Self::Data(chunk) => chunk.value_len(),
            Self::Init(chunk) => chunk.value_len(),
            Self::InitAck(chunk) => chunk.value_len(),
            Self::Sack(chunk) => chunk.value_len(),
            Self::Heartbeat(chunk) => chunk.value_len(),
            Self::HeartbeatAck(chunk) => chunk.value_len(),
            Self::Abort(chunk) => chunk.causes.encoded_len(),
            Self::Error(chunk) => chunk.causes.encoded_len(),
            Self::CookieEcho(chunk) => chunk.cookie.len(),
            Self::Auth(chunk) => chunk.value_len(),
            Self::NrSack(chunk) => chunk.value_len(),
            Self::IData(chunk) => chunk.value_len(),
            Self::Dtls(chunk) => chunk.value_len(),
            Self::AsconfAck(chunk) => chunk.value_len(),
            Self::ReConfig(chunk) => chunk.parameters.encoded_len(),
            Self::Pad(chunk) => chunk.data.len(),
            Self::ForwardTsn(chunk) => chunk.value_len(),
            Self::Asconf(chunk) => chunk.value_len(),
            Self::IForwardTsn(chunk) => chunk.value_len(),
            Self::Unknown(chunk) => chunk.value.len(),
            Self::Ecne(chunk) => chunk.value_len(),
            Self::Shutdown(_) | Self::Cwr(_) => size_of::<crate::Tsn>(),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete(_) => 0,
        }
    }

    pub(crate) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        match self {
            Self::Data(chunk) => chunk.emit(out),
            Self::Init(chunk) => chunk.emit(out),
            Self::InitAck(chunk) => chunk.emit(out),
            Self::Sack(chunk) => chunk.emit(out),
            Self::Heartbeat(chunk) => chunk.emit(out),
            Self::HeartbeatAck(chunk) => chunk.emit(out),
            Self::Abort(chunk) => chunk.emit(out),
            Self::Shutdown(chunk) => chunk.emit(out),
            Self::ShutdownAck => shutdown_ack::emit(out),
            Self::Error(chunk) => chunk.emit(out),
            Self::CookieEcho(chunk) => chunk.emit(out),
            Self::CookieAck => cookie_ack::emit(out),
            Self::Ecne(chunk) => chunk.emit(out),
            Self::Cwr(chunk) => chunk.emit(out),
            Self::ShutdownComplete(chunk) => chunk.emit(out),
            Self::Auth(chunk) => chunk.emit(out),
            Self::NrSack(chunk) => chunk.emit(out),
            Self::IData(chunk) => chunk.emit(out),
            Self::Dtls(chunk) => chunk.emit(out),
            Self::AsconfAck(chunk) => chunk.emit(out),
            Self::ReConfig(chunk) => chunk.emit(out),
            Self::Pad(chunk) => chunk.emit(out),
            Self::ForwardTsn(chunk) => chunk.emit(out),
            Self::Asconf(chunk) => chunk.emit(out),
            Self::IForwardTsn(chunk) => chunk.emit(out),
            Self::Unknown(chunk) => chunk.emit(out),
        }
    }
}

impl fmt::Display for Chunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(chunk) => chunk.fmt(f),
            Self::Init(chunk) => chunk.fmt(f),
            Self::InitAck(chunk) => chunk.fmt(f),
            Self::Sack(chunk) => chunk.fmt(f),
            Self::Heartbeat(chunk) => chunk.fmt(f),
            Self::HeartbeatAck(chunk) => chunk.fmt(f),
            Self::Abort(chunk) => chunk.fmt(f),
            Self::Shutdown(chunk) => chunk.fmt(f),
            Self::ShutdownAck => f.write_str(shutdown_ack::NAME),
            Self::Error(chunk) => chunk.fmt(f),
            Self::CookieEcho(chunk) => chunk.fmt(f),
            Self::CookieAck => f.write_str(cookie_ack::NAME),
            Self::Ecne(chunk) => chunk.fmt(f),
            Self::Cwr(chunk) => chunk.fmt(f),
            Self::ShutdownComplete(chunk) => chunk.fmt(f),
            Self::Auth(chunk) => chunk.fmt(f),
            Self::NrSack(chunk) => chunk.fmt(f),
            Self::IData(chunk) => chunk.fmt(f),
            Self::Dtls(chunk) => chunk.fmt(f),
            Self::AsconfAck(chunk) => chunk.fmt(f),
            Self::ReConfig(chunk) => chunk.fmt(f),
            Self::Pad(chunk) => chunk.fmt(f),
            Self::ForwardTsn(chunk) => chunk.fmt(f),
            Self::Asconf(chunk) => chunk.fmt(f),
            Self::IForwardTsn(chunk) => chunk.fmt(f),
            Self::Unknown(chunk) => chunk.fmt(f),
        }
    }
}
