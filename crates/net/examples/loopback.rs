//! Measures one association over loopback: throughput, and the CPU time that each end needs.
//!
//! ```text
//! cargo run --release -p manypath-net --example loopback -- [SECONDS [PATHS [MTU]]]
//! ```

use bytes::Bytes;
use manypath_engine::{AssociationId, Config, Endpoint, Event, Outgoing, SendError};
use manypath_net::{Clock, Driver, LocalBinding, UdpPort};
use manypath_wire::{Ppid, StreamId};
use mio::{Events, Poll, Token};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{env, thread};

const SCTP_PORT: u16 = 7;
const GIB: f64 = (1u64 << 30) as f64;

#[derive(Clone, Copy)]
struct Setup {
    seconds: f64,
    paths: u8,
    mtu: u16,
}

fn main() {
    let mut arguments = env::args().skip(1);
    let seconds = arguments.next().map_or(3.0, |text| text.parse().expect("SECONDS"));
    let paths = arguments.next().map_or(1, |text| text.parse().expect("PATHS"));
    let mtu = arguments.next().map_or(1500, |text| text.parse().expect("MTU"));
    let setup = Setup { seconds, paths, mtu };
    println!("one association, {paths} path(s) on loopback, MTU {mtu}, {seconds} s per row");
    println!("message      Gbit/s  sender s/GiB  receiver s/GiB  packets/send  packets/receive");
    measure("1 fragment", None, setup);
    measure("16 KiB", Some(16 << 10), setup);
}

/// What one end did between the first and the last byte.
#[derive(Clone, Copy, Debug)]
struct Usage {
    bytes: u64,
    cpu: Duration,
    wall: Duration,
    packets_per_call: f64,
}

fn measure(name: &str, message: Option<usize>, setup: Setup) {
    let (address, addresses) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stop_receiver = Arc::clone(&stop);
    let receiver = thread::spawn(move || receive(setup, &address, &stop_receiver));
    let sender = send(setup, addresses.recv().expect("the receiver is bound"), message);
    stop.store(true, Ordering::Relaxed);
    let receiver = receiver.join().expect("the receiver");
    let gib = receiver.bytes as f64 / GIB;
    println!(
        "{name:<11} {:>7.2} {:>13.2} {:>15.2} {:>13.1} {:>16.1}",
        receiver.bytes as f64 * 8e-9 / receiver.wall.as_secs_f64(),
        sender.cpu.as_secs_f64() / gib,
        receiver.cpu.as_secs_f64() / gib,
        sender.packets_per_call,
        receiver.packets_per_call,
    );
}

fn receive(setup: Setup, address: &mpsc::Sender<SocketAddr>, stop: &AtomicBool) -> Usage {
    let mut end = End::new(2, setup, true);
    address.send(end.first).expect("the sender waits");
    let (mut bytes, mut start, mut last) = (0u64, None, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let (_, arrived) = end.turn();
        if arrived > 0 {
            start.get_or_insert_with(|| (Instant::now(), thread_cpu()));
            bytes += arrived;
            last = Instant::now();
        }
    }
    let (began, cpu) = start.expect("something arrived");
    let counters = end.driver.counters();
    let packets_per_call = counters.packets_received as f64 / counters.receive_calls.max(1) as f64;
    Usage { bytes, cpu: thread_cpu() - cpu, wall: last - began, packets_per_call }
}

fn send(setup: Setup, remote: SocketAddr, message: Option<usize>) -> Usage {
    let mut end = End::new(1, setup, false);
    let id = end.connect(remote);
    while !end.turn().0 {}
    let size = message.unwrap_or_else(|| end.driver.endpoint().fragment_size(id));
    let payload = Bytes::from(vec![0x55; size]);
    let (began, cpu, mut bytes) = (Instant::now(), thread_cpu(), 0);
    while began.elapsed().as_secs_f64() < setup.seconds {
        bytes += end.fill(id, &payload);
        end.turn();
    }
    let counters = end.driver.counters();
    let packets_per_call = counters.packets_sent as f64 / counters.send_calls.max(1) as f64;
    Usage { bytes, cpu: thread_cpu() - cpu, wall: began.elapsed(), packets_per_call }
}

struct End {
    driver: Driver,
    poll: Poll,
    events: Events,
    clock: Clock,
    first: SocketAddr,
}

impl End {
    fn new(host: u8, setup: Setup, accept: bool) -> Self {
        let config = Config { port: SCTP_PORT, accept, ..Config::default() };
        let mut driver = Driver::new(Endpoint::new(config, [host; 32]));
        let poll = Poll::new().expect("epoll");
        let bindings: Vec<_> = (0..setup.paths)
            .map(|path| {
                let ip = IpAddr::from(Ipv4Addr::new(127, 8, path, host));
                let addr = SocketAddr::new(ip, 0);
                let binding = LocalBinding { addr, device: None, prefix_len: 24, mtu: setup.mtu };
                (Token(path.into()), binding)
            })
            .collect();
        let bound = driver.bind_all(poll.registry(), &bindings, UdpPort::Ephemeral);
        let first = bound.expect("bind")[0].addr;
        Self { driver, poll, events: Events::with_capacity(64), clock: Clock::start(), first }
    }

    fn connect(&mut self, remote: SocketAddr) -> AssociationId {
        let now = self.clock.now();
        let id = self.driver.endpoint_mut().connect(now, remote, SCTP_PORT).expect("connect");
        self.driver.flush(now);
        id
    }

    /// Queues messages until the send buffer is full.
    fn fill(&mut self, id: AssociationId, payload: &Bytes) -> u64 {
        let now = self.clock.now();
        let mut bytes = 0;
        loop {
            let message = Outgoing {
                stream: StreamId(0),
                ppid: Ppid(0),
                unordered: false,
                payload: payload.clone(),
            };
            let sent = self.driver.endpoint_mut().send(now, id, message);
            if sent == Err(SendError::BufferFull) {
                break;
            }
            sent.expect("the association is up");
            bytes += payload.len() as u64;
        }
        self.driver.flush(now);
        bytes
    }

    /// One turn of the loop: whether the association came up, and the bytes read.
    fn turn(&mut self) -> (bool, u64) {
        let longest = Duration::from_millis(50);
        let sleep = self.clock.until(self.driver.timeout()).unwrap_or(longest).min(longest);
        self.poll.poll(&mut self.events, Some(sleep)).expect("poll");
        let now = self.clock.now();
        for event in &self.events {
            self.driver.handle_event(now, event);
        }
        self.driver.handle_timeout(now);
        let (mut connected, mut bytes) = (false, 0);
        while let Some((id, event)) = self.driver.endpoint_mut().poll_event() {
            connected |= matches!(event, Event::Connected { .. });
            if event == Event::Readable {
                while let Some(message) = self.driver.endpoint_mut().read(id) {
                    bytes += message.payload.len() as u64;
                }
            }
        }
        self.driver.flush(now);
        (connected, bytes)
    }
}

/// CPU time of the calling thread, user and system.
fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to where it is told.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
