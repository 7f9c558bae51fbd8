//! How flows share the association.

/// A flow's part of what the association can send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// How often it sends a turn's bytes in its turn; 0 counts as 1. Flows of the same urgency share the
    /// association in proportion to this.
    pub weight: u16,
    /// Whether it goes before flows that are not. They keep a small part.
    pub urgent: bool,
}

impl Default for Share {
    /// Weight 1, not urgent.
    fn default() -> Self {
        Self { weight: 1, urgent: false }
    }
}

/// What a flow has used of its turns.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Turn {
    /// Bytes that it may still send in its turn.
    pub(crate) left: i64,
    /// The round that this is about.
    pub(crate) round: u32,
    /// It goes before the flows that wait for their turns.
    pub(crate) early: bool,
}
