//! An association that is made by hand and does what its attack says.

use super::craft::{self, FLOWS, packet, parameters, random};
use super::keys::Keys;
use manypath_wire::chunk::{
    Chunk, CookieEcho, Data, GapBlocks, Heartbeat, HeartbeatAck, Sack, Tsns,
};
use manypath_wire::parameter::{KeyManagement, Parameter};
use manypath_wire::{Packet, Ppid, Ssn, StreamId, Tsn};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Control messages of the flow protocol (docs/flow-protocol.md).
pub(crate) const CONTROL: u32 = 0x6d50_0100;
/// Bytes of a flow from its opener.
const BYTES: u32 = 0x6d50_0101;
/// The identifier of TLS 1.3 (docs/key-management.md).
const KEY_MANAGEMENT_BY_TLS: u8 = 240;
/// Bytes of the headers of IPv4 and UDP.
pub(crate) const HEADERS: u64 = 28;
/// How long the server may take for its part of a handshake.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the server sent, as far as attacks look at it.
pub(crate) enum Event {
    Data { ppid: u32, payload: Vec<u8> },
    Ended,
    Other,
}

pub(crate) struct Peer {
    socket: UdpSocket,
    port: u16,
    tag: u32,
    next: u32,
    ssn: u16,
    /// What has arrived in order, and what beyond it.
    cumulative: u32,
    beyond: BTreeSet<u32>,
    /// The window that SACKs announce.
    window: u32,
    keys: Option<Keys>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) data: u64,
    pub(crate) ended: bool,
    /// Answers to requests for other addresses.
    pub(crate) changes: u64,
    first: u32,
}

/// What a handshake may say beyond the usual.
#[derive(Default)]
pub(crate) struct Extras<'a> {
    pub(crate) addresses: &'a [Ipv4Addr],
    pub(crate) window: Option<u32>,
    pub(crate) authenticate: bool,
    /// Offer to protect the association by DTLS chunks.
    pub(crate) protect: bool,
}

impl Peer {
    /// An association from `source` to the server, or none if the server refuses it.
    pub(crate) fn connect(
        source: SocketAddr,
        server: SocketAddr,
        extras: &Extras<'_>,
    ) -> io::Result<Option<Self>> {
        let socket = UdpSocket::bind(source)?;
        socket.connect(server)?;
        let port = 49152 + u16::try_from(random() % 16000).unwrap_or(0);
        Self::from_port(socket, port, extras)
    }

    /// The same from a socket that other associations use, too, by this SCTP port.
    pub(crate) fn from_port(
        socket: UdpSocket,
        port: u16,
        extras: &Extras<'_>,
    ) -> io::Result<Option<Self>> {
        let tag = random();
        let mut keys = extras.authenticate.then(Keys::new);
        let mut list = vec![Parameter::AdaptationIndication(FLOWS)];
        list.extend(extras.addresses.iter().map(|address| Parameter::Ipv4Address(*address)));
        let offer = KeyManagement {
            tie_breaker: random() >> 1,
            flags: KeyManagement::CLIENT,
            methods: &[KEY_MANAGEMENT_BY_TLS],
        };
        list.extend(extras.protect.then_some(Parameter::KeyManagement(offer)));
        let mut bytes = parameters(&list);
        if let Some(keys) = &keys {
            bytes.extend(keys.offer());
        }
        let window = extras.window.unwrap_or(1 << 30);
        let mut this = Self {
            socket,
            port,
            tag: 0,
            next: tag,
            ssn: 0,
            cumulative: 0,
            beyond: BTreeSet::new(),
            window,
            keys: None,
            sent: 0,
            received: 0,
            data: 0,
            ended: false,
            changes: 0,
            first: tag,
        };
        this.send_raw(&craft::init(port, tag, window, &bytes))?;
        let Some(answer) = this.answer(|chunk| matches!(chunk, Chunk::InitAck(_)))? else {
            return Ok(None);
        };
        let parsed = Packet::parse(&answer).map_err(io::Error::other)?;
        let Some(Ok(Chunk::InitAck(ack))) = parsed.chunks().next() else { return Ok(None) };
        this.tag = ack.tag.0;
        this.cumulative = ack.initial_tsn.0.wrapping_sub(1);
        if let Some(keys) = &mut keys {
            keys.agree(ack.parameters);
        }
        this.keys = keys;
        let cookie = ack.parameters.iter().find_map(|parameter| match parameter {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie),
            _ => None,
        });
        let Some(cookie) = cookie else { return Ok(None) };
        this.send(&[Chunk::CookieEcho(CookieEcho { cookie })])?;
        let done = this.answer(|chunk| matches!(chunk, Chunk::CookieAck))?.is_some();
        Ok(done.then_some(this))
    }

    /// The next packet to this association that contains a chunk as wanted; none after an ABORT.
    fn answer(&mut self, wanted: impl Fn(&Chunk<'_>) -> bool) -> io::Result<Option<Vec<u8>>> {
        let until = Instant::now() + PATIENCE;
        while let Some(bytes) = self.receive(until)? {
            let Ok(parsed) = Packet::parse(&bytes) else { continue };
            if parsed.chunks().flatten().any(|chunk| wanted(&chunk)) {
                return Ok(Some(bytes));
            }
            if parsed.chunks().flatten().any(|chunk| matches!(chunk, Chunk::Abort(_))) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    pub(crate) fn send(&mut self, chunks: &[Chunk<'_>]) -> io::Result<()> {
        self.send_raw(&packet(self.port, self.tag, chunks))
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.socket.send(bytes) {
            Ok(_) => self.sent += bytes.len() as u64 + HEADERS,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The same behind an AUTH chunk.
    pub(crate) fn send_authenticated(&mut self, chunk: &Chunk<'_>) -> io::Result<()> {
        let (port, tag) = (self.port, self.tag);
        let bytes = self.keys.as_ref().and_then(|keys| keys.packet(port, tag, chunk));
        self.send_raw(&bytes.ok_or_else(|| io::Error::other("the server authenticates nothing"))?)
    }

    fn receive(&mut self, until: Instant) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = vec![0; 65536];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(&mut buffer) {
                Ok(len) => {
                    self.received += len as u64 + HEADERS;
                    buffer.truncate(len);
                    let to = buffer.get(2..4).map(|port| [port[0], port[1]]);
                    if to.map(u16::from_be_bytes) == Some(self.port) {
                        return Ok(Some(buffer));
                    }
                    buffer.resize(65536, 0);
                }
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes what comes within `time`, at least one packet if there is one, and answers HEARTBEATs.
    pub(crate) fn step(&mut self, time: Duration) -> io::Result<Vec<Event>> {
        let Some(bytes) = self.receive(Instant::now() + time)? else { return Ok(Vec::new()) };
        let Ok(parsed) = Packet::parse(&bytes) else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        for chunk in parsed.chunks().flatten() {
            events.push(self.take(chunk)?);
        }
        Ok(events)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "an attacker looks at few chunks")]
    fn take(&mut self, chunk: Chunk<'_>) -> io::Result<Event> {
        Ok(match chunk {
            Chunk::Data(data) => {
                self.note(data.tsn.0);
                self.data += data.payload.len() as u64;
                Event::Data { ppid: data.ppid.0, payload: data.payload.to_vec() }
            }
            Chunk::Heartbeat(Heartbeat { info }) => {
                self.send(&[Chunk::HeartbeatAck(HeartbeatAck { info })])?;
                Event::Other
            }
            Chunk::AsconfAck(_) => {
                self.changes += 1;
                Event::Other
            }
            Chunk::Sack(_) => Event::Other,
            Chunk::Abort(_) | Chunk::Shutdown(_) => {
                self.ended = true;
                Event::Ended
            }
            _ => Event::Other,
        })
    }

    fn note(&mut self, tsn: u32) {
        if tsn.wrapping_sub(self.cumulative) < 1 << 31 {
            self.beyond.insert(tsn);
        }
        while self.beyond.remove(&self.cumulative.wrapping_add(1)) {
            self.cumulative = self.cumulative.wrapping_add(1);
        }
    }

    /// The first TSN, and the first number of its requests.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The last TSN of all that arrived in order.
    pub(crate) fn cumulative(&self) -> u32 {
        self.cumulative
    }

    /// A SACK of whatever it likes.
    pub(crate) fn sack(&mut self, cumulative: u32, gaps: GapBlocks<'_>) -> io::Result<()> {
        let sack = Sack {
            flags: 0,
            cum_tsn: Tsn(cumulative),
            a_rwnd: self.window,
            gaps,
            duplicates: Tsns::EMPTY,
        };
        self.send(&[Chunk::Sack(sack)])
    }

    /// A DATA chunk with the next TSN of this association.
    pub(crate) fn data(&mut self, stream: u16, ppid: u32, payload: &[u8]) -> io::Result<()> {
        let data = self.next_data(stream, ppid, payload);
        self.send(&[Chunk::Data(data)])
    }

    pub(crate) fn next_data<'a>(&mut self, stream: u16, ppid: u32, payload: &'a [u8]) -> Data<'a> {
        let (tsn, ssn) = (self.next, self.ssn);
        self.next = self.next.wrapping_add(1);
        self.ssn = self.ssn.wrapping_add(1);
        Data {
            tsn: Tsn(tsn),
            stream: StreamId(stream),
            ssn: Ssn(ssn),
            ppid: Ppid(ppid),
            unordered: false,
            begin: true,
            end: true,
            immediate: false,
            payload,
        }
    }

    /// Leaves a message out, so that what follows cannot be delivered.
    pub(crate) fn skip(&mut self) {
        self.next = self.next.wrapping_add(1);
        self.ssn = self.ssn.wrapping_add(1);
    }

    /// Asks for a connection to `to` on stream 0; `from` is what the attacker says of itself.
    pub(crate) fn open(&mut self, to: SocketAddr, from: SocketAddr) -> io::Result<()> {
        let mut message = vec![1, 1, 0, 0];
        message.extend(1_u32.to_be_bytes());
        message.extend((1_u32 << 30).to_be_bytes());
        message.extend(encoded(to));
        message.extend(encoded(from));
        self.data(0, CONTROL, &message)
    }

    /// Asks the connection's service for something.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        self.data(0, BYTES, text.as_bytes())
    }
}

fn encoded(address: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![if address.is_ipv4() { 4 } else { 6 }, 0];
    bytes.extend(address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(v4) => bytes.extend(v4.octets()),
        IpAddr::V6(v6) => bytes.extend(v6.octets()),
    }
    bytes
}

/// Whether a socket only had nothing to read, or was told of a port that is closed.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | TimedOut | WouldBlock)
}
