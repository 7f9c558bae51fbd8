//! Emulated paths on loopback addresses, for machines with neither root nor user namespaces.
//!
//! Path i joins the client's 127.0.i.1 with the server's 127.0.i.2. A relay stands between: the
//! client's stack sends to 127.0.i.2 at the relay's port, the relay passes the datagrams through
//! the link model and on to the server's stack, and back the same way.

use super::measure::Series;
use super::ports::UDP_PORT;
use manypath_lab::{LinkConfig, PathSpec};
use manypath_sim::pcapng::{InterfaceId, LinkType, Writer};
use manypath_sim::{Link, Packet};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// IPv4 and UDP headers, which the rate of a link counts.
const HEADERS: usize = 28;
const BUCKET: Duration = Duration::from_millis(50);
/// The longest wait of a thread before it looks whether it shall end.
const LOOK: Duration = Duration::from_millis(50);

/// A capture with one interface per path.
type CaptureFile = Option<(Writer<BufWriter<File>>, Vec<InterfaceId>)>;
type EngineInstant = manypath_engine::Instant;

/// All emulated paths; the relays end when dropped.
#[derive(Debug)]
pub(crate) struct LoopbackPaths {
    directions: Vec<Arc<Direction>>,
    names: Vec<String>,
    shared: Arc<Shared>,
    client_port: u16,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    origin: Instant,
    stop: AtomicBool,
    capture: Mutex<CaptureFile>,
}

/// One direction of one path.
#[derive(Debug)]
struct Direction {
    path: usize,
    link: Mutex<State>,
    wake: Condvar,
    targets: Mutex<Targets>,
}

/// Where the datagrams of a direction go.
#[derive(Debug)]
enum Targets {
    /// All to the server.
    Server(SocketAddr),
    /// To the client that has the packet's SCTP destination port. A stack that is still closing its
    /// association must not get the packets of the next one.
    Clients(BTreeMap<[u8; 2], SocketAddr>),
}

#[derive(Debug)]
struct State {
    link: Link<Datagram>,
    buckets: Vec<u64>,
}

#[derive(Debug, Clone)]
struct Datagram(Vec<u8>);

impl Packet for Datagram {
    fn wire_len(&self) -> usize {
        self.0.len() + HEADERS
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked left the state as it was between two packets: still good.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LoopbackPaths {
    /// Starts the relays of all paths.
    pub(crate) fn start(paths: Vec<(String, PathSpec)>) -> std::io::Result<Self> {
        let shared = Shared {
            origin: Instant::now(),
            stop: AtomicBool::new(false),
            capture: Mutex::new(None),
        };
        let names = paths.iter().map(|(name, _)| name.clone()).collect();
        let (directions, threads) = (Vec::new(), Vec::new());
        let mut this =
            Self { directions, names, shared: Arc::new(shared), client_port: 0, threads };
        for (index, (_, spec)) in paths.into_iter().enumerate() {
            this.add(index, spec)?;
        }
        Ok(this)
    }

    fn add(&mut self, index: usize, spec: PathSpec) -> std::io::Result<()> {
        let to_client = UdpSocket::bind((address(index, 2), self.client_port))?;
        let to_server = UdpSocket::bind((address(index, 1), 0))?;
        self.client_port = to_client.local_addr()?.port();
        let server = SocketAddr::from((address(index, 2), UDP_PORT));
        let right = Arc::new(Direction::new(index, spec.towards_right, Targets::Server(server)));
        let left =
            Arc::new(Direction::new(index, spec.towards_left, Targets::Clients(BTreeMap::new())));
        self.spawn(&right, to_client.try_clone()?, to_server.try_clone()?, Some(Arc::clone(&left)));
        self.spawn(&left, to_server, to_client, None);
        self.directions.extend([right, left]);
        Ok(())
    }

    /// The two threads of a direction: from the socket into the link, from the link to the socket.
    fn spawn(
        &mut self,
        way: &Arc<Direction>,
        from: UdpSocket,
        to: UdpSocket,
        back: Option<Arc<Direction>>,
    ) {
        let (shared, direction) = (Arc::clone(&self.shared), Arc::clone(way));
        self.threads
            .push(std::thread::spawn(move || direction.receive(&shared, &from, back.as_deref())));
        let (shared, direction) = (Arc::clone(&self.shared), Arc::clone(way));
        self.threads.push(std::thread::spawn(move || direction.send(&shared, &to)));
    }

    /// The address that programs use.
    pub(crate) fn server_address(&self) -> Ipv4Addr {
        address(0, 2)
    }

    /// UDP port of the relays, on every server address.
    pub(crate) fn client_port(&self) -> u16 {
        self.client_port
    }

    /// Local addresses of the client's stack.
    pub(crate) fn client_locals(&self) -> Vec<String> {
        (0..self.names.len()).map(|i| address(i, 1).to_string()).collect()
    }

    /// Local addresses of the server's stack.
    pub(crate) fn server_locals(&self) -> Vec<String> {
        (0..self.names.len()).map(|i| address(i, 2).to_string()).collect()
    }

    /// Takes a path down or up.
    pub(crate) fn set_up(&self, name: &str, up: bool) {
        let now = self.shared.now();
        for direction in self.directions.iter().filter(|d| self.names[d.path] == name) {
            let mut state = lock(&direction.link);
            let config = LinkConfig { up, ..state.link.config().clone() };
            state.link.set_config(now, config);
            direction.wake.notify_all();
        }
    }

    /// Time since the relays were started: the clock of the series.
    pub(crate) fn elapsed(&self) -> Duration {
        self.shared.origin.elapsed()
    }

    /// Delivered IP bytes per path since `from`, in the busier direction.
    pub(crate) fn series(&self, from: Duration) -> Series {
        let skip = (from.as_nanos() / BUCKET.as_nanos()) as usize;
        let complete = (self.elapsed().as_nanos() / BUCKET.as_nanos()) as usize;
        let buckets = |path: usize| {
            let both = self.directions.iter().filter(|d| d.path == path).map(|d| {
                let mut buckets = lock(&d.link).buckets.clone();
                buckets.resize(complete, 0);
                buckets.into_iter().skip(skip).collect::<Vec<u64>>()
            });
            both.max_by_key(|b| b.iter().sum::<u64>()).unwrap_or_default()
        };
        let paths = self.names.iter().enumerate().map(|(i, name)| (name.clone(), buckets(i)));
        Series { bucket: BUCKET, paths: paths.collect() }
    }

    /// Writes every SCTP packet that is delivered to `file`.
    pub(crate) fn capture(&self, file: &Path) -> std::io::Result<()> {
        let mut writer = Writer::new(BufWriter::new(File::create(file)?), "manypath")?;
        let interface = |name: &String| writer.interface(&format!("path{name}"), LinkType::Sctp);
        let interfaces = self.names.iter().map(interface).collect::<Result<_, _>>()?;
        *lock(&self.shared.capture) = Some((writer, interfaces));
        Ok(())
    }

    /// Ends the capture.
    pub(crate) fn stop_capture(&self) {
        // Losing the end of a capture harms nothing that the demo measures.
        let _ = lock(&self.shared.capture).take().map(|(writer, _)| writer.finish());
    }
}

impl Drop for LoopbackPaths {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.directions.iter().for_each(|d| d.wake.notify_all());
        for thread in self.threads.drain(..) {
            // A thread that panicked is gone, which is what is wanted here.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn now(&self) -> EngineInstant {
        EngineInstant::from_nanos(
            u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        )
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Direction {
    fn new(path: usize, config: LinkConfig, targets: Targets) -> Self {
        let link = Link::new(config, path as u64);
        let state = State { link, buckets: Vec::new() };
        Self { path, link: Mutex::new(state), wake: Condvar::new(), targets: Mutex::new(targets) }
    }

    /// Datagrams from the socket into the link; `back` learns where they come from.
    fn receive(&self, shared: &Shared, socket: &UdpSocket, back: Option<&Self>) {
        if socket.set_read_timeout(Some(LOOK)).is_err() {
            return;
        }
        let mut buffer = vec![0; 65536];
        while !shared.stopping() {
            // Time-outs and errors that ICMP causes are all the same here: try again.
            let Ok((length, source)) = socket.recv_from(&mut buffer) else { continue };
            if let (Some(back), Some(port)) = (back, sctp_port(&buffer[..length], 0)) {
                lock(&back.targets).learn(port, source);
            }
            let datagram = Datagram(buffer[..length].to_vec());
            // A dropped datagram is counted by the link.
            let _ = lock(&self.link).link.enqueue(shared.now(), datagram);
            self.wake.notify_all();
        }
    }

    /// Datagrams that have crossed the link to the socket.
    fn send(&self, shared: &Shared, socket: &UdpSocket) {
        let mut state = lock(&self.link);
        while !shared.stopping() {
            let now = shared.now();
            if let Some(datagram) = state.link.poll(now) {
                let bucket = (u128::from(now.as_nanos()) / BUCKET.as_nanos()) as usize;
                let length = state.buckets.len().max(bucket + 1);
                state.buckets.resize(length, 0);
                state.buckets[bucket] += datagram.wire_len() as u64;
                drop(state);
                self.deliver(shared, socket, &datagram);
                state = lock(&self.link);
                continue;
            }
            let wait = state.link.next_deadline().map_or(LOOK, |at| at.since(now)).min(LOOK);
            let waited = self.wake.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn deliver(&self, shared: &Shared, socket: &UdpSocket, datagram: &Datagram) {
        if let Some((capture, interfaces)) = lock(&shared.capture).as_mut() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
            // A full disk must not disturb the transfer that is measured.
            let _ =
                capture.packet(interfaces[self.path], nanos, &datagram.0, datagram.0.len(), None);
        }
        if let Some(target) = lock(&self.targets).of(&datagram.0) {
            // UDP may lose; the stacks above repair it.
            let _ = socket.send_to(&datagram.0, target);
        }
    }
}

impl Targets {
    /// The client with the SCTP port `port` sends from `source`.
    fn learn(&mut self, port: [u8; 2], source: SocketAddr) {
        if let Self::Clients(clients) = self {
            clients.insert(port, source);
        }
    }

    fn of(&self, packet: &[u8]) -> Option<SocketAddr> {
        match self {
            Self::Server(server) => Some(*server),
            Self::Clients(clients) => clients.get(&sctp_port(packet, 2)?).copied(),
        }
    }
}

/// The SCTP port at `offset` of the common header: 0 is the source's, 2 the destination's.
fn sctp_port(packet: &[u8], offset: usize) -> Option<[u8; 2]> {
    packet.get(offset..offset + 2)?.try_into().ok()
}

/// Address of host `host` (1 client, 2 server) on path `index`.
fn address(index: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, index as u8 + 1, host)
}

#[cfg(test)]
mod tests {
    use super::{SocketAddr, Targets};
    use std::collections::BTreeMap;

    #[test]
    fn each_client_gets_the_packets_of_its_own_association() {
        let source = |port| SocketAddr::from(([127, 0, 1, 1], port));
        let mut targets = Targets::Clients(BTreeMap::new());
        targets.learn([1, 1], source(1000));
        targets.learn([2, 2], source(2000));
        assert_eq!(targets.of(&[9, 9, 1, 1, 0]), Some(source(1000)));
        assert_eq!(targets.of(&[9, 9, 2, 2, 0]), Some(source(2000)));
        assert_eq!(targets.of(&[9, 9, 3, 3]), None);
        assert_eq!(targets.of(&[9]), None);
    }
}
