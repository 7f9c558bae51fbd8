//! The far side of a flow: where it goes, by the stack or as plain UDP from this host, and what comes back.

use super::{Association, Face, UdpRoom, Way};
use crate::base::Base;
use crate::datagrams::{private_pair, socket_to};
use crate::doors::hosts::Hosts;
use crate::doors::may_reach;
use crate::doors::talk::datagram_head;
use crate::log;
use crate::token::Source;
use manypath_control::Reply;
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use tracing::info;

impl UdpRoom {
    /// The name of a destination has been looked up.
    pub(in crate::doors) fn on_addresses(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        id: u64,
        addresses: &[IpAddr],
    ) {
        self.asking.remove(&id);
        let Some(flow) = self.flows.get(&id) else { return };
        let Some(peer) = self.associations.get(&flow.association).map(|it| it.peer) else { return };
        match addresses.first() {
            Some(address) => self.want(base, hosts, id, (peer, *address)),
            None => {
                hosts.of(peer).failed += 1;
                self.refuse_flow(base, id);
            }
        }
    }

    pub(super) fn want(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        id: u64,
        (peer, address): (IpAddr, IpAddr),
    ) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let is_own = |address| base.core.locals.is_own(address);
        if flow.target.port == 0 || !may_reach(peer, address, is_own) {
            hosts.of(peer).refused += 1;
            return self.refuse_flow(base, id);
        }
        let destination = SocketAddr::new(address, flow.target.port);
        self.want_at(id, destination);
    }

    pub(super) fn want_at(&mut self, id: u64, destination: SocketAddr) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.destination = Some(destination);
        self.wanted.push_back((id, destination));
    }

    /// Nobody listens at the destination of a flow, which a host of a network is told as by ICMP.
    pub(in crate::doors) fn tell_unreachable(&self, base: &mut Base, id: u64) {
        let Some(flow) = self.flows.get(&id) else { return };
        let association = self.associations.get(&flow.association);
        if let Some(&Association { face: Face::Lan { client, door }, .. }) = association
            && let Some(named) = flow.target.address()
        {
            base.core.count("door_datagrams_unreachable");
            let _ = self.lans.answer((door, client), named, None);
        }
    }

    /// Whether a reply is about one of these flows.
    pub(in crate::doors) fn has_flow(&self, reply: &Reply) -> bool {
        flow_of(reply).is_some_and(|id| self.flows.contains_key(&id) || self.is_of_packets(id))
    }

    /// What became of a flow for which the stack was asked; the stack's end of it if it is carried.
    pub(in crate::doors) fn on_reply(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        reply: &Reply,
    ) -> Option<(u64, SocketAddr, OwnedFd)> {
        let id = flow_of(reply)?;
        if self.is_of_packets(id) {
            return self.on_packets_reply(base, hosts, reply);
        }
        let flow = self.flows.get(&id)?;
        let is_new = matches!(flow.way, Way::Unknown(_));
        let (destination, association) =
            (flow.destination?, self.associations.get(&flow.association)?);
        let peer = association.peer;
        if matches!(reply, Reply::Accepted { .. }) {
            let made = private_pair().and_then(|(near, far)| Ok((near.local_addr()?, near, far)));
            let (addr, near, far) = self.or_refuse(base, id, made)?;
            self.use_socket(base, hosts, id, near)?;
            hosts.of(peer).carried += 1;
            return Some((id, addr, far));
        }
        if matches!(reply, Reply::Direct { .. }) {
            let socket = self.or_refuse(base, id, socket_to(destination))?;
            self.use_socket(base, hosts, id, socket.into())?;
            hosts.of(peer).plain += 1;
            return None;
        }
        let failed = matches!(reply, Reply::Failed { .. });
        hosts.of(peer).failed += u64::from(failed);
        // After the end of an association, or when it was idle, the next datagram asks again.
        match failed && is_new {
            true => self.refuse_flow(base, id),
            false => self.drop_flow(id),
        }
        None
    }

    fn is_of_packets(&self, id: u64) -> bool {
        self.lans.packets.as_ref().is_some_and(|packets| packets.flow == id)
    }

    /// What became of the flow of packets; the stack's end of it if there is one.
    fn on_packets_reply(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        reply: &Reply,
    ) -> Option<(u64, SocketAddr, OwnedFd)> {
        let packets = self.lans.packets.as_mut()?;
        if matches!(reply, Reply::Accepted { .. }) {
            let made = private_pair().and_then(|(near, far)| Ok((near.local_addr()?, near, far)));
            let Ok((addr, near, far)) = made else {
                packets.close(base);
                return None;
            };
            packets.open(base, hosts, near);
            return Some((packets.flow, addr, far));
        }
        match matches!(reply, Reply::Direct { .. } | Reply::Failed { .. }) {
            true => packets.close(base),
            false => packets.end_flow(base),
        }
        self.dropped.push(packets.flow);
        None
    }

    /// Without a socket the flow comes to nothing.
    fn or_refuse<T>(&mut self, base: &mut Base, id: u64, made: io::Result<T>) -> Option<T> {
        if let Err(error) = &made {
            info!(target: log::CONNECTION, "no datagrams of a client: {error}");
            self.refuse_flow(base, id);
        }
        made.ok()
    }

    /// What has waited leaves by this socket, and all that comes.
    fn use_socket(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        id: u64,
        socket: std::net::UdpSocket,
    ) -> Option<()> {
        let watched = watch(socket, id, &base.core.registry);
        let socket = self.or_refuse(base, id, watched)?;
        for payload in self.set_way(id, Way::Open(socket)) {
            self.send(base, hosts, id, &payload);
        }
        Some(())
    }

    /// Whether there may be more.
    pub(super) fn hear_destination(
        &mut self,
        base: &mut Base,
        hosts: &mut Hosts,
        id: u64,
        room: &mut [u8],
    ) -> bool {
        let Some(flow) = self.flows.get_mut(&id) else { return false };
        let (Way::Open(socket), Some(from)) = (&flow.way, flow.destination) else { return false };
        let len = match socket.recv(room) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.tell_unreachable(base, id);
                return true;
            }
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        flow.last = base.core.now;
        let Some(association) = self.associations.get(&flow.association) else { return false };
        let payload = room.get(..len).unwrap_or_default();
        let answered = match &association.face {
            Face::Socks { from: None, .. } => return true,
            Face::Socks { socket, from: Some(to), .. } => {
                let message = [&datagram_head(from)[..], payload].concat();
                socket.send_to(&message, *to).map(drop)
            }
            Face::Lan { client, door } => {
                let named = flow.target.address().unwrap_or(from);
                self.lans.answer((*door, *client), named, Some(payload))
            }
        };
        hosts.of(association.peer).received += len as u64;
        if answered.is_err() {
            base.core.count("door_datagrams_dropped");
        }
        true
    }
}

fn flow_of(reply: &Reply) -> Option<u64> {
    let (Reply::Accepted { id, .. }
    | Reply::Direct { id, .. }
    | Reply::Failed { id, .. }
    | Reply::Closed { id }
    | Reply::Idle { id }) = reply
    else {
        return None;
    };
    Some(*id)
}

fn watch(socket: std::net::UdpSocket, id: u64, registry: &Registry) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    let mut socket = UdpSocket::from_std(socket);
    registry.register(&mut socket, Source::DoorDatagrams(id).token(), Interest::READABLE)?;
    Ok(socket)
}
