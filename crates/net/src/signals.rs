//! Signals as a file descriptor, so that the loop that waits for packets also waits for them.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A signal that asks a process to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM: the system or its administrator.
    Terminate,
    /// SIGINT: Ctrl-C at the terminal.
    Interrupt,
    /// SIGHUP: the terminal is gone.
    Hangup,
}

const WATCHED: [(libc::c_int, Signal); 3] = [
    (libc::SIGTERM, Signal::Terminate),
    (libc::SIGINT, Signal::Interrupt),
    (libc::SIGHUP, Signal::Hangup),
];

/// The signals above, held back from their usual effect and readable here instead. Dropping it
/// gives the calling thread its old signal mask back.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    old_mask: libc::sigset_t,
}

impl Signals {
    /// Takes the signals from the calling thread and from those that it starts afterwards; call it
    /// before other threads exist. Errors: out of file descriptors.
    pub fn watch() -> io::Result<Self> {
        let set = watched_set();
        // SAFETY: all zeroes is a legal sigset_t, which the call below overwrites.
        let mut old_mask: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: both sets are initialised and outlive the call.
        let result =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut old_mask) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: the set is initialised; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor; nobody else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, old_mask })
    }

    /// The next signal that has come, if one has.
    pub fn next(&self) -> Option<Signal> {
        // SAFETY: all zeroes is a legal signalfd_siginfo.
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let size = size_of_val(&info);
        // SAFETY: the kernel writes at most `size` bytes, all of them inside `info`.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) };
        if usize::try_from(read) != Ok(size) {
            return None;
        }
        let number = libc::c_int::try_from(info.ssi_signo).ok()?;
        WATCHED.iter().find(|(watched, _)| *watched == number).map(|(_, signal)| *signal)
    }
}

fn watched_set() -> libc::sigset_t {
    // SAFETY: all zeroes is a legal sigset_t; the calls only write into it.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for (number, _) in WATCHED {
            libc::sigaddset(&raw mut set, number);
        }
        set
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the mask was filled in by the kernel in `watch`.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.old_mask,
                std::ptr::null_mut(),
            );
        }
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(signal: libc::c_int) {
        // SAFETY: sends a signal to the calling thread only; it is blocked there.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    }

    #[test]
    fn a_watched_signal_is_read_instead_of_ending_the_process() {
        let signals = Signals::watch().unwrap();
        assert_eq!(signals.next(), None);
        raise(libc::SIGTERM);
        assert_eq!(signals.next(), Some(Signal::Terminate));
        raise(libc::SIGINT);
        assert_eq!(signals.next(), Some(Signal::Interrupt));
        raise(libc::SIGHUP);
        assert_eq!(signals.next(), Some(Signal::Hangup));
        assert_eq!(signals.next(), None);
    }
}
