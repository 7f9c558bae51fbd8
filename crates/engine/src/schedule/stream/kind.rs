//! The stream schedulers by name.

use super::{
    FairCapacity, Fcfs, Priority, RoundRobin, RoundRobinPacket, SparseFirst, StreamScheduler,
    WeightedFair,
};
use crate::names::named;
use alloc::boxed::Box;

named! {
    /// Which stream goes next, when several have something to send (RFC 8260 section 3).
    pub enum StreamScheduling as "stream scheduler" {
        /// First come, first served: messages leave in the order in which they were given.
        Fcfs = "fcfs",
        /// Streams on which no more than a packet waits before the others; otherwise first come, first
        /// served.
        SparseFirst = "sparse-first",
        /// Round robin by message; by chunk where messages are interleaved.
        RoundRobin = "round-robin",
        /// Round robin by packet: none carries data of two streams.
        RoundRobinPacket = "round-robin-packet",
        /// Strict priorities, the lowest value of [`StreamOptions`](super::StreamOptions) first.
        Priority = "priority",
        /// The same number of bytes for all.
        FairCapacity = "fair-capacity",
        /// Bytes according to the weights in [`StreamOptions`](super::StreamOptions).
        WeightedFair = "weighted-fair",
    }
}

impl StreamScheduling {
    /// The scheduler of this name, with nothing to send.
    pub(crate) fn scheduler(self) -> Box<dyn StreamScheduler> {
        match self {
            Self::Fcfs => Box::new(Fcfs::default()),
            Self::SparseFirst => Box::new(SparseFirst::default()),
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::RoundRobinPacket => Box::new(RoundRobinPacket::default()),
            Self::Priority => Box::new(Priority::default()),
            Self::FairCapacity => Box::new(FairCapacity::default()),
            Self::WeightedFair => Box::new(WeightedFair::default()),
        }
    }
}
