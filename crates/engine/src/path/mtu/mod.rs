//! How large a packet a path takes (RFC 8899: packetization layer path MTU discovery).
//!
//! ```text
//!                     black hole                        black hole
//!           +------------------------+----------------------------------+
//!           v                        |                                  |
//! Disabled -> Base --answered--> Searching --top found, or no answer--> Complete
//!              |                   ^ ^                                  |
//!   no answer  |                   | +------ raise timer ---------------+
//!              +--> Error --answered
//! ```
//!
//! `search` is that machine: which size to ask for next, by whom and when. `order` knows in which
//! order, `sizes` the range and the common sizes in it. `black_hole` concludes from what is lost and what passes that packets
//! as large as the path took do not get through any more.
//!
//! A probe is a HEARTBEAT with padding (RFC 4820) that carries nothing else. Its loss says nothing
//! about congestion and is no error of the path. All sizes here are of whole IP packets.

mod black_hole;
mod order;
mod search;
mod sizes;
#[cfg(test)]
mod tests;

pub(crate) use search::{MtuSearch, Timing};
