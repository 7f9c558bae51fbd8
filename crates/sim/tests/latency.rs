//! Latency under load: how long a few bytes take beside bulk data of the same association, and what keeping
//! the queue short costs.

use crate::support;

use manypath_engine::{
    AssociationId, Config, CongestionControl, Duration, Event, Instant, Outgoing, Ppid, SendError,
    StreamId,
};
use manypath_sim::world::{HostId, LinkNumber};
use manypath_sim::{LinkConfig, World};
use support::{PORT, address, joint, link, pair};

const MESSAGE: usize = 1400;
const PING: usize = 64;
const MBPS: u64 = 20;
/// One way, so that a round trip takes 20 ms.
const DELAY: u64 = 10;
const BULK: StreamId = StreamId(0);
const TALK: StreamId = StreamId(1);

fn bounded() -> Config {
    Config { queue_bound: Duration::from_millis(10), ..Config::default() }
}

/// How much bulk data its user queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ahead {
    /// What the association wants.
    Wanted,
    /// What the send buffer holds.
    Everything,
}

/// A client that sends bulk data to a server, which sends back what comes on the other stream.
struct Flow {
    hosts: [HostId; 2],
    client: AssociationId,
    server: Option<AssociationId>,
    ahead: Ahead,
    received: usize,
    /// Of pings, since they were sent.
    sent: Option<Instant>,
    times: Vec<Duration>,
}

impl Flow {
    fn new(world: &mut World, hosts: [HostId; 2], path: u8, ahead: Ahead) -> Self {
        let now = world.now();
        let client = world.endpoint(hosts[0]).connect(now, address(path, 2), PORT).unwrap();
        Self { hosts, client, server: None, ahead, received: 0, sent: None, times: Vec::new() }
    }

    fn step(&mut self, world: &mut World) {
        self.send_bulk(world);
        for host in self.hosts {
            while let Some((id, event)) = world.endpoint(host).poll_event() {
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
                if host == self.hosts[1] {
                    self.server = Some(id);
                }
            }
        }
        let [client, server] = self.hosts;
        while let Some(message) = self.server.and_then(|id| world.endpoint(server).read(id)) {
            self.received += message.payload.len();
            if message.stream == TALK {
                send(world, server, self.server.unwrap(), TALK, PING);
            }
        }
        while world.endpoint(client).read(self.client).is_some() {
            let took = world.now().since(self.sent.take().unwrap());
            self.times.push(took);
        }
    }

    fn send_bulk(&self, world: &mut World) {
        loop {
            let endpoint = world.endpoint(self.hosts[0]);
            let wanted = self.ahead == Ahead::Everything
                || endpoint.unsent(self.client) < endpoint.wanted(self.client);
            if !wanted || !send(world, self.hosts[0], self.client, BULK, MESSAGE) {
                return;
            }
        }
    }

    fn ping(&mut self, world: &mut World) {
        if self.sent.is_none() && send(world, self.hosts[0], self.client, TALK, PING) {
            self.sent = Some(world.now());
        }
    }

    /// Time that a part of all pings has taken at most, in milliseconds.
    fn percentile(&mut self, percent: usize) -> f64 {
        self.times.sort_unstable();
        self.times[self.times.len() * percent / 100].as_secs_f64() * 1e3
    }
}

fn send(world: &mut World, host: HostId, id: AssociationId, stream: StreamId, len: usize) -> bool {
    let now = world.now();
    let payload = vec![7; len].into();
    let message = Outgoing { stream, ppid: Ppid(0), unordered: false, payload };
    match world.endpoint(host).send(now, id, message) {
        Ok(()) => true,
        Err(SendError::BufferFull) => false,
        Err(error) => panic!("{error:?}"),
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Until `end`, with a ping every 20 ms or when the last one has come back.
fn run(world: &mut World, flows: &mut [Flow], end: u64) {
    let mut next = world.now();
    while next < at(end) {
        next = (next + Duration::from_millis(20)).min(at(end));
        flows.iter_mut().for_each(|flow| flow.ping(world));
        world.run(next, |world| {
            flows.iter_mut().for_each(|flow| flow.step(world));
            false
        });
    }
}

/// 50th and 99th percentile of pings in milliseconds, goodput in Mbit/s from the second second on.
fn beside_bulk(config: &Config, paths: u8, queue: usize, ahead: Ahead) -> [f64; 3] {
    beside_bulk_over(config, paths, &link(MBPS, DELAY, queue), ahead)
}

/// The same over so many links of this kind.
fn beside_bulk_over(config: &Config, paths: u8, link: &LinkConfig, ahead: Ahead) -> [f64; 3] {
    let mut world = World::new(7);
    let hosts = pair(&mut world, config);
    for path in 0..paths {
        world.join(&joint(hosts, path, link.clone()));
    }
    let mut flow = [Flow::new(&mut world, hosts, 0, ahead)];
    run(&mut world, &mut flow, 1000);
    let before = flow[0].received;
    run(&mut world, &mut flow, 20_000);
    let [flow] = &mut flow;
    let goodput = (flow.received - before) as f64 * 8.0 / 19.0 / 1e6;
    [flow.percentile(50), flow.percentile(99), goodput]
}

#[test]
fn a_few_bytes_beside_bulk_data_take_no_more_than_30_ms_longer_than_alone() {
    for congestion in [CongestionControl::Rfc9260, CongestionControl::Cubic, CongestionControl::Bbr]
    {
        for (paths, queue) in [(1, 100), (1, 500), (2, 100), (2, 500)] {
            for ahead in [Ahead::Wanted, Ahead::Everything] {
                let config = Config { congestion, ..bounded() };
                let [half, most, goodput] = beside_bulk(&config, paths, queue, ahead);
                let case = format!(
                    "{congestion}, {paths} x queue of {queue}, {ahead:?}: 50 % in {half:.1} ms, \
                     99 % in {most:.1}, {goodput:.2} Mbit/s"
                );
                println!("{case}");
                let base = 2.0 * DELAY as f64;
                assert!(most <= base + 30.0, "{case}");
                assert!(goodput > 0.93 * (MBPS * u64::from(paths)) as f64, "{case}");
            }
        }
    }
}

/// With BBR on two paths, however long the queue may be.
#[test]
fn a_few_bytes_beside_bulk_data_of_bbr_take_no_more_than_20_ms_longer_than_alone() {
    let config = Config { congestion: CongestionControl::Bbr, ..bounded() };
    for queue in [20, 33, 67, 133, 533] {
        let [half, most, goodput] = beside_bulk(&config, 2, queue, Ahead::Wanted);
        let case = format!("queue of {queue}: 50 % in {half:.1} ms, 99 % in {most:.1}, {goodput}");
        println!("{case}");
        assert!(most <= 2.0 * DELAY as f64 + 20.0, "{case}");
        assert!(goodput > 0.95 * (2 * MBPS) as f64, "{case}");
    }
}

/// Samples of the rate that jitter has made too high are not kept up until the window is full (24 ms of queue).
#[test]
fn jitter_does_not_fill_the_queue() {
    let config = Config { congestion: CongestionControl::Bbr, ..bounded() };
    let link = LinkConfig { jitter: Duration::from_millis(2), ..link(MBPS, DELAY, 533) };
    for paths in [1, 2] {
        let [half, _, goodput] = beside_bulk_over(&config, paths, &link, Ahead::Wanted);
        println!("{paths} paths: 50 % in {half:.1} ms, {goodput:.2} Mbit/s");
        assert!(half <= 2.0 * DELAY as f64 + 12.0, "{half}");
        assert!(goodput > 0.93 * (MBPS * u64::from(paths)) as f64, "{goodput}");
    }
}

/// Without the bound the queue is as long as there is room: what the test above holds is not by chance.
#[test]
fn without_a_bound_the_queue_is_full() {
    let congestion = CongestionControl::Cubic;
    let config = Config { queue_bound: Duration::ZERO, congestion, ..Config::default() };
    let [half, ..] = beside_bulk(&config, 1, 100, Ahead::Wanted);
    assert!(half > 50.0, "{half}");
}

/// Goodput in Mbit/s of associations that meet in one queue, each with its parameters, the first from the
/// start and the others 5 s later.
fn meet(configs: &[Config], queue: usize, seed: u64) -> Vec<f64> {
    const SECONDS: u64 = 60;
    let mut world = World::new(seed);
    let bottleneck = world.add_link(link(MBPS, DELAY / 2, queue));
    let mut flows = Vec::new();
    for (number, config) in (0..).zip(configs) {
        let hosts = pair(&mut world, config);
        through(&mut world, hosts, number, bottleneck);
        flows.push(Flow::new(&mut world, hosts, number, Ahead::Wanted));
        run(&mut world, &mut flows, 5000 * u64::from(number + 1));
    }
    run(&mut world, &mut flows, 15_000);
    let before: Vec<_> = flows.iter().map(|flow| flow.received).collect();
    run(&mut world, &mut flows, 15_000 + SECONDS * 1000);
    let grown = flows.iter().zip(before).map(|(flow, before)| flow.received - before);
    grown.map(|bytes| bytes as f64 * 8.0 / SECONDS as f64 / 1e6).collect()
}

/// A path whose data goes through `bottleneck`, with a jitter against phase effects (see fairness.rs).
fn through(world: &mut World, hosts: [HostId; 2], number: u8, bottleneck: LinkNumber) {
    let access = LinkConfig { jitter: Duration::from_millis(1), ..link(1000, 0, 1000) };
    let path = world.join(&joint(hosts, number, access));
    let own = world.link_of(path, hosts[1]);
    world.set_route(path, hosts[1], vec![own, bottleneck]);
    world.set_link(path, hosts[0], link(1000, DELAY, 1000));
}

#[test]
fn beside_a_flow_that_fills_the_queue_a_bounded_one_keeps_its_part() {
    for congestion in [CongestionControl::Rfc9260, CongestionControl::Cubic] {
        let bounded = Config { congestion, ..bounded() };
        let filler = Config { queue_bound: Duration::ZERO, ..bounded.clone() };
        for queue in [50, 100, 500] {
            let (mut own, mut other) = (0.0, 0.0);
            for seed in 1..=3 {
                let goodputs = meet(&[bounded.clone(), filler.clone()], queue, seed);
                println!("{congestion}, queue of {queue}: {goodputs:.1?} Mbit/s");
                (own, other) = (own + goodputs[0], other + goodputs[1]);
            }
            let fair = (own + other) / 2.0;
            assert!(
                own >= 0.6 * fair && other >= 0.6 * fair,
                "{congestion}, {queue}: {own} {other}"
            );
        }
    }
}

#[test]
fn two_bounded_flows_share_a_path() {
    for congestion in [CongestionControl::Rfc9260, CongestionControl::Cubic, CongestionControl::Bbr]
    {
        let config = Config { congestion, ..bounded() };
        let goodputs = meet(&[config.clone(), config], 100, 1);
        println!("{congestion}: {goodputs:.1?} Mbit/s");
        let sum: f64 = goodputs.iter().sum();
        assert!(sum > 0.9 * MBPS as f64, "{goodputs:?}");
        assert!(goodputs.iter().all(|goodput| *goodput > 0.6 * sum / 2.0), "{goodputs:?}");
    }
}

/// Measured over 20 Mbit/s: BBR gets 11.1, 9.9 and 8.7 Mbit/s beside CUBIC that fills a queue of 25, 100
/// and 500 packets, and 12.6, 11.0 and 9.2 beside CUBIC that bounds it.
#[test]
fn bbr_and_cubic_share_a_path() {
    let bbr = Config { congestion: CongestionControl::Bbr, ..bounded() };
    let cubic = Config { congestion: CongestionControl::Cubic, ..bounded() };
    let filler = Config { queue_bound: Duration::ZERO, ..cubic.clone() };
    for (other, queue) in [(&cubic, 25), (&cubic, 500), (&filler, 100)] {
        let goodputs = meet(&[bbr.clone(), other.clone()], queue, 1);
        println!("BBR and CUBIC, queue of {queue}: {goodputs:.1?} Mbit/s");
        let sum: f64 = goodputs.iter().sum();
        assert!(sum > 0.9 * MBPS as f64, "{queue}: {goodputs:?}");
        assert!(goodputs.iter().all(|goodput| *goodput > 0.6 * sum / 2.0), "{queue}: {goodputs:?}");
    }
}

/// Goodput in Mbit/s of the last seconds over a path that becomes another one after 5 s.
fn after_change(config: &Config, [before, after]: [LinkConfig; 2], seconds: u64) -> f64 {
    let mut world = World::new(3);
    let hosts = pair(&mut world, config);
    let path = world.join(&joint(hosts, 0, before));
    let mut flow = [Flow::new(&mut world, hosts, 0, Ahead::Wanted)];
    run(&mut world, &mut flow, 5000);
    hosts.iter().for_each(|host| world.set_link(path, *host, after.clone()));
    run(&mut world, &mut flow, 15_000);
    let received = flow[0].received;
    run(&mut world, &mut flow, 15_000 + 1000 * seconds);
    (flow[0].received - received) as f64 * 8.0 / seconds as f64 / 1e6
}

#[test]
fn a_longer_route_and_losses_at_random_cost_a_bounded_flow_no_more_than_another() {
    let plain = link(MBPS, DELAY, 500);
    let longer = LinkConfig { delay: Duration::from_millis(60), ..plain.clone() };
    let lossy = LinkConfig { loss_ppm: 1000, ..plain.clone() };
    let wider = LinkConfig { rate_bps: Some(100_000_000), ..plain.clone() };
    for congestion in [CongestionControl::Rfc9260, CongestionControl::Cubic] {
        for (name, after) in [("longer", &longer), ("lossy", &lossy), ("wider", &wider)] {
            let config = Config { congestion, ..bounded() };
            let filler = Config { queue_bound: Duration::ZERO, ..config.clone() };
            let [own, other] =
                [config, filler].map(|c| after_change(&c, [plain.clone(), after.clone()], 45));
            println!("{congestion}, {name}: {own:.1} and without the bound {other:.1} Mbit/s");
            assert!(own >= 0.9 * other, "{congestion}, {name}: {own} {other}");
        }
    }
}
