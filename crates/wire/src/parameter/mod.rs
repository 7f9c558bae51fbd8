//! Optional and variable-length parameters (RFC 9260 section 3.2.1), one file per group.
//!
//! [`Parameters`] is what INIT and INIT ACK carry: bytes, split and typed only while they are
//! iterated over. What is malformed comes out as an error at its place; the chunk itself parses.

mod address;
mod address_configuration;
mod any;
mod authentication;
mod capability;
mod cookie;
mod heartbeat;
mod key_management;
mod parameters;
mod reconfiguration;
pub mod types;
mod unrecognized;

pub use crate::tlv::Parameters;
pub use address::AddressTypes;
pub use address_configuration::{AddressRequest, ErrorIndication, address_parameter};
pub use any::Parameter;
pub use authentication::{HmacIds, hmac_ids};
pub use key_management::KeyManagement;
pub use parameters::{ParameterIter, ParameterWriter};
pub use reconfiguration::{
    AddStreams, IncomingSsnReset, OutgoingSsnReset, ReConfigResponse, ReConfigResult, StreamIds,
};
pub use unrecognized::UnknownParameter;

pub(crate) use crate::tlv::HEADER_LEN;
