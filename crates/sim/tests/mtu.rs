//! Links that take less than the interfaces at the ends, with and without reports of routers.

use crate::support;

use bytes::Bytes;
use manypath_engine::{
    AssociationId, Config, Duration, Instant, Outgoing, PathMtu, Ppid, StreamId,
};
use manypath_sim::world::{HostId, PathNumber};
use manypath_sim::{LinkConfig, World};
use support::{PORT, address, joint, link, pair};

const MESSAGE: usize = 5000;

fn after(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn searching() -> Config {
    Config { path_mtu: PathMtu::Search, ..Config::default() }
}

struct Network {
    world: World,
    hosts: [HostId; 2],
    path: PathNumber,
    id: AssociationId,
}

impl Network {
    fn new(config: &Config, bottleneck: LinkConfig) -> Self {
        let mut world = World::new(1);
        let hosts = pair(&mut world, config);
        let path = world.join(&joint(hosts, 0, bottleneck));
        let id = world.endpoint(hosts[0]).connect(Instant::ZERO, address(0, 2), PORT).unwrap();
        Self { world, hosts, path, id }
    }

    /// Sends and reads until `limit`; says how many messages have arrived.
    fn run(&mut self, limit: Instant, messages: usize) -> usize {
        let [client, server] = self.hosts;
        let (mut sent, mut received) = (0, 0);
        self.world.run(limit, |world| {
            let now = world.now();
            while sent < messages {
                let payload = Bytes::from(vec![7; MESSAGE]);
                let stream = StreamId(0);
                let message = Outgoing { stream, ppid: Ppid(0), unordered: false, payload };
                if world.endpoint(client).send(now, self.id, message).is_err() {
                    break;
                }
                sent += 1;
            }
            for id in world.look(server).associations() {
                while world.endpoint(server).read(id).is_some() {
                    received += 1;
                }
            }
            received == messages
        });
        received
    }

    fn mtu(&self) -> u16 {
        self.world.look(self.hosts[0]).status(self.world.now(), self.id).unwrap().paths[0].mtu
    }
}

#[test]
fn a_black_hole_from_the_start_costs_nothing_but_probes() {
    let bottleneck = LinkConfig { mtu: Some(1400), ..link(20, 10, 100) };
    let mut network = Network::new(&searching(), bottleneck);
    assert_eq!(network.run(after(60_000), 400), 400);
    assert!(network.world.now() < after(2000), "{:?}", network.world.now());
    network.run(after(20_000), usize::MAX);
    assert_eq!(network.mtu(), 1400);
    let counters = network.world.look(network.hosts[0]).counters();
    assert_eq!((counters.mtu_black_holes, counters.fragmented_packets), (0, 0));
    let dropped = network.world.link_counters(network.path, network.hosts[1]).dropped_too_big;
    assert_eq!(dropped, counters.mtu_probes_lost);
}

#[test]
fn a_router_that_reports_is_heard() {
    let bottleneck = LinkConfig { mtu: Some(1400), mtu_reports: true, ..link(20, 10, 100) };
    let mut network = Network::new(&searching(), bottleneck);
    assert_eq!(network.run(after(60_000), 400), 400);
    assert_eq!(network.mtu(), 1400);
    let counters = network.world.look(network.hosts[0]).counters();
    assert_eq!((counters.mtu_probes, counters.too_big_reports), (2, 1));
}

#[test]
fn a_route_that_becomes_narrow_in_mid_transfer_is_left_for_smaller_packets() {
    for reports in [false, true] {
        let wide = link(20, 10, 100);
        let mut network = Network::new(&searching(), wide.clone());
        let narrow = LinkConfig { mtu: Some(1300), mtu_reports: reports, ..wide };
        let (path, server) = (network.path, network.hosts[1]);
        network.world.schedule(after(500), path, server, narrow);
        assert_eq!(network.run(after(60_000), 2000), 2000, "{reports}");
        let took = network.world.now();
        assert!(took < after(7000), "{reports}: {took:?}");
        assert!(network.mtu() <= 1300, "{reports}: {}", network.mtu());
    }
}

#[test]
fn a_jumbo_path_is_used_with_jumbo_packets() {
    let mut world = World::new(1);
    let hosts = pair(&mut world, &searching());
    let mut jumbo = joint(hosts, 0, link(100, 10, 100));
    jumbo.mtu = 9000;
    let path = world.join(&jumbo);
    let id = world.endpoint(hosts[0]).connect(Instant::ZERO, address(0, 2), PORT).unwrap();
    let mut network = Network { world, hosts, path, id };
    assert_eq!(network.run(after(10_000), 200), 200);
    assert_eq!(network.mtu(), 9000);
}
