//! What a user says about a stream.

use crate::path::PathId;
use crate::time::Duration;

/// Wishes for one stream; the schedulers in use look at what they understand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamOptions {
    /// For the priority scheduler: the lowest value goes first.
    pub priority: u16,
    /// For weighted fair queueing and the dynamic mapping: its share of the capacity. 0 counts
    /// as 1.
    pub weight: u16,
    /// For the dynamic mapping: what matters to it.
    pub class: StreamClass,
    /// For the dynamic mapping: how long its packets may take to the peer, if it is interactive; how
    /// long a message is worth something, if it is realtime.
    pub max_delay: Option<Duration>,
    /// For the dynamic mapping: bytes per second with which it is content, if it is interactive.
    pub min_rate: Option<u64>,
    /// For the dynamic mapping: whether other paths may help the one that it uses. The peer puts its
    /// messages in order again, but may have to wait for them.
    pub splittable: bool,
    /// For the dynamic mapping: the path that it must use while that works.
    pub pinned: Option<PathId>,
    /// Whether it is sent on every path that may carry data, whatever
    /// [`Config::redundancy`](crate::Config::redundancy) says.
    pub redundant: bool,
}

/// What matters to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StreamClass {
    /// Much in little time.
    #[default]
    Bulk,
    /// Little delay.
    Interactive,
    /// Little delay, and nothing that comes late: with `max_delay`, a message that has not arrived
    /// after that time is given up ([`Reliability::Lifetime`](crate::Reliability)), unless another
    /// reliability was set for it.
    Realtime,
}

impl StreamClass {
    /// Whether delay matters more to it than rate.
    pub(crate) const fn is_hurried(self) -> bool {
        match self {
            Self::Interactive | Self::Realtime => true,
            Self::Bulk => false,
        }
    }
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            priority: 0,
            weight: 1,
            class: StreamClass::Bulk,
            max_delay: None,
            min_rate: None,
            splittable: true,
            pinned: None,
            redundant: false,
        }
    }
}
