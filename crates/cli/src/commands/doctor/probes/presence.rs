//! What answers at the peer besides SCTP.

use super::super::findings::PathFinding;
use manypath_net::speaks_mptcp as both_speak_it;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// How long TCP may take to answer.
const LIMIT: Duration = Duration::from_millis(800);
/// A service that most hosts have; a refusal is an answer, too.
const USUAL: u16 = 22;

/// Whether the peer answers TCP on a path, if only by refusing.
pub(super) fn answers_tcp(path: &PathFinding, port: Option<u16>) -> bool {
    let to = SocketAddr::new(path.remote.ip(), port.unwrap_or(USUAL));
    match connect(path, to) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

fn connect(path: &PathFinding, to: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    // Where that is not permitted the routing table decides.
    let _ = socket.bind_device(Some(path.interface.as_bytes()));
    socket.bind(&SocketAddr::new(path.local, 0).into())?;
    socket.connect_timeout(&to.into(), LIMIT)
}

/// Whether a service speaks MPTCP; not known if there is no connection to it.
pub(super) fn speaks_mptcp(service: SocketAddr) -> Option<bool> {
    let socket =
        Socket::new(Domain::for_address(service), Type::STREAM, Some(Protocol::MPTCP)).ok()?;
    socket.connect_timeout(&service.into(), LIMIT).ok()?;
    both_speak_it(&socket).ok()
}
