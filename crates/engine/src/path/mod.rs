//! The path: a pair of transport addresses with everything that is measured and decided per path.

use core::net::SocketAddr;

/// The two transport addresses that make a path, with their UDP encapsulation ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathAddr {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

/// Names a path of one association. Never used again while the association lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub u8);

/// State of a path (RFC 9260 sections 5.4 and 8.2, RFC 7829 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// The peer has not yet proved that it is at the address: only HEARTBEATs go there.
    Unconfirmed,
    /// In use.
    Active,
    /// Potentially failed: probed, not used while another path is active.
    PotentiallyFailed,
    /// Failed: probed only.
    Inactive,
}
