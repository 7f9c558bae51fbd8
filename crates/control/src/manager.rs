//! The service manager, if the process has one: systemd, or another that speaks its protocol.
//!
//! What it is told goes to the socket that `$NOTIFY_SOCKET` names (sd_notify(3)); sockets that it has
//! opened before the process began are in `$LISTEN_FDS` (sd_listen_fds(3)).

use crate::socket::{check, send_packet};
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use sd_notify::NotifyState;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What there is to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News<'a> {
    /// The service is at work; or it is again, after a reload.
    Ready,
    /// Files are being read again.
    Reloading,
    /// The service ends.
    Stopping,
    /// The loop turns.
    Alive,
    /// How the service is, for people.
    Status(&'a str),
}

/// Whether there is a manager that wants to be told.
#[must_use]
pub fn is_present() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty())
}

/// How long the manager waits for [`News::Alive`] before it starts the service anew; none if it does
/// not watch.
#[must_use]
pub fn patience() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// Opens the line to the manager, for a process that may lose the right to.
pub fn connect() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    let connected =
        UnixDatagram::unbound().and_then(|socket| socket.connect_addr(&address?).map(|()| socket));
    if let Ok(socket) = connected {
        let _ = LINE.set(socket);
    }
}

/// The first descriptor that a manager passes.
const FIRST_PASSED: RawFd = 3;

static LINE: OnceLock<UnixDatagram> = OnceLock::new();

/// Tells the manager. One that is not there, or does not listen, cannot be helped.
pub fn tell(news: &[News<'_>]) {
    let states: Vec<NotifyState<'_>> = news.iter().flat_map(|one| states(*one)).collect();
    let lines = || states.iter().map(|state| format!("{state}\n")).collect::<String>();
    if LINE.get().is_none_or(|line| line.send(lines().as_bytes()).is_err()) {
        let _ = sd_notify::notify(&states);
    }
}

fn states(news: News<'_>) -> Vec<NotifyState<'_>> {
    match news {
        News::Ready => vec![NotifyState::Ready],
        // With the time, systemd knows that the Ready that follows is not an older one.
        News::Reloading => {
            let now = NotifyState::monotonic_usec_now().ok();
            [NotifyState::Reloading].into_iter().chain(now).collect()
        }
        News::Stopping => vec![NotifyState::Stopping],
        News::Alive => vec![NotifyState::Watchdog],
        News::Status(text) => vec![NotifyState::Status(text)],
    }
}

/// Has the manager keep a descriptor while the service is started anew, and close it when the service is stopped. Only
/// after [`connect`].
pub fn store(fd: BorrowedFd<'_>) {
    let Some(line) = LINE.get() else { return };
    // One that keeps none closes it.
    let _ = send_packet(line.as_fd(), b"FDSTORE=1\n", Some(fd));
}

/// What the manager has passed to this process.
#[derive(Debug, Default)]
pub struct Passed {
    /// Sockets that it has opened.
    pub sockets: Vec<OwnedFd>,
    /// Lines to earlier processes of the service that may still be there, oldest first: what [`store`] was given.
    pub predecessors: Vec<OwnedFd>,
}

/// What the manager has passed to this process, or to its [anchor](crate::anchor), now owned. Works once per process,
/// so that nothing can be owned twice; afterwards, and without a manager, there is nothing.
///
/// # Errors
/// When the variables make no sense, or name descriptors that are not open.
pub fn passed(anchored: bool) -> io::Result<Passed> {
    let is_line = |fd: &OwnedFd| socket_domain(fd).is_ok_and(|it| it == AddressFamily::UNIX);
    let (predecessors, sockets) = descriptors(anchored)?.into_iter().partition(is_line);
    Ok(Passed { sockets, predecessors })
}

fn descriptors(anchored: bool) -> io::Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let numbers =
        if anchored { numbers_of_the_anchor()? } else { sd_notify::listen_fds()?.collect() };
    // SAFETY: the manager passed these numbers to this very process (LISTEN_PID) or to its anchor, they are open
    // (F_SETFD has just succeeded on each), and they are taken once.
    Ok(numbers.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
}

/// The first descriptors after the standard ones, as sd_listen_fds(3) has them.
fn numbers_of_the_anchor() -> io::Result<Vec<RawFd>> {
    let count = std::env::var("LISTEN_FDS").ok().and_then(|count| count.parse::<RawFd>().ok());
    let numbers: Vec<RawFd> = (FIRST_PASSED..FIRST_PASSED + count.unwrap_or(0)).collect();
    for fd in &numbers {
        // SAFETY: F_SETFD only changes a flag of the number, and fails if it is not open.
        check(unsafe { libc::fcntl(*fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    Ok(numbers)
}
