use super::datagram::Datagram;
use super::host::HostId;
use crate::link::{Link, LinkConfig};
use manypath_engine::{Instant, LocalAddress, PathAddr};
use std::net::SocketAddr;

/// Names a path of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PathNumber(pub(super) usize);

/// A path to be made: two ends and a link in each direction.
#[derive(Clone, Debug)]
pub struct Joint {
    /// The two hosts.
    pub hosts: [HostId; 2],
    /// Their addresses on this path, with UDP encapsulation ports; port 0 is native SCTP.
    pub addresses: [SocketAddr; 2],
    /// Length of the prefix of the network that the addresses are in.
    pub prefix_len: u8,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// From the first host to the second.
    pub forth: LinkConfig,
    /// From the second host to the first.
    pub back: LinkConfig,
}

impl Joint {
    pub(super) fn ends(&self) -> [(HostId, LocalAddress); 2] {
        let Self { prefix_len, mtu, .. } = *self;
        let local =
            |i: usize| LocalAddress { addr: self.addresses[i], prefix_len, interface: 0, mtu };
        [0, 1].map(|i| (self.hosts[i], local(i)))
    }
}

#[derive(Debug)]
pub(super) struct Path {
    hosts: [HostId; 2],
    addresses: [SocketAddr; 2],
    /// Indexed by the end that they lead to.
    links: [Link<Datagram>; 2],
}

impl Path {
    pub(super) fn new(joint: &Joint, seed: u64) -> Self {
        let links = [Link::new(joint.back.clone(), seed), Link::new(joint.forth.clone(), !seed)];
        Self { hosts: joint.hosts, addresses: joint.addresses, links }
    }

    /// Whether a packet that `from` sends on `addr` goes this way.
    pub(super) fn carries(&self, from: HostId, addr: PathAddr) -> bool {
        let end = self.end_of(from);
        self.hosts[end] == from
            && self.addresses[end] == addr.local
            && self.addresses[1 - end] == addr.remote
    }

    pub(super) fn peer_of(&self, host: HostId) -> HostId {
        self.hosts[1 - self.end_of(host)]
    }

    pub(super) fn link(&self, towards: HostId) -> &Link<Datagram> {
        &self.links[self.end_of(towards)]
    }

    pub(super) fn link_mut(&mut self, towards: HostId) -> &mut Link<Datagram> {
        &mut self.links[self.end_of(towards)]
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.links.iter().filter_map(Link::next_deadline).min()
    }

    /// The next packet that has arrived at either end: whose it is, on which path of that host.
    pub(super) fn poll(&mut self, now: Instant) -> Option<(HostId, PathAddr, Datagram)> {
        (0..2).find_map(|end| {
            let datagram = self.links[end].poll(now)?;
            let (local, remote) = (self.addresses[end], self.addresses[1 - end]);
            Some((self.hosts[end], PathAddr { local, remote }, datagram))
        })
    }

    fn end_of(&self, host: HostId) -> usize {
        usize::from(self.hosts[0] != host)
    }
}
