//! Datagrams that the kernel hands to this host although they are addressed to others (TPROXY), and answers sent from the
//! addresses of those.
//!
//! Answers leave by a raw socket: a UDP socket for each destination would have to be bound to its port, and ports below
//! 1024 need a privilege that the process has given up by then. The raw socket can only send (protocol 255), and only at
//! its interface.

use crate::{ancillary, ip_packet as packet, sockaddr, socket_option};
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// IPPROTO_RAW: what is written has its IP header, nothing is received.
const SEND_ONLY: i32 = 255;
/// Bytes that the kernel keeps for datagrams nobody has read yet, as far as the host's limits let.
const KERNEL_BUFFER: usize = 1 << 20;
/// What every link of IPv6 takes (RFC 8200 section 5), in bytes of IP packet; for IPv4 nearly every one does.
const MIN_MTU: usize = 1280;

/// A socket at one interface that receives datagrams addressed to others.
#[derive(Debug)]
pub struct TransparentUdp {
    socket: UdpSocket,
    answers: Socket,
    /// Identifies the fragments of answers.
    identification: AtomicU32,
}

/// A datagram that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intercepted {
    /// Its length in bytes.
    pub length: usize,
    /// Who has sent it.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
}

impl TransparentUdp {
    /// Opens one for what comes in at `interface`, at a port of an unspecified address.
    ///
    /// # Errors
    /// Those of socket(2), setsockopt(2) and bind(2); without CAP_NET_RAW it is `PermissionDenied`.
    pub fn open(interface: &str, at: SocketAddr) -> io::Result<Self> {
        let socket =
            Socket::new(Domain::for_address(at), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        if at.is_ipv6() {
            socket.set_only_v6(true)?;
            socket.set_ip_transparent_v6(true)?;
            socket_option::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR, 1)?;
        } else {
            socket.set_ip_transparent_v4(true)?;
            socket_option::set(&socket, libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR, 1)?;
        }
        // Hosts elsewhere must not find the port.
        socket.bind_device(Some(interface.as_bytes()))?;
        socket.bind(&SockAddr::from(at))?;
        // It only improves matters.
        let _ = socket.set_recv_buffer_size(KERNEL_BUFFER);
        let kind = Type::RAW.nonblocking();
        let answers = Socket::new(Domain::for_address(at), kind, Some(Protocol::from(SEND_ONLY)))?;
        answers.bind_device(Some(interface.as_bytes()))?;
        let socket = UdpSocket::from_std(socket.into());
        Ok(Self { socket, answers, identification: AtomicU32::new(1) })
    }

    /// Its address; what counts is the port.
    ///
    /// # Errors
    /// Those of getsockname(2).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Has `registry` report datagrams under `token`.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE)
    }

    /// Receives one datagram into `room`.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, `InvalidData` if the kernel does not tell its ends, and those of recvmsg(2).
    pub fn receive(&self, room: &mut [u8]) -> io::Result<Intercepted> {
        receive(self.socket.as_raw_fd(), room)
    }

    /// Sends `payload` to `client` from the address `from`, of the same family, which need not be one of this host.
    ///
    /// # Errors
    /// `InvalidInput` for ends of two families or too much payload, and those of sendto(2).
    pub fn answer(&self, from: SocketAddr, client: SocketAddr, payload: &[u8]) -> io::Result<()> {
        let datagram = packet::udp(from, client, payload).ok_or(io::ErrorKind::InvalidInput)?;
        let whole = packet::ip(from.ip(), client.ip(), packet::UDP, &datagram);
        match self.send(client.ip(), &whole.ok_or(io::ErrorKind::InvalidInput)?) {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                let number = self.identification.fetch_add(1, Ordering::Relaxed);
                let ends = (from.ip(), client.ip());
                let fragments = packet::fragments(ends, packet::UDP, &datagram, number, MIN_MTU);
                fragments.iter().try_for_each(|one| self.send(client.ip(), one))
            }
            result => result,
        }
    }

    /// Tells `client` in the name of `destination` that nobody listens at its port: ICMP port unreachable (RFC 792,
    /// RFC 4443 section 3.1).
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn answer_unreachable(
        &self,
        destination: SocketAddr,
        client: SocketAddr,
    ) -> io::Result<()> {
        let message = packet::port_unreachable(destination, client);
        self.send(client.ip(), &message.ok_or(io::ErrorKind::InvalidInput)?)
    }

    fn send(&self, to: IpAddr, packet: &[u8]) -> io::Result<()> {
        let to = SockAddr::from(SocketAddr::new(to, 0));
        SockRef::from(&self.answers).send_to(packet, &to).map(drop)
    }
}

fn receive(socket: RawFd, room: &mut [u8]) -> io::Result<Intercepted> {
    let got = ancillary::receive(socket, room, 0, original_destination)?;
    let (source, destination) = got.name.zip(got.found).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Intercepted { length: got.length, source, destination })
}

fn original_destination(kind: ancillary::Kind, data: &[u8]) -> Option<SocketAddr> {
    let size = match kind {
        (libc::IPPROTO_IP, libc::IP_ORIGDSTADDR) => size_of::<libc::sockaddr_in>(),
        (libc::IPPROTO_IPV6, libc::IPV6_ORIGDSTADDR) => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    sockaddr::parse(data.get(..size)?)
}
