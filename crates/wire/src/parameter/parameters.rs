//! Lists of parameters, read and written.

use super::Parameter;
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::tlv::{Parameters, TlvError, Tlvs};
use core::fmt;

impl<'a> Parameters<'a> {
    /// The parameters in order. After an error in a parameter's header nothing more comes, for
    /// nobody knows where the next one begins; after an error in its value the next one does.
    pub const fn iter(&self) -> ParameterIter<'a> {
        ParameterIter { tlvs: Tlvs::new(self.as_bytes()) }
    }
}

impl<'a> IntoIterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, ParseError>;
    type IntoIter = ParameterIter<'a>;

    fn into_iter(self) -> ParameterIter<'a> {
        self.iter()
    }
}

impl fmt::Display for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, parameter) in self.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match parameter {
                Ok(parameter) => parameter.fmt(f)?,
                Err(error) => write!(f, "malformed: {error}")?,
            }
        }
        f.write_str("}")
    }
}

/// Iterator over [`Parameters`].
#[derive(Clone, Debug)]
pub struct ParameterIter<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Iterator for ParameterIter<'a> {
    type Item = Result<Parameter<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.tlvs.next().map(|tlv| Parameter::parse(tlv.map_err(header_error)?))
    }
}

const fn header_error(error: TlvError) -> ParseError {
    match error {
        TlvError::Header => ParseError::ParameterHeader,
        TlvError::Length { kind, length } => {
            ParseError::ParameterLength { parameter_type: kind, length }
        }
        TlvError::Truncated { kind, length } => {
            ParseError::ParameterTruncated { parameter_type: kind, length }
        }
    }
}

/// Appends parameters to a caller's buffer, for [`Parameters::from_bytes`].
#[derive(Debug)]
pub struct ParameterWriter<'b> {
    out: Output<'b>,
}

impl<'b> ParameterWriter<'b> {
    /// Nothing written yet.
    pub const fn new(buffer: &'b mut [u8]) -> Self {
        Self { out: Output::new(buffer) }
    }

    /// Appends a parameter and its padding, or nothing.
    ///
    /// # Errors
    /// [`NoRoom`] if the rest of the buffer or the parameter's 16-bit Length is too small for it.
    pub fn push(&mut self, parameter: &Parameter<'_>) -> Result<(), NoRoom> {
        parameter.emit(&mut self.out)
    }

    /// Bytes written, the padding of the last parameter included.
    pub const fn finish(self) -> usize {
        self.out.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::{AddressTypes, HmacIds, KeyManagement, UnknownParameter};
    use core::net::{Ipv4Addr, Ipv6Addr};
    use std::string::ToString;
    use std::vec::Vec;

    /// Every parameter once, each with its bytes and its text.
    #[rustfmt::skip]
    fn table() -> Vec<(Parameter<'static>, &'static [u8], &'static str)> {
        let types = AddressTypes::from_slice(&[5, 6]);
        let unknown = UnknownParameter::from_bytes(b"\x80\x05\x00\x06ab").unwrap();
        std::vec![
            (Parameter::HeartbeatInfo(b"abc"), b"\x00\x01\x00\x07abc\0", "heartbeat_info=3 bytes"),
            (Parameter::Ipv4Address(Ipv4Addr::new(192, 0, 2, 1)),
                b"\x00\x05\x00\x08\xc0\x00\x02\x01", "address=192.0.2.1"),
            (Parameter::Ipv6Address(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1)),
                b"\x00\x06\x00\x14\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01", "address=2001:db8::1"),
            (Parameter::StateCookie(b"KAME"), b"\x00\x07\x00\x08KAME", "state_cookie=4 bytes"),
            (Parameter::UnrecognizedParameter(b"\xc1\x23\x00\x04"),
                b"\x00\x08\x00\x08\xc1\x23\x00\x04", "unrecognized=0xc123"),
            (Parameter::UnrecognizedParameter(b"\xc1"),
                b"\x00\x08\x00\x05\xc1\0\0\0", "unrecognized=1 bytes"),
            (Parameter::CookiePreservative(60_000),
                b"\x00\x09\x00\x08\x00\x00\xea\x60", "cookie_preservative=60000 ms"),
            (Parameter::HostNameAddress(b"a.b\0"), b"\x00\x0b\x00\x08a.b\0", "host_name=\"a.b\\x00\""),
            (Parameter::SupportedAddressTypes(types),
                b"\x00\x0c\x00\x08\x00\x05\x00\x06", "supported_address_types=[5, 6]"),
            (Parameter::EcnCapable, b"\x80\x00\x00\x04", "ecn_capable"),
            (Parameter::ZeroChecksumAcceptable(1),
                b"\x80\x01\x00\x08\0\0\0\x01", "zero_checksum_acceptable method=0x00000001"),
            (Parameter::Random(b"not 32"), b"\x80\x02\x00\x0anot 32\0\0", "random=6 bytes"),
            (Parameter::Chunks(&[0xC1]), b"\x80\x03\x00\x05\xc1\0\0\0", "chunks=[193]"),
            (Parameter::HmacAlgo(HmacIds::from_slice(&[3])),
                b"\x80\x04\x00\x06\x00\x03\0\0", "hmac_algo=[3]"),
            (Parameter::KeyManagement(KeyManagement { tie_breaker: 258, flags: 0x87, methods: &[9] }),
                b"\x80\x06\x00\x0a\x00\x00\x01\x02\x87\x09\0\0",
                "key_management tie_breaker=0x00000102 flags=0x87 methods=[9]"),
            (Parameter::SupportedExtensions(&[0x10, 0xC1]),
                b"\x80\x08\x00\x06\x10\xc1\0\0", "supported_extensions=[16, 193]"),
            (Parameter::Resumption(b""), b"\x90\x92\x00\x04", "resumption"),
            (Parameter::Resumption(b"ticket"),
                b"\x90\x92\x00\x0aticket\0\0", "resumption ticket=6 bytes"),
            (Parameter::ForwardTsnSupported, b"\xc0\x00\x00\x04", "forward_tsn_supported"),
            (Parameter::AdaptationIndication(0x6d70),
                b"\xc0\x06\x00\x08\x00\x00\x6d\x70", "adaptation=0x00006d70"),
            (Parameter::Unknown(unknown),
                b"\x80\x05\x00\x06ab\0\0", "unknown type=0x8005 value=2 bytes"),
        ]
    }

    #[test]
    fn every_parameter_reads_and_writes() {
        for (parameter, bytes, text) in table() {
            let mut buffer = [0xFF; 32];
            let mut writer = ParameterWriter::new(&mut buffer);
            assert_eq!(writer.push(&parameter), Ok(()));
            let len = writer.finish();
            assert_eq!(&buffer[..len], bytes);
            assert!(Parameters::from_bytes(bytes).iter().eq([Ok(parameter)]));
            assert_eq!(parameter.parameter_type().to_be_bytes(), bytes[..2]);
            assert_eq!(parameter.to_string(), text);
        }
    }

    #[test]
    fn parameters_follow_each_other() {
        let bytes: Vec<u8> = table().iter().flat_map(|&(_, bytes, _)| bytes).copied().collect();
        let parameters = Parameters::from_bytes(&bytes);
        assert!(parameters.into_iter().eq(table().iter().map(|&(parameter, ..)| Ok(parameter))));
        assert_eq!(parameters.encoded_len(), bytes.len() - 2);
        assert_eq!(parameters, Parameters::from_bytes(&bytes[..bytes.len() - 2]));
        assert_ne!(parameters, Parameters::from_bytes(&bytes[..bytes.len() - 8]));
        assert_eq!(parameters.as_bytes(), bytes);
    }

    #[test]
    fn a_wrong_length_is_an_error_at_its_place() {
        let wrong: [&[u8]; 9] = [
            b"\x00\x05\x00\x07abc\0",
            b"\x00\x05\x00\x09abcde\0\0\0",
            b"\x00\x06\x00\x08abcd",
            b"\x00\x09\x00\x04",
            b"\x00\x0c\x00\x07abc\0",
            b"\x80\x00\x00\x05a\0\0\0",
            b"\xc0\x00\x00\x08abcd",
            b"\xc0\x06\x00\x0cabcdefgh",
            b"\x80\x06\x00\x08abcd",
        ];
        for bytes in wrong {
            let parameter_type = u16::from_be_bytes([bytes[0], bytes[1]]);
            let length = u16::from_be_bytes([bytes[2], bytes[3]]);
            let error = ParseError::ParameterLength { parameter_type, length };
            let followed = [bytes, b"\x80\x00\x00\x04"].concat();
            let parameters = Parameters::from_bytes(&followed);
            assert!(parameters.iter().eq([Err(error), Ok(Parameter::EcnCapable)]));
        }
        let parameters = Parameters::from_bytes(b"\x80\x00\x00\x04\x00\x07\x00\x03");
        let error = ParseError::ParameterLength { parameter_type: 7, length: 3 };
        assert!(parameters.iter().eq([Ok(Parameter::EcnCapable), Err(error)]));
        let text = "{ecn_capable, malformed: parameter 0x0007 cannot have length 3}";
        assert_eq!(parameters.to_string(), text);
    }

    #[test]
    fn a_parameter_without_room_is_not_written() {
        let mut buffer = [0xFF; 11];
        let mut writer = ParameterWriter::new(&mut buffer);
        assert_eq!(writer.push(&Parameter::EcnCapable), Ok(()));
        assert_eq!(writer.push(&Parameter::StateCookie(b"abc")), Err(NoRoom));
        assert_eq!(writer.push(&Parameter::ForwardTsnSupported), Ok(()));
        assert_eq!(writer.finish(), 8);
        assert_eq!(buffer[..8], *b"\x80\x00\x00\x04\xc0\x00\x00\x04");
    }
}
