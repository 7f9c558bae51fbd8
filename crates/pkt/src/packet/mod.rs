//! From what a script says of a packet to bytes, and from bytes to whether they are what it says.
//!
//! ```text
//! layout.rs, chunks.rs, tlvs.rs   what stands where in a chunk, parameter or cause, as tables
//! build.rs                        script -> bytes, for packets that are injected
//! check.rs                        script against bytes, for packets that are expected
//! numbers.rs                      the tags and TSNs of the script and those of the stack
//! ```

mod build;
mod check;
mod chunks;
mod layout;
mod numbers;
mod reader;
mod tlvs;
mod values;

pub(crate) use build::build;
pub(crate) use check::check;
pub(crate) use layout::Class;
pub(crate) use numbers::Numbers;
pub(crate) use reader::Tlvs;
