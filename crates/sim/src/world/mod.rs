//! Endpoints of the engine joined by paths made of links, in virtual time.
//!
//! The loop knows three kinds of things that happen: a packet arrives, an endpoint's timer expires,
//! a link changes as scheduled. It jumps from one to the next. Things that happen at the same time
//! happen in a fixed order (changes, arrivals by path, timers by host), so that a seed determines
//! every packet. [`World::trace_hash`] condenses the whole run into one number.
//!
//! ```text
//! host 0: Endpoint ── path 0: Link ⇄ Link ── host 1: Endpoint
//!                  ── path 1: Link ⇄ Link ──
//! ```

mod datagram;
mod host;
mod path;
mod trace;

pub use host::HostId;
pub use path::{Joint, PathNumber};

use crate::link::{LinkConfig, LinkCounters};
use crate::rng::Rng;
use datagram::Datagram;
use host::Host;
use manypath_engine::{Config, Endpoint, Instant, PathAddr};
use path::Path;
use std::collections::BTreeMap;
use trace::Trace;

/// More events at one instant than any healthy endpoint has.
const MOST_AT_ONCE: u32 = 100_000;

/// The whole simulated network.
#[derive(Debug)]
pub struct World {
    now: Instant,
    rng: Rng,
    hosts: Vec<Host>,
    paths: Vec<Path>,
    schedule: BTreeMap<(Instant, usize), Change>,
    scheduled: usize,
    trace: Trace,
    unroutable: u64,
}

/// One scheduled change of a link.
#[derive(Debug)]
struct Change {
    path: PathNumber,
    towards: HostId,
    config: LinkConfig,
}

impl World {
    /// A world without hosts. `seed` decides everything that is left to chance.
    pub fn new(seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            hosts: Vec::new(),
            paths: Vec::new(),
            schedule: BTreeMap::new(),
            scheduled: 0,
            trace: Trace::default(),
            unroutable: 0,
        }
    }

    /// Adds a host with an endpoint.
    pub fn add_host(&mut self, config: Config) -> HostId {
        let endpoint = Endpoint::new(config, self.rng.fork(self.hosts.len() as u64).seed());
        self.hosts.push(Host::new(endpoint));
        HostId(self.hosts.len() - 1)
    }

    /// Joins two hosts by a path and makes its addresses known to their endpoints.
    pub fn join(&mut self, joint: &Joint) -> PathNumber {
        for (host, local) in joint.ends() {
            self.hosts[host.0].endpoint.add_local_address(local);
        }
        let seed = self.rng.next_u64();
        self.paths.push(Path::new(joint, seed));
        PathNumber(self.paths.len() - 1)
    }

    /// Lets a direction of a path change at a time to come.
    pub fn schedule(&mut self, at: Instant, path: PathNumber, towards: HostId, config: LinkConfig) {
        self.schedule.insert((at, self.scheduled), Change { path, towards, config });
        self.scheduled += 1;
    }

    /// Changes a direction of a path now.
    pub fn set_link(&mut self, path: PathNumber, towards: HostId, config: LinkConfig) {
        let now = self.now;
        self.paths[path.0].link_mut(towards).set_config(now, config);
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The endpoint of a host, for commands, events and reading. What it wants to send is sent when
    /// the world goes on.
    pub fn endpoint(&mut self, host: HostId) -> &mut Endpoint {
        &mut self.hosts[host.0].endpoint
    }

    /// What has passed a direction of a path.
    pub fn link_counters(&self, path: PathNumber, towards: HostId) -> &LinkCounters {
        self.paths[path.0].link(towards).counters()
    }

    /// Packets that were sent between addresses which no path joins.
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }

    /// A number that every packet's time, path, bytes and fate has gone into.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    /// Keeps every packet, as it enters its path, for [`World::finish_capture`].
    pub fn start_capture(&mut self) {
        self.trace.start_capture(self.paths.len());
    }

    /// The capture so far as a pcapng file, with IP and UDP headers. Empty without a capture.
    pub fn finish_capture(&mut self) -> Vec<u8> {
        self.trace.finish_capture()
    }

    /// Goes on until `limit` or until `done`, which is asked at the beginning and each time
    /// something has happened. Says whether it was done.
    pub fn run(&mut self, limit: Instant, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let mut standing = 0;
        loop {
            if done(self) {
                return true;
            }
            self.transmit_all();
            let before = self.now;
            match self.next_event() {
                Some(at) if at <= limit => self.advance_to(at),
                _ => {
                    self.now = self.now.max(limit);
                    return false;
                }
            }
            standing = if self.now == before { standing + 1 } else { 0 };
            assert!(standing < MOST_AT_ONCE, "a timer expires again and again at {before:?}");
        }
    }

    /// When something happens next.
    fn next_event(&self) -> Option<Instant> {
        let changes = self.schedule.keys().map(|(at, _)| *at).take(1);
        let arrivals = self.paths.iter().filter_map(Path::next_deadline);
        let timers = self.hosts.iter().filter_map(|host| host.endpoint.poll_timeout());
        changes.chain(arrivals).chain(timers).min()
    }

    fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        while let Some(entry) = self.schedule.first_entry().filter(|e| e.key().0 <= self.now) {
            let Change { path, towards, config } = entry.remove();
            self.set_link(path, towards, config);
        }
        for index in 0..self.paths.len() {
            self.deliver_from(index);
        }
        for host in &mut self.hosts {
            if host.endpoint.poll_timeout().is_some_and(|at| at <= self.now) {
                host.endpoint.handle_timeout(self.now);
            }
        }
    }

    /// Hands over what has arrived on one path; after each packet the receiver may send.
    fn deliver_from(&mut self, index: usize) {
        while let Some((to, path, datagram)) = self.paths[index].poll(self.now) {
            self.hosts[to.0].endpoint.handle_packet(self.now, path, datagram.sctp());
            self.transmit(to);
        }
    }

    fn transmit_all(&mut self) {
        for host in 0..self.hosts.len() {
            self.transmit(HostId(host));
        }
    }

    /// Puts all that a host's endpoint wants to send on the paths.
    fn transmit(&mut self, host: HostId) {
        let now = self.now;
        let Self { hosts, paths, trace, unroutable, .. } = self;
        let Host { endpoint, batch } = &mut hosts[host.0];
        while let Some(run) = endpoint.poll_transmit(now, batch) {
            let path = paths.iter_mut().enumerate().find(|(_, path)| path.carries(host, run.path));
            let Some((number, path)) = path else {
                *unroutable += run.packets as u64;
                continue;
            };
            for sctp in batch.bytes().chunks(run.segment_size.max(1)) {
                send(now, number, path, trace, run.path, sctp, host);
            }
        }
    }
}

fn send(
    now: Instant,
    number: usize,
    path: &mut Path,
    trace: &mut Trace,
    addr: PathAddr,
    sctp: &[u8],
    from: HostId,
) {
    let datagram = Datagram::new(addr, sctp);
    let record = datagram.clone();
    let fate = path.link_mut(path.peer_of(from)).enqueue(now, datagram);
    trace.record(now, number, record.bytes(), fate.err());
}
