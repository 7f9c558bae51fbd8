//! Datagrams of the hosts of a network, which the kernel leads here (TPROXY). Each port of a host has its flows, as a
//! SOCKS5 client has; they end when they are idle, and answers come from the address to which the host has sent.

use super::hosts::Hosts;
use super::lan_packets::LanPackets;
use super::may_reach;
use super::talk::{Target, TargetHost};
use super::udp::{Association, Face, MAX_ALL_FLOWS, TURN, UdpRoom};
use crate::allow::canonical;
use crate::base::Base;
use crate::core::Core;
use crate::timers::Timer;
use crate::token::Source;
use manypath_engine::Duration;
use manypath_net::{TransparentUdp, Tun};
use manypath_rules::Network;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

/// The port of DNS.
pub(super) const DNS_PORT: u16 = 53;
/// How long a flow to it outlasts its last datagram: each question has a port of its own, and no other follows.
pub(super) const DNS_IDLE: Duration = Duration::from_secs(5);

/// Where datagrams of networks come in.
#[derive(Debug, Default)]
pub(super) struct LanDoors {
    doors: BTreeMap<u64, TransparentUdp>,
    /// The associations of hosts' ports, behind each door: link-local addresses may be the same behind two.
    ports: BTreeMap<(u64, SocketAddr), u64>,
    /// The networks whose hosts are carried; all of them when empty.
    clients: Vec<Network>,
    /// What is neither TCP nor UDP, if it is carried.
    pub(super) packets: Option<LanPackets>,
    /// Where questions go that are put to this host's own addresses.
    dns: Option<SocketAddr>,
}

impl LanDoors {
    pub(super) fn ports(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn forget(&mut self, door: u64, client: SocketAddr) {
        self.ports.remove(&(door, client));
    }

    pub(super) fn close(&mut self) {
        self.packets = None;
        self.doors.clear();
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.doors.contains_key(&id)
    }

    /// Sends a host what `from` has answered, or that nobody listens there if there is no payload.
    pub(super) fn answer(
        &self,
        (door, client): (u64, SocketAddr),
        from: SocketAddr,
        payload: Option<&[u8]>,
    ) -> io::Result<()> {
        let door = self.doors.get(&door).ok_or(io::ErrorKind::NotConnected)?;
        match payload {
            Some(payload) => door.answer(from, client, payload),
            None => door.answer_unreachable(from, client),
        }
    }

    /// Where a host's datagrams, or its connection, to `destination` go; `None` if they may not.
    pub(super) fn way_to(
        base: &Base,
        dns: Option<SocketAddr>,
        client: SocketAddr,
        destination: SocketAddr,
    ) -> Option<SocketAddr> {
        let is_own = |address| base.core.locals.is_own(address);
        match dns {
            Some(resolver) if destination.port() == DNS_PORT && is_own(destination.ip()) => {
                Some(resolver)
            }
            _ if destination.port() == 0 => None,
            _ => may_reach(client.ip(), destination.ip(), is_own).then_some(destination),
        }
    }
}

impl UdpRoom {
    /// Begins to take in what the kernel leads here.
    pub(super) fn open_lans(
        &mut self,
        core: &mut Core,
        (doors, tun): (Vec<TransparentUdp>, Option<Tun>),
        (clients, dns): (Vec<Network>, Option<SocketAddr>),
    ) -> io::Result<()> {
        if let Some(tun) = tun {
            let ids = (core.next_id(), core.next_id());
            let packets = LanPackets::begin(tun, ids, clients.clone(), &core.registry)?;
            self.lans.packets = Some(packets);
        }
        (self.lans.clients, self.lans.dns) = (clients, dns);
        for mut door in doors {
            let id = core.next_id();
            door.register(&core.registry, Source::DoorDatagrams(id).token())?;
            self.lans.doors.insert(id, door);
        }
        Ok(())
    }

    /// Takes datagrams of hosts in; whether there may be more.
    pub(super) fn hear_lan(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        id: u64,
        room: &mut [u8],
    ) -> bool {
        let Some(door) = self.lans.doors.get(&id) else { return false };
        let received = match door.receive(room) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                base.core.count("door_datagrams_malformed");
                return true;
            }
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let (client, named) = (canonical(received.source), canonical(received.destination));
        let clients = &self.lans.clients;
        if !clients.is_empty() && !clients.iter().any(|network| network.contains(client.ip())) {
            base.core.count("door_datagrams_of_strangers");
            return true;
        }
        let Some(destination) = LanDoors::way_to(base, self.lans.dns, client, named) else {
            hosts.of(client.ip()).refused += 1;
            base.core.count("door_datagrams_refused");
            return true;
        };
        let target = Target { host: TargetHost::Address(named.ip()), port: named.port() };
        let Some(association) = self.port_of(base, client, id) else {
            hosts.of(client.ip()).refused += 1;
            base.core.count("door_datagrams_refused");
            return true;
        };
        let payload = room.get(..received.length).unwrap_or_default();
        self.take(base, hosts, association, (target, Some(destination)), payload);
        true
    }

    /// The association of a host's port, which begins with its first datagram.
    fn port_of(&mut self, base: &mut Base, client: SocketAddr, door: u64) -> Option<u64> {
        if let Some(id) = self.lans.ports.get(&(door, client)) {
            return Some(*id);
        }
        // A host that has all the flows it may have must not take the ports of others, too.
        if self.lans.ports.len() >= MAX_ALL_FLOWS || !self.has_room_for(client.ip()) {
            return None;
        }
        let id = base.core.next_id();
        let look_at = base.core.now + base.core.config.limits.datagram_idle.min(DNS_IDLE);
        base.core.timers.set(look_at, Timer::DoorDatagrams(id));
        self.lans.ports.insert((door, client), id);
        self.insert(id, Association::new(Face::Lan { client, door }, client.ip(), look_at));
        Some(id)
    }

    /// Takes datagrams of all networks in, so many in one turn.
    pub(super) fn on_lan(&mut self, base: &mut Base, hosts: &mut Hosts, id: u64, room: &mut [u8]) {
        let mut turns = 0..TURN;
        if !turns.any(|_| !self.hear_lan(base, hosts, id, room)) {
            base.core.in_next_turn(Timer::DoorDatagrams(id));
        }
    }
}
