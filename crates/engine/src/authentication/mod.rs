//! Authenticated chunks (RFC 4895): what endpoints tell each other about it, keys, and HMACs.
//!
//! ```text
//!  our INIT or INIT ACK          the peer's                user
//!  RANDOM CHUNKS HMAC-ALGO       RANDOM CHUNKS HMAC-ALGO   shared keys by number
//!         |  offer.rs                 |                        |  shared_keys.rs
//!         +------------+--------------+                        |
//!                      |  agreement.rs: smaller || larger      |
//!                      +------------------+--------------------+
//!                                         |  association key = shared || smaller || larger
//!                                     hmac.rs
//! ```
//!
//! Which packets need an AUTH chunk, and what becomes of those without, is in
//! `association/authentication.rs`. Keys are wiped when they are dropped and never printed.

mod agreement;
mod hmac;
mod offer;
mod shared_keys;

pub(crate) use agreement::{Agreement, Rejection};
pub(crate) use hmac::{HmacAlgorithm, Keyed};
pub(crate) use offer::{MAX_HMAC_IDS, Offer, RANDOM_LEN};
pub use shared_keys::KeyError;
pub(crate) use shared_keys::SharedKeys;
