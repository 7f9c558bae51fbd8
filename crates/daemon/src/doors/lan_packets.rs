//! Packets of a network's hosts that are neither TCP nor UDP. The kernel routes them to a TUN device; here they become
//! datagrams of one flow to a relay, and what comes back is written to the device.

use super::hosts::Hosts;
use super::lan_udp::LanDoors;
use crate::base::Base;
use crate::log;
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
use tracing::warn;

/// Packets that wait until there is a flow.
const MAX_WAITING: usize = 64;
/// Hosts to which packets may come, and destinations of each from which they may.
const MAX_HOSTS: usize = 1024;
const MAX_DESTINATIONS: usize = 256;
/// How long they may after a packet to there.
const ANSWER_TIME: Duration = Duration::from_secs(60);
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

/// Which hosts have sent packets where, and when last.
#[derive(Debug, Default)]
struct Senders(BTreeMap<IpAddr, Sender>);

#[derive(Debug)]
struct Sender {
    last: Instant,
    destinations: BTreeMap<IpAddr, Instant>,
}

impl Senders {
    /// Lets packets come that answer one; `false` if there are too many hosts.
    fn note(&mut self, now: Instant, host: IpAddr, destination: IpAddr) -> bool {
        if self.0.len() >= MAX_HOSTS && !self.0.contains_key(&host) {
            self.0.retain(|_, sender| now.since(sender.last) < ANSWER_TIME);
            if self.0.len() >= MAX_HOSTS {
                return false;
            }
        }
        let new = || Sender { last: now, destinations: BTreeMap::new() };
        let Sender { last, destinations } = self.0.entry(host).or_insert_with(new);
        *last = now;
        if destinations.len() >= MAX_DESTINATIONS && !destinations.contains_key(&destination) {
            let oldest = destinations.iter().min_by_key(|(_, last)| **last);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                destinations.remove(&oldest);
            }
        }
        destinations.insert(destination, now);
        true
    }

    /// Whether a packet is an answer from where its host has sent one, or an error about such a packet. A relay could
    /// disturb what does not go by it with others.
    fn awaits(&self, now: Instant, packet: &Packet<'_>) -> bool {
        let host = packet.destination;
        let destination = match packet.content {
            Content::Reply => packet.source,
            Content::Error(Some((from, to))) if from == host => to,
            Content::Request(_) | Content::Error(_) | Content::Icmp => return false,
            Content::TcpOrUdp | Content::Fragment | Content::Other => return false,
        };
        let sender = self.0.get(&host);
        let last = sender.and_then(|sender| sender.destinations.get(&destination));
        last.is_some_and(|last| now.since(*last) < ANSWER_TIME)
    }
}

/// The device and its flow.
#[derive(Debug)]
pub(super) struct LanPackets {
    tun: Tun,
    /// The token of the device, and that of the flow, which is also its name for the stack.
    device: u64,
    pub(super) flow: u64,
    way: Way,
    senders: Senders,
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
        Ok(Self { tun, device, flow, way, senders: Senders::default(), clients })
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
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    // Somebody has removed the device: reading would fail for ever.
                    base.core.count("door_packets_device_failed");
                    warn!(target: log::STACK, "packets of the network are routed as before: {error}");
                }
                return false;
            }
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
        if is_of_nobody(packet.source) || base.core.locals.is_own(packet.source) {
            // The kernel itself sends some from the device.
            return "door_packets_of_strangers";
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
        if !self.senders.note(now, packet.source, packet.destination) {
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

    /// Hands the kernel what a relay has sent: what a host waits for, and nothing in the name of this host or of the
    /// network's.
    fn deliver(&self, base: &Base, hosts: &mut Hosts, packet: &Packet<'_>) -> &'static str {
        let host = packet.destination;
        let (from, to) = (SocketAddr::new(packet.source, 1), SocketAddr::new(host, 0));
        if !self.senders.awaits(base.core.now, packet)
            || LanDoors::way_to(base, None, to, from).is_none()
        {
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

/// Whether no host of a network sends from an address to others.
fn is_of_nobody(source: IpAddr) -> bool {
    let is_link_local = match source {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    is_link_local || source.is_unspecified() || source.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_net::{icmp, icmp_error};
    use std::net::Ipv4Addr;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 7, 11));
    const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 7, 12));

    fn ping(from: IpAddr, to: IpAddr, kind: u8) -> Vec<u8> {
        icmp((from, to), 9, vec![kind, 0, 0, 0, 0, 1, 0, 2]).unwrap()
    }

    #[test]
    fn hosts_hear_what_answers_them_and_nothing_else() {
        let (mut senders, now) = (Senders::default(), Instant::ZERO);
        assert!(senders.note(now, HOST, FAR));
        let hears = |now, bytes: &[u8]| senders.awaits(now, &parse(bytes).unwrap());
        let error = |from, quoted: &[u8]| icmp_error((from, HOST), (3, 4, 576), quoted).unwrap();
        assert!(hears(now, &ping(FAR, HOST, 0)));
        assert!(hears(now, &error(OTHER, &ping(HOST, FAR, 8))), "a router says it");
        assert!(!hears(now + ANSWER_TIME, &ping(FAR, HOST, 0)), "too late");
        assert!(!hears(now, &ping(FAR, HOST, 8)), "a request");
        assert!(!hears(now, &ping(OTHER, HOST, 0)) && !hears(now, &ping(FAR, OTHER, 0)));
        assert!(!hears(now, &error(FAR, &ping(HOST, OTHER, 8))), "about what it has not sent");
        assert!(!hears(now, &error(FAR, &ping(OTHER, FAR, 8))), "about what another has sent");
        let mut of_tcp = ping(HOST, FAR, 8);
        of_tcp[9] = 6;
        assert!(!hears(now, &error(FAR, &of_tcp)), "about a flow");
    }

    #[test]
    fn hosts_and_their_destinations_are_bounded() {
        let mut senders = Senders::default();
        let number = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(number));
        let at = |number: u32| Instant::ZERO + Duration::from_millis(number.into());
        for one in 0..300 {
            assert!(senders.note(at(one), HOST, number(one)));
        }
        let destinations = &senders.0[&HOST].destinations;
        assert_eq!(destinations.len(), MAX_DESTINATIONS);
        assert!(destinations.contains_key(&number(299)) && !destinations.contains_key(&number(0)));
        for one in 1..MAX_HOSTS as u32 {
            assert!(senders.note(at(300), number(one), FAR));
        }
        assert!(!senders.note(at(301), FAR, FAR) && senders.note(at(301), HOST, FAR));
        assert!(senders.note(at(300) + ANSWER_TIME, FAR, FAR));
        assert_eq!(senders.0.len(), 2);
    }
}
