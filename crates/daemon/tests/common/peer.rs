//! A peer made by hand: it speaks the protocol and keeps none of a stack's rules.

use super::LIMIT;
use manypath_engine::{
    AssociationId, CloseReason, Config, Endpoint, Event, LocalAddress, Message, Outgoing, Ppid,
    SendError, StreamId,
};
use manypath_flow::{ADAPTATION, FlowConfig, FlowEvent, FlowId, FlowMux, Refusal, SCTP_PORT};
use manypath_net::{Clock, Driver, LocalBinding, UdpPort};
use mio::{Events, Poll, Token};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Peer {
    poll: Poll,
    clock: Clock,
    driver: Driver,
    /// Everything that the engine has told so far.
    pub(crate) seen: Vec<(AssociationId, Event)>,
    pub(crate) mux: FlowMux,
    /// Associations that [`Self::accept`] has returned.
    known: usize,
}

/// What became of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Opened,
    Refused(Refusal),
}

impl Peer {
    /// A peer at `local`, with whatever else `config` says.
    pub(crate) fn new(local: IpAddr, port: UdpPort, config: Config) -> Self {
        Self::seeded(local, port, config, local_byte(local))
    }

    /// The same with a seed of its own.
    pub(crate) fn seeded(local: IpAddr, port: UdpPort, config: Config, seed: u8) -> Self {
        Self::at(&[local], port, config, seed)
    }

    /// The same at several addresses.
    pub(crate) fn at(locals: &[IpAddr], port: UdpPort, config: Config, seed: u8) -> Self {
        let poll = Poll::new().unwrap();
        let mut driver = Driver::new(Endpoint::new(config, [seed; 32]));
        let binding = |(index, local): (usize, &IpAddr)| {
            let addr = SocketAddr::new(*local, 0);
            (Token(index), LocalBinding { addr, device: None, prefix_len: 24, mtu: 1500 })
        };
        let bindings: Vec<_> = locals.iter().enumerate().map(binding).collect();
        driver.bind_all(poll.registry(), &bindings, port).unwrap();
        let mux = FlowMux::new(true, 16, FlowConfig::default());
        Self { poll, clock: Clock::start(), driver, seen: Vec::new(), mux, known: 0 }
    }

    /// A client that announces that it carries flows.
    pub(crate) fn client(local: IpAddr) -> Self {
        Self::client_at(&[local])
    }

    /// The same at several addresses.
    pub(crate) fn client_at(locals: &[IpAddr]) -> Self {
        let config = Config { port: 40_000, adaptation: Some(ADAPTATION), ..Config::default() };
        Self::at(locals, UdpPort::Ephemeral, config, local_byte(locals[0]))
    }

    /// A client that lists an address where it is not.
    pub(crate) fn liar(local: IpAddr, listed: IpAddr) -> Self {
        let mut peer = Self::client(local);
        let addr = SocketAddr::new(listed, 0);
        let address = LocalAddress { addr, prefix_len: 24, interface: 0, mtu: 1500 };
        peer.driver.endpoint_mut().add_local_address(address);
        peer
    }

    /// Leaves one of its addresses without a word.
    pub(crate) fn leave(&mut self, number: usize, address: IpAddr) {
        let now = self.clock.now();
        self.driver.unbind(now, Token(number));
        self.driver.endpoint_mut().suspend_local_address(now, address);
    }

    pub(crate) fn connect(&mut self, remote: SocketAddr) -> AssociationId {
        self.connect_to(remote, SCTP_PORT)
    }

    pub(crate) fn connect_to(&mut self, remote: SocketAddr, port: u16) -> AssociationId {
        let now = self.clock.now();
        let id = self.driver.endpoint_mut().connect(now, remote, port).unwrap();
        self.flush();
        id
    }

    /// Connects and waits until the association is up.
    pub(crate) fn establish(&mut self, remote: SocketAddr) -> AssociationId {
        let id = self.connect(remote);
        let up = |peer: &Self| {
            let connected = |(_, event): &(_, Event)| matches!(event, Event::Connected { .. });
            peer.seen.iter().any(connected).then_some(())
        };
        self.run_until("the association", up);
        id
    }

    /// Asks for a flow to `destination`.
    pub(crate) fn ask(&mut self, id: AssociationId, destination: SocketAddr) -> FlowId {
        self.ask_from(id, destination, SocketAddr::from(([192, 0, 2, 7], 1234)))
    }

    fn ask_from(
        &mut self,
        id: AssociationId,
        destination: SocketAddr,
        source: SocketAddr,
    ) -> FlowId {
        let flow = self.mux.open(destination, source).unwrap();
        self.send_all(id);
        flow
    }

    /// Asks for a flow to `destination` and waits for the answer.
    pub(crate) fn open(&mut self, id: AssociationId, destination: SocketAddr) -> (FlowId, Answer) {
        let flow = self.ask(id, destination);
        (flow, self.answer(id, flow))
    }

    /// The same for a program at `source`, as the peer says.
    pub(crate) fn open_from(
        &mut self,
        id: AssociationId,
        destination: SocketAddr,
        source: SocketAddr,
    ) -> Answer {
        let flow = self.ask_from(id, destination, source);
        self.answer(id, flow)
    }

    fn answer(&mut self, id: AssociationId, flow: FlowId) -> Answer {
        let begun = Instant::now();
        loop {
            self.turn();
            self.receive_all(id);
            while let Some(event) = self.mux.poll_event() {
                match event {
                    FlowEvent::Opened { flow: opened, .. } if opened == flow => {
                        return Answer::Opened;
                    }
                    FlowEvent::Refused { flow: refused, refusal } if refused == flow => {
                        return Answer::Refused(refusal);
                    }
                    _ => {}
                }
            }
            assert!(begun.elapsed() < LIMIT, "no answer for {flow:?}");
        }
    }

    /// Sends one message as it is.
    pub(crate) fn send_raw(&mut self, id: AssociationId, ppid: u32, payload: &'static [u8]) {
        let payload = bytes::Bytes::from_static(payload);
        let message = Outgoing { stream: StreamId(0), ppid: Ppid(ppid), unordered: false, payload };
        let now = self.clock.now();
        self.driver.endpoint_mut().send(now, id, message).unwrap();
        self.driver.flush(now);
    }

    pub(crate) fn send_all(&mut self, id: AssociationId) {
        let now = self.clock.now();
        while let Some(message) = self.mux.poll_message(1200) {
            self.driver.endpoint_mut().send(now, id, message).unwrap();
        }
        self.driver.flush(now);
    }

    /// Takes what has come in and sends what there is to send; events of flows are dropped.
    pub(crate) fn serve(&mut self, id: AssociationId) {
        self.turn();
        self.receive_all(id);
        while self.mux.poll_event().is_some() {}
    }

    /// Takes what has come in; the flow that the other end asks for, once it does.
    pub(crate) fn hear_flow(&mut self, id: AssociationId) -> Option<FlowId> {
        self.turn();
        self.receive_all(id);
        std::iter::from_fn(|| self.mux.poll_event()).find_map(|event| match event {
            FlowEvent::Incoming { flow, .. } => Some(flow),
            _ => None,
        })
    }

    fn receive_all(&mut self, id: AssociationId) {
        while let Some(message) = self.driver.endpoint_mut().read(id) {
            self.mux.handle_message(message).unwrap();
        }
        self.send_all(id);
    }

    /// Waits until some association is up that has not been seen by an earlier call.
    pub(crate) fn accept(&mut self) -> AssociationId {
        let up = |(id, event): &(AssociationId, Event)| {
            matches!(event, Event::Connected { .. }).then_some(*id)
        };
        let known = self.known;
        let new = move |peer: &Self| peer.seen.iter().filter_map(up).nth(known);
        let id = self.run_until("another association", new);
        self.known += 1;
        id
    }

    /// Sends bytes as a native program does, in stream 0.
    pub(crate) fn say(&mut self, id: AssociationId, bytes: &[u8]) {
        for piece in bytes.chunks(1200) {
            let payload = bytes::Bytes::copy_from_slice(piece);
            let message =
                Outgoing { stream: StreamId(0), ppid: Ppid(0), unordered: false, payload };
            loop {
                let now = self.clock.now();
                match self.driver.endpoint_mut().send(now, id, message.clone()) {
                    Ok(()) => break,
                    Err(SendError::BufferFull) => self.turn(),
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        self.flush();
    }

    /// Sends one message in stream 0.
    pub(crate) fn tell(&mut self, id: AssociationId, ppid: u32, payload: Vec<u8>) {
        let (stream, payload) = (StreamId(0), payload.into());
        let message = Outgoing { stream, ppid: Ppid(ppid), unordered: false, payload };
        let now = self.clock.now();
        self.driver.endpoint_mut().send(now, id, message).unwrap();
        self.flush();
    }

    /// Waits for the next message.
    pub(crate) fn hear_message(&mut self, id: AssociationId) -> Message {
        let begun = Instant::now();
        loop {
            if let Some(message) = self.driver.endpoint_mut().read(id) {
                return message;
            }
            assert!(begun.elapsed() < LIMIT, "no message: {:?}", self.seen);
            self.turn();
        }
    }

    /// Waits for so many bytes.
    pub(crate) fn hear(&mut self, id: AssociationId, len: usize) -> Vec<u8> {
        let begun = Instant::now();
        let mut heard = Vec::new();
        while heard.len() < len {
            assert!(begun.elapsed() < LIMIT, "{} bytes of {len}: {:?}", heard.len(), self.seen);
            match self.driver.endpoint_mut().read(id) {
                Some(message) => heard.extend_from_slice(&message.payload),
                None => self.turn(),
            }
        }
        heard
    }

    /// Ends an association as a native program does.
    pub(crate) fn shutdown(&mut self, id: AssociationId) {
        let now = self.clock.now();
        self.driver.endpoint_mut().shutdown(now, id);
        self.flush();
    }

    pub(crate) fn abort(&mut self, id: AssociationId) {
        self.abort_for(id, b"test");
    }

    /// Says why, in the words of the Upper Layer Abort Reason.
    pub(crate) fn abort_for(&mut self, id: AssociationId, reason: &[u8]) {
        let now = self.clock.now();
        self.driver.endpoint_mut().abort(now, id, reason);
        self.flush();
    }

    /// Does what is due, once.
    pub(crate) fn flush(&mut self) {
        let now = self.clock.now();
        self.driver.flush(now);
    }

    /// Waits for the end of the association.
    pub(crate) fn wait_closed(&mut self) -> CloseReason {
        let closed = |(_, event): &(_, Event)| match event {
            Event::Closed(reason) => Some(reason.clone()),
            _ => None,
        };
        self.run_until("the end", |peer| peer.seen.iter().find_map(closed))
    }

    /// Does what is due until something has come about elsewhere.
    pub(crate) fn turn_until(&mut self, what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < LIMIT, "{what} did not come about: {:?}", self.seen);
            self.turn();
        }
    }

    pub(crate) fn run_until<T>(&mut self, what: &str, done: impl Fn(&Self) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(result) = done(self) {
                return result;
            }
            assert!(begun.elapsed() < LIMIT, "{what} did not come about: {:?}", self.seen);
            self.turn();
        }
    }

    /// Answers one packet, and no more.
    pub(crate) fn answer_once(&mut self) {
        let begun = Instant::now();
        while self.driver.counters().packets_sent == 0 {
            assert!(begun.elapsed() < LIMIT, "nothing to answer came");
            self.turn();
        }
    }

    pub(crate) fn turn(&mut self) {
        let mut events = Events::with_capacity(16);
        let wait = self.clock.until(self.driver.timeout()).unwrap_or(LIMIT);
        self.poll.poll(&mut events, Some(wait.min(Duration::from_millis(20)))).unwrap();
        let now = self.clock.now();
        for event in &events {
            self.driver.handle_event(now, event);
        }
        self.driver.handle_timeout(now);
        while let Some(event) = self.driver.endpoint_mut().poll_event() {
            self.seen.push(event);
        }
        self.driver.flush(now);
    }
}

fn local_byte(addr: IpAddr) -> u8 {
    match addr {
        IpAddr::V4(addr) => addr.octets()[3],
        IpAddr::V6(addr) => addr.octets()[15],
    }
}
