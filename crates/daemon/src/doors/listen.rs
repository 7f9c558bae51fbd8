//! The sockets of doors. Those of a network need root, and are made before its rights are given up.

use manypath_net::TransparentUdp;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Clients that wait to be taken in.
const BACKLOG: i32 = 1024;
/// How often another port is tried when one is taken at some interface only.
const TRIES: usize = 16;

/// A port, and the sockets there, each with its interface.
type AtPort<T> = (u16, Vec<(String, T)>);

/// Sockets at one port to which the kernel may lead connections to other hosts that come in at `interfaces`: for each of
/// these one of IPv4 and, where this host has IPv6, one of IPv6.
///
/// # Errors
/// Those of socket(2), setsockopt(2) and bind(2); without CAP_NET_ADMIN or CAP_NET_RAW it is `PermissionDenied`.
pub fn listen_transparently(interfaces: &[String]) -> io::Result<AtPort<TcpListener>> {
    at_one_port(interfaces, |interface, at| {
        let listener = listen(interface, at)?;
        Ok((listener.local_addr()?.port(), listener))
    })
}

/// The same for UDP datagrams.
///
/// # Errors
/// As [`listen_transparently`]; raw sockets need CAP_NET_RAW.
pub fn receive_transparently(interfaces: &[String]) -> io::Result<AtPort<TransparentUdp>> {
    at_one_port(interfaces, |interface, at| {
        let socket = TransparentUdp::open(interface, at)?;
        Ok((socket.local_addr()?.port(), socket))
    })
}

fn at_one_port<T>(
    interfaces: &[String],
    open: impl Fn(&str, SocketAddr) -> io::Result<(u16, T)>,
) -> io::Result<AtPort<T>> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        match try_one_port(interfaces, &open) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            result => return result,
        }
    }
    Err(last)
}

fn try_one_port<T>(
    interfaces: &[String],
    open: &impl Fn(&str, SocketAddr) -> io::Result<(u16, T)>,
) -> io::Result<AtPort<T>> {
    let (mut port, mut all) = (0, Vec::new());
    for interface in interfaces {
        for any in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            match open(interface, SocketAddr::new(any, port)) {
                Ok((bound, socket)) => {
                    port = bound;
                    all.push((interface.clone(), socket));
                }
                Err(error) if any.is_ipv6() && is_without_ipv6(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok((port, all))
}

fn is_without_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

fn listen(interface: &str, at: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
        socket.set_ip_transparent_v6(true)?;
    } else {
        socket.set_ip_transparent_v4(true)?;
    }
    // Connections have the ports of their destinations: servers of this host must be able to begin beside them.
    socket.set_reuse_address(true)?;
    // Hosts elsewhere must not find the port.
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
