//! Receiving: many datagrams per call, each perhaps several packets that the kernel put together.

use crate::path_io::PathIo;
use crate::socket::PathSocket;
use manypath_engine::Ecn;
use quinn_udp::RecvMeta;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// Buffers filled in one call.
const BUFFERS: usize = 16;
/// Size of a buffer: what the kernel puts together (GRO) is at most one IP packet.
const BUFFER_SIZE: usize = 1 << 16;

/// Memory for one receive call, used again and again.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    memory: Vec<u8>,
    meta: [RecvMeta; BUFFERS],
}

impl Default for ReceiveBuffers {
    fn default() -> Self {
        Self { memory: vec![0; BUFFERS * BUFFER_SIZE], meta: [RecvMeta::default(); BUFFERS] }
    }
}

/// Packets of one sender that the kernel put into one buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<B> {
    pub(crate) from: SocketAddr,
    pub(crate) bytes: B,
    /// The ECN bits of all of them: the kernel puts together only what has the same.
    pub(crate) ecn: Ecn,
    /// When the kernel received the first of them, since the epoch of the system's clock; `None` if it does not say.
    pub(crate) stamp: Option<Duration>,
    /// Size of every packet but the last.
    pub(crate) stride: usize,
}

impl<'a> Datagram<&'a [u8]> {
    /// The packets, none of them empty.
    pub(crate) fn packets(self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.bytes.chunks(self.stride.max(1))
    }
}

/// What one receive call found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    /// Datagrams now in the buffers.
    pub(crate) datagrams: usize,
    /// Whether more may be waiting in the kernel. If not, the next one makes the socket readable.
    pub(crate) more: bool,
}

impl<I: PathIo> PathSocket<I> {
    /// Makes one receive call.
    pub(crate) fn receive(&mut self, buffers: &mut ReceiveBuffers) -> Received {
        let datagrams = match self.with_errors_read(|io| buffers.fill(io)) {
            Ok(datagrams) => datagrams,
            Err(error) => {
                let failed = error.kind() != io::ErrorKind::WouldBlock;
                self.counters.receive_errors += u64::from(failed);
                // What has arrived makes the socket readable only once.
                let more = error.kind() == io::ErrorKind::Interrupted;
                return Received { datagrams: 0, more };
            }
        };
        self.counters.receive_calls += 1;
        buffers.datagrams(datagrams).for_each(|datagram| self.count_received(&datagram));
        Received { datagrams, more: datagrams == BUFFERS }
    }

    fn count_received(&mut self, datagram: &Datagram<&[u8]>) {
        let packets = datagram.packets().len();
        self.counters.dropped_empty += u64::from(packets == 0);
        self.counters.gro_receives += u64::from(packets > 1);
        self.counters.packets_received += packets as u64;
        self.counters.bytes_received += datagram.bytes.len() as u64;
    }
}

impl ReceiveBuffers {
    pub(crate) fn fill(&mut self, io: &mut impl PathIo) -> io::Result<usize> {
        let mut parts = self.memory.chunks_exact_mut(BUFFER_SIZE);
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        io.receive(&mut slices, &mut self.meta)
    }

    /// The first `count` datagrams of the last call.
    pub(crate) fn datagrams(&self, count: usize) -> impl Iterator<Item = Datagram<&[u8]>> {
        (0..count).map(|index| self.datagram(index))
    }

    /// One of them.
    pub(crate) fn datagram(&self, index: usize) -> Datagram<&[u8]> {
        describe(&self.meta[index], &self.memory[place(&self.meta[index], index)])
    }

    /// The same, of which the bytes may be changed.
    pub(crate) fn datagram_mut(&mut self, index: usize) -> Datagram<&mut [u8]> {
        describe(&self.meta[index], &mut self.memory[place(&self.meta[index], index)])
    }
}

fn place(meta: &RecvMeta, index: usize) -> Range<usize> {
    let start = index * BUFFER_SIZE;
    start..start + meta.len.min(BUFFER_SIZE)
}

fn describe<B>(meta: &RecvMeta, bytes: B) -> Datagram<B> {
    Datagram {
        from: meta.addr,
        bytes,
        ecn: Ecn::from_octet(meta.ecn.map_or(0, |codepoint| codepoint as u8)),
        stamp: meta.timestamp,
        stride: meta.stride,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_queue::{ErrorKind, ErrorReport, Quote};
    use crate::scripted::ScriptedIo;

    fn sender() -> SocketAddr {
        "192.0.2.9:40000".parse().unwrap()
    }

    fn socket(arrivals: impl IntoIterator<Item = (Vec<u8>, usize)>) -> PathSocket<ScriptedIo> {
        let arrivals =
            arrivals.into_iter().map(|(bytes, stride)| (sender(), bytes, stride)).collect();
        let io = ScriptedIo { arrivals, ..ScriptedIo::default() };
        PathSocket::new(io, "192.0.2.2:9899".parse().unwrap())
    }

    /// The packets of one call, and whether more may wait.
    fn receive(socket: &mut PathSocket<ScriptedIo>) -> (Vec<Vec<u8>>, bool) {
        let mut buffers = ReceiveBuffers::default();
        let Received { datagrams, more } = socket.receive(&mut buffers);
        let packets = buffers.datagrams(datagrams).flat_map(|datagram| {
            assert_eq!(datagram.from, sender());
            datagram.packets().map(<[u8]>::to_vec)
        });
        (packets.collect(), more)
    }

    #[test]
    fn merged_packets_are_split_again() {
        let mut socket = socket([([[1; 50], [2; 50]].concat(), 40), (vec![3; 7], 7)]);
        let (packets, more) = receive(&mut socket);
        let merged = [[1; 50], [2; 50]].concat();
        assert_eq!(packets, [&merged[..40], &merged[40..80], &merged[80..], &[3; 7]]);
        assert!(!more);
        assert_eq!(socket.counters.gro_receives, 1);
        assert_eq!((socket.counters.packets_received, socket.counters.bytes_received), (4, 107));
    }

    #[test]
    fn a_flood_of_reports_leaves_what_has_arrived_for_the_next_turn() {
        let mut socket = socket([(vec![1; 50], 50)]);
        let report = ErrorReport {
            kind: ErrorKind::Unreachable,
            destination: None,
            quote: Quote::default(),
            mtu: 0,
        };
        socket.io.receive_errors = [libc::EHOSTUNREACH; 8].into();
        socket.io.reports.extend([report; 8 * crate::socket::REPORTS_PER_PAUSE]);
        socket.io.always_hears = true;
        assert_eq!(receive(&mut socket), (vec![], true));
        assert_eq!(receive(&mut socket).0, [vec![1; 50]]);
    }

    #[test]
    fn empty_datagrams_are_counted_and_dropped() {
        let mut socket = socket([(vec![], 0), (vec![5], 1)]);
        assert_eq!(receive(&mut socket).0, [[5]]);
        assert_eq!(socket.counters.dropped_empty, 1);
    }

    #[test]
    fn full_buffers_mean_that_more_may_wait() {
        let mut socket = socket((0..BUFFERS as u8 + 1).map(|n| (vec![n], 1)));
        let (packets, more) = receive(&mut socket);
        assert_eq!((packets.len(), more), (BUFFERS, true));
        let (packets, more) = receive(&mut socket);
        assert_eq!((packets.len(), more), (1, false));
        assert_eq!(receive(&mut socket), (vec![], false));
        assert_eq!(socket.counters.receive_errors, 0);
    }

    #[test]
    fn an_icmp_error_does_not_hide_what_arrived() {
        let mut socket = socket([(vec![5], 1)]);
        socket.io.receive_errors.push_back(libc::ECONNREFUSED);
        let (destination, quote) = (Some(sender()), Quote::default());
        let report = ErrorReport { kind: ErrorKind::Unreachable, destination, quote, mtu: 0 };
        socket.io.reports.push_back(report);
        assert_eq!(receive(&mut socket).0, [[5]]);
        assert_eq!(socket.unreachable.len(), 1);
    }

    #[test]
    fn failures_are_counted() {
        let mut socket = socket([(vec![5], 1)]);
        socket.io.receive_errors.push_back(libc::ENOMEM);
        assert_eq!(receive(&mut socket), (vec![], false));
        assert_eq!(socket.counters.receive_errors, 1);
    }
}
