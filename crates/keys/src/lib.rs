//! Key management for associations that are protected by DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk): both
//! ends prove who they are and get keys, again and again as long as the association lasts. Sans-IO, like the
//! engine: no sockets, no clock, no threads.
//!
//! ```text
//! connecting end (client)                  accepting end (server)
//!   |---- COOKIE ECHO, DATA(ClientHello) -------->|
//!   |<--- COOKIE ACK, DATA(ServerHello .. ) ------|  can open protected packets
//!   |==== DATA(Certificate .. Finished) =========>|  knows the client, and sends protected from here on
//!   |==== DATA(user message) ====================>|
//!   |<=== DATA(PVALID) ===========================|  takes nothing else any more
//!   |==== DATA(PVALID) ==========================>|
//! ```
//!
//! User messages leave one round trip after the COOKIE ECHO, with which they travel otherwise. It follows
//! draft-westerlund-tsvwg-sctp-dtls-handshake with TLS 1.3 in place of DTLS 1.3, by rustls. docs/key-management.md
//! describes messages and keys, what differs from the drafts, and why.
#![forbid(unsafe_code)]

mod exporter;
mod failure;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod handshake;
mod identity;
mod key_log;
mod management;
mod tickets;

pub use failure::Failure;
pub use identity::{BadKey, BadPublicKey, Identity, PublicKey, SSH_PREFIX};
pub use key_log::KeyLogFile;
pub use management::{KeyManagement, Step};
pub use tickets::{Moment, Ticket, TicketIssuer, UnusableTicket};

/// Our DTLS Key Management Identifier, from the range for "First Come, First Served"; not registered.
pub const METHOD: u8 = 240;
