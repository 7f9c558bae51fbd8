//! One association: the engine and its driver alone, without shim, stack and flows; encrypted or not.

use super::Ready;
use super::counters::Counters;
use crate::job::{Carrier, Part, Task};
use bytes::Bytes;
use manypath_engine::protection::KEY_MANAGEMENT;
use manypath_engine::{
    AssociationId, Config, Endpoint, Event, KeyManagement as Offer, KeyRoles, Message, Outgoing,
    Profile, SendError,
};
use manypath_keys::{Identity, KeyManagement, METHOD, Step};
use manypath_net::{Clock, Driver, LocalBinding, UdpPort, interfaces};
use manypath_wire::{Ppid, StreamId};
use mio::{Events, Poll, Token};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const SCTP_PORT: u16 = 7;
/// What addresses on loopback are treated as: paths like real ones.
const LOOPBACK: (u8, u16) = (24, 1500);
/// The longest sleep.
const SLEEP: Duration = Duration::from_millis(200);

pub(super) fn run(part: &Part, counters: &Counters, ready: &Ready) -> io::Result<()> {
    let mut end = End::new(part, counters)?;
    if part.listen {
        // Who waits for this has gone, and this process goes too.
        let _ = ready.send(());
    } else {
        end.connect(part.address)?;
        while end.established.is_none() {
            end.turn()?;
        }
        let _ = ready.send(());
    }
    loop {
        end.turn()?;
    }
}

/// What both ends of an encrypted association offer, and demand.
fn offer() -> Offer {
    Offer { methods: vec![METHOD], roles: KeyRoles::Either, required: true }
}

fn identity() -> io::Result<Identity> {
    let identity = Identity::generate().and_then(|private| Identity::from_private(&private));
    identity.map_err(io::Error::other)
}

struct End<'a> {
    part: &'a Part,
    counters: &'a Counters,
    driver: Driver,
    poll: Poll,
    events: Events,
    clock: Clock,
    /// Its key; none if the association is to be plain. Any key of the peer is taken.
    identity: Option<Identity>,
    management: Option<KeyManagement>,
    established: Option<AssociationId>,
    message: Bytes,
    /// Stream of the next message.
    stream: u16,
}

impl<'a> End<'a> {
    fn new(part: &'a Part, counters: &'a Counters) -> io::Result<Self> {
        let encrypts = part.carrier == Carrier::EncryptedAssociation;
        let config = Config {
            port: if part.listen { SCTP_PORT } else { 0 },
            accept: part.listen,
            streams: u16::try_from(part.flows).unwrap_or(u16::MAX).max(1),
            key_management: encrypts.then(offer),
            ..Profile::Production.config()
        };
        let seed = [if part.listen { 2 } else { 1 }; 32];
        let mut driver = Driver::new(Endpoint::new(config, seed));
        let poll = Poll::new()?;
        let bindings = bindings(part)?;
        if bindings.is_empty() {
            return Err(io::Error::other("no interface but loopback is up"));
        }
        let bindings: Vec<_> =
            bindings.into_iter().enumerate().map(|(i, binding)| (Token(i), binding)).collect();
        let port = match part.listen {
            true => UdpPort::Fixed(part.address.port()),
            false => UdpPort::Ephemeral,
        };
        driver.bind_all(poll.registry(), &bindings, port)?;
        Ok(Self {
            part,
            counters,
            driver,
            poll,
            events: Events::with_capacity(64),
            clock: Clock::start(),
            identity: encrypts.then(identity).transpose()?,
            management: None,
            established: None,
            message: Bytes::from(vec![0x55; part.length as usize]),
            stream: 0,
        })
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<()> {
        let now = self.clock.now();
        if self.identity.is_some() {
            self.counters.begin();
        }
        let connected = self.driver.endpoint_mut().connect(now, to, SCTP_PORT);
        connected.map_err(|error| io::Error::other(format!("no association: {error:?}")))?;
        self.driver.flush(now);
        Ok(())
    }

    /// One turn of the loop.
    fn turn(&mut self) -> io::Result<()> {
        let sleep = self.clock.until(self.driver.timeout()).unwrap_or(SLEEP).min(SLEEP);
        if let Err(error) = self.poll.poll(&mut self.events, Some(sleep))
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        let now = self.clock.now();
        for event in &self.events {
            self.driver.handle_event(now, event);
        }
        self.driver.handle_timeout(now);
        if let Some(management) = &mut self.management {
            let done = management.handle_timeout(now, self.driver.endpoint_mut());
            done.map_err(io::Error::other)?;
        }
        while let Some((id, event)) = self.driver.endpoint_mut().poll_event() {
            self.handle(id, &event)?;
        }
        if matches!(self.part.task, Task::Send | Task::Both) {
            self.fill();
        }
        self.driver.flush(now);
        Ok(())
    }

    fn handle(&mut self, id: AssociationId, event: &Event) -> io::Result<()> {
        let (now, endpoint) = (self.clock.now(), self.driver.endpoint_mut());
        if let Some(identity) = self.identity.as_ref().filter(|_| *event == Event::KeysWanted) {
            let begun = KeyManagement::begin(now, endpoint, id, identity, None);
            self.management = Some(begun.map_err(io::Error::other)?);
        } else if let Some(management) =
            self.management.as_mut().filter(|_| *event == Event::RekeyDue)
        {
            management.handle_rekey_due(now, endpoint).map_err(io::Error::other)?;
        } else if matches!(event, Event::Connected { .. }) && self.identity.is_none() {
            self.open(id);
        } else if matches!(event, Event::Readable) {
            while let Some(message) = self.driver.endpoint_mut().read(id) {
                self.take(id, &message)?;
            }
        } else if let Event::Closed(reason) = event
            && !self.part.listen
        {
            return Err(io::Error::other(format!("the association has ended: {reason:?}")));
        }
        Ok(())
    }

    fn take(&mut self, id: AssociationId, message: &Message) -> io::Result<()> {
        let management = self.management.as_mut().filter(|_| message.ppid == KEY_MANAGEMENT);
        let Some(management) = management else {
            self.counters.add_received(message.payload.len());
            return Ok(());
        };
        let (now, endpoint) = (self.clock.now(), self.driver.endpoint_mut());
        let step = management.handle_message(now, endpoint, &message.payload);
        if let Step::Protected(_) = step.map_err(io::Error::other)? {
            self.open(id);
        }
        Ok(())
    }

    /// Data may be sent from now on.
    fn open(&mut self, id: AssociationId) {
        self.established = Some(id);
        (0..self.part.flows).for_each(|_| self.counters.add_flow());
    }

    /// Queues messages until the send buffer is full.
    fn fill(&mut self) {
        let Some(id) = self.established else { return };
        let now = self.clock.now();
        let limit = self.part.limit.unwrap_or(u64::MAX);
        while self.counters.sent() < limit {
            let left = usize::try_from(limit - self.counters.sent()).unwrap_or(usize::MAX);
            let payload = self.message.slice(..self.message.len().min(left));
            let bytes = payload.len();
            let stream = StreamId(self.stream);
            let message = Outgoing { stream, ppid: Ppid(0), unordered: false, payload };
            match self.driver.endpoint_mut().send(now, id, message) {
                Ok(()) => self.counters.add_sent(bytes),
                // Full for now; or gone, which an event tells.
                Err(SendError::BufferFull | _) => return,
            };
            self.stream = (self.stream + 1) % u16::try_from(self.part.flows).unwrap_or(u16::MAX);
        }
    }
}

/// One binding for each address that shall be a path.
fn bindings(part: &Part) -> io::Result<Vec<LocalBinding>> {
    let known = interfaces()?;
    if part.locals.is_empty() {
        let real = known.iter().filter(|one| one.up && !one.loopback);
        return Ok(real.map(LocalBinding::from).collect());
    }
    let binding = |ip: &IpAddr| match known.iter().find(|one| one.addr == *ip) {
        Some(interface) if !interface.loopback => LocalBinding::from(interface),
        _ => {
            let (prefix_len, mtu) = LOOPBACK;
            LocalBinding { addr: SocketAddr::new(*ip, 0), device: None, prefix_len, mtu }
        }
    };
    Ok(part.locals.iter().map(binding).collect())
}
