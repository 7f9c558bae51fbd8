//! The paths: one thread each, which moves packets from TUN device to TUN device through two
//! [`Link`]s. All times are nanoseconds since the lab's [`Clock`] began.

mod capture;
mod packet;
mod path;
mod series;

pub(crate) use capture::{Capture, Recorder};
pub(crate) use path::EmulatedPath;
pub(crate) use series::Series;

use manypath_sim::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The lab's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: std::time::Instant,
    wall_origin: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let wall_origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: std::time::Instant::now(), wall_origin }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// Nanoseconds since 1970 at `instant`.
    pub(crate) fn wall_nanos(&self, instant: Instant) -> u64 {
        (Instant::ZERO + self.wall_origin).as_nanos().saturating_add(instant.as_nanos())
    }
}
