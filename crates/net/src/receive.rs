//! Receiving: many datagrams per call, each perhaps several packets that the kernel put together.

use crate::path_io::PathIo;
use crate::socket::PathSocket;
use quinn_udp::RecvMeta;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

/// Buffers filled in one call.
const BUFFERS: usize = 16;
/// Size of a buffer: what the kernel puts together (GRO) is at most one IP packet.
const BUFFER_SIZE: usize = 1 << 16;

/// Memory for one receive call, shared by all sockets of a driver and used again and again.
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

/// What one receive call found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// More may be waiting in the kernel.
    Full,
    /// Nothing more waits: the next datagram will make the socket readable.
    Drained,
}

impl<I: PathIo> PathSocket<I> {
    /// Makes one receive call and hands every packet with its sender to `deliver`.
    pub(crate) fn receive(
        &mut self,
        buffers: &mut ReceiveBuffers,
        mut deliver: impl FnMut(SocketAddr, &[u8]),
    ) -> Received {
        let filled = match self.with_errors_read(|io| buffers.fill(io)) {
            Ok(filled) => filled,
            Err(error) => {
                let failed = error.kind() != io::ErrorKind::WouldBlock;
                self.counters.receive_errors += u64::from(failed);
                return Received::Drained;
            }
        };
        self.counters.receive_calls += 1;
        for (meta, bytes) in buffers.filled(filled) {
            self.split(meta, bytes, &mut deliver);
        }
        if filled == BUFFERS { Received::Full } else { Received::Drained }
    }

    fn split(
        &mut self,
        meta: &RecvMeta,
        bytes: &[u8],
        deliver: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        if bytes.is_empty() {
            self.counters.dropped_empty += 1;
            return;
        }
        let stride = if meta.stride == 0 { bytes.len() } else { meta.stride };
        self.counters.gro_receives += u64::from(bytes.len() > stride);
        self.counters.bytes_received += bytes.len() as u64;
        for packet in bytes.chunks(stride) {
            self.counters.packets_received += 1;
            deliver(meta.addr, packet);
        }
    }
}

impl ReceiveBuffers {
    fn fill(&mut self, io: &mut impl PathIo) -> io::Result<usize> {
        let mut parts = self.memory.chunks_exact_mut(BUFFER_SIZE);
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        io.receive(&mut slices, &mut self.meta)
    }

    fn filled(&self, count: usize) -> impl Iterator<Item = (&RecvMeta, &[u8])> {
        let buffers = self.memory.chunks_exact(BUFFER_SIZE);
        let pairs = self.meta.iter().zip(buffers).take(count);
        pairs.map(|(meta, buffer)| (meta, &buffer[..meta.len.min(BUFFER_SIZE)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_queue::{ErrorKind, ErrorReport};
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

    fn receive(socket: &mut PathSocket<ScriptedIo>) -> (Vec<Vec<u8>>, Received) {
        let mut packets = Vec::new();
        let received = socket.receive(&mut ReceiveBuffers::default(), |from, packet| {
            assert_eq!(from, sender());
            packets.push(packet.to_vec());
        });
        (packets, received)
    }

    #[test]
    fn merged_packets_are_split_again() {
        let mut socket = socket([([[1; 50], [2; 50]].concat(), 40), (vec![3; 7], 7)]);
        let (packets, received) = receive(&mut socket);
        let merged = [[1; 50], [2; 50]].concat();
        assert_eq!(packets, [&merged[..40], &merged[40..80], &merged[80..], &[3; 7]]);
        assert_eq!(received, Received::Drained);
        assert_eq!(socket.counters.gro_receives, 1);
        assert_eq!((socket.counters.packets_received, socket.counters.bytes_received), (4, 107));
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
        let (packets, received) = receive(&mut socket);
        assert_eq!((packets.len(), received), (BUFFERS, Received::Full));
        let (packets, received) = receive(&mut socket);
        assert_eq!((packets.len(), received), (1, Received::Drained));
        assert_eq!(receive(&mut socket), (vec![], Received::Drained));
        assert_eq!(socket.counters.receive_errors, 0);
    }

    #[test]
    fn an_icmp_error_does_not_hide_what_arrived() {
        let mut socket = socket([(vec![5], 1)]);
        socket.io.receive_errors.push_back(libc::ECONNREFUSED);
        let destination = Some(sender());
        socket.io.reports.push_back(ErrorReport { kind: ErrorKind::Unreachable, destination });
        assert_eq!(receive(&mut socket).0, [[5]]);
        assert_eq!(socket.unreachable, [sender()]);
    }

    #[test]
    fn failures_are_counted() {
        let mut socket = socket([(vec![5], 1)]);
        socket.io.receive_errors.push_back(libc::ENOMEM);
        assert_eq!(receive(&mut socket), (vec![], Received::Drained));
        assert_eq!(socket.counters.receive_errors, 1);
    }
}
