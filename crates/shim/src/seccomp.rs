//! The kernel's side of trapping: the filter's installation and the notification descriptor.

use crate::filter::Filter;
use crate::handover::Sockets;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Says that a filter costs no speculation barriers; without it kernels before 5.16 slow down
/// every filtered program.
const FLAG_SPEC_ALLOW: libc::c_ulong = 1 << 2;

/// Wakes the launcher on the program's own processor: a trap is a ping-pong, not parallel work.
/// Linux 6.6; older ones refuse it, which is no loss.
const SYNC_WAKE_UP: u64 = 1;

/// Puts the calling thread, and all that it will start, under the filter. Called between fork and
/// exec: no allocation, no locks.
///
/// The kernel wants either the privilege or the promise never to gain privileges. The promise
/// takes setuid programs their right, so it is given only where there is no other way.
///
/// # Errors
/// `EBUSY` when an outer launcher already listens; whatever a kernel without this facility says.
pub(crate) fn install(filter: &Filter) -> io::Result<OwnedFd> {
    match try_install(filter) {
        Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
            // SAFETY: plain numbers.
            check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
            try_install(filter)
        }
        other => other,
    }
}

fn try_install(filter: &Filter) -> io::Result<OwnedFd> {
    let program = filter.as_program();
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | FLAG_SPEC_ALLOW;
    // SAFETY: `program` points into `filter`, which outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER),
            flags,
            &raw const program,
        )
    };
    let fd = RawFd::try_from(fd).unwrap_or(-1);
    // SAFETY: the kernel has just made it.
    check(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One trapped call, as the kernel tells of it. Its thread waits until it is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    /// The notification's identity.
    pub(crate) id: u64,
    /// The calling thread.
    pub(crate) thread: libc::pid_t,
    /// The architecture whose numbers and convention the call has, as `AUDIT_ARCH_*`.
    pub(crate) arch: u32,
    /// System call number.
    pub(crate) call: u32,
    /// The call's arguments.
    pub(crate) args: [u64; 6],
}

/// The answer to a trapped call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The kernel executes the call as if it had not been trapped.
    Continue,
    /// The call returns this.
    Value(i64),
    /// The call fails with this error number.
    Error(i32),
}

/// How a program gets a connection that the launcher has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    /// Descriptor and answer come in one step.
    OneStep,
    /// The program is given the descriptor, and is told its number then (Linux 5.9 to 5.13).
    TwoSteps,
    /// Not at all: peers reach the program's listening sockets by plain TCP (Linux 5.6 to 5.8).
    Never,
}

/// The descriptor at which trapped calls arrive.
#[derive(Debug)]
pub(crate) struct Listener {
    fd: OwnedFd,
    servers: Servers,
    sockets: Sockets,
}

/// Where a descriptor is to be that is given to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a number that the kernel chooses.
    New { close_on_exec: bool },
    /// The program has it under this number.
    There(RawFd),
}

/// A descriptor that its program was not told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotGiven {
    /// Why; `ENOENT` when the caller no longer waits.
    pub(crate) errno: i32,
    /// The number of the descriptor, where the program has it but does not know.
    pub(crate) left: Option<RawFd>,
}

impl From<io::Error> for NotGiven {
    fn from(error: io::Error) -> Self {
        Self { errno: error.raw_os_error().unwrap_or(libc::ENOENT), left: None }
    }
}

impl Listener {
    pub(crate) fn new(fd: OwnedFd, servers: Servers) -> Self {
        // SAFETY: the request takes a plain number.
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
        Self { fd, servers, sockets: Sockets::default() }
    }

    /// Sockets of the calls that wait, where programs hand them over.
    pub(crate) const fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// How the program gets connections.
    pub(crate) const fn servers(&self) -> Servers {
        self.servers
    }

    /// Takes the next trapped call, after the descriptor was seen readable. `None` when the caller
    /// has gone in between.
    ///
    /// # Errors
    /// Only when the descriptor itself is broken.
    pub(crate) fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: all zeroes is a valid notification, and the kernel insists on it.
        let mut raw: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: the kernel fills one notification.
        let result =
            unsafe { libc::ioctl(self.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
        match check(result) {
            Ok(_) => Ok(Some(Notification {
                id: raw.id,
                thread: raw.pid.cast_signed(),
                arch: raw.data.arch,
                call: raw.data.nr.cast_unsigned(),
                args: raw.data.args,
            })),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Answers a trapped call; false when its caller no longer waits. A caller whose answer the kernel refuses hears
    /// `ENOSYS`, as it would without a launcher: it must not wait for ever.
    pub(crate) fn answer(&self, id: u64, answer: Answer) -> bool {
        // The kernel makes an interrupted call again, which needs its socket again.
        if !self.sockets.is_empty() && !self.is_waiting(id) {
            return false;
        }
        self.sockets.forget(id);
        match reply(self.as_raw_fd(), id, answer) {
            Ok(()) => true,
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => false,
            Err(_) => reply(self.as_raw_fd(), id, Answer::Error(libc::ENOSYS)).is_ok(),
        }
    }

    /// Answers a trapped call with a descriptor, which the caller's process gets if it does not have it.
    ///
    /// # Errors
    /// `ENOENT` when its caller no longer waits; `EMFILE` when it has no descriptor left.
    pub(crate) fn give(&self, id: u64, fd: BorrowedFd<'_>, as_what: Place) -> Result<(), NotGiven> {
        self.sockets.forget(id);
        let (listener, fd) = (self.as_raw_fd(), fd.as_raw_fd());
        let number = match (as_what, self.servers) {
            (Place::There(number), _) => number,
            (Place::New { close_on_exec }, Servers::TwoSteps) => {
                add_descriptor(listener, id, fd, 0, close_on_exec)?
            }
            (Place::New { close_on_exec }, Servers::OneStep | Servers::Never) => {
                let send = libc::SECCOMP_ADDFD_FLAG_SEND as u32;
                add_descriptor(listener, id, fd, send, close_on_exec)?;
                return Ok(());
            }
        };
        if self.answer(id, Answer::Value(number.into())) {
            return Ok(());
        }
        Err(NotGiven { errno: libc::ENOENT, left: Some(number) })
    }

    /// Whether the caller of a trapped call still waits. What was read from its memory, or by its
    /// thread's number, belongs to it only if this still holds afterwards.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the kernel reads one number.
        let result = unsafe {
            libc::ioctl(self.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id)
        };
        result == 0
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Answers a call as if it had not been trapped.
///
/// # Errors
/// As [`reply`].
pub(crate) fn reply_continue(listener: RawFd, id: u64) -> io::Result<()> {
    reply(listener, id, Answer::Continue)
}

/// Answers a call.
///
/// # Errors
/// `ENOENT` when its caller no longer waits, `EINVAL` when the kernel does not know such an answer.
fn reply(listener: RawFd, id: u64, answer: Answer) -> io::Result<()> {
    // SAFETY: all zeroes is a valid response.
    let mut raw: libc::seccomp_notif_resp = unsafe { mem::zeroed() };
    raw.id = id;
    match answer {
        Answer::Continue => raw.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        Answer::Value(value) => raw.val = value,
        Answer::Error(errno) => raw.error = -errno,
    }
    loop {
        // SAFETY: the kernel reads one response.
        let sent = unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut raw) };
        match check(sent) {
            // A signal came while the kernel waited for its own lock.
            Err(e) if e.raw_os_error() == Some(libc::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

/// Puts a descriptor of ours into the process of a caller; returns its number there.
///
/// # Errors
/// `ENOENT` when the caller no longer waits; `EMFILE` when it has no descriptor left; `EINVAL` when the kernel does not
/// know the request or the flags.
pub(crate) fn add_descriptor(
    listener: RawFd,
    id: u64,
    fd: RawFd,
    flags: u32,
    close_on_exec: bool,
) -> io::Result<RawFd> {
    let newfd_flags = if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 };
    let srcfd = fd.cast_unsigned();
    let mut raw = libc::seccomp_notif_addfd { id, flags, srcfd, newfd: 0, newfd_flags };
    // SAFETY: the kernel reads one request.
    check(unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut raw) })
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
