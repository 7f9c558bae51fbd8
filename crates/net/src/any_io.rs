//! The socket of a path, whatever carries its packets.

use crate::error_queue::ErrorReport;
use crate::lent::LentIo;
use crate::path_io::{PathIo, UdpIo};
use crate::raw_io::RawIo;
use manypath_engine::Ecn;
use quinn_udp::RecvMeta;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

/// The socket of a path.
#[derive(Debug)]
pub(crate) enum Io {
    /// With UDP encapsulation.
    Udp(UdpIo),
    /// Without.
    Raw(RawIo),
    /// With UDP encapsulation, but another process reads it.
    Lent(LentIo),
}

impl Io {
    pub(crate) fn socket(&self) -> &UdpSocket {
        match self {
            Self::Udp(io) => io.socket(),
            Self::Raw(io) => io.socket(),
            Self::Lent(io) => io.udp().socket(),
        }
    }

    fn io(&self) -> &dyn PathIo {
        match self {
            Self::Udp(io) => io,
            Self::Raw(io) => io,
            Self::Lent(io) => io,
        }
    }

    fn io_mut(&mut self) -> &mut dyn PathIo {
        match self {
            Self::Udp(io) => io,
            Self::Raw(io) => io,
            Self::Lent(io) => io,
        }
    }
}

impl PathIo for Io {
    fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()> {
        self.io_mut().send(to, bytes, segment_size, ecn)
    }

    fn receive(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.io_mut().receive(buffers, meta)
    }

    fn send_in_fragments(&mut self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        self.io_mut().send_in_fragments(to, bytes)
    }

    fn next_error(&mut self) -> io::Result<Option<ErrorReport>> {
        self.io_mut().next_error()
    }

    fn hear_reports(&mut self, heard: bool) -> io::Result<()> {
        self.io_mut().hear_reports(heard)
    }

    fn offload_segments(&self) -> usize {
        self.io().offload_segments()
    }

    fn forget_failures(&mut self) {
        self.io_mut().forget_failures();
    }

    fn allow_fragmentation(&mut self) -> io::Result<()> {
        self.io_mut().allow_fragmentation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_queue::{ErrorKind, Quote};
    use crate::lent::Line;
    use crate::receive::ReceiveBuffers;

    #[test]
    fn a_lent_socket_that_hears_no_reports_drops_those_of_the_line() {
        let (line, theirs) = Line::new().unwrap();
        let udp = UdpIo::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let mut io = Io::Lent(LentIo::new(udp, theirs).unwrap());
        let report = || {
            let remote = "192.0.2.7:9899".parse().unwrap();
            line.report(ErrorKind::PortClosed, remote, 1280, &Quote::of(&[7; 20])).unwrap();
        };
        io.hear_reports(false).unwrap();
        report();
        assert!(ReceiveBuffers::default().fill(&mut io).is_err());
        assert_eq!(io.next_error().unwrap(), None);
        io.hear_reports(true).unwrap();
        report();
        assert!(ReceiveBuffers::default().fill(&mut io).is_err());
        assert!(io.next_error().unwrap().is_some());
    }
}
