use super::apps::{Applications, Way};
use super::background::Source;
use super::ceiling;
use super::competitors::Competitors;
use super::connections::Connections;
use super::desk::SimulatedDesk;
use super::ledger::Ledger;
use super::network::Network;
use super::outcome::{self, Outcome};
use super::sampler::Sampler;
use crate::rng::Rng;
use crate::scenario::Scenario;
use manypath_engine::{AssociationId, CloseReason, Duration, Event, Instant};

/// What to keep of a run besides its figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Keep a time series with this period.
    pub series: Option<Duration>,
    /// Keep every packet.
    pub capture: bool,
}

/// Simulates a scenario with a seed.
pub fn run(scenario: &Scenario, seed: u64, options: RunOptions) -> Outcome {
    let mut session = Session::new(scenario, seed, options);
    session.connect();
    while !session.is_over() {
        session.go_on();
    }
    session.finish()
}

/// The names of the figures that runs of a scenario have.
pub fn figure_names(scenario: &Scenario) -> Vec<String> {
    outcome::names(&Session::new(scenario, 0, RunOptions::default()))
}

/// A run under way.
#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) network: Network,
    pub(super) start: Instant,
    pub(super) from: Instant,
    pub(super) end: Instant,
    /// The association at the sender and at the receiver.
    pub(super) associations: [Option<AssociationId>; 2],
    pub(super) ledgers: [Ledger; 2],
    pub(super) sampler: Sampler,
    pub(super) closed: Option<CloseReason>,
    established: bool,
    apps: Applications<'a>,
    connections: Option<Connections>,
    sources: Vec<Source>,
    pub(super) competitors: Competitors,
    capture: bool,
}

impl<'a> Session<'a> {
    fn new(scenario: &'a Scenario, seed: u64, options: RunOptions) -> Self {
        let mut rng = Rng::new(seed);
        let (min, max) = scenario.start;
        let spread = (max - min).as_nanos() as u64;
        let start = Instant::ZERO + min + Duration::from_nanos(rng.below(spread + 1));
        let from = start + scenario.warmup;
        let end = from + scenario.measure;
        let mut network = Network::new(scenario, rng.next_u64(), start);
        let times = (start, (from, end));
        let competitors = Competitors::new(scenario, &mut network, &mut rng, times);
        if options.capture {
            network.world.start_capture();
        }
        let ledger = || Ledger::new(scenario.config.streams, (from, end));
        let mut forth = ledger();
        if ceiling::last_change(scenario).is_some() {
            forth.keep_tenths(start);
        }
        Self {
            scenario,
            network,
            start,
            from,
            end,
            associations: [None; 2],
            ledgers: [forth, ledger()],
            sampler: Sampler::new(start, from, options.series, &scenario.paths),
            closed: None,
            established: false,
            apps: Applications::new(&scenario.apps, start),
            connections: Connections::new(&scenario.apps),
            sources: scenario.background.iter().map(|spec| Source::new(spec, start)).collect(),
            competitors,
            capture: options.capture,
        }
    }

    fn connect(&mut self) {
        while self.network.world.step(self.start) {}
        let side = self.scenario.begun_by();
        self.associations[side] = self.network.connect(side, self.start, self.scenario);
    }

    fn is_over(&self) -> bool {
        self.network.world.now() >= self.end || self.closed.is_some() || self.is_done()
    }

    /// Whether every application is one that ends and has.
    fn is_done(&self) -> bool {
        let delivered = self.ledgers[Way::Forth as usize].bytes_ever();
        let total = self.connections.as_ref().map(Connections::total);
        total.or_else(|| self.apps.total()).is_some_and(|total| delivered >= total)
    }

    fn go_on(&mut self) {
        self.take_events();
        if self.established {
            self.apps.begin(self.network.world.now());
        }
        let (apps, mut desk) = self.apps_and_desk();
        apps.work(&mut desk);
        if let Some(connections) = &mut self.connections {
            connections.work(&mut self.network, self.associations, &mut self.ledgers);
        }
        self.run_sources();
        if self.is_done() {
            // What comes later, such as the last SACK, belongs to no application.
            return;
        }
        let limit = self.next_timer().map_or(self.end, |at| at.min(self.end));
        self.network.world.step(limit);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "figures need no other events")]
    fn take_events(&mut self) {
        for (side, host) in [self.network.sender, self.network.receiver].into_iter().enumerate() {
            while let Some((id, event)) = self.network.world.poll_event(host) {
                match event {
                    Event::Connected { .. } => {
                        self.associations[side] = Some(id);
                        self.established |= side == 0;
                    }
                    Event::Readable => self.read(side, id),
                    Event::Closed(reason) => self.closed = Some(reason),
                    Event::Writable => {
                        if let Some(connections) = &mut self.connections {
                            connections.on_writable(side);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Reads all that has arrived at the sender (0) or the receiver (1).
    fn read(&mut self, side: usize, id: AssociationId) {
        let (host, way) = match side {
            0 => (self.network.sender, Way::Back),
            _ => (self.network.receiver, Way::Forth),
        };
        let now = self.network.world.now();
        while let Some(message) = self.network.world.endpoint(host).read(id) {
            if let Some(connections) = &mut self.connections {
                connections.handle_message(now, side, message);
                continue;
            }
            let stream = message.stream.0;
            self.ledgers[way as usize].on_delivered(now, stream, message.payload.len());
            let (apps, mut desk) = self.apps_and_desk();
            apps.on_delivered(&mut desk, way, stream);
        }
    }

    fn run_sources(&mut self) {
        self.sources.iter_mut().for_each(|source| source.run(&mut self.network));
        self.competitors.work(self.scenario, &mut self.network.world);
        if let Some(id) = self.associations[0] {
            self.sampler.run(&self.network, id, &self.ledgers[Way::Forth as usize]);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let apps = self.apps.next_timer(self.network.world.now());
        let sources = self.sources.iter().filter_map(Source::next);
        let sampler = self.associations[0].map(|_| self.sampler.next());
        sources.chain(apps).chain(sampler).chain(self.competitors.next_timer()).min()
    }

    fn apps_and_desk(&mut self) -> (&mut Applications<'a>, SimulatedDesk<'_>) {
        let desk = SimulatedDesk {
            network: &mut self.network,
            associations: self.associations,
            ledgers: &mut self.ledgers,
            send_buffer: self.scenario.config.send_buffer as usize,
        };
        (&mut self.apps, desk)
    }

    fn finish(mut self) -> Outcome {
        let now = self.network.world.now();
        self.ledgers.iter_mut().for_each(|ledger| ledger.finish(now));
        let capture = self.capture.then(|| self.network.world.finish_capture());
        let mut outcome = outcome::figures(&self);
        outcome.capture = capture;
        outcome.series = self.sampler.into_series();
        outcome
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
#[allow(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]
mod tests;
