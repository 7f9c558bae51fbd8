//! Echo requests of ICMP for others. One raw socket of each family serves all of them. Sockets for pings alone
//! (`net.ipv4.ping_group_range`) would need no privilege, but each has one identifier, so there would be one for each
//! sequence, and errors come by its error queue without the router's message.

use crate::ip_packet;
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Options of raw sockets that filter by type, a set bit keeping a type out (linux/icmp.h, linux/icmpv6.h).
const SOL_RAW: libc::c_int = 255;
const ICMP_FILTER: libc::c_int = 1;
const ICMPV6_FILTER: libc::c_int = 1;
/// Echo reply, destination unreachable, time exceeded.
const TYPES_V4: [u8; 3] = [0, 3, 11];
/// Destination unreachable, packet too big, time exceeded, echo reply.
const TYPES_V6: [u8; 4] = [1, 2, 3, 129];

/// A raw socket that sends echo requests, and receives what answers them.
#[derive(Debug)]
pub struct PingSocket {
    /// It is none of UDP, but what can be done with one can be done with it.
    socket: UdpSocket,
    is_ipv6: bool,
}

impl PingSocket {
    /// Opens one.
    ///
    /// # Errors
    /// Those of socket(2) and setsockopt(2); without CAP_NET_RAW it is `PermissionDenied`.
    pub fn open(is_ipv6: bool) -> io::Result<Self> {
        let (domain, protocol) = match is_ipv6 {
            true => (Domain::IPV6, Protocol::ICMPV6),
            false => (Domain::IPV4, Protocol::ICMPV4),
        };
        let socket = Socket::new(domain, Type::RAW.nonblocking(), Some(protocol))?;
        if is_ipv6 {
            let mut closed = [u32::MAX; 8];
            TYPES_V6.iter().for_each(|kind| closed[usize::from(kind / 32)] &= !(1 << (kind % 32)));
            filter(&socket, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &closed)?;
        } else {
            let closed = TYPES_V4.iter().fold(u32::MAX, |closed, kind| closed & !(1 << kind));
            filter(&socket, SOL_RAW, ICMP_FILTER, &[closed])?;
        }
        Ok(Self { socket: UdpSocket::from_std(socket.into()), is_ipv6 })
    }

    /// Whether it is one of IPv4.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        !self.is_ipv6
    }

    /// Has `registry` report messages under `token`.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE)
    }

    /// Sends an ICMP message, whose checksum is computed here, that may pass `ttl` routers.
    ///
    /// # Errors
    /// Those of setsockopt(2) and sendto(2), `InvalidInput` for one that is too short.
    pub fn send(&self, to: IpAddr, ttl: u8, message: &mut [u8]) -> io::Result<()> {
        let socket = SockRef::from(&self.socket);
        if self.is_ipv6 {
            // The kernel computes the checksum.
            socket.set_unicast_hops_v6(ttl.into())?;
        } else {
            ip_packet::put_icmp_checksum(0, message).ok_or(io::ErrorKind::InvalidInput)?;
            socket.set_ttl_v4(ttl.into())?;
        }
        socket.send_to(message, &SockAddr::from(SocketAddr::new(to, 0))).map(drop)
    }

    /// Receives a message into `room`: its length, who sent it, and the routers that it might still have passed, if the
    /// kernel tells. Its IP header is left out.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, `InvalidData` for one that is damaged, and those of recvfrom(2).
    pub fn receive(&self, room: &mut [u8]) -> io::Result<(usize, IpAddr, Option<u8>)> {
        let (length, from) = self.socket.recv_from(room)?;
        if self.is_ipv6 {
            return Ok((length, from.ip(), None));
        }
        let header = usize::from(room.first().copied().unwrap_or_default() & 0xf) * 4;
        let ttl = room.get(8).copied();
        let message = header.min(length)..length;
        // The kernel only looks at it when it has handed out the copies for raw sockets.
        if ip_packet::checksum(0, room.get(message.clone()).unwrap_or_default()) != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let length = message.len();
        room.copy_within(message, 0);
        Ok((length, from.ip(), ttl))
    }
}

fn filter(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    closed: &[u32],
) -> io::Result<()> {
    let length = size_of_val(closed) as libc::socklen_t;
    // SAFETY: the words are live, and as many bytes as the length says.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, closed.as_ptr().cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
