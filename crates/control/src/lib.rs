//! Messages between launcher, stack and command line.
//!
//! One unix `SOCK_SEQPACKET` connection joins a launcher (`manypath run`) or a command line tool
//! (`manypath status`) to a stack, the process that owns the associations. Each packet holds one
//! JSON message, at most [`MAX_PACKET`] bytes, and at most one file descriptor beside it.
//!
//! The first message each way is [`Request::Hello`] and [`Reply::Welcome`]. Each carries
//! a version; a caller and a stack of two versions in a row speak the older one ([`OLDEST`] to [`VERSION`]), all others
//! say so and part: they never guess.
//!
//! What a connect costs in messages, program's socket non-blocking:
//!
//! ```text
//! launcher                         stack
//!   Open{id, destination}  ----->
//!                          <-----  Pending{id}            (or Direct, or Failed: nothing was begun)
//!                          <-----  Accepted{id, ...}      (or Failed{id, errno})
//!   Attach{id} + fd        ----->                         from now on the stack relays the socket
//!                          <-----  Closed{id}             both directions are over
//! ```
//!
//! And what a server costs, whose listener is offered to peers:
//!
//! ```text
//!   Listen{id, listener}   ----->
//!                          <-----  Offered{id}            (or NotOffered{id, why})
//!                          <-----  Arriving{from, to, client}   then the stack connects from -> to,
//!                                                         and accept() finds `client` in its stead
//!                          <-----  Left{from, to}         both directions are over
//!                          <-----  Gone{id}               nobody listens there any more
//! ```
//!
//! [`ControlSocket`] is the codec both sides use, [`ControlListener`] the stack's door,
//! [`ControlClient`] the asking side, [`runtime`] the rules of where stacks are found.

pub mod anchor;
mod client;
mod counted;
mod error;
mod fallback;
mod inherit;
mod listener;
pub mod manager;
mod message;
pub mod path;
mod report;
pub mod runtime;
mod socket;
pub mod status;
mod traffic;
mod user;
mod version;

pub use client::ControlClient;
pub use counted::counted;
pub use error::ControlError;
pub use inherit::inherited;
pub use listener::ControlListener;
pub use message::{Listener, Reply, Request, Role, SocketOptions, StatusPart, Transport, Way};
pub use report::{Assembler, parts};
pub use socket::{ControlSocket, Credentials, Incoming, MAX_PACKET, SEND_FLAGS};
pub use traffic::{Relayed, Traffic};
pub use user::groups;
pub use version::{OLDEST, VERSION, is_spoken, written_for};
