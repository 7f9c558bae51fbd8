//! Address Configuration Change (ASCONF, type 0xC1) and its acknowledgement (ASCONF-ACK, type 0x80).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::parameter::{Parameter, Parameters, address_parameter};
use core::fmt;
use core::net::IpAddr;

/// Address Configuration Change (RFC 5061 section 4.1.1): asks the peer to add or delete addresses,
/// or to prefer one.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Type = 0xC1   |  Chunk Flags  |      Chunk Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                      Sequence Number                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                    Address Parameter                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /                     ASCONF Parameters                         /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asconf<'a> {
    /// Sequence Number.
    pub sequence: u32,
    /// An address of the sender by which the association can be found; unspecified: by other means.
    pub address: IpAddr,
    /// The requests.
    pub parameters: Parameters<'a>,
}

impl<'a> Asconf<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let sequence = reader.u32().ok_or(raw.length_error())?;
        let no_address = ParseError::NoAddress { type_byte: raw.type_byte() };
        let first = Parameters::from_bytes(reader.rest()).iter().next();
        let address = match first.and_then(Result::ok) {
            Some(Parameter::Ipv4Address(v4)) => IpAddr::V4(v4),
            Some(Parameter::Ipv6Address(v6)) => IpAddr::V6(v6),
            _ => return Err(no_address),
        };
        reader.bytes(address_len(address)).ok_or(no_address)?;
        Ok(Self { sequence, address, parameters: Parameters::from_bytes(reader.rest()) })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::ASCONF, 0], |out| {
            out.u32(self.sequence)?;
            address_parameter(self.address).emit(out)?;
            out.bytes(self.parameters.unpadded())
        })
    }

    pub(super) fn value_len(&self) -> usize {
        size_of::<u32>() + address_len(self.address) + self.parameters.encoded_len()
    }
}

/// Bytes of an address parameter.
const fn address_len(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(_) => 8,
        IpAddr::V6(_) => 20,
    }
}

impl fmt::Display for Asconf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence, address, parameters } = self;
        write!(f, "ASCONF sequence={sequence} address={address} {parameters}")
    }
}

/// Address Configuration Acknowledgment (RFC 5061 section 4.1.2). What is not reported has succeeded.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Type = 0x80   |  Chunk Flags  |      Chunk Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                     Sequence Number                           |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /                 ASCONF Parameter Responses                    /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsconfAck<'a> {
    /// Sequence Number of the ASCONF.
    pub sequence: u32,
    /// What became of its requests.
    pub parameters: Parameters<'a>,
}

impl<'a> AsconfAck<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        let mut reader = raw.reader();
        let sequence = reader.u32().ok_or(raw.length_error())?;
        Ok(Self { sequence, parameters: Parameters::from_bytes(reader.rest()) })
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::ASCONF_ACK, 0], |out| {
            out.u32(self.sequence)?;
            out.bytes(self.parameters.unpadded())
        })
    }

    pub(super) fn value_len(&self) -> usize {
        size_of::<u32>() + self.parameters.encoded_len()
    }
}

impl fmt::Display for AsconfAck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ASCONF-ACK sequence={} {}", self.sequence, self.parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{Cause, CauseWriter, Causes};
    use crate::chunk::Chunk;
    use crate::parameter::{AddressRequest, ErrorIndication, ParameterWriter};
    use crate::testing::{assert_minimum_length, assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec::Vec;

    const ADDRESS: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));

    fn written(parameters: &[Parameter<'_>]) -> Vec<u8> {
        let mut buffer = std::vec![0; 256];
        let mut writer = ParameterWriter::new(&mut buffer);
        parameters.iter().for_each(|parameter| writer.push(parameter).unwrap());
        let len = writer.finish();
        buffer.truncate(len);
        buffer
    }

    #[test]
    fn asconf_reads_and_writes_the_rfcs_examples() {
        let request = |correlation| AddressRequest { correlation, address: ADDRESS };
        let parameters = written(&[
            Parameter::AddIpAddress(request(0x0102_3474)),
            Parameter::DeleteIpAddress(request(0x0102_3476)),
            Parameter::SetPrimaryAddress(request(0x0102_3479)),
        ]);
        let asconf = Asconf {
            sequence: 0x0A0B_0C0D,
            address: "::".parse().unwrap(),
            parameters: Parameters::from_bytes(&parameters),
        };
        let bytes = b"\xc1\x00\x00\x4c\x0a\x0b\x0c\x0d\
            \x00\x06\x00\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            \xc0\x01\x00\x10\x01\x02\x34\x74\x00\x05\x00\x08\xc0\x00\x02\x01\
            \xc0\x02\x00\x10\x01\x02\x34\x76\x00\x05\x00\x08\xc0\x00\x02\x01\
            \xc0\x04\x00\x10\x01\x02\x34\x79\x00\x05\x00\x08\xc0\x00\x02\x01";
        assert_eq!(parse_chunk(bytes), Ok(Chunk::Asconf(asconf)));
        assert_round_trip(Chunk::Asconf(asconf), bytes);
        let text = "ASCONF sequence=168496141 address=:: {\
            add_ip_address 192.0.2.1 correlation=16921716, \
            delete_ip_address 192.0.2.1 correlation=16921718, \
            set_primary_address 192.0.2.1 correlation=16921721}";
        assert_eq!(asconf.to_string(), text);
    }

    #[test]
    fn asconf_without_an_address_is_refused() {
        let address = b"\xc1\x00\x00\x10\x00\x00\x00\x01\x00\x05\x00\x08\xc0\x00\x02\x01";
        assert!(parse_chunk(address).is_ok());
        for (at, value) in [(9, 11), (11, 7), (11, 9), (3, 8), (3, 15)] {
            let mut bytes = *address;
            bytes[at] = value;
            let error = ParseError::NoAddress { type_byte: 0xC1 };
            assert_eq!(parse_chunk(&bytes), Err(error), "{at} {value}");
        }
        let mut short = *address;
        short[3] = 7;
        assert!(matches!(parse_chunk(&short), Err(ParseError::ChunkLength { .. })));
    }

    #[test]
    fn asconf_ack_reads_and_writes_the_rfcs_example() {
        let request = AddressRequest { correlation: 0x0102_3476, address: ADDRESS };
        let copied = written(&[Parameter::DeleteIpAddress(request)]);
        let mut buffer = [0; 64];
        let mut causes = CauseWriter::new(&mut buffer);
        causes.push(&Cause::DeleteLastAddress(&copied)).unwrap();
        let len = causes.finish();
        let error = ErrorIndication {
            correlation: 0x0102_3476,
            causes: Causes::from_bytes(&buffer[..len]),
        };
        let parameters =
            written(&[Parameter::ErrorIndication(error), Parameter::SuccessIndication(7)]);
        let ack = AsconfAck { sequence: 1, parameters: Parameters::from_bytes(&parameters) };
        let bytes = b"\x80\x00\x00\x2c\x00\x00\x00\x01\
            \xc0\x03\x00\x1c\x01\x02\x34\x76\x00\xa0\x00\x14\
            \xc0\x02\x00\x10\x01\x02\x34\x76\x00\x05\x00\x08\xc0\x00\x02\x01\
            \xc0\x05\x00\x08\x00\x00\x00\x07";
        assert_eq!(parse_chunk(bytes), Ok(Chunk::AsconfAck(ack)));
        assert_round_trip(Chunk::AsconfAck(ack), bytes);
        let text = "ASCONF-ACK sequence=1 {error correlation=16921718 causes=[160], \
            success correlation=7}";
        assert_eq!(ack.to_string(), text);
        assert_minimum_length(bytes, 8);
    }

    #[test]
    fn requests_hold_one_address_and_no_more() {
        let good = written(&[Parameter::AddIpAddress(AddressRequest {
            correlation: 1,
            address: "2001:db8::1".parse().unwrap(),
        })]);
        let first = |bytes: &[u8]| Parameters::from_bytes(bytes).iter().next().unwrap().is_ok();
        assert!(first(&good));
        for len in 4..good.len() {
            let mut cut = good.clone();
            cut[3] = len as u8;
            assert!(!first(&cut), "{len}");
        }
        let mut host_name = good;
        host_name[9] = 11;
        assert!(!first(&host_name));
    }
}
