//! Which path a stream uses, where streams are tied to paths: `kind` holds the choices by name,
//! `fixed` the maps that do not change.

mod fixed;
mod kind;

pub(crate) use fixed::home;
pub use kind::StreamMapping;
