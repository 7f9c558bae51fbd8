//! Which path a stream uses, where streams are tied to paths: `kind` holds the choices by name,
//! `fixed` the maps that do not change, `dynamic` the one that follows what paths carry and streams need.

mod dynamic;
mod fixed;
mod kind;
mod plan;

pub(crate) use dynamic::{DynamicMap, StreamReport, helps};
pub(crate) use fixed::home;
pub use kind::StreamMapping;
pub(crate) use plan::StreamView;
