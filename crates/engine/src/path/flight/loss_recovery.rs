//! How lost chunks are found.

crate::names::named! {
    /// What finds lost chunks.
    pub enum LossRecovery as "loss recovery" {
        /// Missing reports, once per chunk, and T3-rtx (RFC 9260 sections 6.3 and 7.2.4).
        Rfc9260 = "rfc9260",
        /// The same, and a retransmission may be found missing too once it is older than a round
        /// trip, which rule 5 of section 7.2.4 leaves to T3-rtx.
        Repeat = "repeat",
        /// The times of transmission, a probe of silent tails, and T3-rtx as the last resort
        /// (RACK-TLP, RFC 8985, on chunks). Redundant transmission has `repeat` in its place.
        Rack = "rack",
    }
}
