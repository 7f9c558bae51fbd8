//! Waiting for descriptors.

use libc::pollfd;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// An entry that waits for something to read.
#[must_use]
pub fn interest(fd: RawFd) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Whether any entry has the event.
#[must_use]
pub fn has(entries: &[pollfd], event: i16) -> bool {
    entries.iter().any(|entry| entry.revents & event != 0)
}

/// Waits for an entry, at most as long as `timeout` says; how many are ready.
pub fn poll(entries: &mut [pollfd], timeout: Option<Duration>) -> usize {
    let timeout = timeout.map_or(-1, |t| i32::try_from(t.as_millis()).unwrap_or(i32::MAX));
    let count = entries.len() as libc::nfds_t;
    // SAFETY: the kernel writes only to the entries.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), count, timeout) };
    usize::try_from(ready).unwrap_or(0)
}

/// Reads and drops what a descriptor has; whether there was anything.
pub fn drain(fd: BorrowedFd<'_>) -> bool {
    let mut buffer = [0_u8; 4096];
    let (fd, to) = (fd.as_raw_fd(), buffer.as_mut_ptr().cast());
    let mut any = false;
    // SAFETY: the buffer is valid for its length.
    while unsafe { libc::read(fd, to, buffer.len()) } > 0 {
        any = true;
    }
    any
}

/// Takes as many descriptors as are allowed: one per waiting call or far end, and the stack, which inherits
/// the limit, needs two per connection. A command that is already running keeps the limit it was given.
pub fn raise_descriptor_limit() {
    // SAFETY: the kernel fills the limits, then reads them.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
