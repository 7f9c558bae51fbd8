//! What one endpoint says about authentication in its INIT or INIT ACK: RANDOM, CHUNKS and HMAC-ALGO
//! (RFC 4895 section 3).

use super::HmacAlgorithm;
use crate::config::Config;
use crate::rng::Rng;
use alloc::vec::Vec;
use manypath_wire::chunk::{ChunkTypes, types};
use manypath_wire::error::NoRoom;
use manypath_wire::parameter::{HmacIds, Parameter, ParameterWriter};

/// Bytes of the Random Number. Others are refused (section 6.1).
pub(crate) const RANDOM_LEN: usize = 32;
/// Most HMAC Identifiers that are taken from a peer. With more of them it is as if it had none: the
/// whole list would have to be kept, for it goes into the key.
pub(crate) const MAX_HMAC_IDS: usize = 16;
/// Header of a parameter.
const HEADER_LEN: usize = 4;
/// Parameter types.
const RANDOM: u16 = 0x8002;
const CHUNKS: u16 = 0x8003;
const HMAC_ALGO: u16 = 0x8004;
/// RFC 4895 section 3.2: "The chunk types for INIT, INIT-ACK, SHUTDOWN-COMPLETE, and AUTH chunks MUST
/// NOT be listed in the CHUNKS parameter."
const NEVER: [u8; 4] = [types::INIT, types::INIT_ACK, types::SHUTDOWN_COMPLETE, types::AUTH];

/// RFC 5061 section 4.1.1: "This chunk MUST be sent in an authenticated way by using the mechanism
/// defined in [RFC4895]."
pub(super) const ADDRESS_CHANGES: [u8; 2] = [types::ASCONF, types::ASCONF_ACK];

/// The three parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    /// The Random Number.
    pub random: [u8; RANDOM_LEN],
    /// Chunk types that are to be authenticated, as they were listed. None: no such parameter.
    pub chunks: Option<Vec<u8>>,
    /// HMAC Identifiers, the most wanted first.
    pub hmac_ids: Vec<u16>,
}

impl Offer {
    /// What an endpoint offers, if it is to authenticate anything.
    pub(crate) fn own(config: &Config, rng: &mut Rng) -> Option<Self> {
        if !config.authenticates() {
            return None;
        }
        let chunks = chunks_to_demand(config);
        Some(Self {
            random: rng.key(),
            chunks: (!chunks.is_empty()).then_some(chunks),
            hmac_ids: config.hmac_algorithms.list().iter().map(|it| it.id()).collect(),
        })
    }

    /// Writes the parameters.
    pub(crate) fn push(&self, parameters: &mut ParameterWriter<'_>) -> Result<(), NoRoom> {
        parameters.push(&Parameter::Random(&self.random))?;
        if let Some(chunks) = &self.chunks {
            parameters.push(&Parameter::Chunks(chunks))?;
        }
        parameters.push(&Parameter::HmacAlgo(HmacIds::from_slice(&self.hmac_ids)))
    }

    /// The chunk types that its sender accepts only authenticated.
    pub(crate) fn demanded(&self) -> ChunkTypes {
        let listed = self.chunks.iter().flatten().copied();
        listed.filter(|type_byte| !NEVER.contains(type_byte)).collect()
    }

    /// The chunk types that are authenticated in packets to its sender: those that it lists, and those
    /// that must be whatever it lists.
    pub(crate) fn covered(&self) -> ChunkTypes {
        let listed = self.chunks.iter().flatten().copied();
        let all = listed.chain(ADDRESS_CHANGES);
        all.filter(|type_byte| !NEVER.contains(type_byte)).collect()
    }

    /// The algorithm that its sender likes best of those that we have.
    pub(crate) fn best_algorithm(&self) -> Option<HmacAlgorithm> {
        self.hmac_ids.iter().find_map(|id| HmacAlgorithm::from_id(*id))
    }

    /// The key vector (section 6.1): the parameters in this order, without padding.
    pub(crate) fn key_vector(&self) -> Vec<u8> {
        let mut vector = Vec::new();
        append(&mut vector, RANDOM, &self.random);
        if let Some(chunks) = &self.chunks {
            append(&mut vector, CHUNKS, chunks);
        }
        let ids: Vec<u8> = self.hmac_ids.iter().flat_map(|id| id.to_be_bytes()).collect();
        append(&mut vector, HMAC_ALGO, &ids);
        vector
    }
}

/// The chunk types that an endpoint lists in CHUNKS, in their order.
fn chunks_to_demand(config: &Config) -> Vec<u8> {
    let mut chunks = config.authenticated_chunks.clone();
    if config.address_reconfiguration {
        chunks.extend(ADDRESS_CHANGES);
    }
    chunks.retain(|type_byte| !NEVER.contains(type_byte));
    chunks.sort_unstable();
    chunks.dedup();
    chunks
}

fn append(vector: &mut Vec<u8>, parameter_type: u16, value: &[u8]) {
    let length = u16::try_from(HEADER_LEN + value.len()).unwrap_or(u16::MAX);
    vector.extend_from_slice(&parameter_type.to_be_bytes());
    vector.extend_from_slice(&length.to_be_bytes());
    vector.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::{Offer, chunks_to_demand};
    use crate::authentication::HmacAlgorithm::{Sha1, Sha256};
    use crate::config::{Config, HmacAlgorithms};
    use crate::rng::Rng;

    fn config() -> Config {
        Config { authentication: true, ..Config::default() }
    }

    #[test]
    fn nothing_is_offered_unless_it_is_wanted() {
        let mut rng = Rng::new([1; 32]);
        let before = rng.clone().next_u32();
        assert_eq!(Offer::own(&Config::default(), &mut rng), None);
        assert_eq!(rng.next_u32(), before, "not even a random number was drawn");
        let offer = Offer::own(&config(), &mut rng).unwrap();
        assert_eq!((offer.chunks, offer.hmac_ids), (None, std::vec![3, 1]));
        assert_ne!(Offer::own(&config(), &mut rng).unwrap().random, offer.random);
    }

    #[test]
    fn sha1_is_always_offered() {
        let offered = HmacAlgorithms::ALL.iter().map(|hmac_algorithms| {
            let config = Config { hmac_algorithms: *hmac_algorithms, ..config() };
            Offer::own(&config, &mut Rng::new([1; 32])).unwrap().hmac_ids
        });
        assert!(offered.eq([std::vec![3, 1], std::vec![1, 3], std::vec![1]]));
    }

    #[test]
    fn chunks_that_cannot_be_authenticated_are_neither_listed_nor_heeded() {
        let listed = std::vec![0xC1, 1, 2, 14, 15, 0, 0xC1];
        let config = Config { authenticated_chunks: listed.clone(), ..config() };
        assert_eq!(chunks_to_demand(&config), [0, 0xC1]);
        let offer = Offer { random: [0; 32], chunks: Some(listed), hmac_ids: std::vec![1] };
        let demanded = offer.demanded();
        assert!((0..=255).all(|byte| demanded.contains(byte) == [0, 0xC1].contains(&byte)));
    }

    #[test]
    fn the_first_algorithm_that_we_have_is_taken() {
        let best = |hmac_ids| Offer { random: [0; 32], chunks: None, hmac_ids }.best_algorithm();
        assert_eq!(best(std::vec![9, 3, 1]), Some(Sha256));
        assert_eq!(best(std::vec![1, 3]), Some(Sha1));
        assert_eq!(best(std::vec![2, 9]), None);
    }

    #[test]
    fn the_key_vector_has_types_and_lengths_and_no_padding() {
        let hmac_ids = std::vec![3, 1, 9];
        let offer = Offer { random: [7; 32], chunks: Some(std::vec![0xC1]), hmac_ids };
        let mut wanted = b"\x80\x02\x00\x24".to_vec();
        wanted.extend([7; 32]);
        wanted.extend(b"\x80\x03\x00\x05\xc1\x80\x04\x00\x0a\x00\x03\x00\x01\x00\x09");
        assert_eq!(offer.key_vector(), wanted);
        let offer = Offer { chunks: None, ..offer };
        wanted.drain(36..41);
        assert_eq!(offer.key_vector(), wanted);
    }
}
