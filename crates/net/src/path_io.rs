//! The seam between a path's socket and the kernel; tests put a scripted kernel behind it.

use crate::error_queue::{self, ErrorReport};
use crate::socket_option;
use manypath_engine::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// The packet that every IPv6 link takes.
pub(crate) const IPV6_LEAST_MTU: libc::c_int = 1280;

/// What a socket can do.
pub(crate) trait PathIo {
    /// Sends `bytes`: one packet, or several of `segment_size` bytes each, of which the last may be
    /// shorter, for the kernel to segment. All are sent with the bits `ecn`, or none is sent.
    fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()>;

    /// Fills buffers with datagrams and tells how many buffers were filled.
    fn receive(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize>;

    /// Sends one packet that IP may fragment, here or further on. It is not ECN-capable.
    fn send_in_fragments(&mut self, to: SocketAddr, bytes: &[u8]) -> io::Result<()>;

    /// Takes the oldest report off the error queue.
    fn next_error(&mut self) -> io::Result<Option<ErrorReport>>;

    /// Whether the kernel keeps reports about packets of this socket. If not, it throws away those that it has, and no
    /// call fails by them.
    fn hear_reports(&mut self, heard: bool) -> io::Result<()>;

    /// Packets that the kernel can segment in one call; 1 if it cannot.
    fn offload_segments(&self) -> usize;

    /// Forgets what was concluded from failures of runs.
    fn forget_failures(&mut self);

    /// From now on packets larger than a link are fragmented by IP, here or further on.
    fn allow_fragmentation(&mut self) -> io::Result<()>;
}

/// A UDP socket bound to one local address.
#[derive(Debug)]
pub(crate) struct UdpIo {
    socket: UdpSocket,
    state: UdpSocketState,
    fragments: bool,
}

impl UdpIo {
    /// Prepares a bound socket: non-blocking, never fragmenting, with GRO and the error queue on.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = new_state(&socket)?;
        state.enable_transport_errors((&socket).into())?;
        Ok(Self { socket, state, fragments: false })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }
}

/// Sets the options of a socket. Not the addresses that packets came to, which quinn-udp asks for: each socket is bound
/// to its own, and there is not room for them beside ECN bits, time stamp and the size of packets that were put together.
fn new_state(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(socket.into())?;
    let (level, name) = match socket.local_addr()?.is_ipv6() {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
    };
    socket_option::set(socket, level, name, 0)?;
    Ok(state)
}

/// Allows fragmentation on a socket, over IPv6 into packets of `ipv6_size` bytes if that is not 0; or
/// forbids it as quinn-udp does: the DF bit is set, and the kernel's own idea of the path MTU does not
/// count.
pub(crate) fn allow_fragments(
    socket: &UdpSocket,
    allowed: bool,
    ipv6_size: libc::c_int,
) -> io::Result<()> {
    let set = |level, name, value| socket_option::set(socket, level, name, value);
    if socket.local_addr()?.is_ipv6() {
        let mode = if allowed { libc::IPV6_PMTUDISC_DONT } else { libc::IPV6_PMTUDISC_PROBE };
        set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, libc::c_int::from(!allowed))?;
        set(libc::IPPROTO_IPV6, libc::IPV6_MTU, ipv6_size)?;
        set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, mode)
    } else {
        let mode = if allowed { libc::IP_PMTUDISC_DONT } else { libc::IP_PMTUDISC_PROBE };
        set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, mode)
    }
}

/// See [`PathIo::hear_reports`]. The error of the last report is taken off the socket, too.
pub(crate) fn hear_reports(socket: &UdpSocket, heard: bool) -> io::Result<()> {
    let (level, name) = match socket.local_addr()?.is_ipv6() {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        false => (libc::IPPROTO_IP, libc::IP_RECVERR),
    };
    socket_option::set(socket, level, name, libc::c_int::from(heard))?;
    socket.take_error().map(drop)
}

impl PathIo for UdpIo {
    fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(ecn.bits()),
            contents: bytes,
            segment_size: (bytes.len() > segment_size).then_some(segment_size),
            src_ip: None,
        };
        self.state.try_send((&self.socket).into(), &transmit)
    }

    /// Over IPv6 only the sender fragments, and no router may tell it how small the pieces must be: they
    /// are as small as for any link.
    fn send_in_fragments(&mut self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        allow_fragments(&self.socket, true, IPV6_LEAST_MTU)?;
        let sent = self.send(to, bytes, bytes.len(), Ecn::NotEct);
        allow_fragments(&self.socket, self.fragments, 0)?;
        sent
    }

    fn receive(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.state.recv((&self.socket).into(), buffers, meta)
    }

    fn next_error(&mut self) -> io::Result<Option<ErrorReport>> {
        error_queue::receive(self.socket.as_raw_fd())
    }

    fn hear_reports(&mut self, heard: bool) -> io::Result<()> {
        hear_reports(&self.socket, heard)
    }

    fn offload_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// quinn-udp takes any EIO or EINVAL as proof that the socket can neither segment nor set the
    /// IPv4 ECN bits, for ever. [`Offload`](crate::offload::Offload) judges segmentation; a new
    /// state gives the ECN bits another chance. If it cannot be made, the old one goes on working.
    /// Making it forbids fragmentation.
    fn forget_failures(&mut self) {
        if let Ok(state) = new_state(&self.socket) {
            self.state = state;
        }
        if self.fragments {
            let _ = self.allow_fragmentation();
        }
    }

    fn allow_fragmentation(&mut self) -> io::Result<()> {
        self.fragments = true;
        allow_fragments(&self.socket, true, 0)
    }
}
