//! What a user says about a stream.

/// Wishes for one stream; the scheduler in use looks at what it understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamOptions {
    /// For the priority scheduler: the lowest value goes first.
    pub priority: u16,
    /// For weighted fair queueing: its share of the capacity. 0 counts as 1.
    pub weight: u16,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { priority: 0, weight: 1 }
    }
}
