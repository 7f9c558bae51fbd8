//! The world of a scenario: two hosts, their paths, the access networks in front of them.

use crate::link::LinkConfig;
use crate::scenario::{Access, Competitor, Modules, PathSpec, Scenario};
use crate::world::{HostId, Joint, PathNumber, World};
use manypath_engine::{
    AssociationId, AssociationStatus, Config, Instant, PathPolicy, PathRule, PathStatus,
};
use std::net::{Ipv4Addr, SocketAddr};

/// SCTP ports of the two hosts.
const SENDER_PORT: u16 = 5000;
pub(super) const RECEIVER_PORT: u16 = 7;
/// UDP encapsulation port (RFC 6951).
const ENCAPSULATION: u16 = 9899;

/// A world and the names of what is in it.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) world: World,
    pub(super) sender: HostId,
    pub(super) receiver: HostId,
    pub(super) paths: Vec<PathNumber>,
    /// What decides at both hosts in place of the engine's own.
    pub(super) modules: Modules,
}

impl Network {
    /// Builds the network. The association will begin at `start`: changes count from then.
    pub(super) fn new(scenario: &Scenario, seed: u64, start: Instant) -> Self {
        let mut world = World::new(seed);
        let (base, modules) = scenario.endpoint_config();
        let config = |port, accept| Config { port, accept, ..base.clone() };
        let begins = scenario.begun_by();
        let sender = world.add_host(config(SENDER_PORT, begins == 1));
        let receiver = world.add_host(config(RECEIVER_PORT, begins == 0));
        let mut network = Self { world, sender, receiver, paths: Vec::new(), modules };
        for (number, path) in scenario.paths.iter().enumerate() {
            network.add_path(path, addresses(scenario, number));
            network.schedule(path, number, start);
        }
        network.regulate(scenario);
        network
    }

    /// The sender (0) or the receiver (1) begins the association, over the first path.
    pub(super) fn connect(
        &mut self,
        side: usize,
        now: Instant,
        scenario: &Scenario,
    ) -> Option<AssociationId> {
        let (host, port) = match side {
            0 => (self.sender, RECEIVER_PORT),
            _ => (self.receiver, SENDER_PORT),
        };
        let peer = addresses(scenario, 0)[1 - side];
        // The scenario has paths and the endpoint no other association: connecting cannot fail.
        self.world.endpoint(host).connect(now, peer, port).ok()
    }

    /// What the sender's association knows of a path, whose place among its paths the handshake decides.
    pub(super) fn status_of<'s>(
        &self,
        path: PathNumber,
        status: &'s AssociationStatus,
    ) -> Option<&'s PathStatus> {
        let addr = self.world.addresses(path, self.sender);
        status.paths.iter().find(|path| path.addr == addr)
    }

    /// The two hosts of a flow that goes through links of the scenario's paths, and the receiver's first address.
    /// `number` is no other flow's.
    pub(super) fn add_competitor(
        &mut self,
        scenario: &Scenario,
        spec: &Competitor,
        number: usize,
    ) -> ([HostId; 2], SocketAddr) {
        let config = |port, accept| Config { port, accept, ..spec.config.clone() };
        let sender = self.world.add_host(config(SENDER_PORT, false));
        let hosts = [sender, self.world.add_host(config(RECEIVER_PORT, true))];
        for path in &spec.paths {
            let addresses = [1, 2].map(|host| of_competitor(number, *path, host, scenario.udp));
            self.join(hosts, addresses, &scenario.paths[*path], Some(self.paths[*path]));
        }
        let first = spec.paths.first().copied().unwrap_or(0);
        (hosts, of_competitor(number, first, 2, scenario.udp))
    }

    fn add_path(&mut self, spec: &PathSpec, addresses: [SocketAddr; 2]) {
        let shared = spec.shares.map(|other| self.paths[other]);
        let path = self.join([self.sender, self.receiver], addresses, spec, shared);
        self.paths.push(path);
    }

    /// A path through access networks of its own, if there are any, and the bottleneck of `shared` or one of its own.
    fn join(
        &mut self,
        hosts: [HostId; 2],
        addresses: [SocketAddr; 2],
        spec: &PathSpec,
        shared: Option<PathNumber>,
    ) -> PathNumber {
        let lengthen = |link: &LinkConfig| with_far_access(link, &spec.access);
        let path = self.world.join(&Joint {
            hosts,
            addresses,
            prefix_len: 24,
            mtu: spec.mtu,
            forth: lengthen(&spec.forth),
            back: lengthen(&spec.back),
        });
        let ends = [(hosts[0], self.sender), (hosts[1], self.receiver)];
        for (towards, end) in ends {
            let bottleneck = match shared {
                Some(shared) => self.world.link_of(shared, end),
                None => self.world.link_of(path, towards),
            };
            let mut route = vec![bottleneck];
            if !spec.access.is_none() {
                route.insert(0, self.world.add_link(access_link(&spec.access)));
            }
            self.world.set_route(path, towards, route);
        }
        path
    }

    /// The sender wants something of its paths; where nobody does, nothing is said.
    fn regulate(&mut self, scenario: &Scenario) {
        let wishes = (0..).zip(scenario.paths.iter().map(|path| path.policy));
        let rules: Vec<PathRule> = wishes
            .filter(|(_, policy)| *policy != PathPolicy::default())
            .map(|(number, policy)| {
                let [local, remote] = addresses(scenario, number).map(|address| Some(address.ip()));
                PathRule { local, remote, policy }
            })
            .collect();
        if !rules.is_empty() {
            self.world.endpoint(self.sender).set_path_policies(Instant::ZERO, rules);
        }
    }

    fn schedule(&mut self, spec: &PathSpec, number: usize, start: Instant) {
        for change in &spec.changes {
            let at = start + change.at;
            for (towards, link) in [(self.receiver, &change.forth), (self.sender, &change.back)] {
                let link = with_far_access(link, &spec.access);
                self.world.schedule(at, self.paths[number], towards, link);
            }
        }
    }
}

/// A bottleneck with the access network at its far end: that one only adds delay, fixed and random.
/// The random one matters at this end too: what comes out of a busy bottleneck comes at even
/// distances whatever went in, and the packets of two paths would keep in step.
fn with_far_access(link: &LinkConfig, access: &Access) -> LinkConfig {
    let (delay, jitter) = (link.delay + access.delay / 2, link.jitter + access.jitter);
    LinkConfig { delay, jitter, ..link.clone() }
}

/// The access network at the near end. Its queue never drops: it is faster than the bottleneck.
fn access_link(access: &Access) -> LinkConfig {
    LinkConfig {
        rate_bps: access.rate_bps,
        delay: access.delay / 2,
        jitter: access.jitter,
        queue_packets: usize::MAX,
        ..LinkConfig::default()
    }
}

/// Addresses of hosts 1 and 2 on a path. A server with one address has a public one, to which all paths lead.
fn addresses(scenario: &Scenario, path: usize) -> [SocketAddr; 2] {
    // A scenario has at most 64 paths.
    let network = u8::try_from(path + 1).unwrap_or(u8::MAX);
    let server = scenario.single_homed_server.then_some(1 - scenario.begun_by());
    [(0, 1), (1, 2)].map(|(side, host)| {
        let ip = match server == Some(side) {
            true => Ipv4Addr::new(198, 51, 100, host),
            false => Ipv4Addr::new(10, 77, network, host),
        };
        (ip, if scenario.udp { ENCAPSULATION } else { 0 }).into()
    })
}

/// Address of host 1 or 2 of a competing flow on a path: a network for each flow and path.
fn of_competitor(flow: usize, path: usize, host: u8, udp: bool) -> SocketAddr {
    // A scenario has at most 64 paths and 250 competing flows.
    let [network, flow] = [path + 100, flow].map(|number| u8::try_from(number).unwrap_or(u8::MAX));
    (Ipv4Addr::new(10, network, flow, host), if udp { ENCAPSULATION } else { 0 }).into()
}
