//! Socket options: `get.rs` reads, `set.rs` writes, `kept.rs` lists those that only have to be
//! remembered, `authentication.rs` has those of AUTH, `paths.rs` what acts on the paths of an association, `protection.rs`
//! has those of DTLS chunks, `reconfiguration.rs` those that are requests.

mod authentication;
mod get;
mod kept;
mod paths;
mod protection;
mod reconfiguration;
mod set;

pub(super) use get::get;
pub(super) use paths::fix_mtu;
pub(super) use set::{init_message, set};
