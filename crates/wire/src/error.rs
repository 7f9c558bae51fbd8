//! Why bytes are not what they should be, and why something was not written.

use core::fmt;

/// The reason why a packet, chunk, parameter or error cause could not be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// The packet is shorter than the common header.
    TooShort,
    /// The CRC32c in the common header is not that of the packet.
    BadChecksum,
    /// One to three bytes follow the last chunk: no chunk header fits in there.
    ChunkHeader,
    /// The Length of a chunk is below the minimum for its type.
    ChunkLength {
        /// Chunk type.
        type_byte: u8,
        /// Its Length field.
        length: u16,
    },
    /// The Length of a chunk reaches beyond the end of the packet.
    ChunkTruncated {
        /// Chunk type.
        type_byte: u8,
        /// Its Length field.
        length: u16,
    },
    /// The counts in a SACK or NR-SACK chunk announce more than its Length has room for.
    AckCounts {
        /// Chunk type.
        type_byte: u8,
        /// Its Length field.
        length: u16,
    },
    /// A HEARTBEAT or HEARTBEAT ACK chunk does not begin with a Heartbeat Info parameter.
    NoHeartbeatInfo {
        /// Chunk type.
        type_byte: u8,
    },
    /// One to three bytes follow the last parameter.
    ParameterHeader,
    /// The Length of a parameter is not one that its type can have.
    ParameterLength {
        /// Parameter type.
        parameter_type: u16,
        /// Its Length field.
        length: u16,
    },
    /// The Length of a parameter reaches beyond the end of the chunk.
    ParameterTruncated {
        /// Parameter type.
        parameter_type: u16,
        /// Its Length field.
        length: u16,
    },
    /// One to three bytes follow the last error cause.
    CauseHeader,
    /// The Length of an error cause is below the minimum for its code.
    CauseLength {
        /// Cause code.
        code: u16,
        /// Its Length field.
        length: u16,
    },
    /// The Length of an error cause reaches beyond the end of the chunk.
    CauseTruncated {
        /// Cause code.
        code: u16,
        /// Its Length field.
        length: u16,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort => f.write_str("packet shorter than a common header"),
            Self::BadChecksum => f.write_str("wrong CRC32c"),
            Self::ChunkHeader => f.write_str("packet ends within a chunk header"),
            Self::ChunkLength { type_byte, length } => {
                write!(f, "chunk of type {type_byte} cannot have length {length}")
            }
            Self::ChunkTruncated { type_byte, length } => {
                write!(f, "chunk of type {type_byte} and length {length} exceeds the packet")
            }
            Self::AckCounts { type_byte, length } => {
                write!(f, "counts in chunk of type {type_byte} exceed its length {length}")
            }
            Self::NoHeartbeatInfo { type_byte } => {
                write!(f, "chunk of type {type_byte} without heartbeat information")
            }
            Self::ParameterHeader => f.write_str("chunk ends within a parameter header"),
            Self::ParameterLength { parameter_type, length } => {
                write!(f, "parameter {parameter_type:#06x} cannot have length {length}")
            }
            Self::ParameterTruncated { parameter_type, length } => {
                write!(f, "parameter {parameter_type:#06x} of length {length} exceeds the chunk")
            }
            Self::CauseHeader => f.write_str("chunk ends within an error cause header"),
            Self::CauseLength { code, length } => {
                write!(f, "error cause {code} cannot have length {length}")
            }
            Self::CauseTruncated { code, length } => {
                write!(f, "error cause {code} of length {length} exceeds the chunk")
            }
        }
    }
}

impl core::error::Error for ParseError {}

/// What should be written does not fit into the buffer, or not into a 16-bit Length field.
/// Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room left in the packet")
    }
}

impl core::error::Error for NoRoom {}
