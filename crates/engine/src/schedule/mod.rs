//! Who goes next: `stream` chooses the stream whose message is sent, `path` the path that takes it,
//! `map` ties streams to paths.

pub(crate) mod map;
pub(crate) mod path;
pub(crate) mod stream;
