//! Waiting with nanosecond precision, and the priority for it.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of `fds` is readable or `timeout` has passed; says which are readable.
pub(crate) fn readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut poll =
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let timeout = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(1 << 30) as _,
        tv_nsec: t.subsec_nanos() as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `poll` has N entries; the timeout is null or lives until the call ends.
    let result =
        unsafe { libc::ppoll(poll.as_mut_ptr(), N as libc::nfds_t, timeout, std::ptr::null()) };
    match check(result) {
        Ok(_) => Ok(poll.map(|p| p.revents != 0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(error) => Err(error),
    }
}

/// Lets the calling thread wake up in time: real-time priority where that is permitted, and in any
/// case no timer slack. Says whether real-time priority was given.
pub(crate) fn be_punctual() -> bool {
    // SAFETY: this prctl takes a number.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    let priority: libc::c_int = 1;
    // The kernel's own call, whose parameter is one number: the function of musl always fails.
    // SAFETY: the parameter lives until the call ends; 0 is the calling thread.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) == 0
    }
}
