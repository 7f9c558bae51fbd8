//! TCP clients that are taken in, so many in one turn.

use crate::allow::canonical;
use crate::core::Core;
use crate::log;
use crate::timers::Timer;
use manypath_engine::Duration;
use mio::net::TcpListener;
use socket2::SockRef;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use tracing::{debug, warn};

/// Clients taken in before others have their turn.
const ACCEPTS_PER_TURN: usize = 64;
/// After what pause clients are taken in again when there was no descriptor for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts clients that wait at `listeners`, each with the mark of its listener. `timer` accepts the others: in
/// the next turn, or after a pause when there was no descriptor, which `delayed` counts.
pub(crate) fn accept<'a, T>(
    core: &mut Core,
    listeners: impl Iterator<Item = (&'a TcpListener, T)> + Clone,
    timer: Timer,
    delayed: &'static str,
) -> Vec<(OwnedFd, SocketAddr, T)> {
    let mut clients = Vec::new();
    for _ in 0..ACCEPTS_PER_TURN {
        let mut accepted = listeners.clone().map(|(listener, mark)| (listener.accept(), mark));
        let next = accepted
            .find(|(one, _)| !matches!(one, Err(error) if error.kind() == ErrorKind::WouldBlock));
        match next {
            None => return clients,
            Some((Ok((stream, peer)), mark)) => {
                clients.push((TcpStream::from(stream).into(), canonical(peer), mark));
            }
            // Who has gone meanwhile is no reason to stop.
            Some((Err(error), _)) if error.kind() == ErrorKind::ConnectionAborted => {}
            Some((Err(error), _)) => {
                core.count(delayed);
                warn!(target: log::CONNECTION, "cannot accept a client yet: {error}");
                core.after(ACCEPT_PAUSE, timer);
                return clients;
            }
        }
    }
    core.in_next_turn(timer);
    clients
}

/// Resets a client that is not taken in, for a reason that is counted.
pub(crate) fn refuse(core: &mut Core, fd: &OwnedFd, peer: SocketAddr, reason: &'static str) {
    core.count(reason);
    debug!(target: log::CONNECTION, "client {peer}: {reason}");
    // Closing it is a reset then.
    let _ = SockRef::from(fd).set_linger(Some(Duration::ZERO));
}
