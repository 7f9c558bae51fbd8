//! UDP sockets, of the program and of the stack.

use crate::address;
use crate::socket;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Times that a free port is looked for.
const TRIES: usize = 8;
/// The longest datagram that any socket gives.
const MAX_RECEIVED: usize = 1 << 16;

/// The stack's end of the way to a program's socket.
pub(super) struct Pair {
    pub(super) end: OwnedFd,
    /// Its address.
    pub(super) relay: SocketAddr,
    /// The address of the program's socket, as the stack's end sees it.
    pub(super) program: SocketAddr,
}

/// What a socket gave.
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    /// What the call returns: with `MSG_TRUNC` more than there was room for.
    pub(super) length: usize,
    pub(super) source: Option<SocketAddr>,
    pub(super) control: Vec<u8>,
    pub(super) flags: i32,
}

/// The socket's address; it is bound to a port first if it has none. A port that was chosen in words
/// stays when the socket is disconnected.
pub(super) fn bound(socket: BorrowedFd<'_>, v6: bool) -> io::Result<SocketAddr> {
    let own = socket::local(socket)?;
    if own.port() != 0 {
        return Ok(own);
    }
    let any = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    for _ in 0..TRIES {
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let probe = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        probe.bind(&SocketAddr::new(any, 0).into())?;
        let port = probe.local_addr()?.as_socket().map_or(0, |addr| addr.port());
        drop(probe);
        if SockRef::from(&socket).bind(&SocketAddr::new(any, port).into()).is_ok() {
            break;
        }
    }
    socket::local(socket)
}

/// Makes the stack's end, which hears the program's socket alone; with `connect` the program's hears
/// only the stack's end, too.
pub(super) fn pair(
    socket: BorrowedFd<'_>,
    to_v6: bool,
    connect: bool,
    v6_socket: bool,
) -> io::Result<Pair> {
    let (domain, loopback) = match to_v6 {
        true => (Domain::IPV6, Ipv6Addr::LOCALHOST.into()),
        false => (Domain::IPV4, Ipv4Addr::LOCALHOST.into()),
    };
    let end = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    end.set_nonblocking(true)?;
    end.bind(&SocketAddr::new(loopback, 0).into())?;
    let relay = end.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    if connect {
        socket::connect(socket, relay, v6_socket)?;
    }
    let mut program = socket::local(socket)?;
    if program.ip().is_unspecified() {
        program.set_ip(loopback);
    }
    end.connect(&SockAddr::from(program))?;
    // What strangers have sent to it before it heard the program alone.
    while receive(end.as_fd(), 0, 0, 0).is_ok() {}
    Ok(Pair { end: end.into(), relay, program })
}

/// Sends an empty datagram to where the socket is connected, for the answer that it gets.
pub(super) fn poke(socket: BorrowedFd<'_>) {
    // Whatever becomes of it is for the program to hear.
    let _ = SockRef::from(&socket).send_with_flags(&[], libc::MSG_DONTWAIT);
}

/// Sends a datagram, with control messages.
///
/// # Errors
/// As the kernel says.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    control: &[u8],
    to: SocketAddr,
    flags: i32,
) -> io::Result<usize> {
    let name = SockAddr::from(to);
    let mut piece =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all zeroes is a valid header.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = name.as_ptr().cast_mut().cast();
    header.msg_namelen = name.len();
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    if !control.is_empty() {
        header.msg_control = control.as_ptr().cast_mut().cast();
        header.msg_controllen = control.len() as _;
    }
    // SAFETY: everything that the header names outlives the call, which only reads it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Takes a datagram, without waiting for one.
///
/// # Errors
/// As the kernel says; `WouldBlock` if there is none.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    flags: i32,
    room: usize,
    control_room: usize,
) -> io::Result<Received> {
    let mut bytes = vec![0_u8; room.min(MAX_RECEIVED)];
    let mut control = vec![0_u8; control_room];
    let mut name = [0_u8; address::MAX_SOCKADDR];
    let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all zeroes is a valid header.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = name.len() as libc::socklen_t;
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control.len() as _;
    let flags = flags & !libc::MSG_WAITFORONE | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes as much as the header says there is room for.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    bytes.truncate(length);
    control.truncate(header.msg_controllen as usize);
    let source = match address::parse(name.get(..header.msg_namelen as usize).unwrap_or_default()) {
        address::ProgramAddress::Ip(source) => Some(source),
        address::ProgramAddress::Unspecified | address::ProgramAddress::Other => None,
    };
    Ok(Received { bytes, length, source, control, flags: header.msg_flags })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn heard(end: &OwnedFd) -> Option<Vec<u8>> {
        receive(end.as_fd(), 0, 100, 0).ok().map(|received| received.bytes)
    }

    #[test]
    fn strangers_are_not_heard() {
        for (any, connect) in [("0.0.0.0:0", true), ("0.0.0.0:0", false), ("[::]:0", true)] {
            let program = UdpSocket::bind(any).unwrap();
            let v6 = program.local_addr().unwrap().is_ipv6();
            let made = pair(program.as_fd(), v6, connect, v6).unwrap();
            let stranger = UdpSocket::bind((made.relay.ip(), 0)).unwrap();
            stranger.send_to(b"stranger", made.relay).unwrap();
            assert_eq!(heard(&made.end), None, "{any} {connect}");
            program.send_to(b"program", made.relay).unwrap();
            assert_eq!(heard(&made.end).as_deref(), Some(b"program".as_slice()));
            if connect {
                stranger.send_to(b"stranger", made.program).unwrap();
                program.set_nonblocking(true).unwrap();
                assert!(program.recv(&mut [0; 100]).is_err(), "{any}");
            }
        }
    }

    #[test]
    fn a_port_outlives_what_the_socket_is_connected_to() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let own = bound(socket.as_fd(), false).unwrap();
        pair(socket.as_fd(), false, true, false).unwrap();
        socket::dissolve(socket.as_fd());
        assert_eq!(socket::local(socket.as_fd()).unwrap(), own);
        socket::connect(socket.as_fd(), "127.0.0.1:9".parse().unwrap(), false).unwrap();
        assert_eq!(socket::local(socket.as_fd()).unwrap().port(), own.port());
    }
}
