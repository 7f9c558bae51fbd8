//! Parameters of unknown type, and the parameter that reports them: Unrecognized Parameter (RFC
//! 9260 section 3.3.3.1.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           Type = 8            |            Length             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! /                    Unrecognized Parameter                     /
//! \                                                               \
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::error::ParseError;
use crate::tlv::{Tlv, Tlvs};
use crate::unknown_action::UnknownAction;
use core::fmt;

/// A parameter of unknown type, kept as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownParameter<'a> {
    /// Parameter type.
    pub parameter_type: u16,
    /// What follows the parameter's Length, without padding.
    pub value: &'a [u8],
    raw: &'a [u8],
}

impl<'a> UnknownParameter<'a> {
    /// The parameter at the beginning of `bytes`, whatever its type; `None` if it is malformed. For
    /// writing parameters of which this crate knows nothing.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        Tlvs::new(bytes).next()?.ok().map(Self::parse)
    }

    /// What the receiver of the parameter has to do.
    pub const fn action(&self) -> UnknownAction {
        UnknownAction::of(self.parameter_type.to_be_bytes()[0])
    }

    /// The whole parameter with type and Length, without padding: what the Unrecognized Parameter
    /// parameter and the Unrecognized Parameters cause carry.
    pub const fn raw(&self) -> &'a [u8] {
        self.raw
    }

    pub(super) const fn parse(tlv: Tlv<'a>) -> Self {
        Self { parameter_type: tlv.kind, value: tlv.value, raw: tlv.raw }
    }
}

impl fmt::Display for UnknownParameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown type={:#06x} value={} bytes", self.parameter_type, self.value.len())
    }
}

/// The Unrecognized Parameter parameter.
pub(super) fn fmt(f: &mut fmt::Formatter<'_>, parameter: &[u8]) -> fmt::Result {
    match UnknownParameter::from_bytes(parameter) {
        Some(parameter) => write!(f, "unrecognized={:#06x}", parameter.parameter_type),
        None => write!(f, "unrecognized={} bytes", parameter.len()),
    }
}

/// A value of exactly 32 bits.
pub(super) fn parse_u32(tlv: Tlv<'_>) -> Result<u32, ParseError> {
    let bytes: [u8; 4] = tlv.value.try_into().map_err(|_| length_error(&tlv))?;
    Ok(u32::from_be_bytes(bytes))
}

/// The error of a parameter with a Length that its type cannot have.
pub(super) const fn length_error(tlv: &Tlv<'_>) -> ParseError {
    ParseError::ParameterLength { parameter_type: tlv.kind, length: tlv.length() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_highest_bits_say_what_to_do() {
        let cases = [(0x3F, true, false), (0x7F, true, true), (0xBF, false, false)];
        for (high, stop, report) in cases.into_iter().chain([(0xFF, false, true)]) {
            let bytes = [high, 0xFE, 0, 5, 1];
            let parameter = UnknownParameter::from_bytes(&bytes).unwrap();
            assert_eq!(parameter.action(), UnknownAction { stop, report });
            assert_eq!(parameter.raw(), bytes);
        }
        assert_eq!(UnknownParameter::from_bytes(&[0x3F, 0xFE, 0, 6, 1]), None);
        assert_eq!(UnknownParameter::from_bytes(&[]), None);
    }
}
