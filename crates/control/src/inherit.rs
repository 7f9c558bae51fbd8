//! Taking over a descriptor that a parent process left open.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The descriptor `fd` that this process inherited, now owned. Works once per process, so that
/// nothing can be owned twice.
///
/// # Errors
/// When `fd` is not open, is one of the standard streams, or a descriptor was taken over before.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if fd <= libc::STDERR_FILENO || TAKEN.swap(true, Ordering::Relaxed) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: F_SETFD only changes a flag of the number, and fails if it is not open.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the number is open, came from the parent, and the flag above keeps it single-owned.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
