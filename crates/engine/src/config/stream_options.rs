//! What a user says about a stream and its messages.

use crate::path_id::PathId;
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

/// How much is done for a message. What is given up is told by
/// [`Event::SendFailed`](crate::Event::SendFailed). Once a part of a message has been sent it is
/// given up only if the peer supports that (`Config::partial_reliability`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reliability {
    /// It is sent until it has arrived.
    #[default]
    Reliable,
    /// It is given up if it has not arrived after this time (timed reliability, RFC 3758 section
    /// 4.1). Seen when it would have to be sent or repeated, not while it is under way.
    Lifetime(Duration),
    /// It is given up when a part of it would have to be repeated for one more than this number of
    /// times (Limited Retransmissions Policy, RFC 7496 section 3.1).
    Retransmissions(u32),
    /// It is given up when the send buffer is full and a message with a smaller number, or without
    /// this policy, needs its room (Priority Policy, RFC 7496 section 3.2).
    Priority(u32),
}
