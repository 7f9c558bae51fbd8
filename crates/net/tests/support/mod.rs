//! What the tests share.

pub(crate) mod host;
pub(crate) mod namespace;
