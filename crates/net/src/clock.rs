//! The only clock: turns the system's time since boot into the engine's.
//!
//! It goes on while the machine is suspended, as the clocks of its peers do: what was to be answered before is overdue
//! afterwards, and stamps of the wall clock on packets stay as old as they are.

use manypath_engine::Instant;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// What counts as a suspension: less is the time between two readings.
const MIN_SUSPENSION: Duration = Duration::from_secs(1);

/// Maps the time since boot, suspension included, to the engine's instants, counted from the clock's making.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Duration,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Self { origin: read(libc::CLOCK_BOOTTIME) }
    }

    /// A clock whose origin is the boot of the machine, so that all processes of the machine have the same instants.
    pub const fn of_machine() -> Self {
        Self { origin: Duration::ZERO }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        self.at(read(libc::CLOCK_BOOTTIME))
    }

    /// The engine's name for a time since boot; the origin for everything before it.
    fn at(&self, time: Duration) -> Instant {
        let nanos = time.saturating_sub(self.origin).as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How long to sleep until `deadline`: zero if it has passed, for ever (`None`) without one.
    pub fn until(&self, deadline: Option<Instant>) -> Option<Duration> {
        deadline.map(|deadline| deadline.since(self.now()))
    }
}

/// Notices that the machine was suspended. Its descriptor becomes readable then: a wait that began before lasts as if
/// no time had passed.
#[derive(Debug)]
pub struct SuspendWatch {
    timer: OwnedFd,
    /// How long the machine has been suspended since it was booted.
    suspended: Duration,
}

impl SuspendWatch {
    /// Errors: out of file descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor; nobody else owns it.
        let timer = unsafe { OwnedFd::from_raw_fd(fd) };
        // Never due, but cancelled when the system's clock is set, as it is after a suspension.
        let never = libc::timespec { tv_sec: i64::MAX, tv_nsec: 0 };
        let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let time = libc::itimerspec { it_interval: once, it_value: never };
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        // SAFETY: the kernel reads the time, which outlives the call.
        let set = unsafe {
            libc::timerfd_settime(timer.as_raw_fd(), flags, &raw const time, std::ptr::null_mut())
        };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { timer, suspended: suspended() })
    }

    /// How long the machine was suspended since the last call, if it was.
    pub fn take(&mut self) -> Option<Duration> {
        self.note(suspended())
    }

    fn note(&mut self, suspended: Duration) -> Option<Duration> {
        let new = suspended.saturating_sub(self.suspended);
        if new < MIN_SUSPENSION {
            return None;
        }
        self.suspended = suspended;
        // Readable no longer; there is nothing to read.
        let mut count = [0_u8; 8];
        // SAFETY: the kernel writes at most eight bytes.
        unsafe { libc::read(self.timer.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        Some(new)
    }
}

impl AsRawFd for SuspendWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}

/// How long the machine has been suspended since it was booted.
fn suspended() -> Duration {
    // In this order the difference is never too small.
    let awake = read(libc::CLOCK_MONOTONIC);
    read(libc::CLOCK_BOOTTIME).saturating_sub(awake)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a timespec to where one is. These clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
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
        assert_eq!(clock.at(clock.origin.saturating_sub(Duration::from_secs(1))), Instant::ZERO);
    }

    #[test]
    fn clocks_of_the_machine_count_from_its_boot() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let now = Clock::of_machine().now().as_nanos() as f64 / 1e9;
        assert!((0.0..60.0).contains(&(now - uptime + 0.01)), "{now} {uptime}");
    }

    #[test]
    fn a_passed_deadline_means_no_sleep() {
        let clock = Clock::start();
        assert_eq!(clock.until(Some(Instant::ZERO)), Some(Duration::ZERO));
        assert_eq!(clock.until(None), None);
        assert!(clock.until(Some(clock.now() + Duration::from_secs(9))) > Some(Duration::ZERO));
    }

    #[test]
    fn a_suspension_is_told_once() {
        let mut watch = SuspendWatch::new().unwrap();
        assert_eq!(watch.take(), None);
        let second = Duration::from_secs(1);
        let before = watch.suspended;
        assert_eq!(watch.note(before + second / 2), None, "scheduling between two readings");
        assert_eq!(watch.note(before + 600 * second), Some(600 * second));
        assert_eq!(watch.note(before + 600 * second), None);
        assert_eq!(watch.note(before + 660 * second), Some(60 * second));
    }
}
