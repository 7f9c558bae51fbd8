//! The stream schedulers by name.

use super::{
    FairCapacity, Fcfs, Priority, RoundRobin, RoundRobinPacket, SparseFirst, StreamScheduler,
    WeightedFair,
};
use crate::config::StreamScheduling;
use alloc::boxed::Box;

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
