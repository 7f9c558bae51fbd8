//! The message authentication codes (RFC 4895 section 3.3, RFC 2104).

use crate::config::HmacAlgorithms;
use ::hmac::{Hmac, KeyInit, Mac};
use manypath_wire::parameter::hmac_ids;
use sha1::Sha1;
use sha2::Sha256;

impl HmacAlgorithms {
    /// The algorithms, the most wanted first.
    pub(super) const fn list(self) -> &'static [HmacAlgorithm] {
        match self {
            Self::Sha256Sha1 => &[HmacAlgorithm::Sha256, HmacAlgorithm::Sha1],
            Self::Sha1Sha256 => &[HmacAlgorithm::Sha1, HmacAlgorithm::Sha256],
            Self::Sha1 => &[HmacAlgorithm::Sha1],
        }
    }
}

/// An HMAC algorithm (RFC 4895 section 3.3, table 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HmacAlgorithm {
    /// 20 bytes.
    Sha1,
    /// 32 bytes.
    Sha256,
}

/// Bytes of the longest HMAC.
const MAX_LEN: usize = 32;

impl HmacAlgorithm {
    /// Its HMAC Identifier.
    pub(crate) const fn id(self) -> u16 {
        match self {
            Self::Sha1 => hmac_ids::SHA_1,
            Self::Sha256 => hmac_ids::SHA_256,
        }
    }

    /// The algorithm with this HMAC Identifier, if we have it.
    pub(crate) fn from_id(id: u16) -> Option<Self> {
        [Self::Sha1, Self::Sha256].into_iter().find(|algorithm| algorithm.id() == id)
    }

    /// Bytes of an HMAC.
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// An algorithm with its key, ready for many messages.
#[derive(Clone)]
pub(crate) enum Keyed {
    /// SHA-1.
    Sha1(Hmac<Sha1>),
    /// SHA-256.
    Sha256(Hmac<Sha256>),
}

impl core::fmt::Debug for Keyed {
    /// Does not print the key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.algorithm().fmt(f)
    }
}

/// An HMAC that was computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Code {
    fn new(bytes: &[u8]) -> Self {
        let mut code = Self { bytes: [0; MAX_LEN], len: bytes.len() };
        code.bytes[..bytes.len()].copy_from_slice(bytes);
        code
    }

    /// Its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Keyed {
    /// A key of any length. HMAC takes every length, so there is always a result.
    pub(crate) fn new(algorithm: HmacAlgorithm, key: &[u8]) -> Option<Self> {
        match algorithm {
            HmacAlgorithm::Sha1 => KeyInit::new_from_slice(key).ok().map(Self::Sha1),
            HmacAlgorithm::Sha256 => KeyInit::new_from_slice(key).ok().map(Self::Sha256),
        }
    }

    /// Which algorithm it is.
    pub(crate) const fn algorithm(&self) -> HmacAlgorithm {
        match self {
            Self::Sha1(_) => HmacAlgorithm::Sha1,
            Self::Sha256(_) => HmacAlgorithm::Sha256,
        }
    }

    /// The HMAC of all parts, one after the other.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> Code {
        match self {
            Self::Sha1(mac) => Code::new(&fed(mac, parts).finalize().into_bytes()),
            Self::Sha256(mac) => Code::new(&fed(mac, parts).finalize().into_bytes()),
        }
    }

    /// Whether `code` is the HMAC of all parts, in a time that does not tell where it differs.
    pub(crate) fn verifies(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        match self {
            Self::Sha1(mac) => fed(mac, parts).verify_slice(code).is_ok(),
            Self::Sha256(mac) => fed(mac, parts).verify_slice(code).is_ok(),
        }
    }
}

fn fed<M: Mac + Clone>(mac: &M, parts: &[&[u8]]) -> M {
    let mut mac = mac.clone();
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::{HmacAlgorithm, Keyed};

    /// Test case 2 of RFC 2202 section 3 and of RFC 4231 section 4.3: the same key and text.
    #[test]
    fn the_codes_are_those_of_the_test_vectors() {
        let sha1 = [
            0xef, 0xfc, 0xdf, 0x6a, 0xe5, 0xeb, 0x2f, 0xa2, 0xd2, 0x74, 0x16, 0xd5, 0xf1, 0x84,
            0xdf, 0x9c, 0x25, 0x9a, 0x7c, 0x79,
        ];
        let sha256 = [
            0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
            0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9,
            0x64, 0xec, 0x38, 0x43,
        ];
        let wanted: [(HmacAlgorithm, &[u8]); 2] =
            [(HmacAlgorithm::Sha1, &sha1), (HmacAlgorithm::Sha256, &sha256)];
        for (algorithm, wanted) in wanted {
            let keyed = Keyed::new(algorithm, b"Jefe").unwrap();
            let parts: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
            assert_eq!(keyed.code(&parts).as_bytes(), wanted);
            assert_eq!((algorithm.len(), keyed.algorithm()), (wanted.len(), algorithm));
            assert_eq!(HmacAlgorithm::from_id(algorithm.id()), Some(algorithm));
            assert!(keyed.verifies(&parts, wanted));
            assert!(!keyed.verifies(&parts, &wanted[1..]) && !keyed.verifies(&parts, &[]));
            let mut wrong = wanted.to_vec();
            wrong[7] ^= 1;
            assert!(!keyed.verifies(&parts, &wrong));
        }
        assert_eq!([0, 2, 4].map(HmacAlgorithm::from_id), [None; 3]);
    }
}
