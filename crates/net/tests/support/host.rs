//! A host of a test: a driver with its poll, and everything that its endpoint told.

use bytes::Bytes;
use manypath_engine::{AssociationId, Config, Endpoint, EndpointEvent, Event, Outgoing};
use manypath_net::{Clock, Driver, LocalBinding, UdpPort};
use manypath_wire::{Ppid, StreamId};
use mio::{Events, Poll, Token};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub(crate) struct Host {
    pub(crate) driver: Driver,
    pub(crate) locals: Vec<SocketAddr>,
    pub(crate) events: Vec<EndpointEvent>,
    /// Payloads of all messages read.
    pub(crate) received: Vec<Bytes>,
    pub(crate) clock: Clock,
    poll: Poll,
    ready: Events,
}

impl Host {
    /// A host that uses `bindings`, all with one free port.
    pub(crate) fn new(seed: u8, config: Config, bindings: &[LocalBinding]) -> Self {
        let mut driver = Driver::new(Endpoint::new(config, [seed; 32]));
        let poll = Poll::new().unwrap();
        let tokens = (0..).map(Token);
        let bindings: Vec<_> = tokens.zip(bindings.iter().cloned()).collect();
        let bound = driver.bind_all(poll.registry(), &bindings, UdpPort::Ephemeral).unwrap();
        Self {
            driver,
            locals: bound.iter().map(|address| address.addr).collect(),
            events: Vec::new(),
            received: Vec::new(),
            clock: Clock::start(),
            poll,
            ready: Events::with_capacity(64),
        }
    }

    /// One turn of the loop, sleeping no longer than `longest`.
    pub(crate) fn turn(&mut self, longest: Duration) {
        let deadline = self.clock.until(self.driver.timeout()).unwrap_or(longest);
        self.poll.poll(&mut self.ready, Some(deadline.min(longest))).unwrap();
        let now = self.clock.now();
        for event in &self.ready {
            assert!(self.driver.handle_event(now, event), "an event of nobody");
        }
        self.driver.handle_timeout(now);
        while let Some((id, event)) = self.driver.endpoint_mut().poll_event() {
            if event == Event::Readable {
                while let Some(message) = self.driver.endpoint_mut().read(id) {
                    self.received.push(message.payload);
                }
            }
            self.events.push((id, event));
        }
        self.driver.flush(now);
    }

    pub(crate) fn connect(&mut self, remote: SocketAddr, port: u16) -> AssociationId {
        let now = self.clock.now();
        let id = self.driver.endpoint_mut().connect(now, remote, port).unwrap();
        self.driver.flush(now);
        id
    }

    /// Queues `payload` as one ordered message; `false` if there is no room for it.
    pub(crate) fn send(&mut self, id: AssociationId, payload: Bytes) -> bool {
        let now = self.clock.now();
        let message = Outgoing { stream: StreamId(0), ppid: Ppid(0), unordered: false, payload };
        self.driver.endpoint_mut().send(now, id, message).is_ok()
    }

    pub(crate) fn bytes_received(&self) -> usize {
        self.received.iter().map(Bytes::len).sum()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.events.iter().any(|(_, event)| matches!(event, Event::Connected { .. }))
    }
}

/// Turns both hosts' loops until `done`, at most for `limit`.
pub(crate) fn drive(
    a: &mut Host,
    b: &mut Host,
    limit: Duration,
    mut done: impl FnMut(&mut Host, &mut Host) -> bool,
) {
    let end = Instant::now() + limit;
    while !done(a, b) {
        assert!(Instant::now() < end, "not done within {limit:?}: {:?} / {:?}", a.events, b.events);
        a.turn(Duration::from_micros(200));
        b.turn(Duration::from_micros(200));
    }
}
