//! The service manager, if the process has one: systemd, or another that speaks its protocol.
//!
//! What it is told goes to the socket that `$NOTIFY_SOCKET` names (sd_notify(3)); sockets that it has
//! opened before the process began are in `$LISTEN_FDS` (sd_listen_fds(3)).

use sd_notify::NotifyState;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
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

/// The sockets that the manager has opened for this process, now owned. Works once per process, so
/// that nothing can be owned twice; afterwards, and without a manager, there are none.
///
/// # Errors
/// When the variables make no sense, or name descriptors that are not open.
pub fn sockets() -> io::Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let numbers = sd_notify::listen_fds()?;
    // SAFETY: the manager passed these numbers to this very process (LISTEN_PID), they are open
    // (F_SETFD has just succeeded on each), and they are taken once.
    Ok(numbers.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
}
