//! Datagrams of programs as they would have gone, and those that come back to them.
//!
//! Both have the addresses of others: what a program has sent goes out from its own address although its
//! socket is not ours, and what its peer answers comes to it from there.

use crate::datagram::Datagram;
use manypath_gate::packet::udp;
use manypath_gate::socket::set_int;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Sends what was taken as plain UDP after all, from the program's address.
///
/// # Errors
/// As the kernel says: there is no way to the peer, or it is too long for it.
pub(crate) fn send_plain(datagram: &Datagram) -> io::Result<()> {
    let (from, to) = (datagram.source, datagram.peer);
    let socket = Socket::new(Domain::for_address(to), Type::RAW, Some(Protocol::UDP))?;
    socket.bind(&SocketAddr::new(from.ip(), 0).into())?;
    let class = i32::from(datagram.traffic_class);
    match to.is_ipv6() {
        true => set_int(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)?,
        false => set_int(socket.as_fd(), libc::IPPROTO_IP, libc::IP_TOS, class)?,
    }
    for piece in datagram.pieces() {
        socket.send_to(&udp(from, to, piece), &SocketAddr::new(to.ip(), 0).into())?;
    }
    Ok(())
}

/// The sinks for sockets that are connected to one: nothing that comes there is kept.
#[derive(Debug)]
pub(crate) struct Sinks {
    v4: UdpSocket,
    /// A host may have no IPv6.
    v6: Option<UdpSocket>,
}

impl Sinks {
    /// # Errors
    /// As the kernel says.
    pub(crate) fn new() -> io::Result<Self> {
        let v6 = deaf((Ipv6Addr::LOCALHOST, 0).into()).ok();
        Ok(Self { v4: deaf((Ipv4Addr::LOCALHOST, 0).into())?.into(), v6: v6.map(Into::into) })
    }

    /// Their ports, IPv4 and IPv6.
    pub(crate) fn ports(&self) -> [u16; 2] {
        let port = |socket: &UdpSocket| socket.local_addr().map_or(0, |addr| addr.port());
        [port(&self.v4), self.v6.as_ref().map_or(0, port)]
    }
}

/// A socket of our own towards a peer, for what cannot go back to its program's.
///
/// # Errors
/// As the kernel says.
pub(crate) fn towards(peer: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match peer.is_ipv6() {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A socket from which answers come to a program as if its peer had sent them.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN; `EADDRINUSE` when a program of this host uses the peer's address.
pub(crate) fn answers(peer: SocketAddr, program: SocketAddr) -> io::Result<UdpSocket> {
    let socket = deaf(peer)?;
    socket.connect(&program.into())?;
    Ok(socket.into())
}

/// A socket that only sends, from an address that need not be of this host.
fn deaf(from: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(from), Type::DGRAM, Some(Protocol::UDP))?;
    // `ret 0`: none of what comes.
    socket.attach_filter(&[SockFilter::new(0x06, 0, 0, 0)])?;
    match from.is_ipv6() {
        true => set_int(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)?,
        false => set_int(socket.as_fd(), libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)?,
    }
    // Other flows to the same peer have one of their own.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&from.into())?;
    Ok(socket)
}
