//! A random case: paths with random faults, cuts at random times, random messages.

use super::exchange::{Side, random_messages};
use super::{PORT, address, joint, pair};
use manypath_engine::{
    AssociationStatus, BufferSplit, BurstLimit, CloseReason, Config, CongestionControl, CwndUpdate,
    Duration, Experiment, FastRecoveryScope, HmacAlgorithms, Instant, NrSack, Pacing,
    PathScheduling, PathSuspicion, RetransmissionPolicy, SackPath, SplitFastRetransmit,
    StreamScheduling,
};
use manypath_sim::world::{HostId, PathNumber};
use manypath_sim::{LinkConfig, Rng, World};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Longest that a case may take, in simulated time. Cuts are over long before.
const LIMIT: Duration = Duration::from_secs(600);
const CUTS_END: u64 = 12_000;

/// What a case has come to, for comparison and for the summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) trace_hash: u64,
    pub(crate) end: Instant,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    pub(crate) corrupted: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    /// Messages that were given up.
    pub(crate) abandoned: u64,
    /// Addresses that came, left or were preferred.
    pub(crate) address_changes: u64,
}

/// Runs the case that `seed` describes; panics with what went wrong.
pub(crate) fn run(seed: u64) -> Outcome {
    Case::new(seed).play()
}

/// As [`run`], and captures every packet to `file`, also when the case fails.
pub(crate) fn run_captured(seed: u64, file: &str) -> Outcome {
    let mut case = Case::new(seed);
    case.world.start_capture();
    let outcome = catch_unwind(AssertUnwindSafe(|| case.play()));
    std::fs::write(file, case.world.finish_capture()).unwrap();
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

struct Case {
    world: World,
    hosts: [HostId; 2],
    paths: Vec<PathNumber>,
    client: Side,
    server: Side,
    /// The readers look once in so many events; if that is seldom, the window closes.
    laziness: u32,
    /// Chance of changes of addresses, if there are any.
    changes: Option<Rng>,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut world = World::new(rng.next_u64());
        let mut config = random_config(&mut rng);
        // Random numbers of their own: the rest of the case is the same with and without.
        let mut extra = Rng::new(!seed);
        authenticate(&mut extra, &mut config);
        config.address_reconfiguration = extra.ppm(250_000);
        let changes = config.address_reconfiguration.then_some(extra);
        let hosts = pair(&mut world, &config);
        let paths = random_paths(&mut rng, &mut world, hosts);
        let [mut client, mut server] = hosts.map(Side::new);
        let largest = (config.receive_buffer.min(config.send_buffer) as usize / 4).min(20_000);
        let to_server = 1 + rng.below(30_000) as usize;
        let to_server = random_messages(&mut rng, config.streams, to_server, largest);
        let to_client = rng.below(30_000) as usize;
        let to_client = random_messages(&mut rng, config.streams, to_client, largest);
        // Drawn last, so that all else of a case is as it would be without.
        let laziness = pick(&mut rng, [1, 1, 1, 20]);
        client.will_send(&to_server);
        server.must_get(&to_server);
        server.will_send(&to_client);
        client.must_get(&to_client);
        if config.partial_reliability {
            client.is_partially_reliable(Rng::new(rng.next_u64()));
            server.is_partially_reliable(Rng::new(rng.next_u64()));
        }
        Self { world, hosts, paths, client, server, laziness, changes }
    }

    fn play(&mut self) -> Outcome {
        let now = self.world.now();
        let id = self.world.endpoint(self.hosts[0]).connect(now, address(0, 2), PORT);
        self.client.association = Some(id.unwrap_or_else(|error| panic!("connect: {error:?}")));
        self.exchange();
        self.close();
        self.outcome()
    }

    /// Until everything has been delivered.
    fn exchange(&mut self) {
        let Self { world, client, server, laziness, changes, paths, .. } = self;
        let mut turn = 0;
        let done = world.run(Instant::ZERO + LIMIT, |world| {
            turn += 1;
            let read = turn % *laziness == 0;
            client.step(world, read);
            server.step(world, read);
            if let Some(chance) = changes
                && chance.ppm(60_000)
            {
                change_addresses(chance, world, client, paths.len());
            }
            let got = server.has_got_all_but(&client.given_up)
                && client.has_got_all_but(&server.given_up);
            got && client.has_sent_everything() && server.has_sent_everything()
        });
        let missing = [client.missing(), server.missing()];
        let closed = [&client.closed, &server.closed];
        let statuses = [status(world, client), status(world, server)];
        assert!(
            done,
            "messages missing at client and server: {missing:?}, closed: {closed:?}, {statuses:#?}"
        );
    }

    /// Graceful shutdown by the client.
    fn close(&mut self) {
        let Self { world, client, server, .. } = self;
        let now = world.now();
        if let Some(id) = client.association {
            world.endpoint(client.host).shutdown(now, id);
        }
        let done = world.run(now + LIMIT, |world| {
            client.step(world, true);
            server.step(world, true);
            client.closed.is_some() && server.closed.is_some()
        });
        let closed = [&client.closed, &server.closed];
        let statuses = [status(world, client), status(world, server)];
        assert!(done, "client and server closed: {closed:?}, {statuses:#?}");
        let graceful = closed.iter().all(|reason| **reason == Some(CloseReason::Graceful));
        assert!(graceful, "client and server closed: {closed:?}");
    }

    fn abandoned(&self) -> u64 {
        self.server.check_given_up(&self.client.given_up);
        self.client.check_given_up(&self.server.given_up);
        (self.client.given_up.len() + self.server.given_up.len()) as u64
    }

    fn outcome(&self) -> Outcome {
        let ends = self.paths.iter().flat_map(|path| self.hosts.map(|host| (*path, host)));
        let links: Vec<_> = ends.map(|(path, host)| self.world.link_counters(path, host)).collect();
        Outcome {
            trace_hash: self.world.trace_hash(),
            end: self.world.now(),
            bytes: self.client.received + self.server.received,
            packets: links.iter().map(|link| link.packets_in).sum(),
            dropped: links.iter().map(|link| link.dropped()).sum(),
            corrupted: links.iter().map(|link| link.corrupted).sum(),
            duplicated: links.iter().map(|link| link.duplicated).sum(),
            reordered: links.iter().map(|link| link.reordered).sum(),
            abandoned: self.abandoned(),
            address_changes: self.server.changes,
        }
    }
}

/// The client wants one of its addresses added, removed or preferred. What is not possible is refused.
/// The server keeps all of its own, so that there is always a way.
fn change_addresses(chance: &mut Rng, world: &mut World, client: &Side, paths: usize) {
    let path = chance.below(paths as u64) as u8;
    let Some(id) = client.association else { return };
    let (now, ip) = (world.now(), address(path, 1).ip());
    let endpoint = world.endpoint(client.host);
    let _refused = match chance.below(5) {
        0 | 1 => endpoint.remove_address(now, id, ip).is_err(),
        2 | 3 => endpoint.add_address(now, id, ip).is_err(),
        _ => endpoint.request_peer_primary(now, id, ip).is_err(),
    };
}

fn status(world: &mut World, side: &Side) -> Option<AssociationStatus> {
    let now = world.now();
    world.endpoint(side.host).status(now, side.association?)
}

fn random_config(rng: &mut Rng) -> Config {
    Config {
        streams: 1 + rng.below(8) as u16,
        receive_buffer: pick(rng, [8 << 10, 32 << 10, 1 << 20, 8 << 20]),
        send_buffer: pick(rng, [8 << 10, 64 << 10, 8 << 20]),
        // The cuts and losses here are to be survived, however long they keep everything away.
        association_max_retransmits: 1000,
        max_init_retransmits: 1000,
        rto_max: Duration::from_secs(4),
        interleaving: rng.ppm(300_000),
        stream_scheduling: pick_any(rng, StreamScheduling::ALL),
        stream_mapping: pick_any(rng, &["any", "modulo", "dynamic", "0,1,-,2,0"]).parse().unwrap(),
        congestion: pick_any(rng, CongestionControl::ALL),
        pacing: pick_any(rng, Pacing::ALL),
        burst_limit: pick_any(rng, BurstLimit::ALL),
        nr_sack: pick_any(rng, NrSack::ALL),
        path_suspicion: pick_any(rng, PathSuspicion::ALL),
        partial_reliability: rng.ppm(300_000),
        experiment: Experiment {
            path_scheduling: pick_any(rng, PathScheduling::ALL),
            buffer_split: pick_any(rng, BufferSplit::NAMES).parse().unwrap(),
            split_fast_retransmit: pick_any(rng, SplitFastRetransmit::ALL),
            missing_reports: pick(rng, [3, 4]),
            cwnd_update: pick_any(rng, CwndUpdate::ALL),
            fast_recovery: pick_any(rng, FastRecoveryScope::ALL),
            smart_t3: rng.ppm(700_000),
            delayed_ack_cmt: rng.ppm(500_000),
            fast_retransmission_policy: pick_any(rng, RetransmissionPolicy::ALL),
            timeout_retransmission_policy: pick_any(rng, RetransmissionPolicy::ALL),
            sack_path: pick_any(rng, SackPath::ALL),
            rescheduling_percent: pick(rng, [0, 0, 50]),
            ..Experiment::default()
        },
        ..Config::default()
    }
}

/// In a third of the cases chunks are authenticated: DATA, or all that can be.
fn authenticate(rng: &mut Rng, config: &mut Config) {
    config.authentication = rng.ppm(333_333);
    let all: Vec<u8> = (0..=255).collect();
    config.authenticated_chunks = if rng.ppm(500_000) { vec![0, 64] } else { all };
    config.hmac_algorithms = pick_any(rng, HmacAlgorithms::ALL);
}

fn pick<T: Copy, const N: usize>(rng: &mut Rng, from: [T; N]) -> T {
    from[rng.below(N as u64) as usize]
}

fn pick_any<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

fn random_paths(rng: &mut Rng, world: &mut World, hosts: [HostId; 2]) -> Vec<PathNumber> {
    let count = 2 + rng.below(2) as u8;
    let mut paths = Vec::new();
    for number in 0..count {
        let mut path = joint(hosts, number, random_link(rng));
        path.back = random_link(rng);
        let links = [path.back.clone(), path.forth.clone()];
        let path = world.join(&path);
        random_cuts(rng, world, path, hosts, &links);
        paths.push(path);
    }
    paths
}

fn random_link(rng: &mut Rng) -> LinkConfig {
    // Half of the links have no fault at all of each kind.
    let mut some = |most: u64| if rng.ppm(500_000) { 0 } else { rng.below(most) as u32 };
    let loss_ppm = some(150_000);
    let duplicate_ppm = some(100_000);
    let reorder_ppm = some(150_000);
    let corrupt_ppm = some(50_000);
    let jitter = Duration::from_micros(some(5_000).into());
    LinkConfig {
        rate_bps: Some(500_000 + rng.below(50_000_000)),
        delay: Duration::from_micros(rng.below(80_000)),
        loss_ppm,
        queue_packets: 4 + rng.below(100) as usize,
        up: true,
        duplicate_ppm,
        reorder_ppm,
        reorder_delay: Duration::from_micros(1 + rng.below(100_000)),
        corrupt_ppm,
        jitter,
        ..LinkConfig::default()
    }
}

/// Up to two cuts of a path, of both directions or of one. `links` are indexed by the end that they
/// lead to.
fn random_cuts(
    rng: &mut Rng,
    world: &mut World,
    path: PathNumber,
    hosts: [HostId; 2],
    links: &[LinkConfig; 2],
) {
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    for _ in 0..rng.below(3) {
        // Most transfers here take less than a second: cuts come early, and then also later.
        let latest = pick(rng, [500, 5_000]);
        let start = rng.below(latest);
        let longest = pick(rng, [300, 6_000]);
        let end = (start + rng.below(longest)).min(CUTS_END);
        let directions = pick(rng, [0b11, 0b11, 0b01, 0b10]);
        for (end_number, (host, link)) in hosts.into_iter().zip(links).enumerate() {
            if directions & (1 << end_number) != 0 {
                world.schedule(at(start), path, host, LinkConfig { up: false, ..link.clone() });
                world.schedule(at(end), path, host, link.clone());
            }
        }
    }
}
