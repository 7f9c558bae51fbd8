//! The transfer: one association, both directions at once.

use crate::digest::{Checksum, Content};
use crate::options::Options;
use crate::report::Report;
use bytes::Bytes;
use manypath_engine::{
    AssociationId, AssociationStatus, CloseReason, Endpoint, Event, Outgoing, Ppid,
    ReconfigurationOutcome, SendError, StreamDirection, StreamId,
};
use manypath_net::{Clock, Driver, LocalBinding, UdpPort};
use mio::{Events, Poll, Token};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const MTU: u16 = 1500;
const ADDED_STREAMS: u16 = 2;

/// How long the last chunk is repeated to a peer that asks for it: longer than its first RTO, if nothing was
/// lost before.
const LINGER: Duration = Duration::from_millis(1500);

/// The association's way from its beginning to its end.
pub(crate) struct Transfer {
    options: Options,
    driver: Driver,
    poll: Poll,
    clock: Clock,
    began: Instant,
    id: Option<AssociationId>,
    connected: bool,
    outbound_streams: u16,
    content: Content,
    /// The next message, which has found no room yet.
    pending: Option<Bytes>,
    sent: Checksum,
    received: Checksum,
    given_up: u64,
    /// Re-configurations asked for, and what became of them.
    requested: usize,
    reconfigurations: Vec<ReconfigurationOutcome>,
    status: Option<AssociationStatus>,
    closed: Option<CloseReason>,
    shut: bool,
}

impl Transfer {
    /// Binds the sockets and sends the INIT, if one is to be sent.
    pub(crate) fn start(options: Options) -> Result<Self, String> {
        let poll = Poll::new().map_err(|error| format!("epoll: {error}"))?;
        let mut driver = Driver::new(Endpoint::new(options.config.clone(), seed()?));
        let bindings = options.own.iter().enumerate().map(|(number, ip)| {
            let addr = SocketAddr::new(*ip, 0);
            let prefix_len = if ip.is_ipv4() { 24 } else { 64 };
            (Token(number), LocalBinding { addr, device: None, prefix_len, mtu: MTU })
        });
        let bindings: Vec<_> = bindings.collect();
        driver
            .bind_all(poll.registry(), &bindings, UdpPort::Fixed(options.udp))
            .map_err(|error| error.to_string())?;
        let clock = Clock::start();
        let now = clock.now();
        let connect = |peer| driver.endpoint_mut().connect(now, peer, options.port);
        let id = options.peer.map(connect).transpose().map_err(|error| format!("{error:?}"))?;
        driver.flush(now);
        eprintln!("ready");
        Ok(Self {
            driver,
            poll,
            clock,
            began: Instant::now(),
            id,
            connected: false,
            outbound_streams: 0,
            content: Content::new(),
            pending: None,
            sent: Checksum::new(options.unordered),
            received: Checksum::new(options.unordered),
            given_up: 0,
            requested: 0,
            reconfigurations: Vec::new(),
            status: None,
            closed: None,
            shut: false,
            options,
        })
    }

    /// Until the association is over.
    pub(crate) fn run(mut self) -> Result<Report, String> {
        let limit = Instant::now() + Duration::from_secs(self.options.seconds);
        let mut events = Events::with_capacity(64);
        while self.closed.is_none() {
            if Instant::now() > limit {
                return Err(self.standstill());
            }
            self.turn(&mut events)?;
        }
        let took = self.began.elapsed();
        self.linger(&mut events)?;
        Ok(self.report(took))
    }

    fn linger(&mut self, events: &mut Events) -> Result<(), String> {
        let limit = Instant::now() + LINGER;
        let attendant = self.options.attended.then(|| {
            std::thread::spawn(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        });
        let is_over = || match &attendant {
            Some(attendant) => attendant.is_finished(),
            None => Instant::now() >= limit,
        };
        while !is_over() {
            self.turn(events)?;
        }
        Ok(())
    }

    fn turn(&mut self, events: &mut Events) -> Result<(), String> {
        let longest = Duration::from_millis(100);
        let sleep = self.clock.until(self.driver.timeout()).unwrap_or(longest).min(longest);
        match self.poll.poll(events, Some(sleep)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                return Err(format!("epoll: {error}"));
            }
            _ => {}
        }
        let now = self.clock.now();
        for event in &*events {
            self.driver.handle_event(now, event);
        }
        self.driver.handle_timeout(now);
        while let Some((id, event)) = self.driver.endpoint_mut().poll_event() {
            self.on_event(id, event);
        }
        if let Some(id) = self.id.filter(|_| self.connected && self.closed.is_none()) {
            self.fill(id)?;
            self.reconfigure(id);
            self.finish(id);
        }
        self.driver.flush(now);
        Ok(())
    }

    fn on_event(&mut self, id: AssociationId, event: Event) {
        match event {
            Event::Connected { outbound_streams, .. } => {
                self.id = Some(id);
                self.outbound_streams = outbound_streams;
                self.connected = true;
                self.began = Instant::now();
            }
            Event::Readable => self.read(id),
            Event::SendFailed { .. } => self.given_up += 1,
            Event::StreamsReset { direction, outcome, .. } => {
                if direction == StreamDirection::Outgoing {
                    self.reconfigurations.push(outcome);
                }
            }
            // The peer adds streams too: what was refused, or has given us more, is the answer to us.
            Event::StreamsAdded { outcome, outbound_streams, .. } => {
                let performed = outcome == ReconfigurationOutcome::Performed;
                if !performed || outbound_streams > self.outbound_streams {
                    self.reconfigurations.push(outcome);
                }
            }
            Event::Closed(reason) => {
                self.read(id);
                self.closed = Some(reason);
            }
            Event::Writable
            | Event::PartialDeliveryAborted(_)
            | Event::AssociationReset { .. }
            | Event::Undelivered { .. }
            | Event::PeerError { .. }
            | Event::Authentication { .. }
            | Event::KeysWanted
            | Event::RekeyDue
            | Event::PeerDoubted
            | Event::SenderDry
            | Event::LocalAddress { .. }
            | Event::PathPolicy { .. }
            | Event::PeerAddress { .. }
            | Event::PathChanged { .. }
            | Event::Restarted
            | Event::PeerShutdown => {}
        }
    }

    fn read(&mut self, id: AssociationId) {
        while let Some(message) = self.driver.endpoint_mut().read(id) {
            self.received.add(message.stream.0, &message.payload);
        }
    }

    /// Queues messages until the send buffer is full.
    fn fill(&mut self, id: AssociationId) -> Result<(), String> {
        while self.sent.bytes < self.options.send {
            let left = usize::try_from(self.options.send - self.sent.bytes).unwrap_or(usize::MAX);
            let size = left.min(self.options.message);
            let payload = match self.pending.take() {
                Some(payload) => payload,
                None => Bytes::from(self.content.take(size)),
            };
            let stream = (self.sent.messages % u64::from(self.options.streams)) as u16;
            let message = Outgoing {
                stream: StreamId(stream),
                ppid: Ppid(0),
                unordered: self.options.unordered,
                payload: payload.clone(),
            };
            let (now, reliability) = (self.clock.now(), self.options.reliability);
            match self.driver.endpoint_mut().send_with(now, id, message, reliability) {
                Ok(()) => self.sent.add(stream, &payload),
                Err(SendError::BufferFull) => {
                    self.pending = Some(payload);
                    return Ok(());
                }
                Err(error) => return Err(format!("sending failed: {error:?}")),
            }
        }
        Ok(())
    }

    /// When everything is sent: new numbers for all outgoing streams, and then more of them.
    fn reconfigure(&mut self, id: AssociationId) {
        let all_sent = self.sent.bytes >= self.options.send;
        if !self.options.reset || !all_sent || self.reconfigurations.len() < self.requested {
            return;
        }
        let (now, endpoint) = (self.clock.now(), self.driver.endpoint_mut());
        let asked = match self.requested {
            0 => endpoint.reset_streams(now, id, &[StreamDirection::Outgoing], &[]),
            1 => endpoint.add_streams(now, id, ADDED_STREAMS, 0),
            _ => return,
        };
        match asked {
            Ok(()) => self.requested += 1,
            Err(error) => {
                eprintln!("native: no re-configuration: {error}");
                self.options.reset = false;
            }
        }
    }

    /// Ends the association when all is done.
    fn finish(&mut self, id: AssociationId) {
        let transferred =
            self.sent.bytes >= self.options.send && self.received.bytes >= self.options.receive;
        let reconfigured = !self.options.reset || self.reconfigurations.len() >= 2;
        let now = self.clock.now();
        self.status = self.driver.endpoint().status(now, id).or(self.status.take());
        if transferred && reconfigured && !self.shut && !self.options.wait {
            self.shut = true;
            self.driver.endpoint_mut().shutdown(now, id);
        }
    }

    fn standstill(&self) -> String {
        let now = self.clock.now();
        let status = self.id.and_then(|id| self.driver.endpoint().status(now, id));
        format!(
            "not finished after {} s: sent {}, received {}; {status:?}; {:?}; {:?}",
            self.options.seconds,
            self.sent.bytes,
            self.received.bytes,
            self.driver.endpoint().counters(),
            self.driver.counters()
        )
    }

    fn report(self, took: Duration) -> Report {
        let mut counters = self.driver.endpoint().counters().entries();
        counters.extend(self.driver.counters().entries());
        counters.retain(|(_, count)| *count > 0);
        Report {
            sent: self.sent,
            received: self.received,
            took,
            closed: self.closed.unwrap_or(CloseReason::LocalAbort),
            status: self.status,
            counters,
            reconfigurations: self.reconfigurations,
            given_up: self.given_up,
        }
    }
}

/// The seed of tags, TSNs and cookie keys.
fn seed() -> Result<[u8; 32], String> {
    let mut seed = [0; 32];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut seed));
    read.map(|()| seed).map_err(|error| format!("/dev/urandom: {error}"))
}
