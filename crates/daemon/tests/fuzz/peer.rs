//! A peer in a valid association that keeps none of the rules of the flow protocol.

use crate::host::{PATHS, PORTS, UDP_PORT, address};
use crate::world::Other;
use bytes::Bytes;
use manypath_daemon::DEFAULT_UDP_PORT;
use manypath_engine::{
    AssociationId, Config, Endpoint, Instant, Outgoing, Ppid, StreamDirection, StreamId,
};
use manypath_flow::message::{
    Accept, Body, Control, Credit, DatagramBody, DatagramOpen, Finish, Open, Parsed, Probe,
    RelayBody, RelayOpen, Report, Return, Want,
};
use manypath_flow::{
    ADAPTATION, Destination, HostName, INITIAL_CREDIT, PPID_CONTROL, PPID_DATA_OF_ACCEPTOR,
    PPID_DATA_OF_OPENER, PPID_DATAGRAM_OF_ACCEPTOR, PPID_DATAGRAM_OF_OPENER, Refusal, RelayAnswer,
    SCTP_PORT,
};
use manypath_net::{Driver, LocalBinding, UdpPort};
use mio::{Poll, Token};
use std::net::SocketAddr;

/// Which of the hosts' addresses are the peer's.
pub(crate) const NUMBER: usize = 1;
/// Flows of the victim that are remembered to be answered.
const MAX_KNOWN: usize = 16;

pub(crate) struct Peer {
    /// What the driver's sockets are registered with.
    _poll: Poll,
    driver: Driver,
    now: Instant,
    /// The last flows that the victim has opened: association, stream, generation.
    asked: Vec<(AssociationId, StreamId, u32)>,
    pub(crate) reads: bool,
    pub(crate) present: bool,
}

impl Peer {
    pub(crate) fn new(now: Instant) -> Self {
        let poll = Poll::new().unwrap();
        let config = Config {
            port: SCTP_PORT,
            accept: true,
            adaptation: Some(ADAPTATION),
            address_reconfiguration: true,
            partial_reliability: true,
            reconfiguration: true,
            streams: 64,
            max_associations: 8,
            ..Config::default()
        };
        let mut driver = Driver::new(Endpoint::new(config, [9; 32]));
        let binding = |path| {
            let addr = SocketAddr::new(address(NUMBER, path), 0);
            (Token(path), LocalBinding { addr, device: None, prefix_len: 24, mtu: 1500 })
        };
        let bindings: Vec<_> = (0..PATHS).map(binding).collect();
        driver.bind_all(poll.registry(), &bindings, UdpPort::Fixed(DEFAULT_UDP_PORT)).unwrap();
        Self { _poll: poll, driver, now, asked: Vec::new(), reads: true, present: true }
    }

    /// The process has ended without a word, and another one has begun.
    pub(crate) fn restart(&mut self) {
        (0..PATHS).for_each(|path| self.driver.unbind(self.now, Token(path)));
        *self = Self::new(self.now);
    }

    /// The process has ended: its host says so to whoever asks.
    pub(crate) fn leave(&mut self) {
        (0..PATHS).for_each(|path| self.driver.unbind(self.now, Token(path)));
        self.present = false;
    }

    fn endpoint(&mut self) -> &mut Endpoint {
        self.driver.endpoint_mut()
    }

    fn association(&self, pick: u8) -> Option<AssociationId> {
        let all = self.driver.endpoint().associations();
        all.get(usize::from(pick).checked_rem(all.len())?).copied()
    }

    pub(crate) fn connect(&mut self, victim: SocketAddr) {
        let now = self.now;
        let remote = SocketAddr::new(victim.ip(), DEFAULT_UDP_PORT);
        // There may be as many as there can be.
        let _ = self.endpoint().connect(now, remote, SCTP_PORT);
    }

    /// Ends, moves, resets: what the transport lets its user do.
    pub(crate) fn change(&mut self, what: u8, pick: u8) {
        let Some(id) = self.association(pick >> 6) else { return };
        let (now, ip) = (self.now, address(NUMBER, usize::from(pick & 1)));
        let stream = StreamId(u16::from(pick >> 1 & 7));
        let endpoint = self.endpoint();
        match what & 15 {
            0 => endpoint.shutdown(now, id),
            1 => endpoint.abort(now, id, b"hostile"),
            2 => drop(endpoint.add_address(now, id, ip)),
            3 => drop(endpoint.remove_address(now, id, ip)),
            4 => drop(endpoint.request_peer_primary(now, id, ip)),
            5 => drop(endpoint.reset_streams(now, id, &[StreamDirection::Outgoing], &[stream])),
            6 => drop(endpoint.reset_streams(now, id, &[StreamDirection::Incoming], &[stream])),
            7 => drop(endpoint.reset_association(now, id)),
            8 => drop(endpoint.add_streams(now, id, 5, 5)),
            9 => endpoint.suspend_local_address(now, ip),
            10 => endpoint.resume_local_address(now, ip),
            _ => self.reads = !self.reads,
        }
    }

    /// Says something about a flow: `fields` says which one, and what.
    pub(crate) fn say(&mut self, kind: u8, fields: [u8; 4]) {
        let [lane, generation, number, flags] = fields;
        let Some(id) = self.association(flags >> 6) else { return };
        let body = body(kind, number, flags);
        let ordered = body.is_ordered() != (flags & 0x20 != 0);
        let from_opener = lane & 0x80 == 0;
        let control = Control { from_opener, generation: generation.into(), body };
        self.send(id, StreamId((lane & 0x3F).into()), PPID_CONTROL, ordered, control.encode());
    }

    /// Answers the last flow that the victim has opened.
    pub(crate) fn answer(&mut self, kind: u8, number: u8) {
        let known = self.asked.len();
        let Some(pick) = usize::from(number >> 4).checked_rem(known) else { return };
        let (id, stream, generation) = self.asked[pick];
        let body = match kind % 10 {
            8 => return self.data(id, stream, PPID_DATA_OF_ACCEPTOR, number),
            9 => return self.data(id, stream, PPID_DATA_OF_OPENER, number),
            kind => body(kind + 1, number, 0),
        };
        let ordered = body.is_ordered();
        let control = Control { from_opener: false, generation, body };
        self.send(id, stream, PPID_CONTROL, ordered, control.encode());
    }

    /// Sends bytes of a flow, or a datagram, or anything else.
    pub(crate) fn send_data(&mut self, kind: u8, stream: u8, number: u8) {
        let Some(id) = self.association(kind >> 6) else { return };
        let ppid = match kind & 7 {
            0 | 1 => PPID_DATA_OF_OPENER,
            2 => PPID_DATA_OF_ACCEPTOR,
            3 => PPID_DATAGRAM_OF_OPENER,
            4 => PPID_DATAGRAM_OF_ACCEPTOR,
            5 => PPID_CONTROL,
            other => Ppid(other.into()),
        };
        self.data(id, StreamId((stream & 0x3F).into()), ppid, number);
    }

    fn data(&mut self, id: AssociationId, stream: StreamId, ppid: Ppid, number: u8) {
        // Datagrams begin with the number of their flow.
        let len = 4 + usize::from(number) * usize::from(number) / 2;
        let mut payload = vec![number; len];
        payload[..4].copy_from_slice(&[0, 0, 0, number & 3]);
        let ordered = ppid != PPID_DATAGRAM_OF_OPENER && ppid != PPID_DATAGRAM_OF_ACCEPTOR;
        self.send(id, stream, ppid, ordered, payload.into());
    }

    /// Sends bytes as a control message.
    pub(crate) fn garbage(&mut self, stream: u8, bytes: &[u8]) {
        if let Some(id) = self.association(stream >> 6) {
            let stream = StreamId((stream & 7).into());
            self.send(id, stream, PPID_CONTROL, true, Bytes::copy_from_slice(bytes));
        }
    }

    fn send(
        &mut self,
        id: AssociationId,
        stream: StreamId,
        ppid: Ppid,
        ordered: bool,
        payload: Bytes,
    ) {
        let now = self.now;
        // It may be too much, or too late.
        let _ =
            self.endpoint().send(now, id, Outgoing { stream, ppid, unordered: !ordered, payload });
    }

    fn read_all(&mut self) {
        for id in self.driver.endpoint().associations() {
            while let Some(message) = self.endpoint().read(id) {
                let opened = message.ppid == PPID_CONTROL;
                if let (true, Ok(Parsed::Control(control))) =
                    (opened, Control::parse(&message.payload))
                    && matches!(control.body, Body::Open(_) | Body::Datagram(DatagramBody::Open(_)))
                {
                    self.asked.insert(0, (id, message.stream, control.generation));
                    self.asked.truncate(MAX_KNOWN);
                }
            }
        }
    }
}

impl Other for Peer {
    const HOSTILE: bool = true;

    fn turn(&mut self, now: Instant) -> bool {
        self.now = now;
        if !self.present {
            return false;
        }
        let before = self.driver.counters();
        self.driver.handle_arrivals(now);
        self.driver.handle_timeout(now);
        if self.reads {
            self.read_all();
        }
        while self.endpoint().poll_event().is_some() {}
        self.driver.flush(now);
        let after = self.driver.counters();
        before.packets_received != after.packets_received
            || before.packets_sent != after.packets_sent
    }

    fn next_turn(&self) -> Option<Instant> {
        self.driver.timeout().filter(|_| self.present)
    }
}

/// A service of the victim, or an address that is none.
fn somewhere(number: u8) -> SocketAddr {
    let port = match number & 7 {
        4 => UDP_PORT,
        5 => 22,
        pick => PORTS[usize::from(pick & 3)],
    };
    match number >> 3 & 3 {
        0 | 1 => SocketAddr::new(address(0, usize::from(number >> 3 & 1)), port),
        2 => SocketAddr::new(address(NUMBER, 0), port),
        _ => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port)),
    }
}

/// The same about relaying.
fn relay_body(number: u8, window: u32, source: SocketAddr) -> RelayBody {
    let name = HostName::new("localhost").map(|name| Destination::Name(name, number.into()));
    match number & 7 {
        0 => RelayBody::Ask,
        1 | 2 => RelayBody::Answer(RelayAnswer::Relays),
        3 => RelayBody::Answer(RelayAnswer::NotRelay),
        4 | 5 => {
            let beyond = somewhere(number).into();
            RelayBody::Open(Box::new(RelayOpen { window, source, beyond }))
        }
        _ => name.map_or(RelayBody::Ask, |destination| {
            RelayBody::Open(Box::new(RelayOpen { window, source, beyond: destination.into() }))
        }),
    }
}

/// A message of each type, with numbers close to those that are expected.
fn body(kind: u8, number: u8, flags: u8) -> Body {
    let bytes = u64::from(number) * 300;
    let window = INITIAL_CREDIT.saturating_add(u32::from(number) << (flags & 0x1F));
    let (destination, source) = (somewhere(number), SocketAddr::from(([192, 0, 2, 7], 1234)));
    let refusal = match number & 3 {
        0 => Refusal::NotAllowed,
        1 => Refusal::Busy,
        2 => Refusal::Errno(111),
        _ => Refusal::Other(9),
    };
    if kind >= 240 {
        return Body::Relay(relay_body(number, window, source));
    }
    match kind % 16 {
        0 | 1 => Body::Open(Open { window, destination, source }),
        2 => Body::Accept(Accept { window, local: destination }),
        3 => Body::Refuse(refusal),
        4 => Body::Finish(Finish { bytes }),
        5 => Body::Reset,
        6 => Body::Credit(Credit {
            window,
            reclaim: flags & 1 == 1,
            granted: bytes << (flags & 0x1F),
        }),
        7 => Body::Want(Want { window }),
        8 => Body::Return(Return { returned: bytes }),
        9 => Body::Probe(Probe { stamp: bytes }),
        10 => Body::Report(Report { stamp: bytes, queued: bytes << (flags & 0x1F) }),
        11 | 12 => {
            let lifetime_ms = u32::from(number) << (flags & 0x0F);
            Body::Datagram(DatagramBody::Open(DatagramOpen { lifetime_ms, destination, source }))
        }
        13 => Body::Datagram(DatagramBody::Accept),
        14 => Body::Datagram(DatagramBody::Close(Some(refusal))),
        _ => Body::Datagram(DatagramBody::Unreachable(number.into())),
    }
}
