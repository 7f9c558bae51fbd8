//! The name of a path.

/// Names a path of one association. Not used again before 255 paths of the association had one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathId(pub u8);
