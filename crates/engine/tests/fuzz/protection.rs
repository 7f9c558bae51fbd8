//! Packets protected by DTLS chunks, with a cipher that hides nothing but notices every change.

use crate::network::Network;
use manypath_engine::protection::{
    FIRST_EPOCH, Limits, NONCE_LEN, RecordCipher, RecordKey, SAMPLE_LEN, TAG_LEN,
};
use manypath_engine::{AssociationId, AssociationState, KeyManagement, KeyRoles};

/// Keys of both ends, epoch by epoch.
pub(crate) struct Protection {
    wanted: bool,
    required: bool,
    epoch: Option<u64>,
}

/// What both ends offer.
pub(crate) fn offer() -> KeyManagement {
    KeyManagement { methods: vec![0], roles: KeyRoles::Either, required: false }
}

impl Protection {
    /// Packets are protected, and others may be dropped.
    pub(crate) const fn new(wanted: bool, required: bool) -> Self {
        Self { wanted, required, epoch: None }
    }

    pub(crate) const fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Both ends get their first keys as soon as they are established.
    pub(crate) fn begin(&mut self, network: &mut Network, ids: [Option<AssociationId>; 2]) {
        if self.wanted && self.epoch.is_none() {
            self.rekey(network, ids);
        }
    }

    /// Both ends get the keys of the next epoch, those for receiving first.
    pub(crate) fn rekey(&mut self, network: &mut Network, ids: [Option<AssociationId>; 2]) {
        let [Some(a), Some(z)] = ids else { return };
        let (now, ids) = (network.now, [a, z]);
        let established = |node: usize| {
            let endpoint = &network.nodes[node].endpoint;
            let status = endpoint.status(now, ids[node]);
            status.is_some_and(|status| status.state == AssociationState::Established)
                && endpoint.key_agreement(ids[node]).is_some()
        };
        if !self.wanted || !established(0) || !established(1) {
            return;
        }
        let epoch = self.epoch.map_or(FIRST_EPOCH, |epoch| epoch + 1);
        for node in [0, 1] {
            let (endpoint, from) = (&mut network.nodes[node].endpoint, 1 - node as u8);
            endpoint.install_receiving_key(now, ids[node], epoch, key(from, epoch)).unwrap();
        }
        for node in [0, 1] {
            let endpoint = &mut network.nodes[node].endpoint;
            endpoint.install_sending_key(now, ids[node], epoch, key(node as u8, epoch)).unwrap();
            if self.required {
                endpoint.require_protection(now, ids[node]).unwrap();
            }
        }
        self.epoch = Some(epoch);
    }
}

fn key(from: u8, epoch: u64) -> RecordKey {
    RecordKey::new(Noticing(u64::from(from) << 32 | epoch), [from; NONCE_LEN])
}

/// The tag is a hash of everything (FNV-1a).
struct Noticing(u64);

impl Noticing {
    fn tag(&self, nonce: [u8; NONCE_LEN], additional: &[u8], content: &[u8]) -> [u8; TAG_LEN] {
        let key = self.0.to_be_bytes();
        let all = key.iter().chain(&nonce).chain(additional).chain(content);
        let hash = all.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
        });
        (u128::from(hash) << 64 | u128::from(!hash)).to_be_bytes()
    }
}

impl RecordCipher for Noticing {
    fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        additional: &[u8],
        content: &mut [u8],
    ) -> Option<[u8; TAG_LEN]> {
        Some(self.tag(nonce, additional, content))
    }

    fn open(&self, nonce: [u8; NONCE_LEN], additional: &[u8], content: &mut [u8]) -> bool {
        let Some((content, tag)) = content.split_last_chunk() else { return false };
        self.tag(nonce, additional, content) == *tag
    }

    fn mask(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 2] {
        [sample[0], sample[1]]
    }

    fn limits(&self) -> Limits {
        Limits { sealed: 1 << 20, failures: 1 << 20 }
    }
}
