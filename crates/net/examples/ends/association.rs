//! The ends of an association in UDP, each driving an endpoint of its own as the stack does.

use crate::keys::Keys;
use crate::options::Options;
use crate::{Report, Span, await_line, say};
use bytes::Bytes;
use manypath_engine::protection::KEY_MANAGEMENT;
use manypath_engine::{
    AssociationId, AssociationStatus, CloseReason, Config, Endpoint, Event, Outgoing, SendError,
};
use manypath_net::{Clock, Driver, LocalBinding, UdpPort};
use manypath_wire::{Ppid, StreamId};
use mio::{Events, Poll, Token};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

pub(crate) const SCTP_PORT: u16 = 7;
/// Bytes that the endpoint is given ahead of what it has sent, as the stack gives them.
const UNSENT_LIMIT: usize = 128 << 10;

pub(crate) fn receive(options: &Options) -> io::Result<Report> {
    let mut end = End::open(options, options.address, true)?;
    say(&format!("ready {}", end.address));
    let (mut bytes, mut span) = (0, Span::default());
    loop {
        let turn = end.turn()?;
        if turn.bytes > 0 {
            span.touch();
            bytes += turn.bytes;
        }
        if turn.closed > 0 {
            let counters = end.driver.counters();
            let (packets, calls) = (counters.packets_received, counters.receive_calls);
            let sent = counters.packets_sent;
            let sockets = end.driver.sockets();
            let overflows: u64 = sockets.iter().map(|one| one.receive_overflows).sum();
            let more = format!(r#","acknowledging":{sent},"overflows":{overflows}"#);
            return Ok(Report { bytes, seconds: span.seconds(), packets, calls, more });
        }
    }
}

pub(crate) fn send(options: &Options) -> io::Result<Report> {
    let unspecified = if options.address.is_ipv4() { [0, 0, 0, 0].into() } else { [0; 16].into() };
    let own: IpAddr = options.own.unwrap_or(unspecified);
    let mut end = End::open(options, SocketAddr::new(own, 0), false)?;
    let id = end.connect(options.address)?;
    while end.turn()?.connected.is_empty() {}
    say(&format!("ready {}", end.address));
    await_line();
    let payload = Bytes::from(vec![0x55; options.message]);
    let (began, mut bytes) = (Instant::now(), 0);
    while began.elapsed() < options.time {
        bytes += end.fill(id, &payload)?;
        end.turn()?;
    }
    let status = end.driver.endpoint().status(end.clock.now(), id);
    end.driver.endpoint_mut().shutdown(end.clock.now(), id);
    end.driver.flush(end.clock.now());
    while end.turn()?.closed == 0 {}
    let seconds = began.elapsed().as_secs_f64();
    let counters = end.driver.counters();
    let (packets, calls) = (counters.packets_sent, counters.send_calls);
    let more = status.as_ref().map(describe).unwrap_or_default();
    Ok(Report { bytes, seconds, packets, calls, more })
}

fn describe(status: &AssociationStatus) -> String {
    let Some(path) = status.paths.first() else { return String::new() };
    format!(
        r#","path_mtu":{},"cwnd":{},"srtt_us":{},"bytes_retransmitted":{}"#,
        path.mtu,
        path.cwnd,
        path.srtt.map_or(0, |srtt| srtt.as_micros()),
        path.bytes_retransmitted,
    )
}

/// What a turn of the loop has brought.
#[derive(Default)]
pub(crate) struct Turn {
    /// Associations that may be used: with keys, if they are to be encrypted.
    pub(crate) connected: Vec<AssociationId>,
    pub(crate) closed: usize,
    bytes: u64,
}

pub(crate) struct End {
    pub(crate) driver: Driver,
    poll: Poll,
    events: Events,
    pub(crate) clock: Clock,
    pub(crate) address: SocketAddr,
    keys: Option<Keys>,
}

impl End {
    pub(crate) fn open(options: &Options, addr: SocketAddr, accept: bool) -> io::Result<Self> {
        manypath_net::keep_freed_memory();
        let path_mtu = options.path_mtu;
        let port = if accept { SCTP_PORT } else { 0 };
        let keys = options.encrypt.then(Keys::new).transpose()?;
        let key_management = keys.as_ref().map(|_| crate::keys::offer());
        let config = Config { port, accept, path_mtu, key_management, ..Config::default() };
        let mut driver = Driver::new(Endpoint::new(config, [u8::from(accept); 32]));
        let poll = Poll::new()?;
        let prefix_len = if addr.is_ipv4() { 24 } else { 64 };
        let binding = LocalBinding { addr, device: None, prefix_len, mtu: options.mtu };
        let port = match addr.port() {
            0 => UdpPort::Ephemeral,
            port => UdpPort::Fixed(port),
        };
        let bound = driver.bind_all(poll.registry(), &[(Token(0), binding)], port)?;
        let address = bound.first().map_or(addr, |local| local.addr);
        let (events, clock) = (Events::with_capacity(64), Clock::start());
        Ok(Self { driver, poll, events, clock, address, keys })
    }

    pub(crate) fn connect(&mut self, remote: SocketAddr) -> io::Result<AssociationId> {
        let now = self.clock.now();
        let id = self.driver.endpoint_mut().connect_from_free_port(now, remote, SCTP_PORT);
        self.driver.flush(now);
        id.map_err(|error| io::Error::other(format!("{error:?}")))
    }

    /// Queues messages as far as the endpoint should hold them.
    fn fill(&mut self, id: AssociationId, payload: &Bytes) -> io::Result<u64> {
        let now = self.clock.now();
        let endpoint = self.driver.endpoint_mut();
        let mut bytes = 0;
        endpoint.set_backlog(id, usize::MAX);
        while endpoint.unsent(id) < UNSENT_LIMIT {
            let (stream, ppid) = (StreamId(0), Ppid(0));
            let message = Outgoing { stream, ppid, unordered: false, payload: payload.clone() };
            match endpoint.send(now, id, message) {
                Ok(()) => bytes += payload.len() as u64,
                Err(SendError::BufferFull) => break,
                Err(error) => return Err(io::Error::other(format!("{error:?}"))),
            }
        }
        self.driver.flush(now);
        Ok(bytes)
    }

    /// One turn of the loop.
    pub(crate) fn turn(&mut self) -> io::Result<Turn> {
        let longest = Duration::from_millis(50);
        let sleep = self.clock.until(self.driver.timeout()).unwrap_or(longest).min(longest);
        self.poll.poll(&mut self.events, Some(sleep))?;
        let now = self.clock.now();
        for event in &self.events {
            self.driver.handle_event(now, event);
        }
        self.driver.handle_timeout(now);
        if let Some(keys) = &mut self.keys {
            keys.handle_timeout(now, self.driver.endpoint_mut())?;
        }
        let turn = self.drain()?;
        self.driver.flush(now);
        Ok(turn)
    }

    fn drain(&mut self) -> io::Result<Turn> {
        let (mut turn, now) = (Turn::default(), self.clock.now());
        while let Some((id, event)) = self.driver.endpoint_mut().poll_event() {
            let endpoint = self.driver.endpoint_mut();
            match (&event, &mut self.keys) {
                (Event::Connected { .. }, None) => turn.connected.push(id),
                (Event::KeysWanted | Event::RekeyDue | Event::Writable, Some(keys)) => {
                    keys.handle_event(now, endpoint, id, &event)?;
                }
                (Event::Readable, _) => self.read(id, &mut turn)?,
                (Event::Closed(reason), keys) => {
                    if *reason != CloseReason::Graceful {
                        return Err(io::Error::other(format!("{reason:?}")));
                    }
                    keys.iter_mut().for_each(|keys| keys.forget(id));
                    turn.closed += 1;
                }
                _ => {}
            }
        }
        Ok(turn)
    }

    fn read(&mut self, id: AssociationId, turn: &mut Turn) -> io::Result<()> {
        let now = self.clock.now();
        while let Some(message) = self.driver.endpoint_mut().read(id) {
            match &mut self.keys {
                Some(keys) if message.ppid == KEY_MANAGEMENT => {
                    let endpoint = self.driver.endpoint_mut();
                    if keys.handle_message(now, endpoint, id, &message.payload)? {
                        turn.connected.push(id);
                    }
                }
                _ => turn.bytes += message.payload.len() as u64,
            }
        }
        Ok(())
    }
}
