//! A kernel that does what a test tells it to.

use crate::error_queue::ErrorReport;
use crate::path_io::PathIo;
use manypath_engine::Ecn;
use quinn_udp::RecvMeta;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

/// Takes every packet unless told otherwise, and remembers what it was given.
#[derive(Debug, Default)]
pub(crate) struct ScriptedIo {
    /// Errors for the next calls of `send`; an entry of 0 lets the call pass.
    pub(crate) send_errors: VecDeque<i32>,
    /// Refuses every run of several packets with this error.
    pub(crate) refuse_runs: Option<i32>,
    /// Datagrams that wait to be received: sender, bytes, packet size.
    pub(crate) arrivals: VecDeque<(SocketAddr, Vec<u8>, usize)>,
    /// Errors for the next calls of `receive`.
    pub(crate) receive_errors: VecDeque<i32>,
    pub(crate) reports: VecDeque<ErrorReport>,
    /// What is read of them before that, `None` where the queue is empty.
    pub(crate) reads: VecDeque<Option<ErrorReport>>,
    /// Taken calls: destination, bytes, packet size.
    pub(crate) taken: Vec<(SocketAddr, Vec<u8>, usize)>,
    /// Their ECN bits.
    pub(crate) marks: Vec<Ecn>,
    pub(crate) forgotten: usize,
    pub(crate) never_fragments: bool,
    /// Reports cannot be turned off; whether they are.
    pub(crate) always_hears: bool,
    pub(crate) is_deaf: bool,
    /// Packets that IP may fragment.
    pub(crate) fragmented: usize,
}

impl ScriptedIo {
    /// All bytes taken, in order.
    pub(crate) fn bytes_taken(&self) -> Vec<u8> {
        self.taken.iter().flat_map(|(_, bytes, _)| bytes.clone()).collect()
    }
}

impl PathIo for ScriptedIo {
    fn send(
        &mut self,
        to: SocketAddr,
        bytes: &[u8],
        segment_size: usize,
        ecn: Ecn,
    ) -> io::Result<()> {
        if let Some(errno) = self.send_errors.pop_front()
            && errno != 0
        {
            return Err(io::Error::from_raw_os_error(errno));
        }
        match self.refuse_runs {
            Some(errno) if bytes.len() > segment_size => Err(io::Error::from_raw_os_error(errno)),
            _ => {
                self.taken.push((to, bytes.to_vec(), segment_size));
                self.marks.push(ecn);
                Ok(())
            }
        }
    }

    fn send_in_fragments(&mut self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        self.fragmented += 1;
        self.send(to, bytes, bytes.len(), Ecn::NotEct)
    }

    fn receive(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        if let Some(errno) = self.receive_errors.pop_front() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let mut filled = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta) {
            let Some((from, bytes, stride)) = self.arrivals.pop_front() else { break };
            buffer[..bytes.len()].copy_from_slice(&bytes);
            (meta.addr, meta.len, meta.stride) = (from, bytes.len(), stride);
            filled += 1;
        }
        if filled == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(filled) }
    }

    fn next_error(&mut self) -> io::Result<Option<ErrorReport>> {
        Ok(self.reads.pop_front().unwrap_or_else(|| self.reports.pop_front()))
    }

    fn hear_reports(&mut self, heard: bool) -> io::Result<()> {
        if self.always_hears {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.is_deaf = !heard;
        if self.is_deaf {
            self.reports.clear();
            self.send_errors.clear();
            self.receive_errors.clear();
        }
        Ok(())
    }

    fn offload_segments(&self) -> usize {
        64
    }

    fn forget_failures(&mut self) {
        self.forgotten += 1;
    }

    fn allow_fragmentation(&mut self) -> io::Result<()> {
        if self.never_fragments { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
    }
}
