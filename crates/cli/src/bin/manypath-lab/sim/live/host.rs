//! A process on a host of the lab: the live stack's driver and its loop.

use super::report::Report;
use super::{kernel, receiver, sender};
use crate::failure::Failure;
use crate::sim::args::{LiveTransport, SimLiveHostArgs};
use crate::sim::campaign;
use manypath_engine::{Config, Endpoint, Instant};
use manypath_lab::Host;
use manypath_net::{Clock, Driver, LocalBinding, UdpPort};
use manypath_sim::scenario::Scenario;
use mio::{Events, Poll, Token};
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// SCTP ports of the two hosts, as in the simulation.
const PORTS: [u16; 2] = [5000, 7];
/// UDP port (RFC 6951).
const ENCAPSULATION: u16 = 9899;
/// Longest sleep.
const LONGEST: Duration = Duration::from_millis(100);

/// `manypath-lab sim-live-host`: binds, says "ready", reads the time of the start, does its part, reports.
pub(crate) fn host(args: &SimLiveHostArgs) -> Result<u8, Failure> {
    let plan = campaign::load(&args.file, args.seeds, &args.changes)?;
    let missing = || Failure::usage(format!("--run {}: no such run", args.run));
    let run = plan.runs.get(args.run).ok_or_else(missing)?;
    let side = if args.sender { Host::Left } else { Host::Right };
    if !manypath_lab::be_punctual() && args.sender {
        eprintln!("no real-time priority: other work on this machine will show in the figures");
    }
    let report = match args.transport {
        LiveTransport::Manypath => manypath(&run.scenario, side, run.seed)?,
        LiveTransport::Mptcp => mptcp(&run.scenario, side, false)?,
        LiveTransport::MptcpAutotuned => mptcp(&run.scenario, side, true)?,
    };
    say(&serde_json::to_string(&report).map_err(|e| Failure::new(e.to_string()))?)?;
    Ok(0)
}

fn manypath(scenario: &Scenario, side: Host, seed: u64) -> Result<Report, Failure> {
    let (config, modules) = scenario.endpoint_config();
    let stack = LiveStack::bind(config, scenario.paths.len(), side, seed)?;
    let times = get_ready(scenario)?;
    let mut report = match side {
        Host::Left => sender::send(stack, scenario, times),
        Host::Right => receiver::receive(stack, scenario, times),
    }?;
    report.failure = report.failure.or(modules.failure());
    if side == Host::Left {
        let figures = modules.figures(report.packets).map(|(name, value)| (name, Some(value)));
        report.figures.extend(figures);
    }
    Ok(report)
}

fn mptcp(scenario: &Scenario, side: Host, autotuned: bool) -> Result<Report, Failure> {
    let socket = kernel::open(scenario, side, autotuned)?;
    let times = get_ready(scenario)?;
    match side {
        Host::Left => kernel::send(socket, scenario, times),
        Host::Right => kernel::receive(&socket, scenario, times, autotuned),
    }
}

/// Says that everything is in place, and gets to know when to start.
fn get_ready(scenario: &Scenario) -> Result<Times, Failure> {
    say("ready")?;
    Ok(Times::new(scenario, read_start()?))
}

fn say(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Failure::from)
}

fn read_start() -> Result<Instant, Failure> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let nanos = line.trim().parse().map_err(|_| Failure::new("no time to start at was given"))?;
    Ok(Instant::from_nanos(nanos))
}

/// When things happen, by the machine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Start of the association.
    pub(super) start: Instant,
    /// Start of the measurement.
    pub(super) from: Instant,
    /// End of the run.
    pub(super) end: Instant,
}

impl Times {
    fn new(scenario: &Scenario, start: Instant) -> Self {
        let from = start + scenario.warmup;
        Self { start, from, end: from + scenario.measure }
    }
}

/// The stack of one host.
pub(super) struct LiveStack {
    pub(super) driver: Driver,
    pub(super) clock: Clock,
    poll: Poll,
    ready: Events,
}

impl LiveStack {
    fn bind(config: Config, paths: usize, side: Host, seed: u64) -> Result<Self, Failure> {
        let accept = side == Host::Right;
        let port = PORTS[usize::from(accept)];
        let config = Config { port, accept, ..config };
        let mut driver = Driver::new(Endpoint::new(config, seed_of(side, seed)));
        let poll = Poll::new()?;
        let bindings: Vec<_> = (0..paths).map(|path| binding(side, path)).collect();
        driver.bind_all(poll.registry(), &bindings, UdpPort::Fixed(ENCAPSULATION))?;
        let (clock, ready) = (Clock::of_machine(), Events::with_capacity(64));
        Ok(Self { driver, clock, poll, ready })
    }

    /// The other host's address on the first path, and its SCTP port.
    pub(super) fn destination(side: Host) -> (SocketAddr, u16) {
        let peer = side.peer();
        let port = PORTS[usize::from(peer == Host::Right)];
        ((peer.address(0), ENCAPSULATION).into(), port)
    }

    /// Waits until something happens, at most until `deadline`; lets the endpoint react to it, as the
    /// simulated world does, before anybody else does. Returns the time.
    pub(super) fn turn(&mut self, deadline: Option<Instant>) -> Result<Instant, Failure> {
        let deadlines = [self.driver.timeout(), deadline];
        let next = self.clock.until(deadlines.into_iter().flatten().min());
        match self.poll.poll(&mut self.ready, Some(next.unwrap_or(LONGEST).min(LONGEST))) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                return Err(error.into());
            }
            _ => {}
        }
        let now = self.clock.now();
        for event in &self.ready {
            self.driver.handle_event(now, event);
        }
        self.driver.handle_timeout(now);
        self.driver.flush(now);
        Ok(now)
    }
}

fn binding(side: Host, path: usize) -> (Token, LocalBinding) {
    let device = format!("path{}", char::from(b'A' + path as u8));
    let addr = (side.address(path), ENCAPSULATION).into();
    (
        Token(path),
        LocalBinding { addr, device: Some(device), prefix_len: 24, mtu: manypath_lab::MTU },
    )
}

/// Tags and first TSNs differ between hosts and repetitions.
fn seed_of(side: Host, seed: u64) -> [u8; 32] {
    let mut bytes = [side as u8; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes
}
