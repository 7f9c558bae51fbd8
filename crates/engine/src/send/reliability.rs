//! Partial reliability: how long the sender tries to get a message across (RFC 3758 section 4.1, RFC
//! 7496 section 3).

use crate::config::Reliability;
use crate::time::Instant;

crate::names::named! {
    /// The policy by which a message was given up (`sprstat_policy`, RFC 7496 section 4.3).
    pub enum ReliabilityPolicy as "reliability policy" {
        /// Its lifetime was over (`SCTP_PR_SCTP_TTL`).
        Lifetime = "lifetime",
        /// It was retransmitted too often (`SCTP_PR_SCTP_RTX`).
        Retransmissions = "retransmissions",
        /// More important messages needed its room (`SCTP_PR_SCTP_PRIO`).
        Priority = "priority",
    }
}

/// How many messages were given up (`SCTP_PR_STREAM_STATUS` and `SCTP_PR_ASSOC_STATUS`, RFC 7496
/// sections 4.3 and 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Abandoned {
    /// Before any part of them was sent.
    pub unsent: u64,
    /// After a part of them was sent.
    pub sent: u64,
}

/// [`Reliability`] of a message that has been queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Terms {
    /// Until it has arrived.
    #[default]
    Reliable,
    /// Until then.
    Until(Instant),
    /// Each part may be repeated so often.
    Retransmissions(u32),
    /// Until messages with smaller numbers need the room.
    Priority(u32),
}

impl Terms {
    /// The terms of a message that is queued `now`.
    pub(crate) fn new(reliability: Reliability, now: Instant) -> Self {
        match reliability {
            Reliability::Reliable => Self::Reliable,
            Reliability::Lifetime(time) => Self::Until(now + time),
            Reliability::Retransmissions(most) => Self::Retransmissions(most),
            Reliability::Priority(priority) => Self::Priority(priority),
        }
    }

    /// What is left of them.
    pub(crate) fn left(self, now: Instant) -> Reliability {
        match self {
            Self::Reliable => Reliability::Reliable,
            Self::Until(end) => Reliability::Lifetime(end.since(now)),
            Self::Retransmissions(most) => Reliability::Retransmissions(most),
            Self::Priority(priority) => Reliability::Priority(priority),
        }
    }

    /// The policy that they are of, if the message may be given up at all.
    pub(crate) fn policy(self) -> Option<ReliabilityPolicy> {
        match self {
            Self::Reliable => None,
            Self::Until(_) => Some(ReliabilityPolicy::Lifetime),
            Self::Retransmissions(_) => Some(ReliabilityPolicy::Retransmissions),
            Self::Priority(_) => Some(ReliabilityPolicy::Priority),
        }
    }

    /// Whether a part that was sent so many times may be sent once more.
    pub(crate) fn allow_repeat(self, now: Instant, transmissions: u32) -> bool {
        match self {
            Self::Reliable | Self::Priority(_) => true,
            Self::Until(end) => now < end,
            Self::Retransmissions(most) => transmissions <= most,
        }
    }
}

/// A message that was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failed {
    pub(crate) message: super::Outgoing,
    pub(crate) policy: ReliabilityPolicy,
    /// Whether a part of it was sent; then `message` holds what was not.
    pub(crate) sent: bool,
}
