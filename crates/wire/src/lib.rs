//! SCTP syntax (RFC 9260): bytes to typed chunks and back.
//!
//! Reading is zero-copy: [`Packet::parse`] checks the common header and the checksum, then its
//! iterator yields [`Chunk`]s that borrow from the input. Nothing here panics on any input and
//! nothing allocates. Writing appends chunks to a caller's buffer through [`PacketWriter`], which
//! stops at the packet size it was given and sets the CRC32c when it is finished.
//!
//! There is no time, no state and no policy in this crate.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod bytes;
pub mod cause;
pub mod checksum;
pub mod chunk;
pub mod encapsulation;
pub mod error;
pub mod list;
pub mod numbers;
pub mod packet;
pub mod parameter;
#[cfg(test)]
mod testing;
mod tlv;
mod unknown_action;

pub use cause::{Cause, CauseWriter, Causes};
pub use chunk::Chunk;
pub use error::{NoRoom, ParseError};
pub use packet::{CommonHeader, Cover, Packet, PacketWriter};
pub use parameter::{Parameter, ParameterWriter, Parameters};

pub use unknown_action::UnknownAction;

pub use numbers::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn, VerificationTag};
