//! What a saturated transfer gets out of two paths with each congestion control.
//!
//! ```text
//! cargo run --release -p manypath-sim --example congestion [SECONDS [SEEDS]]
//! ```
//!
//! Goodput is user data that the receiver has read, as the mean of the seeds, in Mbit/s of 10^6
//! bits: once in the first three seconds, which are slow start, once from the tenth second on. What
//! was sent again is counted over the whole run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the run")]

use manypath_engine::{
    AssociationId, BurstLimit, Config, CongestionControl, Duration, Event, Instant, Outgoing,
    Pacing, Ppid, SendError, StreamId,
};
use manypath_sim::world::{HostId, Joint};
use manypath_sim::{LinkConfig, World};
use std::net::{Ipv4Addr, SocketAddr};

const PORT: u16 = 7;
const MESSAGE: usize = 1444;
const START: u64 = 3;
const WARM_UP: u64 = 10;

/// A set of paths that is looked at.
struct Setup {
    name: &'static str,
    links: Vec<LinkConfig>,
}

/// What a run has come to.
#[derive(Default)]
struct Outcome {
    mbps: f64,
    start: f64,
    sent_again: u64,
    timeouts: u64,
}

fn link(mbps: u64, delay_ms: u64, loss_ppm: u32) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(mbps * 1_000_000),
        delay: Duration::from_millis(delay_ms),
        loss_ppm,
        queue_packets: 100,
        ..LinkConfig::default()
    }
}

fn setups() -> Vec<Setup> {
    let two = |loss| vec![link(20, 10, loss), link(10, 40, loss)];
    vec![
        Setup { name: "A 20 Mbit/s 10 ms + B 10 Mbit/s 40 ms", links: two(0) },
        Setup { name: "the same, 0.5 % lost", links: two(5000) },
        Setup { name: "A alone", links: vec![link(20, 10, 0)] },
        Setup { name: "B alone", links: vec![link(10, 40, 0)] },
        Setup { name: "B alone, 0.5 % lost", links: vec![link(10, 40, 5000)] },
    ]
}

/// Two hosts and what the first sends to the second.
struct Transfer {
    world: World,
    hosts: [HostId; 2],
    client: AssociationId,
    server: Option<AssociationId>,
    received: usize,
}

impl Transfer {
    fn new(links: &[LinkConfig], config: &Config, seed: u64) -> Self {
        let mut world = World::new(seed);
        let hosts = [(5000, false), (PORT, true)]
            .map(|(port, accept)| world.add_host(Config { port, accept, ..config.clone() }));
        for (path, link) in (0..).zip(links) {
            world.join(&Joint {
                hosts,
                addresses: [address(path, 1), address(path, 2)],
                prefix_len: 24,
                mtu: 1500,
                forth: link.clone(),
                back: link.clone(),
            });
        }
        let client = world.endpoint(hosts[0]).connect(Instant::ZERO, address(0, 2), PORT).unwrap();
        Self { world, hosts, client, server: None, received: 0 }
    }

    /// Goes on until `until`; returns what was received so far.
    fn run(&mut self, until: Instant) -> usize {
        let Self { world, hosts, client, server, received } = self;
        let payload = vec![7; MESSAGE];
        world.run(until, |world| {
            offer(world, hosts[0], *client, &payload);
            for host in *hosts {
                while let Some((id, event)) = world.endpoint(host).poll_event() {
                    assert!(!matches!(event, Event::Closed(_)), "{event:?}");
                    if host == hosts[1] {
                        *server = Some(id);
                    }
                }
            }
            while let Some(message) = server.and_then(|id| world.endpoint(hosts[1]).read(id)) {
                *received += message.payload.len();
            }
            false
        });
        *received
    }

    fn outcome(mut self, seconds: u64) -> Outcome {
        let [start, before, after] = [START, WARM_UP, WARM_UP + seconds]
            .map(|end| self.run(Instant::ZERO + Duration::from_secs(end)));
        let now = self.world.now();
        let status = self.world.endpoint(self.hosts[0]).status(now, self.client).unwrap();
        Outcome {
            mbps: (after - before) as f64 * 8.0 / seconds as f64 / 1e6,
            start: start as f64 * 8.0 / START as f64 / 1e6,
            sent_again: status.paths.iter().map(|path| path.fast_retransmits).sum(),
            timeouts: status.paths.iter().map(|path| path.timeouts).sum(),
        }
    }
}

fn address(path: u8, host: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 77, path, host), 9899).into()
}

/// Gives the endpoint all that it takes.
fn offer(world: &mut World, host: HostId, id: AssociationId, payload: &[u8]) {
    let now = world.now();
    while world.endpoint(host).send_space(id) >= payload.len() {
        let payload = payload.to_vec().into();
        let message = Outgoing { stream: StreamId(0), ppid: Ppid(0), unordered: false, payload };
        match world.endpoint(host).send(now, id, message) {
            Ok(()) => {}
            Err(SendError::BufferFull) => return,
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn mean(links: &[LinkConfig], config: &Config, seconds: u64, seeds: u64) -> Outcome {
    let mut sum = Outcome::default();
    for seed in 1..=seeds {
        let one = Transfer::new(links, config, seed).outcome(seconds);
        sum.mbps += one.mbps / seeds as f64;
        sum.start += one.start / seeds as f64;
        sum.sent_again += one.sent_again;
        sum.timeouts += one.timeouts;
    }
    sum.sent_again /= seeds;
    sum.timeouts /= seeds;
    sum
}

/// What is compared in every setup: each congestion control as it is by default, then other ways to
/// bound bursts.
fn variants() -> Vec<(String, Config)> {
    let controls = CongestionControl::ALL.iter().map(|congestion| {
        (congestion.to_string(), Config { congestion: *congestion, ..Config::default() })
    });
    let paced = [CongestionControl::Rfc9260, CongestionControl::Cubic].map(|congestion| {
        let config = Config { congestion, pacing: Pacing::On, ..Config::default() };
        (format!("{congestion}, paced"), config)
    });
    let limits = BurstLimit::ALL.iter().filter(|limit| **limit != BurstLimit::Acknowledged);
    let limits = limits.map(|burst_limit| {
        let config = Config { burst_limit: *burst_limit, ..Config::default() };
        (format!("{}, burst limit {burst_limit}", config.congestion), config)
    });
    controls.chain(paced).chain(limits).collect()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let (seconds, seeds) = (arguments.next().unwrap_or(60), arguments.next().unwrap_or(4));
    for Setup { name, links } in setups() {
        println!("{name}, queue 100:");
        for (variant, config) in variants() {
            let outcome = mean(&links, &config, seconds, seeds);
            let Outcome { mbps, start, sent_again, timeouts } = outcome;
            println!(
                "  {variant:29} {mbps:6.2} Mbit/s, in the first seconds {start:6.2}, \
                 {sent_again:5} chunks sent again, {timeouts:3} timeouts"
            );
        }
    }
}
