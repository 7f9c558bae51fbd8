//! What joins sockets of unmodified programs to a stack, however their connects are noticed.
//!
//! * [`gate`]: how a loopback socket is held in SYN_SENT until the destination has answered;
//! * [`join`]: how it is joined with its far end then;
//! * [`socket`], [`address`]: looking at a program's socket, and at addresses as programs write them;
//! * [`Told`]: what a program is told of the way of its connection;
//! * [`egress`]: whether the host's policy lets a program send to a destination;
//! * [`group`]: cgroups, and who is in them;
//! * [`packet`]: packets made by hand, and the raw sockets that send them;
//! * [`poll`]: waiting for descriptors;
//! * [`stack_link`], [`door`]: the lines to the stack that carries connections, and to the one that
//!   leads peers to listening sockets.

pub mod address;
mod back_off;
mod choice;
pub mod door;
pub mod egress;
pub mod gate;
pub mod group;
pub mod join;
pub mod packet;
pub mod poll;
pub mod socket;
pub mod stack_link;
#[cfg(test)]
mod test_forks;
mod told;

pub use choice::{ServerChoice, StackChoice};
pub use told::Told;
