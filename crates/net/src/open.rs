//! Opening sockets at an address: bound to its interface, and with large buffers, where that is possible.

use crate::raw_io::IPPROTO_SCTP;
use crate::socket_option;
use crate::steering;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

/// Receive buffer asked for, in bytes: 80 ms at 1 Gbit/s with the kernel's bookkeeping counted in.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// Send buffer asked for, in bytes: what may wait in the queue of the interface. More would only
/// lengthen that queue.
const SEND_BUFFER: libc::c_int = 2 << 20;

/// Opens `count` sockets at one address, among which the kernel chooses by [`steering`]. The first is bound before it
/// shares the address, so that a program that has the port already is noticed.
pub(crate) fn open_group(
    addr: SocketAddr,
    device: Option<&str>,
    count: usize,
) -> io::Result<(Vec<Socket>, Option<String>)> {
    let (first, device_error) = open_socket(addr, device, Carrier::Udp)?;
    first.set_reuse_port(true)?;
    let addr = first.local_addr()?.as_socket().unwrap_or(addr);
    let mut group = vec![first];
    for _ in 1..count {
        let socket = new_socket(addr, Carrier::Udp)?;
        socket.set_reuse_port(true)?;
        // What keeps one from its interface keeps all from it, and is in `device_error`.
        let _ = device.and_then(|device| bind_device(&socket, device));
        enlarge_buffers(&socket);
        socket.bind(&SockAddr::from(addr))?;
        group.push(socket);
    }
    steering::attach(&group[0], count)?;
    Ok((group, device_error))
}

/// What carries SCTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    Udp,
    Ip,
}

pub(crate) fn open_socket(
    addr: SocketAddr,
    device: Option<&str>,
    carrier: Carrier,
) -> io::Result<(Socket, Option<String>)> {
    let socket = new_socket(addr, carrier)?;
    let device_error = device.and_then(|device| bind_device(&socket, device));
    enlarge_buffers(&socket);
    socket.bind(&SockAddr::from(addr))?;
    Ok((socket, device_error))
}

pub(crate) fn new_socket(addr: SocketAddr, carrier: Carrier) -> io::Result<Socket> {
    let (kind, protocol) = match carrier {
        Carrier::Udp => (Type::DGRAM, Protocol::UDP),
        Carrier::Ip => (Type::RAW, Protocol::from(IPPROTO_SCTP)),
    };
    let socket = Socket::new(Domain::for_address(addr), kind, Some(protocol))?;
    // A raw socket is of one family anyway.
    if addr.is_ipv6() && carrier == Carrier::Udp {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Unprivileged processes may bind a socket to an interface since Linux 5.7, once.
pub(crate) fn bind_device(socket: &Socket, device: &str) -> Option<String> {
    let error = socket.bind_device(Some(device.as_bytes())).err()?;
    Some(format!("cannot bind to interface {device}: {error}"))
}

/// As large as asked for where we are privileged, else as large as the system's limits allow
/// (net.core.rmem_max, net.core.wmem_max). A smaller buffer is slower, not wrong: the sizes that
/// came of it are in the socket's status.
pub(crate) fn enlarge_buffers(socket: &Socket) {
    let helped = || HELPER.get().is_some_and(|helper| helper(socket.as_fd()));
    if force_buffers(socket).is_err() && !helped() {
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER as usize);
        let _ = socket.set_send_buffer_size(SEND_BUFFER as usize);
    }
}

/// Gives a socket the buffers of a path, whatever the system's limits are.
///
/// # Errors
/// Without CAP_NET_ADMIN.
pub fn force_buffers(socket: &impl AsFd) -> io::Result<()> {
    let force = |name, value| socket_option::set(&socket.as_fd(), libc::SOL_SOCKET, name, value);
    force(libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)?;
    force(libc::SO_SNDBUFFORCE, SEND_BUFFER)
}

/// Enlarges the buffers of a socket; whether it could.
pub type BufferHelper = fn(BorrowedFd<'_>) -> bool;

static HELPER: OnceLock<BufferHelper> = OnceLock::new();

/// Lets another process enlarge buffers for this one, which is about to lose the right to. Only the first
/// call counts.
pub fn enlarge_buffers_through(helper: BufferHelper) {
    let _ = HELPER.set(helper);
}
