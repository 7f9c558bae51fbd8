//! Authenticated chunks (RFC 4895), without which no server takes ASCONF.

use super::craft::{packet, parameters};
use hmac::{Hmac, KeyInit, Mac};
use manypath_wire::chunk::{Asconf, Auth, Chunk};
use manypath_wire::parameter::{HmacIds, Parameter, Parameters, hmac_ids};
use manypath_wire::{CommonHeader, checksum};
use sha2::Sha256;

/// Type bytes of ASCONF-ACK and ASCONF.
const ADDRESS_CHANGES: [u8; 2] = [0x80, 0xC1];
/// Types of RANDOM, CHUNKS and HMAC-ALGO.
const VECTOR: [u16; 3] = [0x8002, 0x8003, 0x8004];
const HMAC_LEN: usize = 32;

pub(crate) struct Keys {
    own: Vec<u8>,
    key: Option<Vec<u8>>,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let mut random = [7; 32];
        let _fixed = getrandom::fill(&mut random);
        let ids = [hmac_ids::SHA_256, hmac_ids::SHA_1];
        let own = parameters(&[
            Parameter::SupportedExtensions(&[0x80, 0xC1, 0x0F]),
            Parameter::Random(&random),
            Parameter::Chunks(&ADDRESS_CHANGES),
            Parameter::HmacAlgo(HmacIds::from_slice(&ids)),
        ]);
        Self { own, key: None }
    }

    /// The parameters of the INIT.
    pub(crate) fn offer(&self) -> &[u8] {
        &self.own
    }

    /// The key that follows from ours and the peer's parameters (section 6.1).
    pub(crate) fn agree(&mut self, peer: Parameters<'_>) {
        let mut vectors = [vector(&self.own), vector(peer.as_bytes())];
        // The shorter one is padded in front for the comparison alone.
        vectors.sort_by_key(|vector| {
            let first = vector.iter().position(|byte| *byte != 0).unwrap_or(vector.len());
            (vector.len() - first, vector[first..].to_vec(), vector.len())
        });
        self.key = Some(vectors.concat());
    }

    /// A packet of an AUTH chunk and `chunk`.
    pub(crate) fn packet(&self, port: u16, tag: u32, chunk: &Chunk<'_>) -> Option<Vec<u8>> {
        let auth = Auth { key: 0, hmac_id: hmac_ids::SHA_256, hmac: &[0; HMAC_LEN] };
        let mut bytes = packet(port, tag, &[Chunk::Auth(auth), *chunk]);
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.as_ref()?).ok()?;
        mac.update(&bytes[CommonHeader::LEN..]);
        let at = CommonHeader::LEN + Auth::HEADER_LEN;
        bytes[at..at + HMAC_LEN].copy_from_slice(&mac.finalize().into_bytes());
        bytes[8..12].fill(0);
        let crc = checksum::crc32c(&[&bytes]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        Some(bytes)
    }
}

/// The key vector among parameters: RANDOM, CHUNKS and HMAC-ALGO without padding.
fn vector(mut bytes: &[u8]) -> Vec<u8> {
    let mut parts: [&[u8]; 3] = [&[]; 3];
    while let Some((head, _)) = bytes.split_first_chunk::<4>() {
        let (kind, len) =
            (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
        let len = usize::from(len).max(4);
        if let Some(at) = VECTOR.iter().position(|one| *one == kind) {
            parts[at] = bytes.get(..len).unwrap_or_default();
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    parts.concat()
}

/// Requests to delete and to add again each of these addresses.
pub(crate) fn renewal(addresses: &[std::net::Ipv4Addr]) -> Vec<u8> {
    use manypath_wire::parameter::AddressRequest;
    let requests = addresses.iter().enumerate().flat_map(|(number, address)| {
        let number = u32::try_from(number).unwrap_or(0) * 2;
        let request = |correlation| AddressRequest { correlation, address: (*address).into() };
        [Parameter::DeleteIpAddress(request(number)), Parameter::AddIpAddress(request(number + 1))]
    });
    parameters(&requests.collect::<Vec<_>>())
}

/// An ASCONF of these requests.
pub(crate) fn asconf(sequence: u32, own: std::net::Ipv4Addr, requests: &[u8]) -> Chunk<'_> {
    let parameters = Parameters::from_bytes(requests);
    Chunk::Asconf(Asconf { sequence, address: own.into(), parameters })
}
