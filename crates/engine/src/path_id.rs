//! The name of a path.

/// Names a path of one association, by a number below 64. That of a path that has gone is given again only
/// after at least 32 others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub u8);
