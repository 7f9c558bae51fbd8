//! Making the socket of a local address.

use crate::interfaces::Interface;
use crate::path_io::UdpIo;
use crate::socket_option;
use manypath_engine::LocalAddress;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Receive buffer asked for, in bytes: 80 ms at 1 Gbit/s with the kernel's bookkeeping counted in.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// Send buffer asked for, in bytes: what may wait in the queue of the interface. More would only
/// lengthen that queue.
const SEND_BUFFER: libc::c_int = 2 << 20;
/// Ephemeral ports tried until one is free on every address.
const PORT_ATTEMPTS: usize = 64;

/// A local address to be used for paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalBinding {
    /// Address and UDP port; port 0 leaves the choice of the port to the driver.
    pub addr: SocketAddr,
    /// Interface through which every packet of the address shall leave, such as `eth0`; without
    /// one the routing table decides.
    pub device: Option<String>,
    /// Length of the network prefix.
    pub prefix_len: u8,
    /// Largest IP packet on the interface, in bytes.
    pub mtu: u16,
}

impl From<&Interface> for LocalBinding {
    /// The address bound to its interface, port not chosen.
    fn from(interface: &Interface) -> Self {
        Self {
            addr: interface.socket_addr(0),
            device: Some(interface.name.clone()),
            prefix_len: interface.prefix_len,
            mtu: u16::try_from(interface.mtu).unwrap_or(u16::MAX),
        }
    }
}

/// The UDP port of all local addresses of a driver (RFC 6951 section 5.1: a single one).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpPort {
    /// Any port that is free on every address.
    Ephemeral,
    /// This one.
    Fixed(u16),
}

/// A bound socket, and why it is not bound to its interface if it is not.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) io: UdpIo,
    pub(crate) address: LocalAddress,
    pub(crate) device: Option<String>,
    pub(crate) device_error: Option<String>,
}

/// Opens one socket per binding, all with the same port.
pub(crate) fn open_all(bindings: &[&LocalBinding], port: UdpPort) -> io::Result<Vec<Opened>> {
    match port {
        UdpPort::Fixed(port) => open_with_port(bindings, port),
        UdpPort::Ephemeral => open_with_free_port(bindings),
    }
}

fn open_with_port(bindings: &[&LocalBinding], port: u16) -> io::Result<Vec<Opened>> {
    bindings.iter().map(|binding| open(binding, port)).collect()
}

/// The kernel chooses a port that is free on the first address; on the others it may be taken.
fn open_with_free_port(bindings: &[&LocalBinding]) -> io::Result<Vec<Opened>> {
    let Some((first, others)) = bindings.split_first() else { return Ok(Vec::new()) };
    let mut busy = None;
    for _ in 0..PORT_ATTEMPTS {
        let mut all = vec![open(first, 0)?];
        match open_with_port(others, all[0].address.addr.port()) {
            Ok(rest) => {
                all.extend(rest);
                return Ok(all);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => busy = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(busy.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

fn open(binding: &LocalBinding, port: u16) -> io::Result<Opened> {
    let mut addr = binding.addr;
    addr.set_port(port);
    if addr.ip().is_unspecified() || addr.ip().is_multicast() {
        let text = format!(
            "{} cannot be used as a path: it is not an address of one interface",
            addr.ip()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let (io, device_error) =
        open_socket(addr, binding.device.as_deref()).map_err(|error| explain(&error, addr))?;
    addr.set_port(io.socket().local_addr()?.port());
    Ok(Opened {
        io,
        address: LocalAddress {
            addr,
            prefix_len: binding.prefix_len,
            interface: binding.device.as_deref().map_or(0, crate::interfaces::number_of),
            mtu: binding.mtu,
        },
        device: binding.device.clone().filter(|_| device_error.is_none()),
        device_error,
    })
}

fn open_socket(addr: SocketAddr, device: Option<&str>) -> io::Result<(UdpIo, Option<String>)> {
    let socket = new_socket(addr)?;
    let device_error = device.and_then(|device| bind_device(&socket, device));
    enlarge_buffers(&socket);
    socket.bind(&SockAddr::from(addr))?;
    Ok((UdpIo::new(socket.into())?, device_error))
}

fn new_socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Unprivileged processes may bind a socket to an interface since Linux 5.7, once.
fn bind_device(socket: &Socket, device: &str) -> Option<String> {
    let error = socket.bind_device(Some(device.as_bytes())).err()?;
    Some(format!("cannot bind to interface {device}: {error}"))
}

/// As large as asked for where we are privileged, else as large as the system's limits allow
/// (net.core.rmem_max, net.core.wmem_max). A smaller buffer is slower, not wrong: the sizes that
/// came of it are in the socket's status.
fn enlarge_buffers(socket: &Socket) {
    let force = |name, value| socket_option::set(socket, libc::SOL_SOCKET, name, value);
    if force(libc::SO_RCVBUFFORCE, RECEIVE_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER as usize);
    }
    if force(libc::SO_SNDBUFFORCE, SEND_BUFFER).is_err() {
        let _ = socket.set_send_buffer_size(SEND_BUFFER as usize);
    }
}

/// Keeps the kind of the error and says what it means here and what can be done.
fn explain(error: &io::Error, addr: SocketAddr) -> io::Error {
    let (ip, port) = (addr.ip(), addr.port());
    let text = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => format!(
            "UDP port {port} of {ip} is in use by another program, perhaps another manypath \
             (`ss -lunp sport = :{port}` shows which): stop that one or choose another port"
        ),
        Some(libc::EADDRNOTAVAIL) => format!("{ip} is not an address of this host"),
        Some(libc::EACCES) => {
            format!("UDP port {port} of {ip} needs privileges: choose one above 1023")
        }
        _ => format!("cannot open UDP port {port} of {ip}: {error}"),
    };
    io::Error::new(error.kind(), text)
}
