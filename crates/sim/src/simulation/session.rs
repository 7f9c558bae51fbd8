use super::apps::{self, Application, Desk, Way};
use super::background::Source;
use super::ledger::Ledger;
use super::network::{Network, RECEIVER_PORT};
use super::outcome::{self, Outcome};
use super::sampler::Sampler;
use crate::rng::Rng;
use crate::scenario::{AppSpec, Scenario};
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
    apps: Vec<App<'a>>,
    sources: Vec<Source>,
    /// Room in the send buffer when applications last had a look at it.
    space: usize,
    capture: bool,
}

/// An application and, once it has begun, what it does.
#[derive(Debug)]
struct App<'a> {
    spec: &'a AppSpec,
    running: Option<Box<dyn Application>>,
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
        if options.capture {
            network.world.start_capture();
        }
        let ledger = || Ledger::new(scenario.config.streams, (from, end));
        let app = |spec| App { spec, running: None };
        Self {
            scenario,
            network,
            start,
            from,
            end,
            associations: [None; 2],
            ledgers: [ledger(), ledger()],
            sampler: Sampler::new(start, from, options.series),
            closed: None,
            established: false,
            apps: scenario.apps.iter().map(app).collect(),
            sources: scenario.background.iter().map(|spec| Source::new(spec, start)).collect(),
            space: 0,
            capture: options.capture,
        }
    }

    fn connect(&mut self) {
        while self.network.world.step(self.start) {}
        let destination = self.network.destination(self.scenario.udp);
        let sender = self.network.world.endpoint(self.network.sender);
        // The scenario has paths and the endpoint no other association: connecting cannot fail.
        self.associations[0] = sender.connect(self.start, destination, RECEIVER_PORT).ok();
    }

    fn is_over(&self) -> bool {
        self.network.world.now() >= self.end || self.closed.is_some() || self.is_done()
    }

    /// Whether every application is one that ends and has.
    fn is_done(&self) -> bool {
        let total = |app: &App<'_>| app.running.as_ref()?.total();
        let totals: Option<u64> = self.apps.iter().map(total).sum();
        totals.is_some_and(|total| self.ledgers[Way::Forth as usize].bytes_ever() >= total)
    }

    fn go_on(&mut self) {
        self.take_events();
        self.start_apps();
        self.offer_space();
        self.run_timers();
        let limit = self.next_timer().map_or(self.end, |at| at.min(self.end));
        self.network.world.step(limit);
    }

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
                    Event::Writable
                    | Event::PathChanged { .. }
                    | Event::Restarted
                    | Event::PeerShutdown => {}
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
            let stream = message.stream.0;
            self.ledgers[way as usize].on_delivered(now, stream, message.payload.len());
            let app = self.apps.iter_mut().rev().find(|app| app.spec.first_stream <= stream);
            let Some(app) = app.and_then(|app| app.running.as_mut()) else { continue };
            app.on_delivered(
                &mut desk(self.scenario, &mut self.network, self.associations, &mut self.ledgers),
                way,
                stream,
            );
        }
    }

    fn start_apps(&mut self) {
        if !self.established {
            return;
        }
        let now = self.network.world.now();
        for app in self.apps.iter_mut().filter(|app| app.running.is_none()) {
            if self.start + app.spec.start <= now {
                app.running = Some(apps::start(app.spec, now));
                self.space = 0;
            }
        }
    }

    /// Lets applications send when there is more room than they have left.
    fn offer_space(&mut self) {
        let Some(id) = self.associations[0] else { return };
        if self.send_space(id) <= self.space {
            return;
        }
        for app in self.apps.iter_mut().filter_map(|app| app.running.as_mut()) {
            app.on_space(&mut desk(
                self.scenario,
                &mut self.network,
                self.associations,
                &mut self.ledgers,
            ));
        }
        self.space = self.send_space(id);
    }

    fn send_space(&self, id: AssociationId) -> usize {
        self.network.world.look(self.network.sender).send_space(id)
    }

    fn run_timers(&mut self) {
        let now = self.network.world.now();
        for app in self.apps.iter_mut().filter_map(|app| app.running.as_mut()) {
            if app.next_timer().is_some_and(|at| at <= now) {
                app.on_timer(&mut desk(
                    self.scenario,
                    &mut self.network,
                    self.associations,
                    &mut self.ledgers,
                ));
            }
        }
        self.sources.iter_mut().for_each(|source| source.run(&mut self.network));
        if let Some(id) = self.associations[0] {
            self.sampler.run(&self.network, id, &self.ledgers[Way::Forth as usize]);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let now = self.network.world.now();
        let apps = self.apps.iter().filter_map(|app| match &app.running {
            Some(running) => running.next_timer(),
            None => Some(self.start + app.spec.start).filter(|at| *at > now),
        });
        let sources = self.sources.iter().filter_map(Source::next);
        apps.chain(sources).chain([self.sampler.next()]).min()
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

fn desk<'a>(
    scenario: &Scenario,
    network: &'a mut Network,
    associations: [Option<AssociationId>; 2],
    ledgers: &'a mut [Ledger; 2],
) -> Desk<'a> {
    let send_buffer = scenario.config.send_buffer as usize;
    Desk { network, associations, ledgers, send_buffer }
}
