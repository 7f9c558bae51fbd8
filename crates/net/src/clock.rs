//! The only clock: turns the system's monotonic time into the engine's.

use manypath_engine::Instant;
use std::time::Duration;

/// Maps the monotonic clock of the system to the engine's instants, counted from the clock's making.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    /// A clock whose origin is that of the machine's monotonic clock, so that all processes of the
    /// machine have the same instants, to the microsecond.
    pub fn of_machine() -> Self {
        // Read between the two, so that neither reading is far from it.
        let before = std::time::Instant::now();
        let since_origin = monotonic();
        let half = before.elapsed() / 2;
        let origin = (before + half).checked_sub(since_origin).unwrap_or(before);
        Self { origin }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.at(std::time::Instant::now())
    }

    /// The engine's name for `instant`; the origin for everything before it.
    pub fn at(&self, instant: std::time::Instant) -> Instant {
        let nanos = instant.saturating_duration_since(self.origin).as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How long to sleep until `deadline`: zero if it has passed, for ever (`None`) without one.
    pub fn until(&self, deadline: Option<Instant>) -> Option<Duration> {
        deadline.map(|deadline| deadline.since(self.now()))
    }
}

/// Time of the machine's monotonic clock.
fn monotonic() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a timespec to where one is. This clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_its_origin() {
        let clock = Clock::start();
        let later = clock.origin + Duration::from_millis(3);
        assert_eq!(clock.at(later), Instant::from_nanos(3_000_000));
        assert_eq!(clock.at(clock.origin - Duration::from_secs(1)), Instant::ZERO);
    }

    #[test]
    fn clocks_of_the_machine_agree() {
        let (one, other) = (Clock::of_machine(), Clock::of_machine());
        let instant = std::time::Instant::now();
        let apart =
            one.at(instant).since(other.at(instant)).max(other.at(instant).since(one.at(instant)));
        assert!(one.at(instant) > Instant::ZERO && apart < Duration::from_millis(1), "{apart:?}");
    }

    #[test]
    fn a_passed_deadline_means_no_sleep() {
        let clock = Clock::start();
        assert_eq!(clock.until(Some(Instant::ZERO)), Some(Duration::ZERO));
        assert_eq!(clock.until(None), None);
        assert!(clock.until(Some(clock.now() + Duration::from_secs(9))) > Some(Duration::ZERO));
    }
}
