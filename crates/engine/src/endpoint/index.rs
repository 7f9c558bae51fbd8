//! From tags and addresses to associations.

use super::AssociationId;
use crate::association::Ports;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use manypath_wire::VerificationTag;

/// A transport address of a peer as seen from one of our ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct AddressKey {
    pub(super) remote: IpAddr,
    pub(super) ports: Ports,
}

/// Under what an association is found.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    pub(super) tag: VerificationTag,
    pub(super) addresses: Vec<AddressKey>,
    /// The peer's tag, once known, and the ports.
    pub(super) peer: Option<PeerKey>,
}

/// What packets to a peer begin with: what an ICMP message quotes of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PeerKey {
    pub(super) tag: VerificationTag,
    pub(super) ports: Ports,
}

/// The index. An address belongs to the association that claimed it first.
#[derive(Debug, Default)]
pub(super) struct Index {
    tags: BTreeMap<VerificationTag, AssociationId>,
    addresses: BTreeMap<AddressKey, AssociationId>,
    /// Two peers may have chosen the same tag.
    peers: BTreeSet<(PeerKey, AssociationId)>,
}

impl Index {
    /// The association whose own tag this is.
    pub(super) fn by_tag(&self, tag: VerificationTag) -> Option<AssociationId> {
        self.tags.get(&tag).copied()
    }

    /// The association whose peer is at this address.
    pub(super) fn by_address(&self, key: &AddressKey) -> Option<AssociationId> {
        self.addresses.get(key).copied()
    }

    /// The associations with a peer of this tag.
    pub(super) fn by_peer(&self, key: PeerKey) -> Vec<AssociationId> {
        let range = (key, AssociationId(0))..=(key, AssociationId(u64::MAX));
        self.peers.range(range).map(|(_, id)| *id).collect()
    }

    /// The associations with a peer at this address, over any ports.
    pub(super) fn at_address(&self, remote: IpAddr) -> Vec<AssociationId> {
        let ports = |port| Ports { local: port, peer: port };
        let key = |port| AddressKey { remote, ports: ports(port) };
        self.addresses.range(key(0)..=key(u16::MAX)).map(|(_, id)| *id).collect()
    }

    /// Number of associations with peers at this address, with IPv6 in its network of 64 bits.
    pub(super) fn count_at(&self, remote: IpAddr) -> usize {
        let (first, last) = match remote {
            IpAddr::V4(_) => (remote, remote),
            IpAddr::V6(v6) => {
                let network = v6.to_bits() >> 64 << 64;
                let last = network | u128::from(u64::MAX);
                (Ipv6Addr::from_bits(network).into(), Ipv6Addr::from_bits(last).into())
            }
        };
        let least = Ports { local: 0, peer: 0 };
        let most = Ports { local: u16::MAX, peer: u16::MAX };
        let keys =
            AddressKey { remote: first, ports: least }..=AddressKey { remote: last, ports: most };
        let ids: BTreeSet<_> = self.addresses.range(keys).map(|(_, id)| id).collect();
        ids.len()
    }

    /// Makes `id` known under `keys`.
    pub(super) fn insert(&mut self, id: AssociationId, keys: &Keys) {
        self.tags.insert(keys.tag, id);
        for key in &keys.addresses {
            self.addresses.entry(*key).or_insert(id);
        }
        self.peers.extend(keys.peer.map(|key| (key, id)));
    }

    /// Forgets what [`Self::insert`] made known.
    pub(super) fn remove(&mut self, id: AssociationId, keys: &Keys) {
        if self.by_tag(keys.tag) == Some(id) {
            self.tags.remove(&keys.tag);
        }
        for key in &keys.addresses {
            if self.by_address(key) == Some(id) {
                self.addresses.remove(key);
            }
        }
        if let Some(key) = keys.peer {
            self.peers.remove(&(key, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressKey, Index, Keys, PeerKey};
    use crate::association::Ports;
    use crate::event::AssociationId;
    use manypath_wire::VerificationTag;

    #[test]
    fn an_address_stays_with_its_first_owner() {
        let key =
            AddressKey { remote: "10.0.0.1".parse().unwrap(), ports: Ports { local: 1, peer: 2 } };
        let keys = |tag| Keys { tag: VerificationTag(tag), addresses: std::vec![key], peer: None };
        let (first, second) = (AssociationId(1), AssociationId(2));
        let mut index = Index::default();
        index.insert(first, &keys(7));
        index.insert(second, &keys(8));
        assert_eq!(index.by_address(&key), Some(first));
        index.remove(second, &keys(8));
        assert_eq!((index.by_tag(VerificationTag(8)), index.by_address(&key)), (None, Some(first)));
        index.remove(first, &keys(7));
        assert_eq!((index.by_tag(VerificationTag(7)), index.by_address(&key)), (None, None));
    }

    #[test]
    fn peers_with_the_same_tag_are_all_found() {
        let peer = |tag| PeerKey { tag: VerificationTag(tag), ports: Ports { local: 1, peer: 2 } };
        let keys = |tag| Keys { tag: VerificationTag(tag), peer: Some(peer(5)), ..Keys::default() };
        let (first, second) = (AssociationId(1), AssociationId(2));
        let mut index = Index::default();
        index.insert(first, &keys(7));
        index.insert(second, &keys(8));
        assert_eq!(index.by_peer(peer(5)), [first, second]);
        assert_eq!(index.by_peer(peer(6)), []);
        index.remove(first, &keys(7));
        assert_eq!(index.by_peer(peer(5)), [second]);
    }

    #[test]
    fn associations_are_counted_per_address_or_network() {
        let mut index = Index::default();
        let addresses =
            ["10.0.0.1", "10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2:0:0:1", "fd00:0:0:1::"];
        for (number, address) in (0..).zip(addresses) {
            let ports = Ports { local: 1, peer: number };
            let key = AddressKey { remote: address.parse().unwrap(), ports };
            let keys = Keys {
                tag: VerificationTag(number.into()),
                addresses: std::vec![key],
                ..Keys::default()
            };
            index.insert(AssociationId(number.into()), &keys);
        }
        let counts = addresses.map(|address| index.count_at(address.parse().unwrap()));
        assert_eq!(counts, [2, 2, 1, 2, 2, 1]);
        assert_eq!(index.count_at("10.0.0.3".parse().unwrap()), 0);
    }

    #[test]
    fn an_association_with_many_addresses_counts_once() {
        let key = |host: u16| AddressKey {
            remote: core::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host).into(),
            ports: Ports { local: 1, peer: 2 },
        };
        let addresses = (1..=16).map(key).collect();
        let mut index = Index::default();
        index.insert(AssociationId(1), &Keys { addresses, ..Keys::default() });
        assert_eq!(index.count_at(key(99).remote), 1);
    }
}
