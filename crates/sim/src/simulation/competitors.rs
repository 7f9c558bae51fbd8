use super::desk::zeros;
use super::network::{Network, RECEIVER_PORT};
use crate::rng::Rng;
use crate::scenario::{Competitor, Scenario};
use crate::world::{HostId, World};
use manypath_engine::{AssociationId, Duration, Event, Instant, Outgoing, Ppid, StreamId};
use std::net::SocketAddr;

/// Payload of a message: what one packet takes.
const MESSAGE: usize = 1444;

/// The flows that compete with the association of a scenario.
#[derive(Debug)]
pub(super) struct Competitors {
    flows: Vec<Flow>,
    /// When payload counts.
    window: (Instant, Instant),
    /// The first that has ended before the run: its name, and why.
    failure: Option<String>,
}

/// One association.
#[derive(Debug)]
struct Flow {
    /// Number of its table.
    table: usize,
    hosts: [HostId; 2],
    to: SocketAddr,
    /// When it begins; nothing once it has.
    begins: Option<Instant>,
    /// Payload that was delivered while it counted.
    received: u64,
}

impl Competitors {
    /// Makes their hosts and paths. The scenario's association begins at `start`.
    pub(super) fn new(
        scenario: &Scenario,
        network: &mut Network,
        rng: &mut Rng,
        (start, window): (Instant, (Instant, Instant)),
    ) -> Self {
        let tables = scenario.competitors.iter().enumerate();
        let each = tables.flat_map(|(table, spec)| (0..spec.flows).map(move |_| (table, spec)));
        let flow = |(number, (table, spec)): (usize, (usize, &Competitor))| {
            let (hosts, to) = network.add_competitor(scenario, spec, number);
            let (min, max) = spec.start;
            let spread = (max - min).as_nanos() as u64;
            let begins = Some(start + min + Duration::from_nanos(rng.below(spread + 1)));
            Flow { table, hosts, to, begins, received: 0 }
        };
        Self { flows: each.enumerate().map(flow).collect(), window, failure: None }
    }

    /// When the next of them begins.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.flows.iter().filter_map(|flow| flow.begins).min()
    }

    /// Begins what is due, sends what fits and takes what has arrived.
    pub(super) fn work(&mut self, scenario: &Scenario, world: &mut World) {
        let now = world.now();
        let counts = self.window.0 <= now && now <= self.window.1;
        for flow in &mut self.flows {
            flow.begin(world);
            flow.send_events(world, scenario, &mut self.failure);
            let bytes = flow.take_arrived(world);
            flow.received += if counts { bytes } else { 0 };
        }
    }

    /// Payload that the flows of a table have delivered while it counted, all together.
    pub(super) fn received(&self, table: usize) -> u64 {
        let own = self.flows.iter().filter(|flow| flow.table == table);
        own.map(|flow| flow.received).sum()
    }

    /// Why one of them is over before the run is.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

impl Flow {
    fn begin(&mut self, world: &mut World) {
        let now = world.now();
        if self.begins.is_some_and(|at| at <= now) {
            self.begins = None;
            // The endpoint has addresses and no other association: connecting cannot fail.
            let _ = world.endpoint(self.hosts[0]).connect(now, self.to, RECEIVER_PORT);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else matters to a flow")]
    fn send_events(&self, world: &mut World, scenario: &Scenario, failure: &mut Option<String>) {
        while let Some((id, event)) = world.poll_event(self.hosts[0]) {
            match event {
                Event::Connected { .. } | Event::Writable => self.fill(world, id),
                Event::Closed(reason) => {
                    let name = &scenario.competitors[self.table].name;
                    failure.get_or_insert_with(|| format!("{name}: {reason:?}"));
                }
                _ => {}
            }
        }
    }

    /// Sends until the buffer is full.
    fn fill(&self, world: &mut World, id: AssociationId) {
        let now = world.now();
        let endpoint = world.endpoint(self.hosts[0]);
        let (stream, ppid, payload) = (StreamId(0), Ppid(0), zeros(MESSAGE));
        let message = Outgoing { stream, ppid, unordered: false, payload };
        while endpoint.send(now, id, message.clone()).is_ok() {}
    }

    /// Reads all that has arrived, in bytes.
    fn take_arrived(&self, world: &mut World) -> u64 {
        let mut bytes = 0;
        while let Some((id, event)) = world.poll_event(self.hosts[1]) {
            if matches!(event, Event::Readable) {
                while let Some(message) = world.endpoint(self.hosts[1]).read(id) {
                    bytes += message.payload.len() as u64;
                }
            }
        }
        bytes
    }
}
