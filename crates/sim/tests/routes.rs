//! Routes of several links: access networks, shared bottlenecks, background traffic.

use crate::support;

use manypath_engine::{Config, Duration, Instant};
use manypath_sim::{LinkConfig, World};
use support::{PORT, address, joint, link, pair};

fn after(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Establishes an association and says when that was, in milliseconds.
fn established(world: &mut World, hosts: [manypath_sim::world::HostId; 2]) -> u64 {
    let id = world.endpoint(hosts[0]).connect(Instant::ZERO, address(0, 2), PORT).unwrap();
    let up = world.run(after(10_000), |world| {
        world
            .look(hosts[0])
            .status(world.now(), id)
            .is_some_and(|status| status.state == manypath_engine::AssociationState::Established)
    });
    assert!(up);
    world.now().as_nanos() / 1_000_000
}

#[test]
fn a_link_in_front_of_a_path_adds_its_delay() {
    let mut world = World::new(1);
    let hosts = pair(&mut world, &Config::default());
    let path = world.join(&joint(hosts, 0, link(100, 10, 100)));
    for host in hosts {
        let access =
            world.add_link(LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() });
        let own = world.link_of(path, host);
        world.set_route(path, host, vec![access, own]);
    }
    // Two round trips of 2 x 15 ms and a little for serialisation.
    let at = established(&mut world, hosts);
    assert!((60..62).contains(&at), "{at} ms");
}

#[test]
fn paths_can_share_a_bottleneck_and_background_traffic_fills_it() {
    let mut world = World::new(1);
    let hosts = pair(&mut world, &Config::default());
    let paths: Vec<_> =
        (0..2).map(|number| world.join(&joint(hosts, number, LinkConfig::default()))).collect();
    let shared = world.add_link(link(1, 0, 100));
    for path in &paths {
        world.set_route(*path, hosts[1], vec![shared]);
    }
    for path in &paths {
        world.send_background(*path, hosts[1], 1250);
    }
    world.run(after(1), |_| false);
    assert_eq!(world.link_counters(paths[0], hosts[1]).packets_out, 0);
    world.run(after(20), |_| false);
    // One after the other at 1 Mbit/s, 10 ms each, though they came on different paths.
    assert_eq!(world.link_counters(paths[1], hosts[1]).packets_out, 2);
    assert_eq!(world.link_counters(paths[1], hosts[1]).bytes_out, 2500);
}
