//! Making the socket of a local address.

use crate::any_io::Io;
use crate::inherited::Inherited;
use crate::interfaces::Interface;
use crate::open::{Carrier, bind_device, enlarge_buffers, new_socket, open_socket};
use crate::path_io::UdpIo;
use crate::raw_io::RawIo;
use crate::udp_holder;
use manypath_engine::LocalAddress;
use socket2::Socket;
use std::io;
use std::net::SocketAddr;

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
    pub(crate) io: Io,
    pub(crate) address: LocalAddress,
    pub(crate) device: Option<String>,
    pub(crate) device_error: Option<String>,
}

/// Opens one socket per binding, all with the same port.
pub(crate) fn open_all(
    bindings: &[&LocalBinding],
    port: UdpPort,
    inherited: &mut Inherited,
) -> io::Result<Vec<Opened>> {
    match port {
        UdpPort::Fixed(port) => {
            bindings.iter().map(|binding| open(binding, port, inherited)).collect()
        }
        UdpPort::Ephemeral => open_with_free_port(bindings),
    }
}

fn open_with_port(bindings: &[&LocalBinding], port: u16) -> io::Result<Vec<Opened>> {
    bindings.iter().map(|binding| open(binding, port, &mut Inherited::default())).collect()
}

/// The kernel chooses a port that is free on the first address; on the others it may be taken.
fn open_with_free_port(bindings: &[&LocalBinding]) -> io::Result<Vec<Opened>> {
    let Some((first, others)) = bindings.split_first() else { return Ok(Vec::new()) };
    let mut busy = None;
    for _ in 0..PORT_ATTEMPTS {
        let mut all = open_with_port(&[first], 0)?;
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

fn open(binding: &LocalBinding, port: u16, inherited: &mut Inherited) -> io::Result<Opened> {
    let mut addr = binding.addr;
    addr.set_port(port);
    check(addr)?;
    let device = binding.device.as_deref();
    let (socket, device_error) = match inherited.take(addr) {
        Some(socket) => {
            // Bound once, it cannot be again without privilege.
            let bound = socket.device().ok().flatten();
            let device = device.filter(|device| bound.as_deref() != Some(device.as_bytes()));
            let device_error = device.and_then(|device| bind_device(&socket, device));
            enlarge_buffers(&socket);
            (socket, device_error)
        }
        None => open_own(addr, device, inherited).map_err(|error| explain(&error, addr))?,
    };
    let io = UdpIo::new(socket.into()).map_err(|error| explain(&error, addr))?;
    addr.set_port(io.socket().local_addr()?.port());
    Ok(Opened::new(binding, addr, Io::Udp(io), device_error))
}

fn open_own(
    addr: SocketAddr,
    device: Option<&str>,
    inherited: &Inherited,
) -> io::Result<(Socket, Option<String>)> {
    match &inherited.seat {
        Some(seat) => seat.open(addr, device),
        None => open_socket(addr, device, Carrier::Udp),
    }
}

/// Whether this process may use SCTP without encapsulation.
///
/// # Errors
/// Why not.
pub fn check_native() -> io::Result<()> {
    let any = SocketAddr::from(([0; 4], 0));
    new_socket(any, Carrier::Ip).map(drop).map_err(|error| explain_native(&error, any))
}

/// Opens a socket for SCTP without encapsulation. Its address has port 0.
pub(crate) fn open_native(binding: &LocalBinding) -> io::Result<Opened> {
    let mut addr = binding.addr;
    addr.set_port(0);
    check(addr)?;
    let explain = |error| explain_native(&error, addr);
    let (socket, device_error) =
        open_socket(addr, binding.device.as_deref(), Carrier::Ip).map_err(explain)?;
    let io = RawIo::new(socket.into()).map_err(explain)?;
    Ok(Opened::new(binding, addr, Io::Raw(io), device_error))
}

impl Opened {
    fn new(binding: &LocalBinding, addr: SocketAddr, io: Io, device_error: Option<String>) -> Self {
        let LocalBinding { prefix_len, mtu, .. } = *binding;
        let interface = binding.device.as_deref().map_or(0, crate::interfaces::number_of);
        let address = LocalAddress { addr, prefix_len, interface, mtu };
        let device = binding.device.clone().filter(|_| device_error.is_none());
        Self { io, address, device, device_error }
    }
}

fn check(addr: SocketAddr) -> io::Result<()> {
    if !addr.ip().is_unspecified() && !addr.ip().is_multicast() {
        return Ok(());
    }
    let text =
        format!("{} cannot be used as a path: it is not an address of one interface", addr.ip());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

fn holder_of(addr: SocketAddr) -> String {
    let holders = udp_holder::udp_holders(addr.port(), Some(addr.ip()));
    let unknown = || {
        let port = addr.port();
        format!(
            "another program, perhaps another manypath (`ss -lunp sport = :{port}` shows which)"
        )
    };
    holders.first().map_or_else(unknown, ToString::to_string)
}

fn explain_native(error: &io::Error, addr: SocketAddr) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "SCTP without UDP encapsulation needs the capability CAP_NET_RAW".to_owned()
        }
        Some(libc::EADDRNOTAVAIL) => format!("{} is not an address of this host", addr.ip()),
        _ => format!("cannot open a raw socket for SCTP on {}: {error}", addr.ip()),
    };
    io::Error::new(error.kind(), text)
}

/// Keeps the kind of the error and says what it means here and what can be done.
fn explain(error: &io::Error, addr: SocketAddr) -> io::Error {
    let (ip, port) = (addr.ip(), addr.port());
    let text = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => format!(
            "UDP port {port} of {ip} is in use by {}: stop that one or choose another port",
            holder_of(addr)
        ),
        Some(libc::EADDRNOTAVAIL) => format!("{ip} is not an address of this host"),
        Some(libc::EACCES) => {
            format!(
                "UDP port {port} of {ip} needs root or CAP_NET_BIND_SERVICE (ports above 1023 do not)"
            )
        }
        _ => format!("cannot open UDP port {port} of {ip}: {error}"),
    };
    io::Error::new(error.kind(), text)
}
