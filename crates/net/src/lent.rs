//! A socket that two processes hold: the successor of a server reads it, and passes on what concerns associations of
//! the predecessor, which sends by itself.
//!
//! ```text
//! network ─▶ UDP socket ─▶ successor ── strays, ICMP reports ─▶ line ─▶ predecessor ─▶ UDP socket ─▶ network
//! ```
//!
//! The line is a pair of Unix packet sockets for each UDP socket. A message is all that two versions of manypath must
//! agree on, so it changes only by new kinds; those that a reader does not know it skips:
//!
//! | bytes | datagram | ICMP report |
//! |---|---|---|
//! | 0 | 1 | 2 |
//! | 1 | ECN bits | what kind, as below |
//! | 2, 3 | port of the sender, big-endian | port of the destination |
//! | 4 to 19 | its IPv6 address, or its IPv4 address as one (`::ffff:0:0/96`) | likewise |
//! | 20 to 23 | size of every packet but the last, little-endian | the MTU that it tells |
//! | 24 to 31 | when it came, nanoseconds of the system's clock; 0: unknown | 0 |
//! | from 32 | the packets | what it quotes, 20 bytes at most |

use crate::error_queue::{ErrorKind, ErrorReport, Quote};
use crate::path_io::{PathIo, UdpIo};
use crate::receive::Datagram;
use manypath_engine::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta};
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

const HEADER: usize = 32;
const DATAGRAM: u8 = 1;
const REPORT: u8 = 2;
/// Bytes that may be on their way in a line, where the system allows it.
const LINE_BUFFER: usize = 4 << 20;

/// Kinds of reports by their number.
const KINDS: [ErrorKind; 5] = [
    ErrorKind::Unreachable,
    ErrorKind::NoProtocol,
    ErrorKind::PortClosed,
    ErrorKind::TooBig,
    ErrorKind::Other,
];

/// The successor's end of a line.
#[derive(Debug)]
pub(crate) struct Line(Socket);

impl Line {
    /// A line, and its other end for the predecessor.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
        ours.set_nonblocking(true)?;
        // As much as the system allows.
        let _ = ours.set_send_buffer_size(LINE_BUFFER);
        Ok((Self(ours), theirs.into()))
    }

    /// Passes on packets.
    pub(crate) fn pass_on(&self, datagram: &Datagram<&[u8]>) -> io::Result<()> {
        let stamp = datagram.stamp.map_or(0, |stamp| stamp.as_nanos() as u64);
        let sizes = (datagram.stride as u32, stamp);
        let header = header((DATAGRAM, datagram.ecn.bits()), datagram.from, sizes);
        self.send(&header, datagram.bytes)
    }

    /// Passes on what the network has reported of a packet to `remote`.
    pub(crate) fn report(
        &self,
        kind: ErrorKind,
        remote: SocketAddr,
        mtu: u16,
        quote: &Quote,
    ) -> io::Result<()> {
        let Some(number) = KINDS.iter().position(|known| *known == kind) else { return Ok(()) };
        let header = header((REPORT, number as u8), remote, (u32::from(mtu), 0));
        self.send(&header, quote.bytes())
    }

    fn send(&self, header: &[u8], bytes: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(header), IoSlice::new(bytes)];
        self.0.send_vectored_with_flags(&parts, libc::MSG_NOSIGNAL).map(drop)
    }
}

fn header((kind, detail): (u8, u8), addr: SocketAddr, (size, time): (u32, u64)) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    (header[0], header[1]) = (kind, detail);
    header[2..4].copy_from_slice(&addr.port().to_be_bytes());
    let ip = match addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    header[4..20].copy_from_slice(&ip.octets());
    header[20..24].copy_from_slice(&size.to_le_bytes());
    header[24..].copy_from_slice(&time.to_le_bytes());
    header
}

/// The predecessor's socket: it sends as before, and receives over the line.
#[derive(Debug)]
pub(crate) struct LentIo {
    udp: UdpIo,
    line: Socket,
    /// What has come over the line beside datagrams.
    reports: VecDeque<ErrorReport>,
    /// Whether reports are thrown away: the socket itself is the other process's to turn off.
    is_deaf: bool,
    is_closed: bool,
}

impl LentIo {
    pub(crate) fn new(udp: UdpIo, line: OwnedFd) -> io::Result<Self> {
        let line = Socket::from(line);
        line.set_nonblocking(true)?;
        Ok(Self { udp, line, reports: VecDeque::new(), is_deaf: false, is_closed: false })
    }

    pub(crate) const fn udp(&self) -> &UdpIo {
        &self.udp
    }

    pub(crate) const fn line(&self) -> &Socket {
        &self.line
    }

    pub(crate) fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Whether the successor has gone.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The next message, with the bytes of a datagram in `buffer`.
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<([u8; HEADER], usize)> {
        let mut header = [0; HEADER];
        let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(buffer)];
        let length = match (&self.line).read_vectored(&mut parts) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            // Nothing else comes after an error.
            result => result.unwrap_or(0),
        };
        self.is_closed |= length == 0;
        match length.checked_sub(HEADER) {
            Some(length) => Ok((header, length)),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn keep_report(&mut self, header: &[u8; HEADER], bytes: &[u8]) {
        if self.is_deaf {
            return;
        }
        let Some(kind) = KINDS.get(usize::from(header[1])).copied() else { return };
        let mtu = u16::try_from(size(header)).unwrap_or(u16::MAX);
        let (destination, quote) = (Some(address(header)), Quote::of(bytes));
        self.reports.push_back(ErrorReport { kind, destination, quote, mtu });
    }
}

fn address(header: &[u8; HEADER]) -> SocketAddr {
    let mut ip = [0; 16];
    ip.copy_from_slice(&header[4..20]);
    let port = u16::from_be_bytes([header[2], header[3]]);
    SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port)
}

fn size(header: &[u8; HEADER]) -> u32 {
    u32::from_le_bytes([header[20], header[21], header[22], header[23]])
}

fn meta(header: &[u8; HEADER], length: usize) -> RecvMeta {
    let mut time = [0; 8];
    time.copy_from_slice(&header[24..]);
    let mut meta = RecvMeta::default();
    (meta.addr, meta.len, meta.stride) = (address(header), length, size(header) as usize);
    meta.ecn = EcnCodepoint::from_bits(header[1]);
    meta.timestamp =
        Some(u64::from_le_bytes(time)).filter(|time| *time > 0).map(Duration::from_nanos);
    meta
}

/// Whether the error tells of an earlier packet, perhaps one of the other process, which reads the reports.
fn is_of_the_network(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENOPROTOOPT)
            | Some(libc::EPROTO | libc::EMSGSIZE)
    )
}

impl PathIo for LentIo {
    fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()> {
        match self.udp.send(to, bytes, segment_size, ecn) {
            Err(error) if is_of_the_network(&error) => self.udp.send(to, bytes, segment_size, ecn),
            result => result,
        }
    }

    fn receive(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let mut filled = 0;
        while let (Some(buffer), Some(place)) = (buffers.get_mut(filled), metas.get_mut(filled)) {
            match self.next(buffer) {
                Ok((header, length)) if header[0] == DATAGRAM => {
                    *place = meta(&header, length);
                    filled += 1;
                }
                Ok((header, length)) if header[0] == REPORT => {
                    self.keep_report(&header, &buffer[..length]);
                }
                Ok(_) => {}
                Err(error) if filled == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(filled)
    }

    fn send_in_fragments(&mut self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        self.udp.send_in_fragments(to, bytes)
    }

    fn next_error(&mut self) -> io::Result<Option<ErrorReport>> {
        Ok(self.reports.pop_front())
    }

    fn hear_reports(&mut self, heard: bool) -> io::Result<()> {
        self.is_deaf = !heard;
        if self.is_deaf {
            self.reports.clear();
        }
        Ok(())
    }

    fn offload_segments(&self) -> usize {
        self.udp.offload_segments()
    }

    fn forget_failures(&mut self) {
        self.udp.forget_failures();
    }

    fn allow_fragmentation(&mut self) -> io::Result<()> {
        self.udp.allow_fragmentation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::ReceiveBuffers;
    use std::net::UdpSocket;
    use std::time::Instant;

    fn pair() -> (Line, LentIo, UdpSocket) {
        let (line, theirs) = Line::new().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let lent = LentIo::new(UdpIo::new(socket.try_clone().unwrap()).unwrap(), theirs).unwrap();
        (line, lent, socket)
    }

    #[test]
    fn datagrams_and_reports_pass_as_they_came() {
        let (line, mut lent, _) = pair();
        let from: SocketAddr = "192.0.2.7:9899".parse().unwrap();
        let sixth: SocketAddr = "[2001:db8::7]:899".parse().unwrap();
        let stamp = Some(Duration::from_nanos(1_234_567_890_123));
        let datagram = Datagram { from, bytes: &b"onetwo"[..], ecn: Ecn::Ce, stamp, stride: 3 };
        line.pass_on(&datagram).unwrap();
        let quote = Quote::of(&[7; 20]);
        line.report(ErrorKind::PortClosed, sixth, 1280, &quote).unwrap();
        line.send(&[200; HEADER], b"of a later version").unwrap();
        line.pass_on(&Datagram { from: sixth, bytes: b"two", stamp: None, ..datagram }).unwrap();
        let mut buffers = ReceiveBuffers::default();
        assert_eq!(buffers.fill(&mut lent).unwrap(), 2);
        let first = buffers.datagram(0);
        assert_eq!((first.from, first.ecn, first.stamp), (from, Ecn::Ce, stamp));
        assert_eq!(first.packets().collect::<Vec<_>>(), [b"one", b"two"]);
        let second = buffers.datagram(1);
        assert_eq!((second.from, second.stamp, second.bytes), (sixth, None, &b"two"[..]));
        let report = lent.next_error().unwrap().unwrap();
        let expected =
            ErrorReport { kind: ErrorKind::PortClosed, destination: Some(sixth), quote, mtu: 1280 };
        assert_eq!((report, lent.next_error().unwrap()), (expected, None));
        assert!(!lent.is_closed());
        drop(line);
        // A program that another test starts at this moment has the line open until it runs.
        let begun = Instant::now();
        while !lent.is_closed() && begun.elapsed() < Duration::from_secs(10) {
            assert!(buffers.fill(&mut lent).is_err());
        }
        assert!(lent.is_closed());
    }
}
