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
    /// An ASCONF chunk does not begin with an address parameter.
    NoAddress {
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
            Self::NoAddress { type_byte } => {
                write!(f, "chunk of type {type_byte} without an address")
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn errors_name_what_is_wrong() {
        let (type_byte, length, code) = (3, 17, 9);
        let cases = [
            (ParseError::TooShort, "packet shorter than a common header"),
            (ParseError::BadChecksum, "wrong CRC32c"),
            (ParseError::ChunkHeader, "packet ends within a chunk header"),
            (
                ParseError::ChunkLength { type_byte, length },
                "chunk of type 3 cannot have length 17",
            ),
            (
                ParseError::ChunkTruncated { type_byte, length },
                "chunk of type 3 and length 17 exceeds the packet",
            ),
            (
                ParseError::AckCounts { type_byte, length },
                "counts in chunk of type 3 exceed its length 17",
            ),
            (
                ParseError::NoHeartbeatInfo { type_byte },
                "chunk of type 3 without heartbeat information",
            ),
            (ParseError::NoAddress { type_byte }, "chunk of type 3 without an address"),
            (ParseError::ParameterHeader, "chunk ends within a parameter header"),
            (
                ParseError::ParameterLength { parameter_type: 0xC006, length },
                "parameter 0xc006 cannot have length 17",
            ),
            (
                ParseError::ParameterTruncated { parameter_type: 5, length },
                "parameter 0x0005 of length 17 exceeds the chunk",
            ),
            (ParseError::CauseHeader, "chunk ends within an error cause header"),
            (ParseError::CauseLength { code, length }, "error cause 9 cannot have length 17"),
            (
                ParseError::CauseTruncated { code, length },
                "error cause 9 of length 17 exceeds the chunk",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
        assert_eq!(NoRoom.to_string(), "no room left in the packet");
    }
}
