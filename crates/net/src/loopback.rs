//! Connections within this host.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Two ends of a TCP connection on this host; nobody else's.
///
/// # Errors
/// Where the process may open no more sockets.
pub fn loopback_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let own = near.local_addr()?;
    // Others may connect to the port before us.
    loop {
        let (far, peer) = listener.accept()?;
        if peer == own {
            return Ok((near, far));
        }
    }
}
