//! What two endpoints have agreed on, and the association keys that follow from it (RFC 4895 section
//! 6.1).

use super::{HmacAlgorithm, Keyed, Offer, SharedKeys};
use alloc::vec::Vec;
use core::cmp::Ordering;
use manypath_wire::chunk::{Auth, ChunkTypes};
use manypath_wire::packet::Cover;
use zeroize::Zeroizing;

/// Why an AUTH chunk does not authenticate what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rejection {
    /// We did not offer this HMAC Identifier.
    UnsupportedHmac(u16),
    /// There is no shared key with this number.
    UnknownKey,
    /// The HMAC is wrong.
    WrongHmac,
    /// There is no AUTH chunk where one has to be.
    Missing,
}

/// Authentication between two endpoints.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// What the peer wants to be authenticated.
    covered: ChunkTypes,
    /// The chunk types that the peer has listed.
    listed: Vec<u8>,
    /// What we want to be authenticated.
    demanded: ChunkTypes,
    /// The algorithms that we have offered.
    accepted: Vec<HmacAlgorithm>,
    /// The algorithm for what we send.
    algorithm: HmacAlgorithm,
    /// Both key vectors, in the order in which they follow a shared key.
    vectors: Zeroizing<Vec<u8>>,
    /// Keys that were used already, with their numbers.
    keyed: Vec<(u16, Keyed)>,
}

impl Agreement {
    /// What `own` and `peer` make possible. None without an algorithm that both have.
    pub(crate) fn new(own: &Offer, peer: &Offer) -> Option<Self> {
        let accepted = own.hmac_ids.iter().filter_map(|id| HmacAlgorithm::from_id(*id)).collect();
        Some(Self {
            covered: peer.covered(),
            listed: peer.chunks.clone().unwrap_or_default(),
            demanded: own.demanded(),
            accepted,
            algorithm: peer.best_algorithm()?,
            vectors: joined(own.key_vector(), peer.key_vector()),
            keyed: Vec::new(),
        })
    }

    /// Whether a chunk of this type is taken only behind an AUTH chunk.
    pub(crate) fn demands(&self, type_byte: u8) -> bool {
        self.demanded.contains(type_byte)
    }

    /// The chunk types that the peer has listed.
    pub(crate) fn listed(&self) -> &[u8] {
        &self.listed
    }

    /// What an AUTH chunk has to cover in packets to the peer.
    pub(crate) fn cover(&self, keys: &SharedKeys) -> Cover {
        Cover {
            key: keys.active(),
            hmac_id: self.algorithm.id(),
            hmac_len: self.algorithm.len(),
            types: self.covered,
        }
    }

    /// The HMAC of `data`, an AUTH chunk with zeros in place of the HMAC and what follows it.
    pub(crate) fn code(&mut self, keys: &SharedKeys, data: &[u8]) -> Option<super::hmac::Code> {
        let keyed = self.keyed(keys, keys.active(), self.algorithm)?;
        Some(keyed.code(&[data]))
    }

    /// Checks `auth`, where `rest` is the packet from it on (section 6.3).
    pub(crate) fn check(
        &mut self,
        keys: &SharedKeys,
        auth: &Auth<'_>,
        rest: &[u8],
    ) -> Result<(), Rejection> {
        let algorithm = HmacAlgorithm::from_id(auth.hmac_id)
            .filter(|algorithm| self.accepted.contains(algorithm))
            .ok_or(Rejection::UnsupportedHmac(auth.hmac_id))?;
        let keyed = self.keyed(keys, auth.key, algorithm).ok_or(Rejection::UnknownKey)?;
        if auth.hmac.len() != algorithm.len() {
            return Err(Rejection::WrongHmac);
        }
        let (head, behind) = rest.split_at_checked(Auth::HEADER_LEN).ok_or(Rejection::WrongHmac)?;
        let zeros = &[0; Cover::MAX_HMAC_LEN][..algorithm.len()];
        let parts = [head, zeros, behind.get(algorithm.len()..).unwrap_or_default()];
        if keyed.verifies(&parts, auth.hmac) { Ok(()) } else { Err(Rejection::WrongHmac) }
    }

    /// The shared key with this number has changed.
    pub(crate) fn forget(&mut self, number: u16) {
        self.keyed.retain(|(other, _)| *other != number);
    }

    fn keyed(
        &mut self,
        keys: &SharedKeys,
        number: u16,
        algorithm: HmacAlgorithm,
    ) -> Option<&Keyed> {
        let secret = keys.secret(number)?;
        let is_it = |(n, keyed): &(u16, Keyed)| (*n, keyed.algorithm()) == (number, algorithm);
        let at = match self.keyed.iter().position(is_it) {
            Some(at) => at,
            None => {
                let key = Zeroizing::new([secret, &self.vectors].concat());
                self.keyed.push((number, Keyed::new(algorithm, &key)?));
                self.keyed.len() - 1
            }
        };
        self.keyed.get(at).map(|(_, keyed)| keyed)
    }
}

/// Both key vectors, "the numerically smaller key vector" first.
fn joined(one: Vec<u8>, other: Vec<u8>) -> Zeroizing<Vec<u8>> {
    let (mut first, second) = match numerically(&one, &other) {
        Ordering::Less | Ordering::Equal => (one, other),
        Ordering::Greater => (other, one),
    };
    first.extend_from_slice(&second);
    Zeroizing::new(first)
}

/// Compares two vectors as numbers in network byte order; of equal numbers the shorter vector is
/// first.
fn numerically(one: &[u8], other: &[u8]) -> Ordering {
    let digits = |vector: &[u8]| vector.iter().position(|byte| *byte != 0);
    let number = |vector| digits(vector).map_or(&[][..], |at| &vector[at..]);
    let (a, b): (&[u8], &[u8]) = (number(one), number(other));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b)).then(one.len().cmp(&other.len()))
}

#[cfg(test)]
mod tests {
    use super::{Agreement, Rejection, numerically};
    use crate::authentication::{Offer, SharedKeys};
    use core::cmp::Ordering::{Equal, Greater, Less};
    use manypath_wire::chunk::Auth;
    use std::vec::Vec;

    fn offers() -> (Offer, Offer) {
        let a = Offer {
            random: [1; 32],
            chunks: Some(std::vec![0xC1, 0x80]),
            hmac_ids: std::vec![3, 1],
        };
        (a, Offer { random: [2; 32], chunks: None, hmac_ids: std::vec![1] })
    }

    fn hex(text: &str) -> Vec<u8> {
        let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digit).collect()
    }

    /// An AUTH chunk with key 7 and zeros for its HMAC, and a SHUTDOWN ACK.
    fn data(hmac_id: u8, len: usize) -> Vec<u8> {
        let mut data = std::vec![0x0F, 0, 0, 8 + len as u8, 0, 7, 0, hmac_id];
        data.resize(8 + len, 0);
        data.extend([8, 0, 0, 4]);
        data
    }

    /// The same by python3:
    ///
    /// ```text
    /// def par(t, v): return t.to_bytes(2, 'big') + (4 + len(v)).to_bytes(2, 'big') + v
    /// a = par(0x8002, bytes([1]*32)) + par(0x8003, b'\xc1\x80') + par(0x8004, b'\0\3\0\1')
    /// z = par(0x8002, bytes([2]*32)) + par(0x8004, b'\0\1')
    /// k = shared + b''.join(sorted([a, z], key=lambda v: (int.from_bytes(v, 'big'), len(v))))
    /// data = b'\x0f\0\0\x28\0\7\0\3' + bytes(32) + b'\x08\0\0\4'   # SHA-1: \x1c, \1, 20
    /// hmac.new(k, data, 'sha256').hexdigest()
    /// ```
    #[test]
    fn codes_are_those_that_another_program_has_computed() {
        let (a, z) = offers();
        for (shared, sha256, sha1) in [
            (
                &b""[..],
                "ea525e8e464800e010986c938f326e8a78624034d1c2cca417c6ca851cbba182",
                "0d23e1463dffa1ff8eeb4d0de97776a3e1bdb08b",
            ),
            (
                b"shared",
                "2771248fd27c40a4f4c160d6d1cb24c9bcbfe4705ecf7da904a26f66bf0c6d78",
                "25bb9863b54c58a5f0504a87dede550270a403ba",
            ),
        ] {
            let mut keys = SharedKeys::default();
            keys.set(7, shared);
            keys.activate(7).unwrap();
            let code = |own, peer, data: &[u8]| {
                let mut agreement = Agreement::new(own, peer).unwrap();
                agreement.code(&keys, data).unwrap().as_bytes().to_vec()
            };
            assert_eq!(code(&z, &a, &data(3, 32)), hex(sha256), "Z uses what A likes best");
            assert_eq!(code(&a, &z, &data(1, 20)), hex(sha1), "A uses what Z likes best");
        }
    }

    #[test]
    fn vectors_are_ordered_as_numbers_and_the_shorter_of_equals_is_first() {
        for (one, other, order) in [
            (&[1, 2][..], &[1, 3][..], Less),
            (&[2][..], &[1, 0][..], Less),
            (&[0, 0, 2][..], &[1, 0][..], Less),
            (&[5][..], &[0, 5][..], Less),
            (&[5, 6][..], &[5, 6][..], Equal),
            (&[][..], &[0][..], Less),
        ] {
            assert_eq!(numerically(one, other), order, "{one:?} {other:?}");
            let reverse = if order == Equal { Equal } else { Greater };
            assert_eq!(numerically(other, one), reverse, "{other:?} {one:?}");
        }
    }

    #[test]
    fn only_the_right_hmac_with_a_known_key_and_an_offered_algorithm_is_good() {
        let (a, z) = offers();
        let mut keys = SharedKeys::default();
        keys.set(7, b"shared");
        let mut agreement = Agreement::new(&a, &z).unwrap();
        let good = hex("2771248fd27c40a4f4c160d6d1cb24c9bcbfe4705ecf7da904a26f66bf0c6d78");
        let mut rest = data(3, 32);
        rest[8..40].copy_from_slice(&good);
        let auth = Auth { key: 7, hmac_id: 3, hmac: &good };
        assert_eq!(agreement.check(&keys, &auth, &rest), Ok(()));
        let wrong = Err(Rejection::WrongHmac);
        for at in [1, 5, 40, 43] {
            let mut changed = rest.clone();
            changed[at] ^= 1;
            assert_eq!(agreement.check(&keys, &auth, &changed), wrong, "byte {at}");
        }
        let short = Auth { hmac: &good[..20], ..auth };
        assert_eq!(agreement.check(&keys, &short, &rest), wrong);
        let other = Auth { key: 8, ..auth };
        assert_eq!(agreement.check(&keys, &other, &rest), Err(Rejection::UnknownKey));
        let mut modest = Agreement::new(&z, &a).unwrap();
        let unsupported = Err(Rejection::UnsupportedHmac(3));
        assert_eq!(modest.check(&keys, &auth, &rest), unsupported, "Z has offered SHA-1 alone");
        keys.set(7, b"another");
        agreement.forget(7);
        assert_eq!(agreement.check(&keys, &auth, &rest), wrong);
    }

    #[test]
    fn without_a_common_algorithm_there_is_no_agreement() {
        let (a, z) = offers();
        let z = Offer { hmac_ids: std::vec![2], ..z };
        assert!(Agreement::new(&a, &z).is_none());
    }
}
