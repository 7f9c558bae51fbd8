//! The sending half of an association.
//!
//! [`Sender`] owns rooms, each with a state of its own, and keeps what is done by several of them:
//!
//! ```text
//! message > queue ----- fill -----> outstanding ----- distribution ----> gone
//!           |  buffer   |           |  window         |  scoreboard
//!           |           opportunity, path_choice      losses, silence, tail, spurious, copies
//!           +---- abandonment, abandon, forward ------+
//! ```
//!
//! Messages wait in `queue`, and `buffer` counts what is held. `path_choice` says which paths may carry data,
//! `opportunity` what one of them may send now, and `fill` takes fragments, gives them TSNs and writes them into a
//! packet; from then on they are in `outstanding`, the table of TSNs with the peer's window, until the cumulative TSN
//! has passed them. `sack_processing` turns a SACK into facts per path: `scoreboard` reads what is news, `distribution`
//! gives it to chunks and their paths, and congestion control, round-trip times and timers draw their conclusions.
//! `retransmit` marks what is lost with a timer, `losses` finds it by SACKs and time, `rtx_policy` chooses the path
//! that repeats it, and `spurious` finds out what was sent again for nothing; `tail` lets a fast path help slow ones at
//! the end. Messages that are not worth any more effort are given up by `abandon`; `forward` tells the peer not to wait
//! for them. `parts` takes messages that the user gives in parts.
//!
//! No walk over all outstanding chunks happens outside of failures: a SACK costs what it newly
//! acknowledges, plus what it shows to be missing, plus its Gap Ack Blocks.

mod abandon;
mod abandonment;
mod buffer;
mod buffer_split;
mod copies;
mod counts;
mod distribution;
mod ecn;
mod fill;
mod forward;
mod fragmentation;
mod idle;
mod losses;
mod mapping;
mod message;
mod nagle;
mod opportunity;
mod outstanding;
mod parts;
mod path_choice;
mod perishable;
mod queue;
mod queue_info;
mod reliability;
mod removal;
mod rescheduling;
mod reset;
mod restart;
mod retransmit;
mod rtx_policy;
mod rules;
mod sack_processing;
mod sack_view;
mod scoreboard;
mod sender;
mod silence;
mod spurious;
mod stream;
mod streams;
mod tail;
mod undelivered;
mod urgent;
mod wanted;
mod window;
mod withdraw;

pub(crate) use ecn::EchoOutcome;
pub use message::{MessageEnd, Outgoing, SendError};
pub(crate) use queue_info::queue_info;
pub(crate) use reliability::Failed;
pub use reliability::{Abandoned, ReliabilityPolicy};
pub(crate) use reset::{Streams, includes};
pub(crate) use sack_processing::SackOutcome;
pub(crate) use sack_view::SackView;
pub(crate) use sender::Sender;
pub(crate) use undelivered::{Undelivered, undelivered};
pub(crate) use wanted::wanted;

#[cfg(test)]
mod tests;
