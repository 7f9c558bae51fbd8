//! A main process for the service manager that may end before the server does.
//!
//! A manager that starts a service anew waits for the end of its main process. A server whose connections are to go on
//! beyond that is therefore a child of the main process: its anchor, which passes signals on, ends as it ends, and
//! before it only when the server [lets go](let_go). An anchor that is killed takes the server along.

use crate::socket::check;
use std::io::{self, Read};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};

const PASSED_ON: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
/// What the server writes when it lets go.
const WORD: u8 = b'.';

/// Runs `server`, which is told by its arguments that it has an anchor, to its end or until it lets go; returns the
/// exit status. Descriptors that the manager has passed are passed on ([`crate::manager::passed`]).
///
/// # Errors
/// When it cannot be started.
pub fn anchor(server: &mut Command) -> io::Result<u8> {
    let signals = Signals::take()?;
    let mask = signals.old;
    // Whom they name is known only now.
    server.env_remove("LISTEN_PID").env_remove("WATCHDOG_PID").stdout(Stdio::piped());
    // SAFETY: the closure makes only system calls.
    unsafe { server.pre_exec(move || begin(&mask)) };
    let mut child = server.spawn()?;
    let Some(mut word) = child.stdout.take() else { return Ok(1) };
    while !signals.pass_on(&child, &word) {}
    if word.read(&mut [0]).is_ok_and(|read| read > 0) {
        return Ok(0);
    }
    let ended = child.wait()?;
    let status = ended.code().or(ended.signal().map(|signal| 128 + signal));
    Ok(status.and_then(|status| u8::try_from(status).ok()).unwrap_or(1))
}

/// In the child: signals are as they were, manager's descriptors stay open, and the end of the anchor is its own.
fn begin(mask: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: plain numbers and an initialised signal set.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
    }
    Ok(())
}

/// Lets the anchor of this process end now; this process goes on.
pub fn let_go() {
    let word = [WORD];
    // SAFETY: plain numbers, and one byte that outlives the call. Standard output is the line to the anchor.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        libc::write(libc::STDOUT_FILENO, word.as_ptr().cast(), word.len());
    }
}

/// Signals of the anchor, which come by a descriptor.
struct Signals {
    fd: OwnedFd,
    old: libc::sigset_t,
}

impl Signals {
    fn take() -> io::Result<Self> {
        // SAFETY: all zeroes is a legal sigset_t; the calls write into live ones, and make a descriptor that is ours.
        unsafe {
            let (mut set, mut old): (libc::sigset_t, libc::sigset_t) =
                (mem::zeroed(), mem::zeroed());
            libc::sigemptyset(&raw mut set);
            for signal in PASSED_ON {
                libc::sigaddset(&raw mut set, signal);
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut old))?;
            let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC))?;
            Ok(Self { fd: OwnedFd::from_raw_fd(fd), old })
        }
    }

    /// Waits for a signal and passes it on. True when the server has something to say, or has ended.
    fn pass_on(&self, child: &Child, word: &ChildStdout) -> bool {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = [entry(self.fd.as_raw_fd()), entry(word.as_raw_fd())];
        // SAFETY: the entries outlive the call.
        unsafe { libc::poll(entries.as_mut_ptr(), 2, -1) };
        if entries[0].revents != 0 {
            self.forward(child);
        }
        entries[1].revents != 0
    }

    fn forward(&self, child: &Child) {
        // SAFETY: all zeroes is a legal signalfd_siginfo, of which the kernel fills as much as fits. The child was not
        // waited for yet, so the number is its own.
        unsafe {
            let mut info: libc::signalfd_siginfo = mem::zeroed();
            let size = size_of_val(&info);
            if libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) > 0 {
                libc::kill(child.id().cast_signed(), info.ssi_signo.cast_signed());
            }
        }
    }
}
