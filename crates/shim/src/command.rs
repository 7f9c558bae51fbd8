//! The command: starting it under the filter, following it to its end.

use crate::filter::Filter;
use crate::options::RunError;
use crate::seccomp::Servers;
use crate::seccomp::{self, Listener};
use crate::signals::Mask;
use manypath_control::ControlSocket;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process;

/// The running command.
#[derive(Debug)]
pub(crate) struct Command {
    pid: libc::pid_t,
}

/// A change of the command's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It has ended, with this exit status.
    Ended(u8),
    /// It was stopped.
    Stopped,
    /// It goes on.
    Continued,
}

impl Command {
    /// Starts the command. The listener is missing, with the reason, when the command runs outside
    /// the shim.
    ///
    /// # Errors
    /// When the program cannot be executed.
    pub(crate) fn start(
        command: &[OsString],
        (filter, servers): (Option<Filter>, Servers),
        environment: &[(&'static str, OsString)],
        signals: Mask,
    ) -> Result<(Self, io::Result<Listener>), RunError> {
        let (program, args) = command.split_first().ok_or(RunError::NoCommand)?;
        let (ours, theirs) = ControlSocket::pair().map_err(RunError::Launcher)?;
        let launcher = process::id();
        let mut child = process::Command::new(program);
        child.args(args).envs(environment.iter().map(|(name, value)| (name, value)));
        // SAFETY: the closure makes system calls only; it neither allocates nor locks.
        unsafe { child.pre_exec(move || prepare(filter.as_ref(), signals, launcher, &theirs)) };
        let started = child.spawn();
        // Lets go of their end of the pair, so that the receive below cannot wait for ever.
        drop(child);
        let pid = started.map_err(|e| classify(program, e))?.id().cast_signed();
        Ok((Self { pid }, receive_listener(&ours, servers)))
    }

    /// Looks for a change of its state, without waiting.
    pub(crate) fn change(&self) -> Option<Change> {
        let mut status = 0;
        let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
        // SAFETY: the kernel writes one int.
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, flags) };
        if pid != self.pid {
            return None;
        }
        if libc::WIFEXITED(status) {
            Some(Change::Ended(libc::WEXITSTATUS(status) as u8))
        } else if libc::WIFSIGNALED(status) {
            Some(Change::Ended((128 + libc::WTERMSIG(status)) as u8))
        } else if libc::WIFSTOPPED(status) {
            Some(Change::Stopped)
        } else {
            Some(Change::Continued)
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: plain numbers; the process is our child and not reaped yet.
        unsafe { libc::kill(self.pid, signal) };
    }
}

/// Runs in the child, between fork and exec.
fn prepare(
    filter: Option<&Filter>,
    signals: Mask,
    launcher: u32,
    handoff: &ControlSocket,
) -> io::Result<()> {
    signals.restore();
    // Without its launcher the command's calls would fail for ever: it must not survive it.
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: takes nothing.
    if unsafe { libc::getppid() }.cast_unsigned() != launcher {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let unknown = io::Error::from_raw_os_error(libc::ENOSYS);
    match filter.map_or(Err(unknown), seccomp::install) {
        Ok(listener) => handoff.send_bytes(&[0; 4], Some(listener.as_fd())),
        Err(e) => handoff.send_bytes(&e.raw_os_error().unwrap_or(0).to_ne_bytes(), None),
    }
}

fn receive_listener(handoff: &ControlSocket, servers: Servers) -> io::Result<Listener> {
    let mut errno = [0; 4];
    match handoff.receive_bytes(&mut errno)? {
        (_, Some(listener)) => Ok(Listener::new(listener, servers)),
        (_, None) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
    }
}

fn classify(program: &OsString, error: io::Error) -> RunError {
    match error.raw_os_error() {
        Some(libc::ENOENT) => RunError::NotFound(program.clone()),
        Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR | libc::ELOOP | libc::ENOTDIR) => {
            RunError::NotExecutable(program.clone(), error)
        }
        _ => RunError::Launcher(error),
    }
}
