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
//!
//! Each direction of a path is a route: normally one link, made with the path. Further links can be
//! put in front of it (an access network), and paths can share links (a common bottleneck).

mod datagram;
mod host;
mod path;
mod trace;

pub use host::HostId;
pub use path::{Joint, LinkNumber, PathNumber};

use crate::link::{Link, LinkConfig, LinkCounters};
use crate::rng::Rng;
use datagram::{Datagram, background_packet, ip_packet};
use host::Host;
use manypath_engine::{Config, Endpoint, EndpointEvent, Instant};
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
    links: Vec<Link<Datagram>>,
    schedule: BTreeMap<(Instant, usize), Change>,
    scheduled: usize,
    trace: Trace,
    unroutable: u64,
    /// Things that happened since the time last moved.
    standing: u32,
}

/// One scheduled change of a link.
#[derive(Debug)]
struct Change {
    link: LinkNumber,
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
            links: Vec::new(),
            schedule: BTreeMap::new(),
            scheduled: 0,
            trace: Trace::default(),
            unroutable: 0,
            standing: 0,
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
        let back = self.push_link(joint.back.clone(), seed);
        let forth = self.push_link(joint.forth.clone(), !seed);
        self.paths.push(Path::new(joint, [vec![back], vec![forth]]));
        PathNumber(self.paths.len() - 1)
    }

    /// Adds a link that no path uses yet.
    pub fn add_link(&mut self, config: LinkConfig) -> LinkNumber {
        let seed = self.rng.next_u64();
        self.push_link(config, seed)
    }

    /// Lets packets towards a host pass `links` in this order, instead of what they passed before.
    /// The last of them is the path's link for the calls that name a path and a direction.
    pub fn set_route(&mut self, path: PathNumber, towards: HostId, links: Vec<LinkNumber>) {
        let end = self.paths[path.0].end_of(towards);
        if !links.is_empty() {
            self.paths[path.0].routes[end] = links;
        }
    }

    /// The last link that packets towards a host pass on a path.
    pub fn link_of(&self, path: PathNumber, towards: HostId) -> LinkNumber {
        let path = &self.paths[path.0];
        let route = &path.routes[path.end_of(towards)];
        route[route.len() - 1]
    }

    /// Lets a direction of a path change at a time to come.
    pub fn schedule(&mut self, at: Instant, path: PathNumber, towards: HostId, config: LinkConfig) {
        let link = self.link_of(path, towards);
        self.schedule.insert((at, self.scheduled), Change { link, config });
        self.scheduled += 1;
    }

    /// Changes a direction of a path now.
    pub fn set_link(&mut self, path: PathNumber, towards: HostId, config: LinkConfig) {
        let link = self.link_of(path, towards);
        self.links[link.0].set_config(self.now, config);
    }

    /// Switches the device with which a host is on a path on or off. While it is off nothing gets in
    /// or out, and an endpoint that tries to send is told so, as a kernel would.
    pub fn set_device(&mut self, host: HostId, path: PathNumber, up: bool) {
        let end = self.paths[path.0].end_of(host);
        self.paths[path.0].up[end] = up;
    }

    /// Sends a packet of `ip_len` bytes that no endpoint sees along a path: background traffic.
    pub fn send_background(&mut self, path: PathNumber, towards: HostId, ip_len: usize) {
        let end = self.paths[path.0].end_of(towards);
        self.enter(Datagram { path: path.0, end, hop: 0, sctp: Vec::new(), ip_len });
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The endpoint of a host, for commands, events and reading. What it wants to send is sent when
    /// the world goes on.
    pub fn endpoint(&mut self, host: HostId) -> &mut Endpoint {
        self.hosts[host.0].may_send = true;
        &mut self.hosts[host.0].endpoint
    }

    /// The endpoint of a host, to look at.
    pub fn look(&self, host: HostId) -> &Endpoint {
        &self.hosts[host.0].endpoint
    }

    /// The next notification of a host's endpoint.
    pub fn poll_event(&mut self, host: HostId) -> Option<EndpointEvent> {
        self.hosts[host.0].endpoint.poll_event()
    }

    /// What has passed a direction of a path.
    pub fn link_counters(&self, path: PathNumber, towards: HostId) -> &LinkCounters {
        self.links[self.link_of(path, towards).0].counters()
    }

    /// Packets that wait for the transmitter of a direction of a path.
    pub fn queue_len(&self, path: PathNumber, towards: HostId) -> usize {
        self.links[self.link_of(path, towards).0].queue_len()
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
        loop {
            if done(self) {
                return true;
            }
            if !self.step(limit) {
                return false;
            }
        }
    }

    /// Goes on to the next time at which something happens, or to `limit` if that is sooner. Says
    /// whether something has happened.
    pub fn step(&mut self, limit: Instant) -> bool {
        self.transmit_all();
        let before = self.now;
        let Some(at) = self.next_event().filter(|at| *at <= limit) else {
            self.now = self.now.max(limit);
            return false;
        };
        self.advance_to(at);
        self.standing = if self.now == before { self.standing + 1 } else { 0 };
        assert!(self.standing < MOST_AT_ONCE, "a timer expires again and again at {before:?}");
        true
    }

    /// When something happens next.
    fn next_event(&self) -> Option<Instant> {
        let changes = self.schedule.keys().map(|(at, _)| *at).take(1);
        let arrivals = self.links.iter().filter_map(Link::next_deadline);
        let timers = self.hosts.iter().filter_map(|host| host.endpoint.poll_timeout());
        changes.chain(arrivals).chain(timers).min()
    }

    fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        while let Some(entry) = self.schedule.first_entry().filter(|e| e.key().0 <= self.now) {
            let Change { link, config } = entry.remove();
            self.links[link.0].set_config(self.now, config);
        }
        for link in 0..self.links.len() {
            self.deliver_from(link);
        }
        for host in &mut self.hosts {
            if host.endpoint.poll_timeout().is_some_and(|at| at <= self.now) {
                host.endpoint.handle_timeout(self.now);
                host.may_send = true;
            }
        }
    }

    /// Hands over what has left one link; after each packet the receiver may send.
    fn deliver_from(&mut self, link: usize) {
        while let Some(mut datagram) = self.links[link].poll(self.now) {
            datagram.hop += 1;
            let path = &self.paths[datagram.path];
            match path.routes[datagram.end].get(datagram.hop) {
                Some(next) => {
                    // The link counts what it drops.
                    let _ = self.links[next.0].enqueue(self.now, datagram);
                }
                None => self.deliver(&datagram),
            }
        }
    }

    fn deliver(&mut self, datagram: &Datagram) {
        if datagram.sctp.is_empty() {
            return; // background traffic has done its work
        }
        let path = &self.paths[datagram.path];
        if !path.up[datagram.end] {
            return;
        }
        let (to, addr) = (path.host(datagram.end), path.addr(datagram.end));
        let now = self.now;
        self.endpoint(to).handle_packet(now, addr, &datagram.sctp);
        self.transmit(to);
    }

    fn transmit_all(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].may_send {
                self.transmit(HostId(host));
            }
        }
    }

    /// Puts all that a host's endpoint wants to send on the paths.
    fn transmit(&mut self, host: HostId) {
        self.hosts[host.0].may_send = false;
        loop {
            let Host { endpoint, batch, .. } = &mut self.hosts[host.0];
            let Some(run) = endpoint.poll_transmit(self.now, batch) else { return };
            let Some(number) = self.paths.iter().position(|path| path.carries(host, run.path))
            else {
                self.unroutable += run.packets as u64;
                continue;
            };
            let end = 1 - self.paths[number].end_of(host);
            if !self.paths[number].up[1 - end] {
                self.hosts[host.0].endpoint.handle_unreachable(self.now, run.path);
                continue;
            }
            let mut at = 0;
            while let Some(sctp) = self.hosts[host.0].packet(at, run.segment_size) {
                at += sctp.len();
                let ip_len = sctp.len() + self.paths[number].header_len();
                self.enter(Datagram { path: number, end, hop: 0, sctp, ip_len });
            }
        }
    }

    /// A packet enters the first link of its route.
    fn enter(&mut self, datagram: Datagram) {
        let path = &self.paths[datagram.path];
        let sender = 1 - datagram.end;
        let packet = self.trace.is_capturing().then(|| match datagram.sctp.is_empty() {
            true => background_packet(path.addr(sender), datagram.ip_len),
            false => ip_packet(path.addr(sender), &datagram.sctp),
        });
        let number = datagram.path;
        self.trace.note(self.now, &datagram);
        let fate = self.links[path.routes[datagram.end][0].0].enqueue(self.now, datagram);
        self.trace.note_fate(fate.is_err());
        if let Some(packet) = packet {
            self.trace.capture(self.now, number, &packet, fate.err());
        }
    }

    fn push_link(&mut self, config: LinkConfig, seed: u64) -> LinkNumber {
        self.links.push(Link::new(config, seed));
        LinkNumber(self.links.len() - 1)
    }
}
