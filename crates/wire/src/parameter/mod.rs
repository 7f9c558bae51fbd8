//! Optional and variable-length parameters (RFC 9260 section 3.2.1), one file per group.
//!
//! [`Parameters`] is what INIT and INIT ACK carry: bytes, split and typed only while they are
//! iterated over. What is malformed comes out as an error at its place; the chunk itself parses.

mod address;
mod any;
mod capability;
mod cookie;
mod heartbeat;
mod parameters;
pub mod types;
mod unrecognized;

pub use address::AddressTypes;
pub use any::Parameter;
pub use parameters::{ParameterIter, ParameterWriter, Parameters};
pub use unrecognized::UnknownParameter;

pub(crate) use crate::tlv::HEADER_LEN;
