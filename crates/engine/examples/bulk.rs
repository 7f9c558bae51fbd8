//! What the engine costs: two endpoints in memory, joined by paths with a rate, a delay and a loss
//! rate in virtual time, move a lot of data. Prints the seconds that the endpoints need per GiB, for
//! both together and for each. Wall clock: run it on an idle machine.
//!
//! ```text
//! cargo run --release -p manypath-engine --example bulk [GIB]
//! ```
#![allow(clippy::unwrap_used, reason = "a measuring program: what fails ends it")]

use bytes::Bytes;
use manypath_engine::{
    AssociationId, Config, Duration, Ecn, Endpoint, Event, Instant, LocalAddress, Outgoing,
    PacketBatch, PathAddr, Ppid, StreamId,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant as WallClock;

const GIB: f64 = (1u64 << 30) as f64;
/// IPv4 and UDP headers, which take time on the links.
const LOWER_HEADERS: usize = 28;

/// A path's two directions are alike.
#[derive(Clone, Copy)]
struct Line {
    mbps: u64,
    delay: Duration,
    /// Every so many packets one is lost; 0: none.
    lose_one_in: u64,
}

/// One direction of a path: a link with a queue of any length. It never is long, because the windows
/// are bounded by the buffers.
struct Direction {
    line: Line,
    free_at: Instant,
    packets: u64,
    flying: VecDeque<(Instant, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Direction {
    fn new(line: Line) -> Self {
        let free_at = Instant::ZERO;
        Self { line, free_at, packets: 0, flying: VecDeque::new(), spare: Vec::new() }
    }

    fn send(&mut self, now: Instant, packet: &[u8]) {
        self.packets += 1;
        if self.line.lose_one_in > 0 && self.packets.is_multiple_of(self.line.lose_one_in) {
            return;
        }
        let bits = ((packet.len() + LOWER_HEADERS) * 8) as u64;
        let start = self.free_at.max(now);
        self.free_at = start + Duration::from_nanos(bits * 1000 / self.line.mbps);
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(packet);
        self.flying.push_back((self.free_at + self.line.delay, bytes));
    }
}

struct Node {
    endpoint: Endpoint,
    id: Option<AssociationId>,
    batch: PacketBatch,
    /// Time spent in the endpoint.
    spent: std::time::Duration,
}

impl Node {
    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let begin = WallClock::now();
        let result = work(self);
        self.spent += begin.elapsed();
        result
    }
}

struct Bench {
    now: Instant,
    nodes: [Node; 2],
    /// Per path: towards node 0 and towards node 1.
    directions: Vec<[Direction; 2]>,
    packets: [u64; 2],
}

fn address(path: usize, node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, path as u8, node as u8 + 1], 9899))
}

fn path_addr(path: usize, node: usize) -> PathAddr {
    PathAddr { local: address(path, node), remote: address(path, 1 - node) }
}

impl Bench {
    fn new(lines: &[Line]) -> Self {
        let node = |number: usize| {
            let config = Config { port: 1, accept: number == 1, ..Config::default() };
            let mut endpoint = Endpoint::new(config, [number as u8; 32]);
            for path in 0..lines.len() {
                let addr = address(path, number);
                endpoint.add_local_address(LocalAddress {
                    addr,
                    prefix_len: 24,
                    interface: 0,
                    mtu: 1500,
                });
            }
            let batch = PacketBatch::new(32);
            Node { endpoint, id: None, batch, spent: std::time::Duration::ZERO }
        };
        let directions =
            lines.iter().map(|line| [Direction::new(*line), Direction::new(*line)]).collect();
        Self { now: Instant::ZERO, nodes: [node(0), node(1)], directions, packets: [0; 2] }
    }

    fn transmit(&mut self, number: usize) {
        let now = self.now;
        let node = &mut self.nodes[number];
        while let Some(run) = node.timed(|node| node.endpoint.poll_transmit(now, &mut node.batch)) {
            let SocketAddr::V4(local) = run.path.local else { continue };
            let path = usize::from(local.ip().octets()[2]);
            for packet in node.batch.bytes().chunks(run.segment_size) {
                self.packets[number] += 1;
                self.directions[path][1 - number].send(now, packet);
            }
        }
    }

    /// Brings what arrives now: as a driver with GRO would, all of one path before the answers.
    fn arrive(&mut self) {
        for path in 0..self.directions.len() {
            for (number, node) in self.nodes.iter_mut().enumerate() {
                let direction = &mut self.directions[path][number];
                while direction.flying.front().is_some_and(|(at, _)| *at <= self.now) {
                    let Some((_, mut bytes)) = direction.flying.pop_front() else { break };
                    let from = path_addr(path, number);
                    let now = self.now;
                    node.timed(|node| {
                        node.endpoint.handle_marked_packet(now, from, &mut bytes, Ecn::NotEct)
                    });
                    direction.spare.push(bytes);
                }
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let arrivals = self.directions.iter().flatten();
        let arrivals = arrivals.filter_map(|direction| Some(direction.flying.front()?.0));
        let timers = self.nodes.iter().filter_map(|node| node.endpoint.poll_timeout());
        arrivals.chain(timers).min()
    }

    fn step(&mut self) {
        for number in 0..2 {
            self.transmit(number);
        }
        let next = self.next_event().unwrap();
        // Drivers wake up at most every 50 microseconds.
        self.now = next.max(self.now + Duration::from_micros(50));
        self.arrive();
        for node in &mut self.nodes {
            let now = self.now;
            if node.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                node.timed(|node| node.endpoint.handle_timeout(now));
            }
            while let Some((id, event)) = node.endpoint.poll_event() {
                node.id = Some(id);
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
            }
        }
    }

    fn run(&mut self, total: usize) -> f64 {
        let peer = address(0, 1);
        self.nodes[0].id = self.nodes[0].endpoint.connect(Instant::ZERO, peer, 1).ok();
        let payload = Bytes::from(vec![5; 1444]);
        let (mut queued, mut read) = (0, 0);
        while read < total {
            let now = self.now;
            let [sender, receiver] = &mut self.nodes;
            let id = sender.id.unwrap();
            sender.timed(|node| {
                while queued < total && node.endpoint.send_space(id) > 100_000 {
                    let message = Outgoing {
                        stream: StreamId(0),
                        ppid: Ppid(0),
                        unordered: false,
                        payload: payload.clone(),
                    };
                    node.endpoint.send(now, id, message).unwrap();
                    queued += payload.len();
                }
            });
            if let Some(id) = receiver.id {
                receiver.timed(|node| {
                    while let Some(message) = node.endpoint.read(id) {
                        read += message.payload.len();
                    }
                });
            }
            self.step();
        }
        read as f64
    }
}

fn measure(name: &str, lines: &[Line], total: usize) {
    let mut bench = Bench::new(lines);
    let bytes = bench.run(total);
    let seconds = |node: &Node| node.spent.as_secs_f64() / (bytes / GIB);
    let [sender, receiver] = &bench.nodes;
    let virtual_seconds = bench.now.since(Instant::ZERO).as_secs_f64();
    println!(
        "{name:42} {:6.3} s/GiB = sender {:6.3} + receiver {:6.3}   {:6.1} Mbit/s virtual, {} + {} packets",
        seconds(sender) + seconds(receiver),
        seconds(sender),
        seconds(receiver),
        bytes * 8.0 / virtual_seconds / 1e6,
        bench.packets[0],
        bench.packets[1],
    );
}

fn main() {
    let gib: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.5);
    let total = (gib * GIB) as usize;
    let line = |mbps, millis, lose_one_in| Line {
        mbps,
        delay: Duration::from_millis(millis),
        lose_one_in,
    };
    measure("one path, 500 Mbit/s, 1 ms", &[line(500, 1, 0)], total);
    measure("one path, 500 Mbit/s, 25 ms", &[line(500, 25, 0)], total);
    measure("one path, 500 Mbit/s, 5 ms, 0.02 % lost", &[line(500, 5, 5000)], total);
    measure("300 Mbit/s 5 ms + 200 Mbit/s 20 ms", &[line(300, 5, 0), line(200, 20, 0)], total);
    measure("400 Mbit/s 2 ms + 400 Mbit/s 60 ms", &[line(400, 2, 0), line(400, 60, 0)], total);
    let lossy = [line(300, 5, 3001), line(200, 20, 5003)];
    measure("300 and 200 Mbit/s, 0.03 and 0.02 % lost", &lossy, total);
}
