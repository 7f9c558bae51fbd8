//! Lists of parameters, read and written.

use super::Parameter;
use crate::bytes::Output;
use crate::error::{NoRoom, ParseError};
use crate::tlv::{TlvError, Tlvs};
use core::fmt;

/// The parameters of a chunk, borrowed. Equal when their bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parameters<'a> {
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// No parameters.
    pub const EMPTY: Self = Self { bytes: &[] };

    /// Parameters as they stand in a chunk, or as [`ParameterWriter`] wrote them.
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The parameters in order. After an error in a parameter's header nothing more comes, for
    /// nobody knows where the next one begins; after an error in its value the next one does.
    pub const fn iter(&self) -> ParameterIter<'a> {
        ParameterIter { tlvs: Tlvs::new(self.bytes) }
    }

    /// The bytes, with or without the padding of the last parameter.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Size in bytes without the padding of the last parameter, which no chunk's Length counts.
    pub fn encoded_len(&self) -> usize {
        Tlvs::unpadded_len(self.bytes)
    }

    pub(crate) fn unpadded(&self) -> &'a [u8] {
        self.bytes.get(..self.encoded_len()).unwrap_or(self.bytes)
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
