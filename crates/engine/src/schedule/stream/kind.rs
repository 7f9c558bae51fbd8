//! The stream schedulers by name.

use super::{Fcfs, RoundRobin, StreamScheduler};
use crate::names::named;
use alloc::boxed::Box;

named! {
    /// Which stream goes next, when several have something to send (RFC 8260 section 3).
    pub enum StreamScheduling as "stream scheduler" {
        /// First come, first served: messages leave in the order in which they were given.
        Fcfs = "fcfs",
        /// Round robin by message; by chunk where messages are interleaved.
        RoundRobin = "round-robin",
    }
}

impl StreamScheduling {
    /// The scheduler of this name, with nothing to send.
    pub(crate) fn scheduler(self) -> Box<dyn StreamScheduler> {
        match self {
            Self::Fcfs => Box::new(Fcfs::default()),
            Self::RoundRobin => Box::new(RoundRobin::default()),
        }
    }
}
