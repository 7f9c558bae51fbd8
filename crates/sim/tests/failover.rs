//! A path is lost in the middle of a transfer: how long the receiver gets nothing, in the production
//! profile.

use crate::support;

use manypath_engine::{
    AssociationId, Config, CongestionControl, Duration, Instant, Outgoing, PathStatus, Ppid,
    StreamId,
};
use manypath_sim::world::{HostId, PathNumber};
use manypath_sim::{LinkConfig, World};
use std::fmt::Write;
use support::{PORT, address, joint, link, pair};

/// User data that fills a packet of 1500 bytes.
const MESSAGE: usize = 1424;
/// What a user keeps in the endpoint per stream, sent or not.
const BACKLOG: usize = 1 << 20;
/// Longest gap that is allowed.
const LIMIT: Duration = Duration::from_millis(250);

/// At so many instants paths are cut.
const INSTANTS: u64 = 3;

/// How a path is lost.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Cut {
    /// Nothing gets through, and nobody is told.
    BlackHole,
    /// The device of the sender goes down.
    AtSender,
    /// The device of the receiver goes down.
    AtReceiver,
}

const CUTS: [Cut; 3] = [Cut::BlackHole, Cut::AtSender, Cut::AtReceiver];

struct Transfer {
    world: World,
    hosts: [HostId; 2],
    paths: Vec<PathNumber>,
    links: Vec<LinkConfig>,
    id: AssociationId,
    server: Option<AssociationId>,
    received: u64,
    /// Per stream: when something was delivered last.
    last: Vec<Instant>,
    /// Per stream: the longest gap between two deliveries.
    gaps: Vec<Duration>,
}

impl Transfer {
    /// Saturates `streams` streams.
    fn new(config: &Config, links: &[LinkConfig], streams: usize) -> Self {
        let mut world = World::new(1);
        let hosts = pair(&mut world, config);
        let joints = (0..).zip(links).map(|(number, link)| joint(hosts, number, link.clone()));
        let paths = joints.map(|joint| world.join(&joint)).collect();
        let id = world.endpoint(hosts[0]).connect(Instant::ZERO, address(0, 2), PORT).unwrap();
        Self {
            world,
            hosts,
            paths,
            links: links.to_vec(),
            id,
            server: None,
            received: 0,
            last: vec![Instant::ZERO; streams],
            gaps: vec![Duration::ZERO; streams],
        }
    }

    /// Goes on for so long, and returns the longest gap of each stream in this time.
    fn go_on(&mut self, time: Duration) -> Vec<Duration> {
        let until = self.world.now() + time;
        self.gaps.fill(Duration::ZERO);
        let Self { world, hosts, id, server, received, last, gaps, .. } = self;
        world.run(until, |world| {
            let now = world.now();
            while world.endpoint(hosts[0]).poll_event().is_some() {}
            while let Some((id, _)) = world.endpoint(hosts[1]).poll_event() {
                *server = Some(id);
            }
            let sender = world.endpoint(hosts[0]);
            for stream in (0..last.len() as u16).map(StreamId) {
                while sender.queued_on_stream(*id, stream) < BACKLOG
                    && sender.send_space(*id) >= MESSAGE
                {
                    let payload = vec![7; MESSAGE].into();
                    let message = Outgoing { stream, ppid: Ppid(0), unordered: false, payload };
                    sender.send(now, *id, message).unwrap();
                }
            }
            sender.set_backlog(*id, usize::MAX);
            while let Some(message) = server.and_then(|id| world.endpoint(hosts[1]).read(id)) {
                let stream = usize::from(message.stream.0);
                gaps[stream] = gaps[stream].max(now.since(last[stream]));
                last[stream] = now;
                *received += message.payload.len() as u64;
            }
            false
        });
        let now = self.world.now();
        let gaps = self.gaps.iter().zip(&self.last);
        gaps.map(|(gap, last)| now.since(*last).max(*gap)).collect()
    }

    fn cut(&mut self, path: usize, how: Cut) {
        let number = self.paths[path];
        match how {
            Cut::BlackHole => {
                for host in self.hosts {
                    let down = LinkConfig { up: false, ..self.links[path].clone() };
                    self.world.set_link(number, host, down);
                }
            }
            Cut::AtSender => self.world.set_device(self.hosts[0], number, false),
            Cut::AtReceiver => self.world.set_device(self.hosts[1], number, false),
        }
    }
}

struct Setup {
    name: &'static str,
    links: Vec<LinkConfig>,
}

fn setups() -> Vec<Setup> {
    let setup = |name, links: &[LinkConfig]| Setup { name, links: links.to_vec() };
    vec![
        setup("2 x 2 Mbit/s, 10 ms", &[link(2, 10, 20), link(2, 10, 20)]),
        setup("2 x 10 Mbit/s, 10 ms", &[link(10, 10, 50), link(10, 10, 50)]),
        setup("20 Mbit/s 10 ms + 10 Mbit/s 25 ms", &[link(20, 10, 100), link(10, 25, 100)]),
        setup("20 Mbit/s 10 ms + 10 Mbit/s 40 ms", &[link(20, 10, 100), link(10, 40, 100)]),
        setup("2 x 10 Mbit/s, 10 and 75 ms", &[link(10, 10, 50), link(10, 75, 50)]),
        setup("3 x 10 Mbit/s, 10 ms", &[link(10, 10, 50), link(10, 10, 50), link(10, 10, 50)]),
        setup(
            "10 Mbit/s 10 ms + 10 Mbit/s 25 ms + 10 Mbit/s 75 ms",
            &[link(10, 10, 50), link(10, 25, 50), link(10, 75, 50)],
        ),
    ]
}

/// Cuts `path` at several instants and returns the longest gap of each stream, and the longest without
/// a cut.
fn longest(
    config: &Config,
    setup: &Setup,
    streams: usize,
    path: usize,
    how: Cut,
) -> (Vec<Duration>, Vec<Duration>) {
    let mut worst = vec![Duration::ZERO; streams];
    let mut before = vec![Duration::ZERO; streams];
    let raise = |all: &mut [Duration], new: &[Duration]| {
        all.iter_mut().zip(new).for_each(|(all, new)| *all = (*all).max(*new));
    };
    for instant in 0..INSTANTS {
        let mut transfer = Transfer::new(config, &setup.links, streams);
        transfer.go_on(Duration::from_millis(1500));
        raise(&mut before, &transfer.go_on(Duration::from_millis(500 + instant * 137)));
        transfer.cut(path, how);
        raise(&mut worst, &transfer.go_on(Duration::from_millis(1500)));
    }
    (worst, before)
}

fn shown(gaps: &[Duration]) -> String {
    gaps.iter().fold(String::new(), |mut text, gap| {
        let _ = write!(text, " {:5}", gap.as_millis());
        text
    })
}

#[test]
fn a_lost_path_stops_a_stream_for_a_quarter_of_a_second_at_most() {
    let config = Config { streams: 16, ..Config::production() };
    let mut failed = Vec::new();
    for setup in setups() {
        for path in 0..setup.links.len() {
            for how in CUTS {
                let (worst, before) = longest(&config, &setup, 1, path, how);
                let line = format!(
                    "{:52} path {path} {how:10?}: {} ms, before the cut {} ms",
                    setup.name,
                    shown(&worst),
                    shown(&before)
                );
                println!("{line}");
                if worst[0] > LIMIT {
                    failed.push(line);
                }
            }
        }
    }
    assert!(failed.is_empty(), "longer than {LIMIT:?}:\n{}", failed.join("\n"));
}

/// Streams of other paths do not stall for longer than for losses of their own, which a full queue
/// makes: a round trip each, two in a row.
fn two_losses(link: &LinkConfig) -> Duration {
    let bits = 8 * 1500 * link.queue_packets as u64;
    let queue = Duration::from_micros(bits * 1_000_000 / link.rate_bps.unwrap());
    (2 * (2 * link.delay + queue)).min(Duration::from_millis(220))
}

#[test]
fn streams_of_other_paths_do_not_stall() {
    // What the lost path had in flight, and its stream from then on, share a path with others.
    let limit = LIMIT + Duration::from_millis(50);
    let mut failed = Vec::new();
    for congestion in [CongestionControl::Cubic, Config::production().congestion] {
        let mapping = "0,1,2".parse().unwrap();
        let streams = Config { streams: 16, stream_mapping: mapping, ..Config::production() };
        let config = Config { congestion, ..streams };
        for setup in setups().iter().step_by(2) {
            for path in 0..setup.links.len() {
                failed.extend(stalls(&config, setup, path, limit));
            }
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// Cuts of `path` after which its stream stood still for more than `limit`, or another one for long.
fn stalls(config: &Config, setup: &Setup, path: usize, limit: Duration) -> Vec<String> {
    let mut failed = Vec::new();
    for how in CUTS {
        let (worst, before) = longest(config, setup, setup.links.len(), path, how);
        let line = format!(
            "{:10} {:52} path {path} {how:10?}: {} ms, before the cut {} ms",
            config.congestion.name(),
            setup.name,
            shown(&worst),
            shown(&before)
        );
        println!("{line}");
        let mut others = (0..worst.len()).filter(|stream| *stream != path);
        let stalls = |stream| worst[stream] > two_losses(&setup.links[stream]);
        if others.any(stalls) || worst[path] > limit {
            failed.push(line);
        }
    }
    failed
}

/// A failed path is probed every two seconds, so that it is found soon when it is back.
#[test]
fn a_path_that_is_back_after_20_s_is_used_in_full_within_five() {
    let links = [link(10, 10, 100), link(10, 30, 100)];
    for profile in [Config::production(), Config::dynamic()] {
        let mut transfer = Transfer::new(&Config { streams: 16, ..profile }, &links, 2);
        transfer.go_on(Duration::from_secs(5));
        transfer.cut(1, Cut::BlackHole);
        transfer.go_on(Duration::from_secs(20));
        for host in transfer.hosts {
            transfer.world.set_link(transfer.paths[1], host, links[1].clone());
        }
        let mut second = |_| {
            let before = transfer.received;
            transfer.go_on(Duration::from_secs(1));
            (transfer.received - before) as f64 * 8.0 / 1e6
        };
        let megabits = [0; 5].map(&mut second);
        println!("{megabits:.1?}");
        let all = 20.0 * MESSAGE as f64 / 1500.0;
        assert!(megabits.iter().any(|rate| *rate >= 0.95 * all), "{megabits:.1?} of {all:.1}");
    }
}

/// What ten seconds over unsteady paths give.
struct Noisy {
    megabits: f64,
    probes: u64,
    suspicions: u64,
}

/// `rest`: how long the first path rests four times a second.
fn noisy(suspicion: &str, links: &[LinkConfig], rest: u64) -> Noisy {
    let path_suspicion = suspicion.parse().unwrap();
    let config = Config { streams: 16, path_suspicion, ..Config::production() };
    let mut transfer = Transfer::new(&config, links, 1);
    let slow = LinkConfig { rate_bps: Some(10_000), ..links[0].clone() };
    for round in (0..40).filter(|_| rest > 0) {
        let at = |millis| Instant::ZERO + Duration::from_millis(round * 250 + millis);
        for host in transfer.hosts {
            transfer.world.schedule(at(100), transfer.paths[0], host, slow.clone());
            transfer.world.schedule(at(100 + rest), transfer.paths[0], host, links[0].clone());
        }
    }
    transfer.go_on(Duration::from_secs(10));
    let (now, id) = (transfer.world.now(), transfer.id);
    let status = transfer.world.endpoint(transfer.hosts[0]).status(now, id).unwrap();
    let sum = |count: fn(&PathStatus) -> u64| status.paths.iter().map(count).sum();
    Noisy {
        megabits: transfer.received as f64 * 8.0 / 10.0 / 1e6,
        probes: sum(|path| path.probes),
        suspicions: sum(|path| path.suspicions),
    }
}

/// Jitter, losses, full queues and rests of a path must not be taken for its end too often.
#[test]
fn unsteady_paths_carry_as_much_as_without_suspicion() {
    let shaky = |link: LinkConfig, jitter, loss_ppm| LinkConfig {
        jitter: Duration::from_millis(jitter),
        loss_ppm,
        ..link
    };
    let cases = [
        ("steady", vec![link(20, 10, 100), link(10, 40, 100)], 0),
        ("deep queues", vec![link(20, 10, 1000), link(5, 20, 1000)], 0),
        ("jitter 30 ms", vec![shaky(link(20, 10, 100), 30, 0), shaky(link(10, 40, 100), 30, 0)], 0),
        ("1 % lost", vec![shaky(link(20, 10, 100), 0, 10_000), link(10, 40, 100)], 0),
        (
            "5 % lost",
            vec![shaky(link(20, 10, 100), 5, 50_000), shaky(link(10, 40, 100), 5, 50_000)],
            0,
        ),
        ("rests of 30 ms", vec![link(20, 10, 100), link(10, 40, 100)], 30),
        ("rests of 60 ms", vec![link(20, 10, 100), link(10, 40, 100)], 60),
        ("rests of 100 ms", vec![link(20, 10, 100), link(10, 10, 100)], 100),
        ("small queues", vec![link(20, 10, 10), link(20, 30, 10), link(20, 50, 10)], 0),
    ];
    let mut failed = Vec::new();
    for (name, links, rest) in cases {
        let [off, on] = ["off", "silence"].map(|choice| noisy(choice, &links, rest));
        let line = format!(
            "{name:16}: {:6.2} Mbit/s, without suspicion {:6.2}; {} probes, {} suspicions",
            on.megabits, off.megabits, on.probes, on.suspicions
        );
        println!("{line}");
        if on.megabits < 0.96 * off.megabits || on.suspicions > 10 {
            failed.push(line);
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}
