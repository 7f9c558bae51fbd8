//! Sockets to ask with, outside of any association: what leaves, what comes back, and what the kernel and the
//! network say about it.

use crate::any_io::Io;
use crate::bind::{self, LocalBinding, UdpPort};
use crate::error_queue::{ErrorKind, ErrorReport};
use crate::inherited::Inherited;
use crate::path_io::PathIo;
use crate::receive::ReceiveBuffers;
use manypath_engine::Ecn;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

/// Datagrams and reports taken in one go.
const TURN: usize = 256;

/// UDP sockets as the driver opens them, one per local address, that send what they are given. Nothing
/// that they send is fragmented.
#[derive(Debug, Default)]
pub struct Probes {
    sockets: Vec<Probe>,
    buffers: ReceiveBuffers,
}

#[derive(Debug)]
struct Probe {
    io: Io,
    local: SocketAddr,
    device_error: Option<String>,
    reports: Vec<ProbeReport>,
}

/// What the network, or the kernel, has said about a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeReport {
    /// Where the packet was going.
    pub remote: SocketAddr,
    /// What was said.
    pub kind: ReportKind,
    /// The Initiate Tag of the INIT that is quoted, if as much is quoted.
    pub init_tag: Option<u32>,
}

/// What is said about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportKind {
    /// The host is there, and nobody listens at the port.
    PortClosed,
    /// There is no way to the host, or it is forbidden.
    Unreachable,
    /// A link takes no packet of this size, but so many bytes.
    TooBig(u16),
    /// Something else.
    Other,
}

impl Probes {
    /// Opens a socket at an address, at any port that is free. Returns its number, from 0.
    ///
    /// # Errors
    /// As the driver's binding: the text names the address.
    pub fn open(&mut self, binding: &LocalBinding) -> io::Result<usize> {
        let mut opened = bind::open_all(&[binding], UdpPort::Ephemeral, &mut Inherited::default())?;
        let opened = opened.pop().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let (io, local, device_error) = (opened.io, opened.address.addr, opened.device_error);
        self.sockets.push(Probe { io, local, device_error, reports: Vec::new() });
        Ok(self.sockets.len() - 1)
    }

    /// The address and port of a socket.
    pub fn local(&self, socket: usize) -> SocketAddr {
        self.sockets[socket].local
    }

    /// Why a socket is not bound to its interface: then the routing table decides where its packets leave.
    pub fn device_error(&self, socket: usize) -> Option<&str> {
        self.sockets[socket].device_error.as_deref()
    }

    /// Bytes of a socket's receive buffer as the kernel accounts them; 0 if it does not say.
    pub fn receive_buffer(&self, socket: usize) -> usize {
        SockRef::from(self.sockets[socket].io.socket()).recv_buffer_size().unwrap_or(0)
    }

    /// Whether the kernel says that it can cut a run of packets into packets (UDP_SEGMENT).
    pub fn can_segment(&self, socket: usize) -> bool {
        self.sockets[socket].io.offload_segments() > 1
    }

    /// The descriptor of a socket, to be polled for reading.
    pub fn descriptor(&self, socket: usize) -> RawFd {
        self.sockets[socket].io.socket().as_raw_fd()
    }

    /// Sends `bytes` as packets of `size` bytes each, of which the last may be shorter, with the bits `ecn`.
    ///
    /// # Errors
    /// What the kernel says of this call; what it says of earlier packets goes to [`Self::reports`].
    pub fn send(
        &mut self,
        socket: usize,
        remote: SocketAddr,
        (bytes, size): (&[u8], usize),
        ecn: Ecn,
    ) -> io::Result<()> {
        let probe = &mut self.sockets[socket];
        match probe.io.send(remote, bytes, size, ecn) {
            // An ICMP message about an earlier packet makes the next call fail.
            Err(_) if probe.read_reports() > 0 => probe.io.send(remote, bytes, size, ecn),
            result => result,
        }
    }

    /// Hands every packet that has come to a socket to `each`, with its sender.
    pub fn receive(&mut self, socket: usize, mut each: impl FnMut(SocketAddr, &[u8])) {
        let probe = &mut self.sockets[socket];
        for _ in 0..TURN {
            match self.buffers.fill(&mut probe.io) {
                Ok(count) => {
                    for datagram in self.buffers.datagrams(count) {
                        datagram.packets().for_each(|packet| each(datagram.from, packet));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if probe.read_reports() > 0 => {}
                Err(_) => return,
            }
        }
    }

    /// What was said about packets of a socket since the last call.
    pub fn reports(&mut self, socket: usize) -> Vec<ProbeReport> {
        let probe = &mut self.sockets[socket];
        probe.read_reports();
        std::mem::take(&mut probe.reports)
    }
}

impl Probe {
    /// Reads the error queue; returns how many reports there were.
    fn read_reports(&mut self) -> usize {
        let before = self.reports.len();
        for _ in 0..TURN {
            let Ok(Some(report)) = self.io.next_error() else { break };
            self.reports.extend(understood(&report));
        }
        self.reports.len() - before
    }
}

fn understood(report: &ErrorReport) -> Option<ProbeReport> {
    let kind = match report.kind {
        ErrorKind::PortClosed => ReportKind::PortClosed,
        ErrorKind::Unreachable | ErrorKind::NoProtocol => ReportKind::Unreachable,
        ErrorKind::TooBig => ReportKind::TooBig(report.mtu),
        ErrorKind::Other => ReportKind::Other,
        // The call that has failed says so.
        ErrorKind::LocalTooBig | ErrorKind::Local => return None,
    };
    // Common header, chunk header, Initiate Tag (RFC 9260 section 3.3.2).
    let tag = report.quote.bytes().get(16..20).and_then(|bytes| bytes.try_into().ok());
    Some(ProbeReport { remote: report.destination?, kind, init_tag: tag.map(u32::from_be_bytes) })
}
