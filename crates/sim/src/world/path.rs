use super::datagram::header_len;
use super::host::HostId;
use crate::link::LinkConfig;
use manypath_engine::{LocalAddress, PathAddr};
use std::net::SocketAddr;

/// Names a path of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PathNumber(pub(super) usize);

/// Names a link of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkNumber(pub(super) usize);

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

/// Two ends and, for each, the links that lead to it.
#[derive(Debug)]
pub(super) struct Path {
    hosts: [HostId; 2],
    addresses: [SocketAddr; 2],
    /// Indexed by the end that they lead to; in the order in which a packet passes the links.
    pub(super) routes: [Vec<LinkNumber>; 2],
    /// Whether the device at each end is on.
    pub(super) up: [bool; 2],
    header_len: usize,
}

impl Path {
    pub(super) fn new(joint: &Joint, routes: [Vec<LinkNumber>; 2]) -> Self {
        let [local, remote] = joint.addresses;
        let header_len = header_len(PathAddr { local, remote });
        Self { hosts: joint.hosts, addresses: joint.addresses, routes, up: [true; 2], header_len }
    }

    /// Whether a packet that `from` sends on `addr` goes this way.
    pub(super) fn carries(&self, from: HostId, addr: PathAddr) -> bool {
        let end = self.end_of(from);
        self.hosts[end] == from
            && self.addresses[end] == addr.local
            && self.addresses[1 - end] == addr.remote
    }

    /// Bytes that IP and UDP add to an SCTP packet.
    pub(super) fn header_len(&self) -> usize {
        self.header_len
    }

    pub(super) fn host(&self, end: usize) -> HostId {
        self.hosts[end]
    }

    /// The addresses as the host at `end` sees them.
    pub(super) fn addr(&self, end: usize) -> PathAddr {
        PathAddr { local: self.addresses[end], remote: self.addresses[1 - end] }
    }

    pub(super) fn end_of(&self, host: HostId) -> usize {
        usize::from(self.hosts[0] != host)
    }
}
