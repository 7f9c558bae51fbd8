//! Streams and paths: what saturated streams get out of dissimilar paths when they are tied to paths,
//! when they use any, and with the dynamic mapping.

use crate::support;

use manypath_engine::{
    AssociationId, Config, CongestionControl, Duration, Experiment, Instant, Outgoing,
    PathScheduling, Ppid, SackPath, StreamId, StreamScheduling,
};
use manypath_sim::world::{HostId, PathNumber};
use manypath_sim::{LinkConfig, World};
use support::{PORT, address, joint, link, pair};

/// User data that fills a packet of 1500 bytes.
const MESSAGE: usize = 1444;
/// The part of a packet that is payload.
const SHARE: f64 = MESSAGE as f64 / 1500.0;

struct Run {
    world: World,
    hosts: [HostId; 2],
    paths: Vec<PathNumber>,
    id: AssociationId,
    streams: u16,
    /// Each stream has its own part of the send buffer.
    decoupled: bool,
    buffer: usize,
    next: u16,
    received: Vec<u64>,
}

impl Run {
    fn new(mapping: &str, links: &[LinkConfig], streams: u16, kib: u32, decoupled: bool) -> Self {
        let config = Config {
            streams: 16,
            send_buffer: kib << 10,
            receive_buffer: kib << 10,
            stream_mapping: mapping.parse().unwrap(),
            stream_scheduling: StreamScheduling::RoundRobin,
            nr_sack: "case-2".parse().unwrap(),
            // Buffers are to be filled by the queues of slow paths.
            queue_bound: Duration::ZERO,
            congestion: CongestionControl::Cubic,
            sack_frequency_max: 2,
            experiment: Experiment {
                path_scheduling: PathScheduling::LeastRecentlyUsed,
                buffer_split: "both-queued-equal".parse().unwrap(),
                delayed_ack_cmt: false,
                sack_path: SackPath::Standard,
                ..Experiment::default()
            },
            ..Config::default()
        };
        let mut world = World::new(1);
        let hosts = pair(&mut world, &config);
        let joints = (0..).zip(links).map(|(number, link)| joint(hosts, number, link.clone()));
        let paths: Vec<_> = joints.map(|joint| world.join(&joint)).collect();
        let id = world.endpoint(hosts[0]).connect(Instant::ZERO, address(0, 2), PORT).unwrap();
        let received = vec![0; usize::from(streams)];
        let buffer = (kib << 10) as usize;
        Self { world, hosts, paths, id, streams, decoupled, buffer, next: 0, received }
    }

    /// Mbit/s of each stream in so many seconds.
    fn seconds(&mut self, seconds: u64) -> Vec<f64> {
        let before = self.received.clone();
        let Self { world, hosts, id, streams, decoupled, buffer, next, received, .. } = self;
        let until = world.now() + Duration::from_secs(seconds);
        let mut server = world.endpoint(hosts[1]).associations().first().copied();
        let share = *buffer / usize::from(*streams);
        world.run(until, |world| {
            let now = world.now();
            let sender = world.endpoint(hosts[0]);
            let mut idle = 0;
            while idle < *streams && sender.send_space(*id) >= MESSAGE {
                let stream = StreamId(*next);
                *next = (*next + 1) % *streams;
                if *decoupled && sender.queued_on_stream(*id, stream) + MESSAGE > share {
                    idle += 1;
                    continue;
                }
                let payload = vec![7; MESSAGE].into();
                let message = Outgoing { stream, ppid: Ppid(0), unordered: false, payload };
                sender.send(now, *id, message).unwrap();
                idle = 0;
            }
            let receiver = world.endpoint(hosts[1]);
            while receiver.poll_event().is_some() {
                server = receiver.associations().first().copied();
            }
            while let Some(message) = server.and_then(|id| receiver.read(id)) {
                received[usize::from(message.stream.0)] += message.payload.len() as u64;
            }
            while world.endpoint(hosts[0]).poll_event().is_some() {}
            false
        });
        let rate =
            |(after, before): (&u64, &u64)| (after - before) as f64 * 8.0 / seconds as f64 / 1e6;
        self.received.iter().zip(&before).map(rate).collect()
    }

    /// Mbit/s of all streams in 20 s, after 10 s.
    fn steady(mut self) -> f64 {
        self.seconds(10);
        self.seconds(20).iter().sum()
    }

    fn set(&mut self, path: usize, config: &LinkConfig) {
        for host in self.hosts {
            self.world.set_link(self.paths[path], host, config.clone());
        }
    }
}

/// Setups of Dreibholz et al. 2010, each with the mapping that the paper gives it.
fn setups() -> [(Vec<LinkConfig>, &'static str, u16); 3] {
    let fast = || link(10, 10, 100);
    [
        (vec![fast(), link(10, 75, 100)], "0,1", 2),
        (vec![fast(), link(50, 10, 100)], "0,1", 2),
        (vec![fast(), fast(), link(1, 50, 100)], "2,0,1,0,1,0,1", 7),
    ]
}

/// With the dynamic mapping, and the better of the fixed mapping and of round robin over all paths.
fn compare(setup: usize, kib: u32, decoupled: bool) -> (f64, f64) {
    let (links, fixed, streams) = setups()[setup].clone();
    let [dynamic, fixed, any] = ["dynamic", fixed, "any"]
        .map(|mapping| Run::new(mapping, &links, streams, kib, decoupled).steady());
    println!(
        "setup {setup}, {kib} KiB, decoupled {decoupled}: {dynamic:.2} against fixed {fixed:.2} and \
         round robin {any:.2}"
    );
    (dynamic, fixed.max(any))
}

#[test]
fn the_dynamic_mapping_is_as_good_as_the_better_of_the_others() {
    let cases = [(0, 128, true), (0, 224, false), (1, 256, true), (2, 128, true)];
    for (setup, kib, decoupled) in cases {
        let (dynamic, other) = compare(setup, kib, decoupled);
        assert!(dynamic >= 0.97 * other, "setup {setup}: {dynamic} against {other}");
    }
}

/// Streams that get equal numbers of messages: the slow path's fills the buffer unless it is helped.
#[test]
fn the_dynamic_mapping_does_better_where_streams_share_the_buffer_blindly() {
    for (setup, kib, times) in [(1, 512, 1.8), (2, 128, 1.5)] {
        let (dynamic, other) = compare(setup, kib, false);
        assert!(dynamic >= times * other, "setup {setup}: {dynamic} against {other}");
    }
}

#[test]
fn a_single_stream_uses_both_paths() {
    let links = [link(10, 10, 100), link(10, 75, 100)];
    let got = Run::new("dynamic", &links, 1, 512, true).steady();
    println!("one stream: {got:.2}");
    assert!(got >= 0.9 * 20.0 * SHARE, "{got}");
}

#[test]
fn the_map_follows_when_the_rates_of_the_paths_are_swapped() {
    for kib in [256, 512] {
        swap(kib);
    }
}

fn swap(kib: u32) {
    let links = [link(10, 10, 100), link(2, 10, 100)];
    let mut run = Run::new("dynamic", &links, 6, kib, true);
    run.seconds(20);
    let before: f64 = run.seconds(10).iter().sum();
    run.set(0, &links[1]);
    run.set(1, &links[0]);
    run.seconds(5);
    let after: f64 = run.seconds(10).iter().sum();
    println!("before {before:.2}, from 5 s after the swap on {after:.2}");
    assert!(before >= 0.95 * 12.0 * SHARE, "{before}");
    assert!(after >= 0.95 * 12.0 * SHARE, "{after}");
}

#[test]
fn streams_of_a_failed_path_go_on_and_use_it_again_when_it_is_back() {
    let links = [link(10, 10, 100), link(10, 30, 100)];
    let mut run = Run::new("dynamic", &links, 4, 512, true);
    run.seconds(10);
    run.set(1, &LinkConfig { up: false, ..links[1].clone() });
    run.seconds(2);
    let alone = run.seconds(5);
    run.set(1, &links[1]);
    run.seconds(10);
    let both: f64 = run.seconds(10).iter().sum();
    println!("one path: {alone:.2?}, both again: {both:.2}");
    assert!(alone.iter().sum::<f64>() >= 0.95 * 10.0 * SHARE, "{alone:?}");
    assert!(alone.iter().all(|stream| *stream > 1.0), "{alone:?}");
    assert!(both >= 0.95 * 20.0 * SHARE, "{both}");
}
