//! The socket of a path, whatever carries its packets.

use crate::error_queue::ErrorReport;
use crate::lent::LentIo;
use crate::path_io::{self, PathIo, UdpIo};
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
}

impl PathIo for Io {
    fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()> {
        match self {
            Self::Udp(io) => io.send(to, bytes, segment_size, ecn),
            Self::Raw(io) => io.send(to, bytes, segment_size, ecn),
            Self::Lent(io) => io.send(to, bytes, segment_size, ecn),
        }
    }

    fn send_in_fragments(&mut self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(io) => io.send_in_fragments(to, bytes),
            Self::Raw(io) => io.send_in_fragments(to, bytes),
            Self::Lent(io) => io.send_in_fragments(to, bytes),
        }
    }

    fn receive(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        match self {
            Self::Udp(io) => io.receive(buffers, meta),
            Self::Raw(io) => io.receive(buffers, meta),
            Self::Lent(io) => io.receive(buffers, meta),
        }
    }

    fn next_error(&mut self) -> io::Result<Option<ErrorReport>> {
        match self {
            Self::Udp(io) => io.next_error(),
            Self::Raw(io) => io.next_error(),
            Self::Lent(io) => io.next_error(),
        }
    }

    fn hear_reports(&mut self, heard: bool) -> io::Result<()> {
        path_io::hear_reports(self.socket(), heard)
    }

    fn offload_segments(&self) -> usize {
        match self {
            Self::Udp(io) => io.offload_segments(),
            Self::Raw(io) => io.offload_segments(),
            Self::Lent(io) => io.offload_segments(),
        }
    }

    fn forget_failures(&mut self) {
        match self {
            Self::Udp(io) => io.forget_failures(),
            Self::Raw(io) => io.forget_failures(),
            Self::Lent(io) => io.forget_failures(),
        }
    }

    fn allow_fragmentation(&mut self) -> io::Result<()> {
        match self {
            Self::Udp(io) => io.allow_fragmentation(),
            Self::Raw(io) => io.allow_fragmentation(),
            Self::Lent(io) => io.allow_fragmentation(),
        }
    }
}
