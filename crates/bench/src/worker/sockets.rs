//! TCP and MPTCP sockets with the congestion control that is measured.

use crate::job::{Carrier, Part};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const BACKLOG: i32 = 4096;
/// How long a connect may be refused: the other side's stack may just be starting.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn listen(part: &Part) -> io::Result<TcpListener> {
    let socket = open(part)?;
    socket.set_reuse_address(true)?;
    socket.bind(&part.address.into()).map_err(|e| told("listen at", part.address, &e))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Connects, once more if it is refused at first.
pub(super) fn connect(part: &Part) -> io::Result<TcpStream> {
    let begun = Instant::now();
    loop {
        let socket = open(part)?;
        match socket.connect(&part.address.into()) {
            Ok(()) => {
                socket.set_tcp_nodelay(true)?;
                return Ok(socket.into());
            }
            Err(error) if begun.elapsed() > PATIENCE => {
                return Err(told("connect to", part.address, &error));
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn open(part: &Part) -> io::Result<Socket> {
    let protocol = match part.carrier {
        Carrier::Mptcp => Protocol::MPTCP,
        Carrier::Tcp
        | Carrier::Association
        | Carrier::EncryptedAssociation
        | Carrier::Datagrams => Protocol::TCP,
    };
    let socket = Socket::new(Domain::for_address(part.address), Type::STREAM, Some(protocol))?;
    if let Some(name) = &part.congestion {
        socket
            .set_tcp_congestion(name.as_bytes())
            .map_err(|e| io::Error::new(e.kind(), format!("congestion control {name}: {e}")))?;
    }
    Ok(socket)
}

fn told(what: &str, address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {address}: {error}"))
}
