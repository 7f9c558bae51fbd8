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
use manypath_engine::{Config, Ecn, Endpoint, EndpointEvent, Instant, PathAddr, Transmit};
use path::Path;
use std::collections::BTreeMap;
use trace::Trace;

/// More events at one instant than any healthy endpoint has.
const MOST_AT_ONCE: u32 = 100_000;

/// Later than anything that happens.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Buffers of delivered packets that are kept for packets to come.
const MOST_SPARE: usize = 256;

/// The whole simulated network.
#[derive(Debug)]
pub struct World {
    now: Instant,
    rng: Rng,
    hosts: Vec<Host>,
    paths: Vec<Path>,
    links: Vec<Link<Datagram>>,
    /// When each link must be polled next.
    due: Vec<Instant>,
    /// Buffers of packets that have been delivered.
    spare: Vec<Vec<u8>>,
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
            due: Vec::new(),
            spare: Vec::new(),
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

    /// The addresses of a path as a host sees them.
    pub fn addresses(&self, path: PathNumber, host: HostId) -> PathAddr {
        let path = &self.paths[path.0];
        path.addr(path.end_of(host))
    }

    /// Lets a direction of a path change at a time to come.
    pub fn schedule(&mut self, at: Instant, path: PathNumber, towards: HostId, config: LinkConfig) {
        let link = self.link_of(path, towards);
        self.schedule.insert((at, self.scheduled), Change { link, config });
        self.scheduled += 1;
    }

    /// Changes a direction of a path now.
    pub fn set_link(&mut self, path: PathNumber, towards: HostId, config: LinkConfig) {
        self.change(Change { link: self.link_of(path, towards), config });
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
        let (sctp, may_fragment, ecn) = (Vec::new(), true, Ecn::NotEct);
        self.enter(Datagram { path: path.0, end, hop: 0, sctp, ip_len, may_fragment, ecn });
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

    /// Goes on to the next time at which something happens at a host or a link changes, or to
    /// `limit` if that is sooner. Says whether something has happened.
    pub fn step(&mut self, limit: Instant) -> bool {
        self.transmit_all();
        let before = self.now;
        while let Some(at) = self.next_event(limit) {
            self.now = self.now.max(at);
            if self.happen() {
                self.standing = if self.now == before { self.standing + 1 } else { 0 };
                assert!(self.standing < MOST_AT_ONCE, "a timer expires again and again at {at:?}");
                return true;
            }
        }
        self.now = self.now.max(limit);
        false
    }

    /// When something happens next, by `limit`.
    fn next_event(&self, limit: Instant) -> Option<Instant> {
        let mut next = self.due.iter().fold(NEVER, |next, at| next.min(*at));
        if let Some(((at, _), _)) = self.schedule.first_key_value() {
            next = next.min(*at);
        }
        for host in &self.hosts {
            next = next.min(host.deadline.unwrap_or(NEVER));
        }
        (next <= limit && next != NEVER).then_some(next)
    }

    /// What happens now. Says whether it concerns more than packets on their way.
    fn happen(&mut self) -> bool {
        let mut noticed = false;
        while let Some(entry) = self.schedule.first_entry().filter(|e| e.key().0 <= self.now) {
            let change = entry.remove();
            self.change(change);
            noticed = true;
        }
        for link in 0..self.links.len() {
            if self.due[link] <= self.now {
                noticed |= self.deliver_from(link);
            }
        }
        for host in &mut self.hosts {
            if host.deadline.is_some_and(|at| at <= self.now) {
                host.endpoint.handle_timeout(self.now);
                host.may_send = true;
                noticed = true;
            }
        }
        noticed
    }

    fn change(&mut self, change: Change) {
        let link = change.link.0;
        self.links[link].set_config(self.now, change.config);
        self.note_due(link);
    }

    /// Hands over what has left one link; after each packet the receiver may send. Says whether a
    /// host has got something.
    fn deliver_from(&mut self, link: usize) -> bool {
        let mut delivered = false;
        while let Some(mut datagram) = self.links[link].poll(self.now) {
            datagram.hop += 1;
            let path = &self.paths[datagram.path];
            match path.routes[datagram.end].get(datagram.hop) {
                Some(next) => {
                    let next = next.0;
                    self.report_too_big(next, &datagram);
                    // The link counts what it drops.
                    let _ = self.links[next].enqueue(self.now, datagram);
                    self.note_due(next);
                }
                None => delivered |= self.deliver(datagram),
            }
        }
        self.note_due(link);
        delivered
    }

    /// A packet has arrived. Says whether a host has got it: background traffic has done its work.
    fn deliver(&mut self, mut datagram: Datagram) -> bool {
        let path = &self.paths[datagram.path];
        if datagram.sctp.is_empty() || !path.up[datagram.end] {
            return false;
        }
        let (to, addr) = (path.host(datagram.end), path.addr(datagram.end));
        let now = self.now;
        self.endpoint(to).handle_marked_packet(now, addr, &mut datagram.sctp, datagram.ecn);
        if self.spare.len() < MOST_SPARE {
            self.spare.push(datagram.sctp);
        }
        self.transmit(to);
        true
    }

    fn note_due(&mut self, link: usize) {
        self.due[link] = self.links[link].next_deadline().unwrap_or(NEVER);
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
            let Some(run) = endpoint.poll_transmit(self.now, batch) else { break };
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
            while let Some(sctp) = self.packet(host, at, run.segment_size) {
                at += sctp.len();
                let ip_len = sctp.len() + self.paths[number].header_len();
                let Transmit { may_fragment, ecn, .. } = run;
                let path = number;
                self.enter(Datagram { path, end, hop: 0, sctp, ip_len, may_fragment, ecn });
            }
        }
        let Host { endpoint, deadline, .. } = &mut self.hosts[host.0];
        *deadline = endpoint.poll_timeout();
    }

    /// The packet that begins at byte `at` of a host's last run, of at most `size` bytes.
    fn packet(&mut self, host: HostId, at: usize, size: usize) -> Option<Vec<u8>> {
        let rest = self.hosts[host.0].batch.bytes().get(at..).filter(|rest| !rest.is_empty())?;
        let mut sctp = self.spare.pop().unwrap_or_default();
        sctp.clear();
        sctp.extend_from_slice(&rest[..rest.len().min(size.max(1))]);
        Some(sctp)
    }

    /// A packet enters the first link of its route.
    fn enter(&mut self, datagram: Datagram) {
        let path = &self.paths[datagram.path];
        let sender = 1 - datagram.end;
        let packet = self.trace.is_capturing().then(|| match datagram.sctp.is_empty() {
            true => background_packet(path.addr(sender), datagram.ip_len),
            false => ip_packet(path.addr(sender), &datagram.sctp, datagram.ecn),
        });
        let number = datagram.path;
        self.trace.note(self.now, &datagram);
        let link = path.routes[datagram.end][0].0;
        self.report_too_big(link, &datagram);
        let fate = self.links[link].enqueue(self.now, datagram);
        self.note_due(link);
        self.trace.note_fate(fate.is_err());
        if let Some(packet) = packet {
            self.trace.capture(self.now, number, &packet, fate.err());
        }
    }

    /// Tells the sender of a packet that is too large for a link, if that link does so.
    fn report_too_big(&mut self, link: usize, datagram: &Datagram) {
        let LinkConfig { mtu_reports: true, mtu: Some(mtu), .. } = *self.links[link].config()
        else {
            return;
        };
        let quote = datagram.sctp.get(..8).filter(|_| self.links[link].is_too_big(datagram));
        if let Some(quote) = quote {
            let path = &self.paths[datagram.path];
            let sender = 1 - datagram.end;
            let (host, addr, now) = (path.host(sender), path.addr(sender), self.now);
            self.endpoint(host).handle_icmp_too_big(now, addr, mtu, quote);
        }
    }

    fn push_link(&mut self, config: LinkConfig, seed: u64) -> LinkNumber {
        self.links.push(Link::new(config, seed));
        self.due.push(NEVER);
        LinkNumber(self.links.len() - 1)
    }
}
