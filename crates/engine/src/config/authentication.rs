//! What can be chosen for authenticated chunks.

use crate::names::named;

named! {
    /// The HMAC algorithms that an endpoint offers. RFC 4895 section 6.1: "The HMAC algorithm based on
    /// SHA-1 MUST be supported and included in the HMAC-ALGO parameter."
    pub enum HmacAlgorithms as "list of HMAC algorithms" {
        /// SHA-256 rather than SHA-1.
        Sha256Sha1 = "sha256-sha1",
        /// SHA-1 rather than SHA-256.
        Sha1Sha256 = "sha1-sha256",
        /// SHA-1 alone.
        Sha1 = "sha1",
    }
}
