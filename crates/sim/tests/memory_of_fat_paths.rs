//! How many bytes both ends hold of a transfer over long fat paths.

use crate::support;

use manypath_engine::{
    AssociationId, Config, CongestionControl, Duration, Instant, Outgoing, Ppid, StreamId,
};
use manypath_sim::World;
use manypath_sim::world::HostId;
use support::{PORT, address, joint, link, pair};

const MIB: u32 = 1 << 20;
const MESSAGE: usize = 1400;
/// Both ends are looked at so often.
const LOOK: Duration = Duration::from_millis(1);

/// A client that always has as much waiting as the association wants, and a server that reads what comes.
struct Transfer {
    world: World,
    hosts: [HostId; 2],
    client: AssociationId,
    server: Option<AssociationId>,
    received: usize,
    /// The most that sender and receiver have held together.
    most: usize,
}

impl Transfer {
    /// Over so many paths with a queue of one bandwidth-delay product each.
    fn new(paths: u8, mbps: u64, rtt_ms: u64) -> Self {
        // BBR holds two and a half to three products while Startup ends: its window is two.
        let config = Config {
            receive_buffer_max: 64 * MIB,
            send_buffer_max: 64 * MIB,
            congestion: CongestionControl::Cubic,
            ..Config::default()
        };
        let mut world = World::new(7);
        let hosts = pair(&mut world, &config);
        let queue = usize::try_from(mbps * rtt_ms * 125 / 1500).unwrap();
        for path in 0..paths {
            world.join(&joint(hosts, path, link(mbps, rtt_ms / 2, queue)));
        }
        let client = world.endpoint(hosts[0]).connect(Instant::ZERO, address(0, 2), PORT).unwrap();
        Self { world, hosts, client, server: None, received: 0, most: 0 }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.world.now() + Duration::from_secs(seconds);
        while self.world.now() < end {
            let next = self.world.now() + LOOK;
            let Self { world, hosts, client, server, received, .. } = self;
            world.run(next, |world| {
                *received += step(world, *hosts, *client, server);
                false
            });
            self.most = self.most.max(self.held());
        }
    }

    fn held(&self) -> usize {
        let Self { world, hosts: [left, right], client, server, .. } = self;
        let status = |host: HostId, id| world.look(host).status(world.now(), id);
        let sender = status(*left, *client).map(|status| status.unsent + status.outstanding);
        let receiver = server.and_then(|id| status(*right, id)).map(|status| status.receive_queued);
        sender.unwrap_or_default() + receiver.unwrap_or_default()
    }
}

/// Sends what is wanted and reads what has come: how many bytes that was.
fn step(
    world: &mut World,
    [left, right]: [HostId; 2],
    client: AssociationId,
    server: &mut Option<AssociationId>,
) -> usize {
    let now = world.now();
    let sender = world.endpoint(left);
    while sender.poll_event().is_some() {}
    let message = Outgoing {
        stream: StreamId(0),
        ppid: Ppid(0),
        unordered: false,
        payload: vec![7; MESSAGE].into(),
    };
    while sender.unsent(client) < sender.wanted(client)
        && sender.send(now, client, message.clone()).is_ok()
    {}
    let receiver = world.endpoint(right);
    while let Some((id, _)) = receiver.poll_event() {
        *server = Some(id);
    }
    let read = || server.and_then(|id| receiver.read(id)).map(|message| message.payload.len());
    std::iter::from_fn(read).sum()
}

/// The most that was held, as a multiple of the bandwidth-delay product, and what was carried in the second
/// half, as a part of what the paths carry.
fn of(paths: u8, mbps: u64, rtt_ms: u64, seconds: u64) -> (f64, f64) {
    let mut transfer = Transfer::new(paths, mbps, rtt_ms);
    transfer.run(seconds / 2);
    let before = transfer.received;
    transfer.run(seconds - seconds / 2);
    let bytes_per_second = (u64::from(paths) * mbps * 125_000) as f64;
    let carried = (transfer.received - before) as f64 / (seconds - seconds / 2) as f64;
    let product = bytes_per_second * rtt_ms as f64 / 1e3;
    (transfer.most as f64 / product, carried / bytes_per_second)
}

#[test]
fn both_ends_together_hold_no_more_than_two_bandwidth_delay_products() {
    for (paths, mbps, rtt_ms, seconds) in
        [(1, 500, 20, 4), (1, 500, 80, 6), (1, 500, 300, 8), (2, 200, 80, 6)]
    {
        let (held, carried) = of(paths, mbps, rtt_ms, seconds);
        let case = format!("{paths} x {mbps} Mbit/s, {rtt_ms} ms: {held:.2} held, {carried:.3}");
        println!("{case}");
        assert!(held <= 2.0, "{case}");
        assert!(carried > 0.9, "{case}");
    }
}
