//! SCTP directly over IP (protocol 132), for peers that use no UDP encapsulation. Needs CAP_NET_RAW,
//! and a kernel without an SCTP of its own, which would answer as well.

use crate::error_queue::{self, ErrorReport};
use crate::path_io::{IPV6_LEAST_MTU, PathIo, allow_fragments, hear_reports};
use crate::{ancillary, socket_option};
use manypath_engine::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Protocol number of SCTP.
pub(crate) const IPPROTO_SCTP: libc::c_int = 132;

/// A raw socket bound to one local address.
#[derive(Debug)]
pub(crate) struct RawIo {
    /// It is none of UDP, but what can be done with one can be done with it.
    socket: UdpSocket,
    is_ipv6: bool,
    fragments: bool,
    /// The bits that the socket puts into the packets it sends.
    ecn: Ecn,
}

impl RawIo {
    /// Prepares a bound raw socket: non-blocking, never fragmenting, with the error queue on.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let is_ipv6 = socket.local_addr()?.is_ipv6();
        socket.set_nonblocking(true)?;
        hear_reports(&socket, true)?;
        if is_ipv6 {
            socket_option::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        allow_fragments(&socket, false, 0)?;
        Ok(Self { socket, is_ipv6, fragments: false, ecn: Ecn::NotEct })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Receives one packet into `buffer`. Its length without the IP header, who sent it, and the octet of
    /// the header that holds the ECN bits.
    fn receive_one(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, u8)> {
        if self.is_ipv6 {
            // A raw socket gives out no IPv6 header, so its Traffic Class is asked for (RFC 3542 section 6.5).
            let got = ancillary::receive(self.socket.as_raw_fd(), buffer, 0, traffic_class)?;
            let mut from = got.name.ok_or(io::ErrorKind::InvalidData)?;
            from.set_port(0);
            return Ok((got.length, from, got.found.unwrap_or(0)));
        }
        let (len, mut from) = self.socket.recv_from(buffer)?;
        from.set_port(0);
        // The kernel has checked the header, which it gives out with IPv4 only.
        let header = usize::from(buffer.first().copied().unwrap_or(0) & 0xF) * 4;
        let service = buffer.get(1).copied().unwrap_or(0);
        buffer.copy_within(header.min(len)..len, 0);
        Ok((len.saturating_sub(header), from, service))
    }

    /// What is sent from now on has these bits.
    fn set_ecn(&mut self, ecn: Ecn) -> io::Result<()> {
        if self.ecn == ecn {
            return Ok(());
        }
        let (level, name) = match self.is_ipv6 {
            true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            false => (libc::IPPROTO_IP, libc::IP_TOS),
        };
        socket_option::set(&self.socket, level, name, ecn.bits().into())?;
        self.ecn = ecn;
        Ok(())
    }
}

fn traffic_class(kind: ancillary::Kind, data: &[u8]) -> Option<u8> {
    let is_class = kind == (libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
    let class =
        data.first_chunk().filter(|_| is_class).map(|data| libc::c_int::from_ne_bytes(*data))?;
    u8::try_from(class & 0xFF).ok()
}

impl PathIo for RawIo {
    fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        _segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()> {
        self.set_ecn(ecn)?;
        self.socket.send_to(bytes, to).map(|_all| ())
    }

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
        let mut filled = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta) {
            match self.receive_one(buffer) {
                Ok((len, from, octet)) => {
                    (meta.addr, meta.len, meta.stride) = (from, len, len);
                    meta.ecn = EcnCodepoint::from_bits(octet);
                    filled += 1;
                }
                Err(error) if filled == 0 => return Err(error),
                Err(_later) => break,
            }
        }
        Ok(filled)
    }

    fn next_error(&mut self) -> io::Result<Option<ErrorReport>> {
        error_queue::receive(self.socket.as_raw_fd())
    }

    fn hear_reports(&mut self, heard: bool) -> io::Result<()> {
        hear_reports(&self.socket, heard)
    }

    fn offload_segments(&self) -> usize {
        1
    }

    fn forget_failures(&mut self) {}

    fn allow_fragmentation(&mut self) -> io::Result<()> {
        self.fragments = true;
        allow_fragments(&self.socket, true, 0)
    }
}
