//! The path schedulers by name.

use crate::names::named;

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
        /// The primary path, then the largest congestion window among paths without errors (LSFR).
        Lsfr = "lsfr",
        /// ECF as published (CoNEXT 2017): waits for the fastest path if that completes sooner.
        Ecf = "ecf",
        /// BLEST as published (IFIP Networking 2016): leaves a slow path out if what is sent there
        /// would block the send window.
        Blest = "blest",
        /// As `smallest-srtt`, and what one path sends all others with a window send too, with the same
        /// TSN: it arrives with the first. For little data that must not wait for retransmissions.
        Redundant = "redundant",
        /// Streams of class `interactive` as with `redundant`, others as with `earliest-completion`.
        RedundantInteractive = "redundant-interactive",
    }
}
