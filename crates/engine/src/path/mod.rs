//! The path: a pair of transport addresses with everything that is measured and decided per path.
//!
//! [`Path`] holds the state, [`Paths`] all paths of an association. What concerns the data that a path carries is its
//! [`Subflow`]: RTT and RTO in `rtt`, the window in `congestion`, the bookkeeping of concurrent multipath transfer in
//! `flight`.

mod arrivals;
mod burst;
pub(crate) mod congestion;
mod control;
mod counters;
mod ecn;
mod failure;
pub(crate) mod flight;
pub(crate) mod heartbeat;
mod mtu;
mod pacer;
pub(crate) mod pairing;
mod path_set;
mod paths;
pub(crate) mod policy;
mod regulation;
mod returns;
mod rtt;
pub(crate) mod scope;
pub(crate) mod sharing;
mod single;
mod subflow;
mod supervision;
#[cfg(test)]
pub(crate) mod testing;

pub use crate::path_id::PathId;
use burst::Burst;
pub(crate) use counters::PathCounters;
pub use ecn::EcnState;
use ecn::PathEcn;
use failure::Health;
pub(crate) use flight::{
    ChunkRecord, ChunkState, Detection, Extent, FastRecovery, Found, Loss, Records, SackSummary,
    Sent, Tracked,
};
pub(crate) use mtu::{MtuSearch, Timing};
#[cfg(test)]
use pacer::Pace;
use pacer::Pacer;
pub use pairing::pairs as path_pairs;
pub(crate) use path_set::PathSet;
pub(crate) use paths::Paths;
pub(crate) use policy::{Notice, Rank};
pub use policy::{PathPolicy, PathRole, PathRule};
pub(crate) use rtt::Rtt;
pub use scope::{Scope, is_private};
use single::headers;
pub(crate) use single::{Path, ip_len, packet_size};
pub(crate) use subflow::Subflow;
use supervision::OwnSupervision;
pub use supervision::{Supervision, SupervisionChange};

use core::net::SocketAddr;

/// The two transport addresses that make a path, with their UDP encapsulation ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathAddr {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

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
