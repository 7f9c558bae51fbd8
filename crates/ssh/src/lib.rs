//! SSH above its transport: channels, SFTP, and windows that follow the path.
//!
//! A stock SSH client gives each channel a window of 2 MiB, so no more than 2 MiB are carried per round
//! trip, however fast the path. The receiver alone sets the window. This crate is that
//! receiver: the connection protocol (RFC 4254) with windows by [`manypath_window`], and a client of
//! SFTP (version 3, as OpenSSH has it) whose requests in flight follow the same rule.
//!
//! Key exchange, ciphers, host keys, logins and rekeying are not here. They stay with the user's own
//! `ssh`, run as a *master*: its multiplexing protocol has a mode in which it passes messages of the
//! connection protocol between us and the server and only translates channel numbers (PROTOCOL.mux of
//! OpenSSH, `MUX_C_PROXY`, since version 7.4). So the windows are ours, and everything that is secret or
//! must be secure is OpenSSH's.
//!
//! ```text
//!   commands, data          bytes of a local socket            encrypted
//!  program ◀────▶ [Connection] ◀──────────────────▶ ssh -M ◀──────────────▶ sshd
//!                  channels, windows                 key exchange, login, rekeying
//! ```
//!
//! There is no I/O and no clock here: [`Connection`] is given bytes and the time, and has bytes and
//! events to be fetched. [`sftp`] lies on top of a channel in the same way.

#![forbid(unsafe_code)]

mod channel;
mod codec;
mod connection;
mod framer;
mod message;
mod mux;
pub mod sftp;

pub use channel::{Pull, Windows};
pub use codec::Malformed;
pub use connection::{ChannelId, Connection, ConnectionError, Event, Start, Stream};
pub use framer::TooLong;
