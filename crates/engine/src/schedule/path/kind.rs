//! The path schedulers by name.

use super::{PathOrder, by_least_recently_used, by_smallest_srtt};
use crate::names::named;
use crate::path::{PathId, PathSet, Paths};

named! {
    /// Which path takes data first when several have a window.
    pub enum PathScheduling as "path scheduler" {
        /// Only the primary path, another one while it is failed (RFC 9260 section 6.4).
        Primary = "primary",
        /// The path over which the last SACK came, then the one that sent DATA the longest time ago
        /// (the order of the paper's simulation model).
        LeastRecentlyUsed = "least-recently-used",
        /// The smallest smoothed round-trip time.
        SmallestSrtt = "smallest-srtt",
        /// As `smallest-srtt`, but a slow path is left out when the faster ones will have delivered
        /// everything before it could. Production.
        EarliestCompletion = "earliest-completion",
    }
}

impl PathScheduling {
    /// The paths of `usable` in the order in which they are to be served. `sack` is the path over
    /// which the last SACK came.
    pub(crate) fn order(self, paths: &Paths, usable: PathSet, sack: Option<PathId>) -> PathOrder {
        match self {
            Self::LeastRecentlyUsed => by_least_recently_used(paths, usable, sack),
            Self::Primary | Self::SmallestSrtt | Self::EarliestCompletion => {
                by_smallest_srtt(paths, usable)
            }
        }
    }
}
