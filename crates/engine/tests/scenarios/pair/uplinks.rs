//! A client with several uplinks, and a server with one public address.

use super::{PORT_Z, Pair, Side, millis};
use manypath_engine::{AssociationId, Config, Endpoint, LocalAddress};
use std::net::SocketAddr;

impl Pair {
    /// The address of the server.
    pub(crate) fn server() -> SocketAddr {
        SocketAddr::from(([198, 51, 100, 1], 9899))
    }

    /// Uplinks with these one-way delays in ms. Their links are numbered as the addresses of A.
    pub(crate) fn uplinks(delays: &[u64], a: Config, z: Config) -> Self {
        let paths = u8::try_from(delays.len()).unwrap();
        let mut pair = Self::with(paths, a, z.clone());
        pair.by_uplink = true;
        let addr = Self::server();
        pair.z.endpoint = Endpoint::new(z, [2; 32]);
        let local = LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 };
        pair.z.endpoint.add_local_address(local);
        for (number, delay) in (1..).zip(delays) {
            pair.links.get_mut(&number).unwrap().delay = millis(*delay);
        }
        pair
    }

    /// A begins an association with the server.
    pub(crate) fn connect_to_server(&mut self) -> AssociationId {
        let now = self.now;
        self.node(Side::A).endpoint.connect(now, Self::server(), PORT_Z).unwrap()
    }
}
