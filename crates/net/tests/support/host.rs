//! A host of a test: a driver with its poll, and everything that its endpoint told.
#![allow(
    dead_code,
    reason = "the tests in the library include this file, too, and use a part of it"
)]

use bytes::Bytes;
use manypath_engine::{AssociationId, Config, Endpoint, EndpointEvent, Event, Outgoing};
use manypath_net::{Carrier, Clock, Driver, LocalBinding, Proxy, Seat, UdpPort, Wrapper};
use manypath_wire::{Ppid, StreamId};
use mio::{Events, Poll, Token};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const SCTP_PORT: u16 = 7;
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn config(port: u16, accept: bool) -> Config {
    Config { port, accept, streams: 4, ..Config::default() }
}

pub(crate) struct Host {
    pub(crate) driver: Driver,
    pub(crate) locals: Vec<SocketAddr>,
    pub(crate) events: Vec<EndpointEvent>,
    /// Payloads of all messages read.
    pub(crate) received: Vec<Bytes>,
    pub(crate) clock: Clock,
    /// The HTTP proxy for carriers.
    pub(crate) proxy: Option<SocketAddr>,
    /// What wraps connections that carry.
    pub(crate) wrapper: Option<Arc<dyn Wrapper>>,
    poll: Poll,
    ready: Events,
}

impl Host {
    /// A host that uses `bindings`, all with one free port.
    pub(crate) fn new(seed: u8, config: Config, bindings: &[LocalBinding]) -> Self {
        Self::at(UdpPort::Ephemeral, seed, config, bindings, None)
    }

    /// A host at a port, which may be one of several loops there.
    pub(crate) fn at(
        port: UdpPort,
        seed: u8,
        config: Config,
        bindings: &[LocalBinding],
        seat: Option<&Seat>,
    ) -> Self {
        let mut driver = Driver::new(Endpoint::new(config, [seed; 32]));
        if let Some(seat) = seat {
            driver.take_seat(seat);
        }
        let poll = Poll::new().unwrap();
        let tokens = (0..).map(Token);
        let bindings: Vec<_> = tokens.zip(bindings.iter().cloned()).collect();
        let bound = driver.bind_all(poll.registry(), &bindings, port).unwrap();
        Self {
            driver,
            locals: bound.iter().map(|address| address.addr).collect(),
            events: Vec::new(),
            received: Vec::new(),
            clock: Clock::start(),
            proxy: None,
            wrapper: None,
            poll,
            ready: Events::with_capacity(64),
        }
    }

    /// A host that uses the addresses of `bindings` without UDP too.
    pub(crate) fn with_native(seed: u8, config: Config, bindings: &[LocalBinding]) -> Self {
        let mut host = Self::new(seed, config, bindings);
        for (number, binding) in bindings.iter().enumerate() {
            let token = Token(100 + number);
            host.driver.bind_native(host.poll.registry(), token, binding).unwrap();
        }
        host
    }

    /// Tries `carriers` where a peer is silent at the UDP port `usual`; and accepts connections that carry at `listen`.
    pub(crate) fn carry_by(&mut self, carriers: &str, usual: u16, listen: Option<u16>) {
        let tokens = |id| Token(1000 + id as usize);
        let (registry, carriers) = (self.poll.registry(), carriers.parse().unwrap());
        let proxies = self.proxy.map(|addr| Proxy::new(addr, None)).into_iter().collect();
        self.driver
            .carry_by(registry, tokens, vec![usual], (carriers, proxies), self.wrapper.clone())
            .unwrap();
        listen.into_iter().for_each(|port| self.driver.listen(Carrier::Tcp(port)).unwrap());
    }

    /// One turn of the loop, sleeping no longer than `longest`.
    pub(crate) fn turn(&mut self, longest: Duration) {
        let deadline = self.clock.until(self.driver.timeout()).unwrap_or(longest);
        match self.poll.poll(&mut self.ready, Some(deadline.min(longest))) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => result.unwrap(),
        }
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

    /// Why an association has ended, once it has, for a while.
    pub(crate) fn closed(&mut self, id: AssociationId) -> Option<manypath_engine::CloseReason> {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let closed = |(of, event): &EndpointEvent| {
                if let Event::Closed(reason) = event {
                    (*of == id).then(|| reason.clone())
                } else {
                    None
                }
            };
            let reason = self.events.iter().find_map(closed);
            if reason.is_some() {
                return reason;
            }
            self.turn(Duration::from_millis(10));
        }
        None
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

/// Addresses of 127.0.0.0/8 that form networks of their own, with an Ethernet MTU.
pub(crate) fn loopback(ips: &[&str]) -> Vec<LocalBinding> {
    let binding = |ip: &&str| {
        let addr = SocketAddr::new(ip.parse().unwrap(), 0);
        LocalBinding { addr, device: None, prefix_len: 24, mtu: 1500 }
    };
    ips.iter().map(binding).collect()
}

pub(crate) fn pair(client: &[LocalBinding], server: &[LocalBinding]) -> (Host, Host) {
    (Host::new(1, config(1, false), client), Host::new(2, config(SCTP_PORT, true), server))
}

/// A text in which every place is different, so that loss and reordering show.
pub(crate) fn text(size: usize) -> Bytes {
    (0..size.div_ceil(8) as u64).flat_map(|n| (n * 0x9e37_79b9).to_be_bytes()).collect()
}

/// Sends `text` in messages of `message` bytes until the other side has all of it. `after` is
/// called once, when a third has arrived.
pub(crate) fn transfer(
    a: &mut Host,
    b: &mut Host,
    text: &Bytes,
    message: usize,
    after: impl FnOnce(),
) {
    let id = a.connect(b.locals[0], SCTP_PORT);
    transfer_on(a, b, id, text, message, after);
}

/// As [`transfer`], on an association that has been begun.
pub(crate) fn transfer_on(
    a: &mut Host,
    b: &mut Host,
    id: AssociationId,
    text: &Bytes,
    message: usize,
    after: impl FnOnce(),
) {
    let (mut queued, mut after) = (0, Some(after));
    drive(a, b, LIMIT, |a, b| {
        while queued < text.len() {
            let end = text.len().min(queued + message);
            if !a.send(id, text.slice(queued..end)) {
                break;
            }
            queued = end;
        }
        a.driver.flush(a.clock.now());
        if b.bytes_received() * 3 > text.len()
            && let Some(after) = after.take()
        {
            after();
        }
        b.bytes_received() >= text.len()
    });
    assert_eq!(b.received.concat(), text[..], "every byte once and in order");
}
