//! A client of a door, until its connection is carried or refused.

use super::lan_udp::LanDoors;
use super::talk::{Fault, MAX_HEAD, Step, Talk, Target, TargetHost};
use super::udp::UdpRoom;
use super::{DoorRoom, of_door};
use crate::attempt::{Attempts, Open, sends_names};
use crate::base::Base;
use crate::config::Users;
use crate::log;
use crate::names::{Asker, Party};
use crate::timers::Timer;
use crate::token::Source;
use manypath_engine::{Duration, Instant};
use manypath_flow::HostName;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tracing::info;

/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;
/// How long an address of a name may take to answer while there is another one.
const ADDRESS_TIME: Duration = Duration::from_secs(5);
/// How long a client may take to read why it was refused.
const REFUSAL_TIME: Duration = Duration::from_secs(2);
/// Pieces that are taken from it meanwhile, before it is reset.
const READS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It says where it wants to go.
    Talking,
    /// Its destination's name is looked up.
    Naming,
    /// A connection is being made.
    Opening,
    /// It was refused, and reads why.
    Refused,
}

#[derive(Debug)]
pub(super) struct DoorClient {
    stream: TcpStream,
    peer: SocketAddr,
    /// Absent for one that speaks no protocol, as its destination is known.
    talk: Option<Talk>,
    stage: Stage,
    /// The host that it has named, for people.
    name: Option<String>,
    /// Where it wants to go, with the addresses that were not tried yet.
    port: u16,
    addresses: VecDeque<IpAddr>,
    /// Before then its timer means nothing.
    until: Option<Instant>,
}

impl DoorClient {
    /// `proxy`: it says where it wants to go, and who it is if there are users.
    pub(super) fn new(
        fd: OwnedFd,
        peer: SocketAddr,
        proxy: Option<Option<Arc<Users>>>,
        id: u64,
        registry: &Registry,
    ) -> io::Result<Self> {
        let stream = std::net::TcpStream::from(fd);
        stream.set_nonblocking(true)?;
        // Whatever ends this process ends the connection with a reset.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        let destination = match proxy {
            Some(_) => None,
            None => Some(destination(&stream)?),
        };
        let mut stream = TcpStream::from_std(stream);
        registry.register(&mut stream, Source::DoorClient(id).token(), Interest::READABLE)?;
        let stage = if destination.is_some() { Stage::Opening } else { Stage::Talking };
        let addresses = destination.iter().map(SocketAddr::ip).collect();
        let (name, port) =
            (destination.map(|it| it.ip().to_string()), destination.map_or(0, |it| it.port()));
        let (talk, until) = (proxy.map(Talk::new), None);
        Ok(Self { stream, peer, talk, stage, name, port, addresses, until })
    }

    /// Closes with a reset.
    pub(super) fn reset(mut self, registry: &Registry) {
        let _ = registry.deregister(&mut self.stream);
    }

    /// What the client has said and nobody has taken yet stays in the kernel: what follows the head is for the
    /// destination.
    fn step(&mut self) -> io::Result<Step> {
        let Some(talk) = &mut self.talk else { return Ok(Step::Wait) };
        let mut bytes = [0; MAX_HEAD];
        let length = self.stream.peek(&mut bytes)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (taken, step) = talk.read(&bytes[..length]);
        self.stream.read_exact(&mut bytes[..taken])?;
        Ok(step)
    }

    /// A client that does not read what little it is told is none.
    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }
}

/// Where a connection was to go that the kernel has led to a door: with TPROXY that is the socket's own address.
fn destination(stream: &std::net::TcpStream) -> io::Result<SocketAddr> {
    let (local, socket) = (stream.local_addr()?, SockRef::from(stream));
    let original = match local {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    };
    let original = original.ok().and_then(|it| it.as_socket());
    Ok(crate::allow::canonical(original.unwrap_or(local)))
}

impl DoorRoom {
    pub(crate) fn on_client_event(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        id: u64,
        event: &Event,
    ) {
        let Some(client) = self.talking.get_mut(&id) else { return self.udp.on_stream(id) };
        if event.is_error() {
            return self.drop_client(base, attempts, id);
        }
        match client.stage {
            Stage::Talking => self.hear(base, attempts, id),
            Stage::Refused => self.drain(base, attempts, id),
            Stage::Naming | Stage::Opening => {}
        }
    }

    fn hear(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64) {
        loop {
            let Some(client) = self.talking.get_mut(&id) else { return };
            let answered = match client.step() {
                Ok(Step::Wait) => return,
                Ok(Step::Answer(bytes)) => client.say(&bytes),
                Ok(Step::Associate(port)) => return self.associate(base, attempts, id, port),
                Ok(Step::Connect(target)) => return self.on_target(base, attempts, id, target),
                Ok(Step::Refuse(fault)) => return self.refuse(base, attempts, id, fault),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => Err(error),
            };
            if answered.is_err() {
                return self.drop_client(base, attempts, id);
            }
        }
    }

    /// It wants to send datagrams.
    fn associate(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64, port: u16) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        let peer = client.peer;
        let (socket, at) = match UdpRoom::open(base, id, &mut client.stream) {
            Ok(opened) => opened,
            Err(error) => {
                info!(target: log::CONNECTION, "client {peer}: no datagrams: {error}");
                return self.refuse(base, attempts, id, Fault::Busy);
            }
        };
        let Some(DoorClient { stream, talk, .. }) = self.talking.remove(&id) else { return };
        self.udp.begin(base, id, (stream, SocketAddr::new(peer.ip(), port)), socket);
        self.hosts.of(peer.ip());
        let answer = talk.map(|talk| talk.granted(at)).unwrap_or_default();
        // It has gone, which ends its association.
        let _ = self.udp.say(id, &answer);
    }

    fn on_target(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64, target: Target) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        client.port = target.port;
        match target.host {
            TargetHost::Address(address) => {
                client.name = Some(address.to_string());
                client.addresses.push_back(address);
                self.try_next(base, attempts, id);
            }
            TargetHost::Name(name) => {
                client.name = Some(name.clone());
                let relayed = sends_names(&base.core, target.port);
                match HostName::new(&name).filter(|_| relayed && target.port != 0) {
                    Some(name) => self.open_by_name(base, attempts, id, name),
                    None => self.look_up(base, attempts, id),
                }
            }
        }
    }

    /// A relay looks the name up, which may mean another host there.
    fn open_by_name(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64, name: HostName) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        client.stage = Stage::Opening;
        let destination = SocketAddr::from(([0; 4], client.port));
        let open = Open { waiting: true, ..Open::to(destination) };
        attempts.on_open_named(base, of_door(id), open, name);
    }

    /// The name is looked up here: no relay does it, or none can be used.
    pub(super) fn look_up(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        client.stage = Stage::Naming;
        let (name, party) =
            (client.name.clone().unwrap_or_default(), Party::clients(client.peer.ip()));
        if !base.core.names.ask(Asker::Door(id), party, &name) {
            self.refuse(base, attempts, id, Fault::Busy);
        }
    }

    pub(crate) fn on_addresses(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        id: u64,
        addresses: Vec<IpAddr>,
    ) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        if addresses.is_empty() {
            return self.refuse(base, attempts, id, Fault::NoSuchName);
        }
        client.addresses = addresses.into_iter().take(MAX_ADDRESSES).collect();
        self.try_next(base, attempts, id);
    }

    /// Begins a connection to the next address.
    pub(super) fn try_next(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        let Some(address) = client.addresses.pop_front() else { return };
        let destination = SocketAddr::new(address, client.port);
        // Only the network's door has connections to this host's own addresses led to it.
        let dns = self.dns.filter(|_| client.talk.is_none());
        let Some(destination) = LanDoors::way_to(base, dns, client.peer, destination) else {
            return self.fail(base, attempts, id, Fault::Forbidden);
        };
        client.stage = Stage::Opening;
        client.until = (!client.addresses.is_empty()).then(|| base.core.now + ADDRESS_TIME);
        if let Some(until) = client.until {
            base.core.timers.set(until, Timer::DoorClient(id));
        }
        // The client cannot be sent elsewhere: whatever becomes of it is relayed.
        let open = Open { waiting: true, ..Open::to(destination) };
        attempts.on_open(base, of_door(id), open);
    }

    pub(super) fn on_failed(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        id: u64,
        errno: i32,
    ) {
        if self.carried.remove(&id).is_none() {
            self.fail(base, attempts, id, Fault::Errno(errno));
        }
    }

    /// An address of the destination does not serve: the next one, or the end.
    fn fail(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64, fault: Fault) {
        match self.talking.get(&id) {
            Some(client) if !client.addresses.is_empty() => self.try_next(base, attempts, id),
            Some(_) => self.refuse(base, attempts, id, fault),
            None => {}
        }
    }

    /// The connection is there: the socket that is to be joined with it.
    pub(super) fn on_accepted(
        &mut self,
        base: &mut Base,
        attempts: &mut Attempts,
        id: u64,
        local: SocketAddr,
    ) -> Option<OwnedFd> {
        let client = self.talking.get_mut(&id)?;
        let granted = client.talk.as_ref().map(|talk| talk.granted(local)).unwrap_or_default();
        if client.say(&granted).is_err() {
            self.drop_client(base, attempts, id);
            return None;
        }
        let DoorClient { mut stream, peer, .. } = self.talking.remove(&id)?;
        let _ = base.core.registry.deregister(&mut stream);
        self.carried.insert(id, peer.ip());
        // From now on it is shown.
        self.hosts.of(peer.ip());
        Some(std::net::TcpStream::from(stream).into())
    }

    fn refuse(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64, fault: Fault) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        let (peer, name) = (client.peer, client.name.as_deref().unwrap_or("nowhere yet"));
        info!(target: log::CONNECTION, "client {peer} to {name}: no connection: {fault}");
        let counts = self.hosts.of(peer.ip());
        if matches!(fault, Fault::Errno(_) | Fault::NoSuchName) {
            counts.failed += 1;
            base.core.count("door_connects_failed");
        } else {
            counts.refused += 1;
            base.core.count("door_requests_refused");
        }
        let answer = client.talk.as_ref().map(|talk| talk.refused(fault)).unwrap_or_default();
        // Closing at once would reset the connection if more has come, and what was said might be lost.
        let told = !answer.is_empty() && client.say(&answer).is_ok();
        if !told {
            return self.drop_client(base, attempts, id);
        }
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        let _ = SockRef::from(&client.stream).set_linger(None);
        client.stage = Stage::Refused;
        client.until = Some(base.core.now + REFUSAL_TIME);
        base.core.after(REFUSAL_TIME, Timer::DoorClient(id));
        self.drain(base, attempts, id);
    }

    /// Lets a client that was refused say what it likes.
    fn drain(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        let mut bytes = [0; MAX_HEAD];
        for _ in 0..READS {
            match client.stream.read(&mut bytes) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => break,
            }
        }
        self.drop_client(base, attempts, id);
    }

    pub(crate) fn on_client_timer(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64) {
        let Some(client) = self.talking.get_mut(&id) else { return };
        let due = client.until.is_some_and(|until| until <= base.core.now);
        match client.stage {
            Stage::Talking => {
                base.core.count("door_clients_too_slow");
                self.drop_client(base, attempts, id);
            }
            Stage::Opening if due => {
                if let Some(attempt) = base.core.control.attempt(of_door(id)) {
                    attempts.cancel(base, attempt);
                }
                self.fail(base, attempts, id, Fault::Errno(libc::ETIMEDOUT));
            }
            Stage::Refused if due => self.drop_client(base, attempts, id),
            Stage::Naming | Stage::Opening | Stage::Refused => {}
        }
    }

    fn drop_client(&mut self, base: &mut Base, attempts: &mut Attempts, id: u64) {
        let Some(client) = self.talking.remove(&id) else { return };
        if let Some(attempt) = base.core.control.attempt(of_door(id)) {
            attempts.cancel(base, attempt);
        }
        client.reset(&base.core.registry);
    }
}
