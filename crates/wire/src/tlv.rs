//! Type-Length-Value: the common shape of parameters and error causes (RFC 9260 section 3.2.1).

use crate::bytes::{Reader, padded};

/// Bytes of Type and Length.
pub(crate) const HEADER_LEN: usize = 4;

/// One parameter or cause, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tlv<'a> {
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
    /// From the Type to the end of the value, without padding.
    pub(crate) raw: &'a [u8],
}

impl Tlv<'_> {
    /// The Length field.
    pub(crate) const fn length(&self) -> u16 {
        // Was read from 16 bits.
        self.raw.len() as u16
    }
}

/// What is wrong with the header of a TLV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TlvError {
    Header,
    Length { kind: u16, length: u16 },
    Truncated { kind: u16, length: u16 },
}

/// Splits bytes into TLVs; nothing follows an error.
#[derive(Clone, Debug)]
pub(crate) struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Length of `bytes` without the padding of the last TLV, which a chunk's Length does not
    /// count. All of `bytes` if they are not well formed.
    pub(crate) fn unpadded_len(bytes: &'a [u8]) -> usize {
        let mut tlvs = Self::new(bytes);
        let mut end = 0;
        loop {
            let start = bytes.len() - tlvs.rest.len();
            match tlvs.next() {
                Some(Ok(tlv)) => end = start + tlv.raw.len(),
                Some(Err(_)) => return bytes.len(),
                None => return end,
            }
        }
    }

    fn split(&self) -> Result<(Tlv<'a>, &'a [u8]), TlvError> {
        let mut reader = Reader::new(self.rest);
        let (Some(kind), Some(length)) = (reader.u16(), reader.u16()) else {
            return Err(TlvError::Header);
        };
        let len = usize::from(length);
        if len < HEADER_LEN {
            return Err(TlvError::Length { kind, length });
        }
        let (Some(raw), Some(value)) = (self.rest.get(..len), reader.bytes(len - HEADER_LEN))
        else {
            return Err(TlvError::Truncated { kind, length });
        };
        // The padding of the last one may be missing: the chunk's Length need not count it.
        let rest = self.rest.get(padded(len)..).unwrap_or_default();
        Ok((Tlv { kind, value, raw }, rest))
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, TlvError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let split = self.split();
        self.rest = split.map_or(&[], |(_, rest)| rest);
        Some(split.map(|(tlv, _)| tlv))
    }
}

/// Declares a type that holds the bytes of TLVs: equal when their bytes are, but for the padding of the last one,
/// which a chunk may or may not count.
macro_rules! borrowed {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name<'a> {
            bytes: &'a [u8],
        }

        impl<'a> $name<'a> {
            /// None of them.
            pub const EMPTY: Self = Self { bytes: &[] };

            /// As they stand in a chunk, or as their writer wrote them.
            pub const fn from_bytes(bytes: &'a [u8]) -> Self {
                Self { bytes }
            }

            /// The bytes, with or without the padding of the last one.
            pub const fn as_bytes(&self) -> &'a [u8] {
                self.bytes
            }

            /// Size in bytes without the padding of the last one, which no chunk's Length counts.
            pub fn encoded_len(&self) -> usize {
                Tlvs::unpadded_len(self.bytes)
            }

            pub(crate) fn unpadded(&self) -> &'a [u8] {
                self.bytes.get(..self.encoded_len()).unwrap_or(self.bytes)
            }
        }

        impl PartialEq for $name<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.unpadded() == other.unpadded()
            }
        }

        impl Eq for $name<'_> {}
    };
}

borrowed! {
    /// The error causes of a chunk, borrowed. Equal when their bytes are, but for the padding of the last
    /// one, which a chunk may or may not count.
    ///
    /// ```text
    ///  0                   1                   2                   3
    ///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    /// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    /// |          Cause Code           |         Cause Length          |
    /// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    /// /                  Cause-Specific Information                   /
    /// \                                                               \
    /// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    /// ```
    Causes
}

borrowed! {
    /// The parameters of a chunk, borrowed. Equal when their bytes are, but for the padding of the last
    /// one, which a chunk may or may not count.
    Parameters
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Type, value, and length without padding.
    type Parts<'a> = (u16, &'a [u8], usize);

    fn split(bytes: &[u8]) -> Vec<Result<Parts<'_>, TlvError>> {
        Tlvs::new(bytes).map(|tlv| tlv.map(|tlv| (tlv.kind, tlv.value, tlv.raw.len()))).collect()
    }

    #[test]
    fn padding_lies_between_and_may_follow() {
        let bytes = b"\x00\x01\x00\x05a\0\0\0\x00\x02\x00\x06bc";
        let expected = [Ok((1, &b"a"[..], 5)), Ok((2, &b"bc"[..], 6))];
        assert_eq!(split(bytes), expected);
        assert_eq!(Tlvs::unpadded_len(bytes), 14);
        let mut padded = Vec::from(bytes);
        padded.extend([0, 0]);
        assert_eq!(split(&padded), expected);
        assert_eq!(Tlvs::unpadded_len(&padded), 14);
        assert_eq!(Tlvs::unpadded_len(b""), 0);
    }

    #[test]
    fn the_contents_of_padding_do_not_matter() {
        let zeros = b"\x00\x01\x00\x05a\0\0\0\x00\x02\x00\x06bc\0\0";
        let others = b"\x00\x01\x00\x05a\xff\x01\x02\x00\x02\x00\x06bc\x03\x04";
        assert_eq!(split(zeros), split(others));
        let chunk = b"\x0a\x00\x00\x05a\xff\x01\x02\x0b\x00\x00\x04";
        let mut packet = std::vec![0; 12];
        packet.extend(chunk);
        let packet = crate::packet::Packet::parse_unchecked(&packet).unwrap();
        let chunks: Vec<_> = packet.chunks().map(Result::unwrap).collect();
        let echo = crate::chunk::CookieEcho { cookie: b"a" };
        assert_eq!(chunks, [crate::chunk::Chunk::CookieEcho(echo), crate::chunk::Chunk::CookieAck]);
    }

    #[test]
    fn nothing_follows_a_malformed_header() {
        let first = Ok((1, &b""[..], 4));
        let cases = [
            (&b"\x00\x01\x00\x04\x00\x02\x00"[..], TlvError::Header),
            (b"\x00\x01\x00\x04\x00\x02\x00\x03\0\0\0\0", TlvError::Length { kind: 2, length: 3 }),
            (b"\x00\x01\x00\x04\x00\x02\x00\x06a", TlvError::Truncated { kind: 2, length: 6 }),
        ];
        for (bytes, error) in cases {
            assert_eq!(split(bytes), [first, Err(error)]);
            assert_eq!(Tlvs::unpadded_len(bytes), bytes.len());
        }
    }
}
