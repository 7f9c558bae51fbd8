//! Two endpoints in one process; packets are handed over in memory, in virtual time.

use crate::heap;
use bytes::Bytes;
use manypath_engine::{
    AssociationId, Config, Duration, Ecn, Endpoint, Instant, LocalAddress, Outgoing, PacketBatch,
    PathAddr, Ppid, StreamId,
};
use std::net::SocketAddr;

/// Packets of one run: as many as one GSO datagram takes.
const RUN: usize = 44;
/// Time of one turn, in which everything goes over that both want to send: half a round trip.
const TURN: Duration = Duration::from_micros(50);

/// A packet that was taken from one end and has not reached the other yet.
pub(crate) struct Held {
    path: PathAddr,
    bytes: Vec<u8>,
}

/// The ends: 0 connects, 1 accepts.
pub(crate) struct Pair {
    now: Instant,
    nodes: [Endpoint; 2],
    batch: PacketBatch,
    /// The packet that arrives.
    received: Vec<u8>,
    /// Bytes that each end has allocated since the beginning.
    pub(crate) heap: [usize; 2],
    pub(crate) packets: u64,
}

impl Pair {
    /// Two endpoints with this many addresses each.
    pub(crate) fn new(config: &Config, paths: u8) -> Self {
        let node = |number: u8| {
            let port = if number == 1 { 1 } else { 0 };
            let config = Config { port, accept: number == 1, ..config.clone() };
            let mut endpoint = Endpoint::new(config, [number; 32]);
            for path in 0..paths {
                let addr = address(path, number);
                let local = LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 };
                endpoint.add_local_address(local);
            }
            endpoint
        };
        let nodes = [node(0), node(1)];
        let (batch, received) = (PacketBatch::new(RUN), Vec::new());
        Self { now: Instant::ZERO, nodes, batch, received, heap: [0; 2], packets: 0 }
    }

    /// Calls one end and counts what it allocates.
    fn call<T>(&mut self, side: usize, work: impl FnOnce(&mut Endpoint, Instant) -> T) -> T {
        let before = heap::in_use();
        let result = work(&mut self.nodes[side], self.now);
        self.heap[side] = (self.heap[side] + heap::in_use()).wrapping_sub(before);
        result
    }

    /// An association, established. Its name at both ends.
    pub(crate) fn connect(&mut self) -> [AssociationId; 2] {
        let peer = address(0, 1);
        let id = self.call(0, |node, now| node.connect(now, peer, 1)).expect("a free port");
        for _ in 0..8 {
            self.turn();
        }
        let accepted = self.nodes[1].associations().into_iter().max().expect("established");
        [id, accepted]
    }

    /// Lets time pass without traffic but the timers'.
    pub(crate) fn rest(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let timers = self.nodes.iter().filter_map(Endpoint::poll_timeout);
            self.now = timers.min().unwrap_or(end).min(end).max(self.now);
            self.turn();
        }
    }

    /// Moves what both ends want to send, and reads events away.
    pub(crate) fn turn(&mut self) {
        self.now = self.now + TURN;
        for side in 0..2 {
            self.call(side, |node, now| {
                if node.poll_timeout().is_some_and(|at| at <= now) {
                    node.handle_timeout(now);
                }
            });
            self.transmit(side);
            self.call(side, |node, _| while node.poll_event().is_some() {});
        }
    }

    fn transmit(&mut self, side: usize) {
        let mut batch = std::mem::take(&mut self.batch);
        let mut received = std::mem::take(&mut self.received);
        while let Some(run) = self.call(side, |node, now| node.poll_transmit(now, &mut batch)) {
            let path = PathAddr { local: run.path.remote, remote: run.path.local };
            self.packets += run.packets as u64;
            self.call(1 - side, |node, now| {
                for packet in batch.bytes().chunks(run.segment_size) {
                    received.clear();
                    received.extend_from_slice(packet);
                    node.handle_marked_packet(now, path, &mut received, Ecn::NotEct);
                }
            });
        }
        self.received = received;
        self.batch = batch;
    }

    /// Takes what one end wants to send, and keeps it from the other.
    pub(crate) fn hold(&mut self, side: usize) -> Vec<Held> {
        let mut held = Vec::new();
        let mut batch = std::mem::take(&mut self.batch);
        while let Some(run) = self.call(side, |node, now| node.poll_transmit(now, &mut batch)) {
            let path = PathAddr { local: run.path.remote, remote: run.path.local };
            let packets = batch.bytes().chunks(run.segment_size);
            held.extend(packets.map(|bytes| Held { path, bytes: bytes.to_vec() }));
        }
        self.batch = batch;
        held
    }

    /// Hands packets to one end.
    pub(crate) fn deliver(&mut self, side: usize, packets: &mut [Held]) {
        for held in packets {
            self.call(side, |node, now| {
                node.handle_marked_packet(now, held.path, &mut held.bytes, Ecn::NotEct)
            });
        }
    }

    /// Queues messages until the send buffer is full; the bytes taken.
    pub(crate) fn fill(&mut self, side: usize, id: AssociationId, payload: &Bytes) -> usize {
        let mut taken = 0;
        while self.offer(side, id, StreamId(0), payload) {
            taken += payload.len();
        }
        taken
    }

    /// Queues one message on a stream; `false` if there is no room.
    pub(crate) fn offer(
        &mut self,
        side: usize,
        id: AssociationId,
        stream: StreamId,
        payload: &Bytes,
    ) -> bool {
        let (ppid, payload) = (Ppid(0), payload.clone());
        let message = Outgoing { stream, ppid, unordered: false, payload };
        self.call(side, |node, now| node.send(now, id, message)).is_ok()
    }

    /// Reads what has come; the bytes.
    pub(crate) fn read(&mut self, side: usize, id: AssociationId) -> usize {
        self.call(side, |node, _| {
            std::iter::from_fn(|| node.read(id)).map(|message| message.payload.len()).sum()
        })
    }

    /// The socket of one end's first path takes no more packets for now, or does again.
    pub(crate) fn block(&mut self, side: usize, blocked: bool) {
        let local = address(0, u8::from(side == 1));
        self.call(side, |node, now| node.handle_backpressure(now, local, blocked));
    }

    /// Whether the association is still there.
    pub(crate) fn is_up(&self, side: usize, id: AssociationId) -> bool {
        self.nodes[side].status(self.now, id).is_some()
    }
}

fn address(path: u8, node: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, path, node + 1], 9899))
}
