//! Socket options: `get.rs` reads, `set.rs` writes, `kept.rs` lists those that only have to be
//! remembered, `reconfiguration.rs` has those that are requests.

mod get;
mod kept;
mod reconfiguration;
mod set;

pub(super) use get::get;
pub(super) use set::{init_message, set};
