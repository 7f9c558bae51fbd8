//! The dispatcher: any chunk.

use super::{
    Abort, Asconf, AsconfAck, Auth, CookieEcho, Cwr, Data, Dtls, Ecne, Error, ForwardTsn,
    Heartbeat, HeartbeatAck, IData, IForwardTsn, Init, InitAck, NrSack, Pad, RawChunk, ReConfig,
    Sack, Shutdown, ShutdownComplete, Unknown, cookie_ack, shutdown_ack, types,
};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use core::fmt;

/// Makes the dispatcher of a table with one line for each type of chunk: with the type of its fields, or with its
/// module if it has no fields. Everything else about a chunk is in its file.
macro_rules! chunks {
    (
        $($(#[$doc:meta])* $type:ident: $chunk:ident($fields:ty),)*
        ; $($(#[$bare_doc:meta])* $bare_type:ident: $bare:ident = $module:ident,)*
    ) => {
        /// A chunk of any type.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Chunk<'a> {
            $($(#[$doc])* $chunk($fields),)*
            $($(#[$bare_doc])* $bare,)*
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
                    $(types::$type => <$fields>::parse(raw).map(Self::$chunk),)*
                    $(types::$bare_type => Ok(Self::$bare),)*
                    _ => Ok(Self::Unknown(Unknown::parse(raw))),
                }
            }

            /// Chunk type as it stands in the chunk's first byte.
            pub const fn type_byte(&self) -> u8 {
                match self {
                    $(Self::$chunk(_) => types::$type,)*
                    $(Self::$bare => types::$bare_type,)*
                    Self::Unknown(chunk) => chunk.type_byte,
                }
            }

            fn value_len(&self) -> usize {
                match self {
                    $(Self::$chunk(chunk) => chunk.value_len(),)*
                    $(Self::$bare => 0,)*
                    Self::Unknown(chunk) => chunk.value.len(),
                }
            }

            pub(crate) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
                match self {
                    $(Self::$chunk(chunk) => chunk.emit(out),)*
                    $(Self::$bare => $module::emit(out),)*
                    Self::Unknown(chunk) => chunk.emit(out),
                }
            }
        }

        impl fmt::Display for Chunk<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$chunk(chunk) => chunk.fmt(f),)*
                    $(Self::$bare => f.write_str($module::NAME),)*
                    Self::Unknown(chunk) => chunk.fmt(f),
                }
            }
        }
    };
}

chunks! {
    /// Payload Data (0).
    DATA: Data(Data<'a>),
    /// Initiation (1).
    INIT: Init(Init<'a>),
    /// Initiation Acknowledgement (2).
    INIT_ACK: InitAck(InitAck<'a>),
    /// Selective Acknowledgement (3).
    SACK: Sack(Sack<'a>),
    /// Heartbeat Request (4).
    HEARTBEAT: Heartbeat(Heartbeat<'a>),
    /// Heartbeat Acknowledgement (5).
    HEARTBEAT_ACK: HeartbeatAck(HeartbeatAck<'a>),
    /// Abort Association (6).
    ABORT: Abort(Abort<'a>),
    /// Shutdown Association (7).
    SHUTDOWN: Shutdown(Shutdown),
    /// Operation Error (9).
    ERROR: Error(Error<'a>),
    /// State Cookie (10).
    COOKIE_ECHO: CookieEcho(CookieEcho<'a>),
    /// Explicit Congestion Notification Echo (12).
    ECNE: Ecne(Ecne),
    /// Congestion Window Reduced (13).
    CWR: Cwr(Cwr),
    /// Shutdown Complete (14).
    SHUTDOWN_COMPLETE: ShutdownComplete(ShutdownComplete),
    /// Authentication (15).
    AUTH: Auth(Auth<'a>),
    /// Selective Acknowledgement with non-renegable blocks (16).
    NR_SACK: NrSack(NrSack<'a>),
    /// Payload Data supporting Interleaving (64).
    I_DATA: IData(IData<'a>),
    /// DTLS chunk (0x41).
    DTLS: Dtls(Dtls<'a>),
    /// Address Configuration Acknowledgment (0x80).
    ASCONF_ACK: AsconfAck(AsconfAck<'a>),
    /// Re-configuration (130).
    RE_CONFIG: ReConfig(ReConfig<'a>),
    /// Padding (0x84).
    PAD: Pad(Pad<'a>),
    /// Forward Cumulative TSN (192).
    FORWARD_TSN: ForwardTsn(ForwardTsn<'a>),
    /// Address Configuration Change (0xC1).
    ASCONF: Asconf(Asconf<'a>),
    /// Forward Cumulative TSN supporting Interleaving (194).
    I_FORWARD_TSN: IForwardTsn(IForwardTsn<'a>),
    ;
    /// Shutdown Acknowledgement (8); it has no fields.
    SHUTDOWN_ACK: ShutdownAck = shutdown_ack,
    /// Cookie Acknowledgement (11); it has no fields.
    COOKIE_ACK: CookieAck = cookie_ack,
}

impl Chunk<'_> {
    /// Bytes from the chunk's type to its end: the Length field, without the padding.
    pub fn encoded_len(&self) -> usize {
        RawChunk::HEADER_LEN + self.value_len()
    }
}
