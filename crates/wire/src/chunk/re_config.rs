//! Re-configuration (RE-CONFIG, type 130).

use super::{RawChunk, types};
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::parameter::Parameters;
use core::fmt;

/// Re-configuration (RFC 6525 section 3.1): one or two requests or responses about streams. Which
/// combinations are allowed is not syntax.
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// | Type = 130    |  Chunk Flags  |      Chunk Length             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /                  Re-configuration Parameter                   /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// \                                                               \
/// /             Re-configuration Parameter (optional)             /
/// \                                                               \
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReConfig<'a> {
    /// The requests and responses.
    pub parameters: Parameters<'a>,
}

impl<'a> ReConfig<'a> {
    pub(super) fn parse(raw: RawChunk<'a>) -> Result<Self, ParseError> {
        Ok(Self { parameters: Parameters::from_bytes(raw.value()) })
    }

    pub(super) fn value_len(&self) -> usize {
        self.parameters.encoded_len()
    }

    pub(super) fn emit(&self, out: &mut Output<'_>) -> Result<(), NoRoom> {
        out.block([types::RE_CONFIG, 0], |out| out.bytes(self.parameters.unpadded()))
    }
}

impl fmt::Display for ReConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RE-CONFIG {}", self.parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::list::List;
    use crate::numbers::{StreamId, Tsn};
    use crate::parameter::{
        AddStreams, IncomingSsnReset, OutgoingSsnReset, Parameter, ParameterWriter,
        ReConfigResponse, ReConfigResult,
    };
    use crate::testing::{assert_round_trip, parse_chunk};
    use std::string::ToString;
    use std::vec::Vec;

    const STREAMS: [StreamId; 3] = [StreamId(1), StreamId(2), StreamId(0x0304)];
    const OUTGOING: Parameter<'static> = Parameter::OutgoingSsnReset(OutgoingSsnReset {
        request: 0x1111_1111,
        response: 0x2222_2222,
        last_tsn: Tsn(0x3333_3333),
        streams: List::from_slice(&STREAMS),
    });
    const INCOMING: Parameter<'static> = Parameter::IncomingSsnReset(IncomingSsnReset {
        request: 0x1111_1112,
        streams: List::EMPTY,
    });

    /// A response with this result and these next TSNs.
    fn response(result: ReConfigResult, next_tsns: Option<(Tsn, Tsn)>) -> Parameter<'static> {
        Parameter::ReConfigResponse(ReConfigResponse { response: 5, result, next_tsns })
    }

    fn check(parameters: &[Parameter<'_>], expected: &[u8], text: &str) {
        let mut buffer = [0; 256];
        let mut writer = ParameterWriter::new(&mut buffer);
        parameters.iter().for_each(|parameter| writer.push(parameter).unwrap());
        let len = writer.finish();
        let chunk = ReConfig { parameters: Parameters::from_bytes(&buffer[..len]) };
        assert_round_trip(Chunk::ReConfig(chunk), expected);
        let Ok(Chunk::ReConfig(read)) = parse_chunk(expected) else { panic!("no RE-CONFIG") };
        let read: Vec<_> = read.parameters.iter().map(Result::unwrap).collect();
        assert_eq!(read, parameters);
        assert_eq!(chunk.to_string(), text);
    }

    #[test]
    fn resets_of_streams() {
        check(
            &[OUTGOING, INCOMING],
            b"\x82\x00\x00\x24\
              \x00\x0d\x00\x16\x11\x11\x11\x11\x22\x22\x22\x22\x33\x33\x33\x33\
              \x00\x01\x00\x02\x03\x04\x00\x00\
              \x00\x0e\x00\x08\x11\x11\x11\x12",
            "RE-CONFIG {outgoing_ssn_reset request=286331153 response=572662306 \
             last_tsn=858993459 streams=[1,2,772], incoming_ssn_reset request=286331154 streams=[]}",
        );
        check(
            &[Parameter::SsnTsnReset { request: 7 }],
            b"\x82\x00\x00\x0c\x00\x0f\x00\x08\x00\x00\x00\x07",
            "RE-CONFIG {ssn_tsn_reset request=7}",
        );
    }

    #[test]
    fn additions_of_streams() {
        let add = AddStreams { request: 9, count: 0x0102 };
        check(
            &[Parameter::AddOutgoingStreams(add), Parameter::AddIncomingStreams(add)],
            b"\x82\x00\x00\x1c\
              \x00\x11\x00\x0c\x00\x00\x00\x09\x01\x02\x00\x00\
              \x00\x12\x00\x0c\x00\x00\x00\x09\x01\x02\x00\x00",
            "RE-CONFIG {add_outgoing_streams request=9 count=258, \
             add_incoming_streams request=9 count=258}",
        );
    }

    #[test]
    fn reserved_fields_of_additions_are_ignored() {
        for kind in [17, 18] {
            let zeros = [0, kind, 0, 12, 0, 0, 0, 9, 1, 2, 0, 0];
            let others = [0, kind, 0, 12, 0, 0, 0, 9, 1, 2, 0xff, 0xff];
            let read = |bytes: &[u8]| Parameters::from_bytes(bytes).iter().next().unwrap().is_ok();
            assert!(read(&zeros) && read(&others));
            let [zeros, others] = [zeros, others]
                .map(|bytes| std::format!("{:?}", Parameters::from_bytes(&bytes).iter().next()));
            assert_eq!(zeros, others);
        }
    }

    #[test]
    fn responses() {
        check(
            &[
                response(ReConfigResult::IN_PROGRESS, None),
                response(ReConfigResult::PERFORMED, Some((Tsn(1), Tsn(2)))),
            ],
            b"\x82\x00\x00\x24\
              \x00\x10\x00\x0c\x00\x00\x00\x05\x00\x00\x00\x06\
              \x00\x10\x00\x14\x00\x00\x00\x05\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02",
            "RE-CONFIG {reconfig_response response=5 in progress, \
             reconfig_response response=5 performed next_tsns=1,2}",
        );
    }

    #[test]
    fn parameters_of_impossible_length_are_errors() {
        for (kind, good) in [
            (13, &[16, 18, 20][..]),
            (14, &[8, 10, 12, 14, 16, 18, 20]),
            (15, &[8]),
            (16, &[12, 20]),
            (17, &[12]),
            (18, &[12]),
        ] {
            for len in 4..=20_u8 {
                let mut bytes = std::vec![0; usize::from(len)];
                bytes[1] = kind;
                bytes[3] = len;
                let read = Parameters::from_bytes(&bytes).iter().next();
                assert_eq!(read.unwrap().is_ok(), good.contains(&len), "{kind} {len}");
            }
        }
    }
}
