//! Shared by the tests: two endpoints that exchange messages and check what they get.

pub(crate) mod case;
pub(crate) mod exchange;
pub(crate) mod flow;

use manypath_engine::{Config, Duration};
use manypath_sim::campaign::{self, Options, Record, Shard};
use manypath_sim::scenario::Plan;
use manypath_sim::simulation::RunOptions;
use manypath_sim::world::{HostId, Joint};
use manypath_sim::{LinkConfig, World};
use std::net::{Ipv4Addr, SocketAddr};

/// SCTP port of the servers.
pub(crate) const PORT: u16 = 7;
/// UDP encapsulation port (RFC 6951).
pub(crate) const ENCAPSULATION: u16 = 9899;

/// A client and a server.
pub(crate) fn pair(world: &mut World, config: &Config) -> [HostId; 2] {
    let client = world.add_host(Config { port: 5000, ..config.clone() });
    let server = world.add_host(Config { port: PORT, accept: true, ..config.clone() });
    [client, server]
}

/// Address of a host (1 or 2) on a path.
pub(crate) fn address(path: u8, host: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 77, path + 1, host), ENCAPSULATION).into()
}

/// The path with this number, the same both ways.
pub(crate) fn joint(hosts: [HostId; 2], path: u8, link: LinkConfig) -> Joint {
    Joint {
        hosts,
        addresses: [address(path, 1), address(path, 2)],
        prefix_len: 24,
        mtu: 1500,
        forth: link.clone(),
        back: link,
    }
}

pub(crate) fn link(mbps: u64, delay_ms: u64, queue_packets: usize) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(mbps * 1_000_000),
        delay: Duration::from_millis(delay_ms),
        queue_packets,
        ..LinkConfig::default()
    }
}

/// Does all runs of a plan in a folder of its own.
pub(crate) fn execute(plan: &Plan, name: &str) -> Vec<Record> {
    let out = std::env::temp_dir().join(format!("manypath-{name}-{}", std::process::id()));
    let options = Options {
        out: out.clone(),
        jobs: 2,
        shard: Shard::default(),
        resume: false,
        keep: RunOptions::default(),
        version: "test".into(),
        commit: None,
    };
    let records = campaign::execute(plan, &options, &mut |_| ()).unwrap();
    std::fs::remove_dir_all(out).unwrap();
    records
}
