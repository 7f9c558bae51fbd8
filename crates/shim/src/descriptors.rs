//! How the launcher comes to sockets of programs.

use crate::handover::Handover;
use crate::program::{About, LastThread};
use crate::seccomp::Listener;
use crate::trap::Trap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

/// How the launcher comes to sockets of programs.
#[derive(Debug)]
pub(crate) enum Descriptors {
    /// It copies them.
    Copied(LastThread),
    /// Programs hand them over.
    HandedOver(Handover),
}

impl Descriptors {
    /// The socket that a call is about.
    ///
    /// # Errors
    /// As [`LastThread::descriptor`].
    pub(crate) fn of(&self, thread: libc::pid_t, fd: RawFd) -> io::Result<OwnedFd> {
        match self {
            Self::Copied(last) => last.descriptor(thread, fd),
            Self::HandedOver(handover) => handover.take(thread, fd),
        }
    }

    /// Whose a thread is, where the kernel tells by one system call.
    pub(crate) fn about(&self, thread: libc::pid_t) -> Option<About> {
        match self {
            Self::Copied(last) => last.about(thread),
            Self::HandedOver(_) => None,
        }
    }

    pub(crate) const fn handover(&self) -> Option<&Handover> {
        match self {
            Self::Copied(_) => None,
            Self::HandedOver(handover) => Some(handover),
        }
    }

    /// A call is looked at; until [`Descriptors::end`] its socket can be had.
    pub(crate) fn begin(&self, listener: &Listener, trap: &Trap) {
        if let Self::HandedOver(handover) = self {
            handover.begin(listener.sockets(), trap.thread, trap.args[0] as RawFd);
        }
    }

    /// The call was looked at. Until it is answered, it keeps its socket, also if a signal has interrupted it meanwhile:
    /// the kernel makes it again then.
    pub(crate) fn end(&self, listener: &Listener, trap: &Trap) {
        if let Self::HandedOver(handover) = self
            && let Some(socket) = handover.end()
        {
            listener.sockets().keep(trap.id, trap.thread, trap.args[0] as RawFd, socket);
        }
    }
}
