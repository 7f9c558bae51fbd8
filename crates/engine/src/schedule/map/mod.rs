//! Which path a stream uses, where streams are tied to paths: `kind` holds the choices by name,
//! `fixed` the maps that do not change, `dynamic` the one that follows what paths carry and streams need:
//! `gauge` measures paths, `shares` shares the buffers (`path_shares` both over time), `plan` maps.

mod dynamic;
mod fixed;
mod gauge;
mod path_shares;
mod plan;
mod shares;

pub(crate) use dynamic::{DynamicMap, StreamReport};
pub(crate) use fixed::home;
pub(crate) use path_shares::Room;
pub(crate) use plan::StreamView;
