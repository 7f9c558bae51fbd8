//! The sockets API of SCTP (RFC 6458) over an engine endpoint, without I/O, threads or waiting.
//!
//! ```text
//! table.rs         the sockets of a program; what events of the engine mean to them
//! binding.rs       addresses and ports: bind, bindx, listen, getsockname
//! following.rs     associations follow the addresses of the host
//! lifecycle.rs     accept, connect, peel off, shut down, close
//! autoclose.rs     associations that are idle for too long end
//! send.rs          a message goes to an association, which it may begin
//! receive.rs       the next message or notification
//! options/         getsockopt and setsockopt
//! notification.rs  what a socket is told besides messages
//! structures.rs    the structures of RFC 6458 as Linux lays them out; constants.rs, the numbers
//! header.rs        the same for C
//! ```
//!
//! A call never waits: one that cannot be done yet fails with [`Errno::AGAIN`], and its caller tries
//! it again when [`Sockets::take_changed`] names the socket.
#![forbid(unsafe_code)]

pub mod address;
mod association;
mod autoclose;
mod binding;
pub mod constants;
mod control;
mod errno;
mod following;
pub mod header;
pub mod layout;
mod lifecycle;
mod notification;
mod options;
mod receive;
mod send;
mod socket;
pub mod structures;
mod table;

pub use control::{Control, SendInfo, lay_out};
pub use errno::Errno;
pub use receive::{About, Received};
pub use send::Outbound;
pub use socket::Style;
pub use table::{Host, Readiness, SocketId, Sockets};
