//! The same sockets for programs in Rust.
//!
//! ```text
//! options.rs       what a socket is to be like; opens it
//! one_to_one.rs    Listener, Stream: one association, as TCP has it (RFC 6458 section 4)
//! one_to_many.rs   Socket: many associations, as UDP has peers (RFC 6458 section 3)
//! message.rs       how messages are sent, what comes with them
//! notification.rs  what a socket is told besides messages
//! common.rs        what all sockets can do
//! ```
//!
//! Calls wait, for ever or as long as a time-out says. With `set_nonblocking` they fail with
//! [`WouldBlock`](std::io::ErrorKind::WouldBlock) instead, and the descriptor ([`AsFd`](std::os::fd::AsFd)) tells
//! `poll`, `epoll` and what is built on them when to try again. A socket may be used by several threads at once.
//! It is closed when it is dropped: what was sent is delivered first.
//!
//! Options for which there is no function are reached by `get` and `set`, with the names and structures of
//! RFC 6458 that are in [`constants`] and [`structures`].
//!
//! ```no_run
//! use manypath_sctp::{Listener, Outgoing, Received, Stream};
//!
//! # fn main() -> std::io::Result<()> {
//! let listener = Listener::bind("0.0.0.0:3868")?;
//! std::thread::spawn(move || -> std::io::Result<()> {
//!     let stream = Stream::connect("127.0.0.1:3868")?;
//!     stream.send(&Outgoing { stream: 3, ..Outgoing::new("hello") })
//! });
//! let (stream, peer) = listener.accept()?;
//! while let Some(received) = stream.recv()? {
//!     if let Received::Message(message) = received {
//!         println!("{peer} on stream {}: {:?}", message.stream, message.data);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod common;
mod message;
mod notification;
mod one_to_many;
mod one_to_one;
mod options;

pub use manypath_engine::Reliability;
pub use manypath_sockets::{constants, layout::Structure, structures};
pub use message::{Association, Message, Outgoing, Received, To};
pub use notification::{AddressState, AssociationState, Kind, Notification, Outcome};
pub use one_to_many::Socket;
pub use one_to_one::{Listener, Stream};
pub use options::{Encapsulation, Options};
