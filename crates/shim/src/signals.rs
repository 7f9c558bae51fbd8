//! The launcher's signals: it reads them in its loop instead of being interrupted.
//!
//! The command stays in the foreground process group, so what the terminal sends reaches it
//! without us. What a process sends to the launcher is meant for the command and passed on.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Passed on when a process sent them.
const PASSED: [libc::c_int; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];
/// Job control: the launcher stops when the command has stopped, not before.
const STOPS: [libc::c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// The launcher's signals.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
    inherited: Mask,
}

/// A set of blocked signals.
#[derive(Clone, Copy)]
pub(crate) struct Mask(libc::sigset_t);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask")
    }
}

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// A child changed its state.
    Child,
    /// To be passed on to the command.
    Pass(libc::c_int),
    /// The terminal, or a program of the job, wants the job to stop.
    Stop,
    /// The terminal's; the command has it already.
    Ours,
}

impl Signals {
    /// From now on the signals wait to be read. Dispositions stay as they were, and so does what
    /// the command inherits, but for `SIGCHLD`: ignored, it would hide the command's exit status.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn block() -> io::Result<Self> {
        // SAFETY: both sets are initialised before use; the calls get valid pointers.
        let (fd, inherited) = unsafe {
            let mut wanted: libc::sigset_t = mem::zeroed();
            let mut inherited: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut wanted);
            for signal in PASSED.iter().chain(&STOPS).chain(&[libc::SIGCHLD]) {
                libc::sigaddset(&raw mut wanted, *signal);
            }
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const wanted, &raw mut inherited);
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            (libc::signalfd(-1, &raw const wanted, flags), inherited)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, inherited: Mask(inherited) })
    }

    /// What was blocked before: the command shall find it so.
    pub(crate) const fn inherited(&self) -> Mask {
        self.inherited
    }

    /// The next signal, if one waits.
    pub(crate) fn read(&self) -> Option<Arrived> {
        // SAFETY: all zeroes is a valid record.
        let mut raw: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let length = mem::size_of_val(&raw);
        // SAFETY: the kernel writes at most one record.
        let got = unsafe { libc::read(self.as_raw_fd(), (&raw mut raw).cast(), length) };
        (got == length.cast_signed()).then(|| classify(&raw))
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Mask {
    /// Makes this the calling thread's set. Only a system call: allowed between fork and exec.
    pub(crate) fn restore(&self) {
        // SAFETY: the set is initialised.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

fn classify(raw: &libc::signalfd_siginfo) -> Arrived {
    let signal = raw.ssi_signo.cast_signed();
    // Positive codes come from the kernel, which tells the whole foreground group.
    let from_process = raw.ssi_code <= 0;
    if signal == libc::SIGCHLD {
        Arrived::Child
    } else if STOPS.contains(&signal) {
        Arrived::Stop
    } else if from_process {
        Arrived::Pass(signal)
    } else {
        Arrived::Ours
    }
}
