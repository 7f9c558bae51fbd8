//! Datagrams of SOCKS5 clients (UDP ASSOCIATE, RFC 1928 section 7), and of hosts of a network ([`lan_udp`](super::lan_udp)).
//!
//! ```text
//! client ◀─▶ socket of its association ◀─▶ socket of a flow, one for each destination ─┬─▶ carried, as of a program
//!                                                                                      └─▶ plain UDP
//! ```
//!
//! An association of a SOCKS5 client ends with the TCP connection over which it was asked for, a flow when it is idle.
//! Where a client may send to is as for connections.

mod destination;

use super::hosts::Hosts;
use super::lan_udp::{DNS_IDLE, DNS_PORT, LanDoors};
use super::talk::{Target, TargetHost, datagram};
use crate::base::Base;
use crate::names::{Asker, Party};
use crate::timers::Timer;
use crate::token::Source;
use manypath_engine::{Duration, Instant};
use mio::Interest;
use mio::net::{TcpStream, UdpSocket};
use socket2::{SockRef, TcpKeepalive};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

/// Destinations of one client at a time, of all clients at one host, and of all clients: each has two descriptors.
const MAX_FLOWS: usize = 256;
const MAX_FLOWS_OF_HOST: usize = 1024;
pub(super) const MAX_ALL_FLOWS: usize = 4096;
/// Names of one client that are looked up at a time: others have names, too.
const MAX_NAMES: usize = 8;
/// Datagrams to one destination that wait until it is known how they go on, and bytes of one client that do.
const MAX_WAITING: usize = 16;
const MAX_WAITING_BYTES: usize = 128 << 10;
/// Datagrams that are taken from a socket before others have their turn.
pub(super) const TURN: usize = 64;
const MAX_DATAGRAM: usize = 65_535;

/// A client that sends datagrams.
#[derive(Debug)]
pub(super) struct Association {
    face: Face,
    peer: IpAddr,
    flows: BTreeMap<Target, u64>,
    /// Bytes that wait until it is known how they go on.
    waiting: usize,
    look_at: Instant,
}

impl Association {
    pub(super) fn new(face: Face, peer: IpAddr, look_at: Instant) -> Self {
        Self { face, peer, flows: BTreeMap::new(), waiting: 0, look_at }
    }
}

/// How it is heard and answered.
#[derive(Debug)]
pub(super) enum Face {
    Socks {
        /// It lives as long as this.
        stream: TcpStream,
        socket: UdpSocket,
        /// Where it sends from: known from its first datagram on, unless it has said so. Others are not heard.
        from: Option<SocketAddr>,
    },
    /// A port of a network's host, behind this door.
    Lan { client: SocketAddr, door: u64 },
}

/// What it sends to one destination.
#[derive(Debug)]
struct Flow {
    association: u64,
    host: IpAddr,
    target: Target,
    /// Where that is, once it is known.
    destination: Option<SocketAddr>,
    way: Way,
    last: Instant,
}

/// How it goes there.
#[derive(Debug)]
enum Way {
    /// That is being found out, and datagrams wait for it.
    Unknown(Vec<Vec<u8>>),
    /// Towards the stack, or the destination itself.
    Open(UdpSocket),
    /// Not at all: nothing is tried again before the flow is idle.
    Refused,
}

/// All clients that send datagrams.
#[derive(Debug, Default)]
pub(super) struct UdpRoom {
    associations: BTreeMap<u64, Association>,
    flows: BTreeMap<u64, Flow>,
    /// How many of them the clients at a host have.
    by_host: BTreeMap<IpAddr, usize>,
    /// Flows whose names are looked up, and their associations, whatever became of either.
    asking: BTreeMap<u64, u64>,
    /// Flows for which the stack is to be asked, and those that it need not carry any more.
    wanted: VecDeque<(u64, SocketAddr)>,
    dropped: Vec<u64>,
    /// Where datagrams are read.
    room: Vec<u8>,
    pub(super) lans: LanDoors,
}

impl UdpRoom {
    /// SOCKS5 clients. Ports of hosts have a limit of their own.
    pub(super) fn len(&self) -> usize {
        self.associations.len() - self.lans.ports()
    }

    /// Whether the clients at `host` may have one more flow.
    pub(super) fn has_room_for(&self, host: IpAddr) -> bool {
        self.flows.len() < MAX_ALL_FLOWS
            && self.by_host.get(&host).is_none_or(|count| *count < MAX_FLOWS_OF_HOST)
    }

    pub(super) fn insert(&mut self, id: u64, association: Association) {
        self.associations.insert(id, association);
    }

    /// The socket to which a client is to send, and its address.
    pub(super) fn open(
        base: &Base,
        id: u64,
        stream: &mut TcpStream,
    ) -> io::Result<(UdpSocket, SocketAddr)> {
        let mut at = stream.local_addr()?;
        if at.ip().to_canonical().is_ipv4() {
            at = crate::allow::canonical(at);
        }
        at.set_port(0);
        let mut socket = UdpSocket::bind(at)?;
        let at = socket.local_addr()?;
        let registry = &base.core.registry;
        registry.register(&mut socket, Source::DoorDatagrams(id).token(), Interest::READABLE)?;
        registry.reregister(stream, Source::DoorClient(id).token(), Interest::READABLE)?;
        // A client that has vanished would keep its association for ever. Best effort.
        let _ = SockRef::from(&*stream).set_tcp_keepalive(&keepalive());
        Ok((socket, at))
    }

    /// The association begins of a client that is going to send from a port of `peer`, from any if it is 0.
    pub(super) fn begin(
        &mut self,
        base: &mut Base,
        id: u64,
        (stream, peer): (TcpStream, SocketAddr),
        socket: UdpSocket,
    ) {
        let look_at = base.core.now + base.core.config.limits.datagram_idle;
        // On the way from another host a NAT may have changed the port.
        let from = Some(peer).filter(|peer| peer.ip().is_loopback() && peer.port() != 0);
        let peer = peer.ip();
        base.core.timers.set(look_at, Timer::DoorDatagrams(id));
        base.core.count("door_associations");
        let face = Face::Socks { stream, socket, from };
        self.insert(id, Association::new(face, peer, look_at));
    }

    /// Tells the client what it waits for over its TCP connection.
    pub(super) fn say(&mut self, id: u64, bytes: &[u8]) -> io::Result<()> {
        let said = match self.associations.get_mut(&id).map(|it| &mut it.face) {
            Some(Face::Socks { stream, .. }) => stream.write_all(bytes),
            Some(Face::Lan { .. }) | None => Ok(()),
        };
        said.inspect_err(|_| self.end(id))
    }

    /// The client has said something over its TCP connection, which means nothing, or has closed it.
    pub(super) fn on_stream(&mut self, id: u64) {
        let Some(Association { face: Face::Socks { stream, .. }, .. }) =
            self.associations.get_mut(&id)
        else {
            return;
        };
        let mut room = [0; 512];
        for _ in 0..TURN {
            match stream.read(&mut room) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => break,
            }
        }
        self.end(id);
    }

    fn end(&mut self, id: u64) {
        let Some(association) = self.associations.remove(&id) else { return };
        if let Face::Lan { client, door } = association.face {
            self.lans.forget(door, client);
        }
        association.flows.into_values().for_each(|flow| self.drop_flow(flow));
    }

    pub(super) fn end_all(&mut self) {
        let all: Vec<u64> = self.associations.keys().copied().collect();
        all.into_iter().for_each(|id| self.end(id));
    }

    fn drop_flow(&mut self, id: u64) {
        let Some(flow) = self.flows.remove(&id) else { return };
        self.dropped.push(id);
        if let Some(count) = self.by_host.get_mut(&flow.host) {
            *count -= 1;
        }
        if self.by_host.get(&flow.host) == Some(&0) {
            self.by_host.remove(&flow.host);
        }
        if let Some(association) = self.associations.get_mut(&flow.association) {
            association.flows.remove(&flow.target);
            association.waiting -= flow.way.waiting_bytes();
        }
    }

    /// A flow comes to nothing.
    fn refuse_flow(&mut self, base: &mut Base, id: u64) {
        let waited = self.set_way(id, Way::Refused);
        self.dropped.push(id);
        waited.iter().for_each(|_| base.core.count("door_datagrams_refused"));
        if !waited.is_empty() {
            self.tell_unreachable(base, id);
        }
    }

    /// It is known how a flow goes; the datagrams that have waited for that.
    fn set_way(&mut self, id: u64, way: Way) -> Vec<Vec<u8>> {
        let Some(flow) = self.flows.get_mut(&id) else { return Vec::new() };
        let before = std::mem::replace(&mut flow.way, way);
        if let Some(association) = self.associations.get_mut(&flow.association) {
            association.waiting -= before.waiting_bytes();
        }
        match before {
            Way::Unknown(waiting) => waiting,
            Way::Open(_) | Way::Refused => Vec::new(),
        }
    }

    /// The next flow for which the stack is to be asked.
    pub(super) fn next_wanted(&mut self) -> Option<(u64, SocketAddr)> {
        self.wanted.pop_front()
    }

    /// Flows that have ended since the last call.
    pub(super) fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped)
    }

    /// A socket of an association or of a flow may have something.
    pub(super) fn on_socket(&mut self, base: &mut Base, hosts: &mut Hosts, id: u64) {
        let mut room = std::mem::take(&mut self.room);
        room.resize(MAX_DATAGRAM, 0);
        let packets = self.lans.packets.as_mut().filter(|packets| packets.has(id));
        if let Some(packets) = packets {
            self.wanted.extend(packets.on_socket(base, hosts, id, &mut room));
        } else if self.lans.has(id) {
            self.on_lan(base, hosts, id, &mut room);
        } else {
            self.on_flow(base, hosts, id, &mut room);
        }
        self.room = room;
    }

    fn on_flow(&mut self, base: &mut Base, hosts: &mut Hosts, id: u64, room: &mut [u8]) {
        let mut turns = 0..TURN;
        let is_drained = turns.any(|_| {
            let more = match self.associations.contains_key(&id) {
                true => self.hear_client(base, hosts, id, room),
                false => self.hear_destination(base, hosts, id, room),
            };
            !more
        });
        if !is_drained {
            base.core.in_next_turn(Timer::DoorDatagrams(id));
        }
    }

    pub(super) fn on_timer(&mut self, base: &mut Base, hosts: &mut Hosts, id: u64) {
        let (now, idle) = (base.core.now, base.core.config.limits.datagram_idle);
        if let Some(association) = self.associations.get_mut(&id)
            && association.look_at <= now
        {
            let is_lan = matches!(association.face, Face::Lan { .. });
            association.look_at = now + if is_lan { idle.min(DNS_IDLE) } else { idle };
            base.core.timers.set(association.look_at, Timer::DoorDatagrams(id));
            let flows: Vec<u64> = association.flows.values().copied().collect();
            let is_idle = |id: &u64| {
                let flow = self.flows.get(id);
                flow.is_some_and(|it| now.since(it.last) >= it.idle_time(is_lan, idle))
            };
            let (ended, open): (Vec<u64>, Vec<u64>) = flows.into_iter().partition(is_idle);
            ended.into_iter().for_each(|flow| self.drop_flow(flow));
            if is_lan && open.is_empty() {
                return self.end(id);
            }
        }
        self.on_socket(base, hosts, id);
    }

    /// Whether there may be more.
    fn hear_client(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        id: u64,
        room: &mut [u8],
    ) -> bool {
        let Some(association) = self.associations.get_mut(&id) else { return false };
        let (peer, Face::Socks { socket, from: known, .. }) =
            (association.peer, &mut association.face)
        else {
            return false;
        };
        let (len, from) = match socket.recv_from(room) {
            Ok(received) => received,
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        if crate::allow::canonical(from).ip() != peer || *known.get_or_insert(from) != from {
            base.core.count("door_datagrams_of_strangers");
            return true;
        }
        let Some((target, payload)) = datagram(room.get(..len).unwrap_or_default()) else {
            base.core.count("door_datagrams_malformed");
            return true;
        };
        self.take(base, hosts, id, (target, None), payload);
        true
    }

    /// Takes a datagram of an association. `destination`: where it goes, if that is decided.
    pub(super) fn take(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        id: u64,
        (target, destination): (Target, Option<SocketAddr>),
        payload: &[u8],
    ) {
        let Some(association) = self.associations.get(&id) else { return };
        let peer = association.peer;
        let flow = match association.flows.get(&target) {
            Some(flow) => *flow,
            None if association.flows.len() >= MAX_FLOWS || !self.has_room_for(peer) => {
                hosts.of(peer).refused += 1;
                return base.core.count("door_datagrams_refused");
            }
            None => self.begin_flow(base, hosts, id, (peer, target, destination)),
        };
        self.send(base, hosts, flow, payload);
    }

    fn send(&mut self, base: &mut Base, hosts: &mut Hosts, id: u64, payload: &[u8]) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let Some(association) = self.associations.get_mut(&flow.association) else { return };
        match &mut flow.way {
            // What is lost here is lost as on the way.
            Way::Open(socket) => {
                let mut sent = socket.send(payload);
                let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
                let unreachable = sent.as_ref().is_err_and(refused);
                if unreachable {
                    // That was about one before.
                    sent = socket.send(payload);
                }
                let sent = if sent.is_ok() { payload.len() as u64 } else { 0 };
                hosts.of(association.peer).sent += sent;
                flow.last = base.core.now;
                if unreachable {
                    self.tell_unreachable(base, id);
                }
                return;
            }
            Way::Unknown(waiting)
                if waiting.len() < MAX_WAITING
                    && association.waiting + payload.len() <= MAX_WAITING_BYTES =>
            {
                association.waiting += payload.len();
                waiting.push(payload.to_vec());
            }
            Way::Unknown(_) => base.core.count("door_datagrams_dropped"),
            Way::Refused => return base.core.count("door_datagrams_refused"),
        }
        flow.last = base.core.now;
    }

    fn begin_flow(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        association: u64,
        (peer, target, destination): (IpAddr, Target, Option<SocketAddr>),
    ) -> u64 {
        let (id, last) = (base.core.next_id(), base.core.now);
        let flow = Flow {
            association,
            host: peer,
            target: target.clone(),
            destination: None,
            way: Way::Unknown(Vec::new()),
            last,
        };
        self.flows.insert(id, flow);
        *self.by_host.entry(peer).or_default() += 1;
        if let Some(association) = self.associations.get_mut(&association) {
            association.flows.insert(target.clone(), id);
        }
        if let Some(destination) = destination {
            self.want_at(id, destination);
            return id;
        }
        match target.host {
            TargetHost::Address(address) => self.want(base, hosts, id, (peer, address)),
            TargetHost::Name(name) => {
                let asked = self.asking.values().filter(|it| **it == association).count();
                let (asker, party) = (Asker::DoorDatagrams(id), Party::clients(peer));
                if asked < MAX_NAMES && base.core.names.ask(asker, party, &name) {
                    self.asking.insert(id, association);
                } else {
                    base.core.count("door_datagrams_refused");
                    self.drop_flow(id);
                }
            }
        }
        id
    }
}

impl Flow {
    /// How long it outlasts its last datagram.
    fn idle_time(&self, is_lan: bool, idle: Duration) -> Duration {
        if is_lan && self.target.port == DNS_PORT { idle.min(DNS_IDLE) } else { idle }
    }
}

impl Target {
    /// The address that was named, if it was one.
    fn address(&self) -> Option<SocketAddr> {
        match self.host {
            TargetHost::Address(address) => Some(SocketAddr::new(address, self.port)),
            TargetHost::Name(_) => None,
        }
    }
}

impl Way {
    fn waiting_bytes(&self) -> usize {
        match self {
            Self::Unknown(waiting) => waiting.iter().map(Vec::len).sum(),
            Self::Open(_) | Self::Refused => 0,
        }
    }
}

/// A client that does not answer for two minutes has vanished.
const fn keepalive() -> TcpKeepalive {
    let (idle, between) = (Duration::from_secs(60), Duration::from_secs(12));
    TcpKeepalive::new().with_time(idle).with_interval(between).with_retries(5)
}
