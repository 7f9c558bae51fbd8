//! Socket options: `get.rs` reads, `set.rs` writes, `kept.rs` lists those that only have to be
//! remembered.

mod get;
mod kept;
mod set;

pub(super) use get::get;
pub(super) use set::set;
