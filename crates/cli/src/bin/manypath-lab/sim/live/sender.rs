//! The sender of a live run: the scenario's applications.

use super::host::{LiveStack, Times};
use super::report::Report;
use crate::failure::Failure;
use manypath_engine::{
    AssociationId, CloseReason, Endpoint, Event, IdleReason, Instant, Outgoing, Ppid, StreamId,
};
use manypath_lab::Host;
use manypath_sim::scenario::Scenario;
use manypath_sim::simulation::{Applications, Desk, Way};
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes at the front of each message that say when it was made.
pub(super) const STAMP: usize = 8;
/// Period of the looks at what keeps paths idle.
const PERIOD: Duration = Duration::from_millis(100);

/// Sends until the end.
pub(super) fn send(
    mut stack: LiveStack,
    scenario: &Scenario,
    times: Times,
) -> Result<Report, Failure> {
    while stack.clock.now() < times.start {
        stack.turn(Some(times.start))?;
    }
    let (destination, port) = LiveStack::destination(Host::Left);
    let connected = stack.driver.endpoint_mut().connect(times.start, destination, port);
    let id = connected.map_err(|e| Failure::new(format!("cannot connect: {e:?}")))?;
    stack.driver.flush(stack.clock.now());
    let mut sender = Sender {
        stack,
        id,
        apps: Applications::new(&scenario.apps, times.start),
        send_buffer: scenario.config.send_buffer as usize,
        established: false,
        closed: None,
        looks: Looks { next: times.from, all: 0, blocked: 0 },
    };
    while sender.stack.clock.now() < times.end && sender.closed.is_none() {
        sender.turn(times.end)?;
    }
    Ok(sender.report(scenario))
}

struct Sender<'a> {
    stack: LiveStack,
    id: AssociationId,
    apps: Applications<'a>,
    send_buffer: usize,
    established: bool,
    closed: Option<CloseReason>,
    looks: Looks,
}

impl Sender<'_> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "figures need no other events")]
    fn turn(&mut self, end: Instant) -> Result<(), Failure> {
        let now = self.stack.clock.now();
        let deadlines = [self.apps.next_timer(now), Some(self.looks.next), Some(end)];
        let now = self.stack.turn(deadlines.into_iter().flatten().min())?;
        let endpoint = self.stack.driver.endpoint_mut();
        while let Some((_, event)) = endpoint.poll_event() {
            match event {
                Event::Connected { .. } => self.established = true,
                Event::Closed(reason) => self.closed = Some(reason),
                _ => {}
            }
        }
        if self.established {
            self.apps.begin(now);
        }
        let (id, send_buffer) = (self.id, self.send_buffer);
        self.apps.work(&mut LiveDesk { now, endpoint, id, send_buffer });
        self.looks.look(now, endpoint, id);
        self.stack.driver.flush(now);
        Ok(())
    }

    fn report(self, scenario: &Scenario) -> Report {
        let now = self.stack.clock.now();
        let status = self.stack.driver.endpoint().status(now, self.id);
        let mut report = Report {
            figures: vec![("rwnd_blocked".to_owned(), Some(self.looks.blocked()))],
            failure: self.closed.map(|reason| format!("{reason:?}")),
            packets: 0,
        };
        for (number, spec) in scenario.paths.iter().enumerate() {
            let is_it = |local: SocketAddr| local.ip() == Host::Left.address(number);
            let paths = status.iter().flat_map(|status| &status.paths);
            let Some(path) = paths.into_iter().find(|path| is_it(path.addr.local)) else {
                continue;
            };
            report.packets += path.packets_sent + path.packets_received;
            let mut add = |name: &str, value: u64| {
                report.figures.push((format!("{}_{name}", spec.name), Some(value as f64)));
            };
            add("packets_sent", path.packets_sent);
            add("fast_retransmits", path.fast_retransmits);
            add("timeouts", path.timeouts);
        }
        report
    }
}

/// What the applications work with.
struct LiveDesk<'a> {
    now: Instant,
    endpoint: &'a mut Endpoint,
    id: AssociationId,
    send_buffer: usize,
}

impl Desk for LiveDesk<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn send(&mut self, _way: Way, stream: u16, len: usize, generated: Instant) -> bool {
        let mut payload = vec![0; len.max(STAMP)];
        payload[..STAMP].copy_from_slice(&generated.as_nanos().to_be_bytes());
        let stream = StreamId(stream);
        let message = Outgoing { stream, ppid: Ppid(0), unordered: false, payload: payload.into() };
        self.endpoint.send(self.now, self.id, message).is_ok()
    }

    fn queued(&self, stream: u16) -> (usize, usize) {
        (self.endpoint.queued_on_stream(self.id, StreamId(stream)), self.send_buffer)
    }

    fn send_space(&self) -> usize {
        self.endpoint.send_space(self.id)
    }
}

/// How often the receive window kept a path idle.
struct Looks {
    next: Instant,
    all: u64,
    blocked: u64,
}

impl Looks {
    fn look(&mut self, now: Instant, endpoint: &Endpoint, id: AssociationId) {
        if now < self.next {
            return;
        }
        self.next = self.next + PERIOD;
        let Some(status) = endpoint.status(now, id) else { return };
        self.all += 1;
        let blocked = |idle: Option<IdleReason>| idle == Some(IdleReason::ReceiveWindow);
        self.blocked += u64::from(status.paths.iter().any(|path| blocked(path.idle)));
    }

    fn blocked(&self) -> f64 {
        self.blocked as f64 / self.all.max(1) as f64
    }
}
