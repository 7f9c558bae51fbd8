//! The receiving half of an association.
//!
//! A DATA chunk passes the receive window (`window`), is noted by its TSN (`tracker`), and becomes
//! part of a message (`reassembly`). Once per packet the acknowledgement policy (`ack_policy`) says
//! whether a SACK is due. Nothing that was acknowledged is ever thrown away, except for parts of
//! messages that the peer gives up (`forward`, and for I-DATA `interleaving`). A message that is larger
//! than the buffer goes to the user in parts (`partial_delivery`).

mod ack_policy;
mod buffer_size;
mod echo;
mod forward;
mod fragments;
mod interleaved;
mod interleaving;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod model;
mod nr_sack;
mod partial_delivery;
mod reassembly;
mod receiver;
mod reset;
mod tracker;
mod window;

pub(crate) use receiver::{DataOutcome, Receiver};
