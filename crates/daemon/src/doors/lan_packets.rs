//! Packets of a network's hosts that are neither TCP nor UDP. The kernel routes them to a TUN device; here they become
//! datagrams of one flow to a relay, and what comes back is written to the device.

use super::hosts::Hosts;
use super::lan_udp::LanDoors;
use crate::base::Base;
use crate::packets::{Content, PACKETS, Packet, parse};
use crate::timers::Timer;
use crate::token::Source;
use manypath_engine::{Duration, Instant};
use manypath_net::Tun;
use manypath_rules::Network;
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Packets that wait until there is a flow.
const MAX_WAITING: usize = 64;
/// Hosts to which packets may come, and how long they may after one of theirs.
const MAX_HOSTS: usize = 1024;
const HOST_TIME: Duration = Duration::from_secs(60);
/// How long nothing is asked for after no relay has sent packets on.
const PAUSE: Duration = Duration::from_secs(5);
/// Packets that are taken before others have their turn.
const TURN: usize = 64;

/// How packets go on.
#[derive(Debug)]
enum Way {
    /// The next one asks for a flow, from then on.
    Closed(Instant),
    Asked(Vec<Vec<u8>>),
    Open(UdpSocket),
}

/// The device and its flow.
#[derive(Debug)]
pub(super) struct LanPackets {
    tun: Tun,
    /// The token of the device, and that of the flow, which is also its name for the stack.
    device: u64,
    pub(super) flow: u64,
    way: Way,
    /// Who has sent one, and when last.
    senders: BTreeMap<IpAddr, Instant>,
    clients: Vec<Network>,
}

impl LanPackets {
    pub(super) fn begin(
        tun: Tun,
        (device, flow): (u64, u64),
        clients: Vec<Network>,
        registry: &Registry,
    ) -> io::Result<Self> {
        tun.register(registry, Source::DoorDatagrams(device).token())?;
        let way = Way::Closed(Instant::ZERO);
        Ok(Self { tun, device, flow, way, senders: BTreeMap::new(), clients })
    }

    /// Whether `id` is one of its tokens.
    pub(super) fn has(&self, id: u64) -> bool {
        id == self.device || id == self.flow
    }

    /// The device or the flow may have something; whether the stack is to be asked for a flow.
    pub(super) fn on_socket(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        id: u64,
        room: &mut [u8],
    ) -> Option<(u64, SocketAddr)> {
        let was_asked = matches!(self.way, Way::Asked(_));
        let more = (0..TURN).all(|_| match id == self.device {
            true => self.hear_device(base, hosts, room),
            false => self.hear_flow(base, hosts, room),
        });
        if more {
            base.core.in_next_turn(Timer::DoorDatagrams(id));
        }
        let asks = !was_asked && matches!(self.way, Way::Asked(_));
        asks.then_some((self.flow, PACKETS))
    }

    fn hear_device(&mut self, base: &mut Base, hosts: &mut Hosts, room: &mut [u8]) -> bool {
        let length = match self.tun.read(room) {
            Ok(length) => length,
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let counter = match room.get(..length).and_then(parse) {
            Some(packet) => self.send(base, hosts, &packet),
            None => "door_packets_malformed",
        };
        base.core.count(counter);
        true
    }

    /// Sends a packet of a host on; the counter of what became of it.
    fn send(&mut self, base: &Base, hosts: &mut Hosts, packet: &Packet<'_>) -> &'static str {
        let (now, from) = (base.core.now, SocketAddr::new(packet.source, 0));
        if matches!(packet.content, Content::TcpOrUdp) {
            // They are carried as flows, never inside of one that retransmits.
            return "door_packets_of_flows";
        }
        let clients = &self.clients;
        if !clients.is_empty() && !clients.iter().any(|network| network.contains(packet.source)) {
            return "door_packets_of_strangers";
        }
        let to = SocketAddr::new(packet.destination, 1);
        if LanDoors::way_to(base, None, from, to).is_none() {
            hosts.of(packet.source).refused += 1;
            return "door_packets_refused";
        }
        if !self.note(now, packet.source) {
            return "door_packets_too_many_hosts";
        }
        match &mut self.way {
            Way::Open(socket) => {
                if socket.send(packet.bytes).is_err() {
                    return "door_packets_dropped";
                }
                hosts.of(packet.source).sent += packet.bytes.len() as u64;
                "door_packets_sent"
            }
            Way::Asked(waiting) if waiting.len() < MAX_WAITING => {
                waiting.push(packet.bytes.to_vec());
                "door_packets_waiting"
            }
            Way::Asked(_) => "door_packets_dropped",
            Way::Closed(until) if *until > now => "door_packets_without_relay",
            Way::Closed(_) => {
                self.way = Way::Asked(vec![packet.bytes.to_vec()]);
                "door_packets_waiting"
            }
        }
    }

    /// Lets packets come to a host that has sent one.
    fn note(&mut self, now: Instant, host: IpAddr) -> bool {
        if self.senders.len() >= MAX_HOSTS && !self.senders.contains_key(&host) {
            self.senders.retain(|_, last| now.since(*last) < HOST_TIME);
        }
        let has_room = self.senders.len() < MAX_HOSTS || self.senders.contains_key(&host);
        if has_room {
            self.senders.insert(host, now);
        }
        has_room
    }

    fn hear_flow(&self, base: &mut Base, hosts: &mut Hosts, room: &mut [u8]) -> bool {
        let Way::Open(socket) = &self.way else { return false };
        let length = match socket.recv(room) {
            Ok(length) => length,
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let counter = match room.get(..length).and_then(parse) {
            Some(packet) => self.deliver(base, hosts, &packet),
            None => "door_packets_malformed",
        };
        base.core.count(counter);
        true
    }

    /// Hands the kernel what a relay has sent: answers and errors for hosts that have sent something, and nothing in the
    /// name of this host or of the network's.
    fn deliver(&self, base: &Base, hosts: &mut Hosts, packet: &Packet<'_>) -> &'static str {
        let host = packet.destination;
        let is_awaited = self.senders.contains_key(&host)
            && matches!(packet.content, Content::Reply | Content::Error);
        let (from, to) = (SocketAddr::new(packet.source, 1), SocketAddr::new(host, 0));
        if !is_awaited || LanDoors::way_to(base, None, to, from).is_none() {
            return "door_packets_unexpected";
        }
        match self.tun.write(packet.bytes) {
            Ok(()) => {
                hosts.of(host).received += packet.bytes.len() as u64;
                "door_packets_received"
            }
            Err(_) => "door_packets_dropped",
        }
    }

    /// There is a flow, whose near end this is.
    pub(super) fn open(&mut self, base: &mut Base, hosts: &mut Hosts, near: std::net::UdpSocket) {
        let mut near = UdpSocket::from_std(near);
        let token = Source::DoorDatagrams(self.flow).token();
        if base.core.registry.register(&mut near, token, Interest::READABLE).is_err() {
            return self.close(base);
        }
        if let Way::Asked(waiting) = std::mem::replace(&mut self.way, Way::Open(near)) {
            for bytes in waiting {
                let counter = parse(&bytes).map(|packet| self.send(base, hosts, &packet));
                base.core.count(counter.unwrap_or("door_packets_malformed"));
            }
        }
    }

    /// There is none, and the next one is asked for in a while.
    pub(super) fn close(&mut self, base: &mut Base) {
        self.close_until(base, base.core.now + PAUSE);
    }

    /// It was idle, or its relay has gone: the next packet asks for another one.
    pub(super) fn end_flow(&mut self, base: &mut Base) {
        self.close_until(base, base.core.now);
    }

    fn close_until(&mut self, base: &mut Base, until: Instant) {
        if let Way::Asked(waiting) = std::mem::replace(&mut self.way, Way::Closed(until)) {
            waiting.iter().for_each(|_| base.core.count("door_packets_without_relay"));
        }
    }
}
