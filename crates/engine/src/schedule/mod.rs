//! Who goes next: `stream` chooses the stream whose message is sent, `path` the path that takes it.

pub(crate) mod path;
pub(crate) mod stream;
