//! Lists of error causes, read and written.

use super::Cause;
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::tlv::{Causes, TlvError, Tlvs};
use core::fmt;

impl<'a> Causes<'a> {
    /// The causes in order. After an error in a cause's header nothing more comes, for nobody knows
    /// where the next one begins; after an error in its value the next one does.
    pub const fn iter(&self) -> CauseIter<'a> {
        CauseIter { tlvs: Tlvs::new(self.as_bytes()) }
    }
}

impl<'a> IntoIterator for Causes<'a> {
    type Item = Result<Cause<'a>, ParseError>;
    type IntoIter = CauseIter<'a>;

    fn into_iter(self) -> CauseIter<'a> {
        self.iter()
    }
}

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, cause) in self.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match cause {
                Ok(cause) => cause.fmt(f)?,
                Err(error) => write!(f, "malformed: {error}")?,
            }
        }
        f.write_str("}")
    }
}

/// Iterator over [`Causes`].
#[derive(Clone, Debug)]
pub struct CauseIter<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Iterator for CauseIter<'a> {
    type Item = Result<Cause<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.tlvs.next().map(|tlv| Cause::parse(tlv.map_err(header_error)?))
    }
}

const fn header_error(error: TlvError) -> ParseError {
    match error {
        TlvError::Header => ParseError::CauseHeader,
        TlvError::Length { kind, length } => ParseError::CauseLength { code: kind, length },
        TlvError::Truncated { kind, length } => ParseError::CauseTruncated { code: kind, length },
    }
}

/// Appends error causes to a caller's buffer, for [`Causes::from_bytes`].
#[derive(Debug)]
pub struct CauseWriter<'b> {
    out: Output<'b>,
}

impl<'b> CauseWriter<'b> {
    /// Nothing written yet.
    pub const fn new(buffer: &'b mut [u8]) -> Self {
        Self { out: Output::new(buffer) }
    }

    /// Appends a cause and its padding, or nothing.
    ///
    /// # Errors
    /// [`NoRoom`] if the rest of the buffer or the cause's 16-bit Length is too small for it.
    pub fn push(&mut self, cause: &Cause<'_>) -> Result<(), NoRoom> {
        cause.emit(&mut self.out)
    }

    /// Bytes written, the padding of the last cause included.
    pub const fn finish(self) -> usize {
        self.out.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::ParameterTypes;
    use crate::numbers::{StreamId, Tsn};
    use std::string::ToString;
    use std::vec::Vec;

    /// Every cause once, each with its bytes and its text.
    #[rustfmt::skip]
    fn table() -> Vec<(Cause<'static>, &'static [u8], &'static str)> {
        std::vec![
            (Cause::InvalidStreamIdentifier(StreamId(258)),
                b"\x00\x01\x00\x08\x01\x02\x00\x00", "invalid stream identifier 258"),
            (Cause::MissingMandatoryParameter(ParameterTypes::from_slice(&[7])),
                b"\x00\x02\x00\x0a\x00\x00\x00\x01\x00\x07\0\0", "missing mandatory parameters [7]"),
            (Cause::StaleCookie { staleness_us: 1000 },
                b"\x00\x03\x00\x08\x00\x00\x03\xe8", "stale cookie by 1000 us"),
            (Cause::OutOfResource, b"\x00\x04\x00\x04", "out of resource"),
            (Cause::UnresolvableAddress(b"\x00\x0b\x00\x06a\0"),
                b"\x00\x05\x00\x0a\x00\x0b\x00\x06a\0\0\0", "unresolvable address {host_name=\"a\\x00\"}"),
            (Cause::UnrecognizedChunkType(b"\xc1\x00\x00\x04"),
                b"\x00\x06\x00\x08\xc1\x00\x00\x04", "unrecognized chunk type 193"),
            (Cause::UnrecognizedChunkType(b""), b"\x00\x06\x00\x04", "unrecognized chunk type"),
            (Cause::InvalidMandatoryParameter, b"\x00\x07\x00\x04", "invalid mandatory parameter"),
            (Cause::UnrecognizedParameters(b"\xc1\x23\x00\x04"), b"\x00\x08\x00\x08\xc1\x23\x00\x04",
                "unrecognized parameters {unknown type=0xc123 value=0 bytes}"),
            (Cause::NoUserData(Tsn(0xFFFF_FFFF)),
                b"\x00\x09\x00\x08\xff\xff\xff\xff", "no user data in tsn 4294967295"),
            (Cause::CookieReceivedWhileShuttingDown,
                b"\x00\x0a\x00\x04", "cookie received while shutting down"),
            (Cause::RestartWithNewAddresses(b"\x00\x05\x00\x08\xc0\x00\x02\x01"),
                b"\x00\x0b\x00\x0c\x00\x05\x00\x08\xc0\x00\x02\x01",
                "restart with new addresses {address=192.0.2.1}"),
            (Cause::UserInitiatedAbort(b"bye"), b"\x00\x0c\x00\x07bye\0", "user-initiated abort \"bye\""),
            (Cause::ProtocolViolation(b"a\"b"),
                b"\x00\x0d\x00\x07a\"b\0", "protocol violation \"a\\\"b\""),
            (Cause::MissingDtlsSupport, b"\x00\x64\x00\x04", "missing DTLS chunk support"),
            (Cause::NoCommonKeyManagement, b"\x00\x65\x00\x04", "no common DTLS key management method"),
            (Cause::TieBreakerCollision, b"\x00\x66\x00\x04", "DTLS key management tie breaker collision"),
            (Cause::IncompatibleRoles, b"\x00\x67\x00\x04", "incompatible DTLS key management roles"),
            (Cause::ResourceShortage(b"\xc0\x05\x00\x08\0\0\0\x01"),
                b"\x00\xa1\x00\x0c\xc0\x05\x00\x08\0\0\0\x01",
                "resource shortage {success correlation=1}"),
            (Cause::DeleteSourceAddress(b""),
                b"\x00\xa2\x00\x04", "request to delete the source address {}"),
            (Cause::IllegalAsconfAck, b"\x00\xa3\x00\x04", "illegal ASCONF-ACK"),
            (Cause::NoAuthorization(b""), b"\x00\xa4\x00\x04", "no authorization {}"),
            (Cause::UnsupportedHmac(2),
                b"\x01\x05\x00\x06\x00\x02\0\0", "unsupported HMAC identifier 2"),
            (Cause::Unknown { code: 0xB0, value: b"x" },
                b"\x00\xb0\x00\x05x\0\0\0", "unknown cause 176, 1 bytes"),
        ]
    }

    #[test]
    fn every_cause_reads_and_writes() {
        for (cause, bytes, text) in table() {
            let mut buffer = [0xFF; 32];
            let mut writer = CauseWriter::new(&mut buffer);
            assert_eq!(writer.push(&cause), Ok(()));
            let len = writer.finish();
            assert_eq!(&buffer[..len], bytes);
            assert!(Causes::from_bytes(bytes).iter().eq([Ok(cause)]));
            assert_eq!(cause.code().to_be_bytes(), bytes[..2]);
            assert_eq!(cause.to_string(), text);
        }
    }

    #[test]
    fn causes_follow_each_other() {
        let bytes: Vec<u8> = table().iter().flat_map(|&(_, bytes, _)| bytes).copied().collect();
        let causes = Causes::from_bytes(&bytes);
        assert!(causes.into_iter().eq(table().iter().map(|&(cause, ..)| Ok(cause))));
        assert_eq!(causes.encoded_len(), bytes.len() - 3);
        assert_eq!(causes, Causes::from_bytes(&bytes[..bytes.len() - 3]));
        assert_eq!(causes.as_bytes(), bytes);
    }

    #[test]
    fn a_length_below_the_minimum_is_an_error_at_its_place() {
        let wrong: [&[u8]; 5] = [
            b"\x00\x01\x00\x06\x01\x02\0\0",
            b"\x00\x02\x00\x06\0\0\0\0",
            b"\x00\x02\x00\x0a\x00\x00\x00\x02\x00\x07\0\0",
            b"\x00\x03\x00\x07abc\0",
            b"\x00\x09\x00\x04",
        ];
        for bytes in wrong {
            let (code, length) = (u16::from(bytes[1]), u16::from(bytes[3]));
            let error = ParseError::CauseLength { code, length };
            let followed = [bytes, b"\x00\x04\x00\x04"].concat();
            let causes = Causes::from_bytes(&followed);
            assert!(causes.iter().eq([Err(error), Ok(Cause::OutOfResource)]));
        }
    }

    #[test]
    fn nothing_follows_a_malformed_header() {
        let cases = [
            (&b"\x00\x04\x00\x04\x00"[..], ParseError::CauseHeader),
            (b"\x00\x04\x00\x04\x00\x0c\x00\x03", ParseError::CauseLength { code: 12, length: 3 }),
            (
                b"\x00\x04\x00\x04\x00\x0c\x00\x09abcd",
                ParseError::CauseTruncated { code: 12, length: 9 },
            ),
        ];
        for (bytes, error) in cases {
            assert!(Causes::from_bytes(bytes).iter().eq([Ok(Cause::OutOfResource), Err(error)]));
        }
        let causes = Causes::from_bytes(cases[0].0);
        let text = "{out of resource, malformed: chunk ends within an error cause header}";
        assert_eq!(causes.to_string(), text);
    }

    #[test]
    fn bytes_beyond_the_last_field_are_ignored() {
        let causes = Causes::from_bytes(b"\x00\x09\x00\x0c\0\0\0\x01abcd");
        assert!(causes.iter().eq([Ok(Cause::NoUserData(Tsn(1)))]));
    }
}
