//! Error causes (RFC 9260 section 3.3.10, RFC 4895 section 4, RFC 5061 section 4.3,
//! draft-ietf-tsvwg-sctp-dtls-chunk section 4.3), one file per group.
//!
//! [`Causes`] is what ABORT and ERROR carry: bytes, split and typed only while they are iterated
//! over. What is malformed comes out as an error at its place; the chunk itself parses.

mod abort;
mod address;
mod any;
mod causes;
pub mod codes;
mod cookie;
mod data;
mod unrecognized;

pub use crate::tlv::Causes;
pub use any::Cause;
pub use causes::{CauseIter, CauseWriter};
pub use unrecognized::ParameterTypes;
