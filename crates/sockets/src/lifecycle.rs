//! Sockets and associations come and go.

use crate::address::{at_port, link_of};
use crate::association::Association;
use crate::constants::SCTP_SENDER_DRY_EVENT;
use crate::errno::Errno;
use crate::send::end;
use crate::socket::{Settings, Socket, Style};
use crate::structures::sctp_assoc_t;
use crate::table::{Host, SocketId, Sockets, drop_unread};
use manypath_engine::{AssociationId, CloseReason, Config, ConnectError, PathAddr};
use std::net::SocketAddr;

impl Sockets {
    /// The next association that waits at a one-to-one socket, as a socket of its own.
    ///
    /// # Errors
    /// `EAGAIN` if there is none, `EINVAL` if it does not listen, `EOPNOTSUPP` for a one-to-many socket.
    pub fn accept(&mut self, id: SocketId) -> Result<SocketId, Errno> {
        let socket = self.socket(id)?;
        if !socket.is_one_to_one() {
            return Err(Errno::NOT_SUPPORTED);
        }
        if socket.backlog.is_none() {
            return Err(Errno::INVALID);
        }
        let number = socket.waiting.pop_front().ok_or(Errno::AGAIN)?;
        self.split_off(id, number)
    }

    /// `sctp_peeloff` (RFC 6458 section 9.2): an association of a one-to-many socket as a socket of its
    /// own.
    ///
    /// # Errors
    /// `EINVAL` if there is no such association or the socket is a one-to-one one.
    pub fn peel_off(&mut self, id: SocketId, number: sctp_assoc_t) -> Result<SocketId, Errno> {
        let socket = self.socket(id)?;
        if socket.is_one_to_one() || !socket.associations.contains_key(&number) {
            return Err(Errno::INVALID);
        }
        let new = self.split_off(id, number)?;
        self.socket(new)?.peeled = true;
        Ok(new)
    }

    fn split_off(&mut self, id: SocketId, number: sctp_assoc_t) -> Result<SocketId, Errno> {
        let socket = self.socket(id)?;
        let association = socket.associations.remove(&number).ok_or(Errno::INVALID)?;
        let (ready, blocked) = (socket.ready.remove(&number), socket.blocked.remove(&number));
        let mut own = Socket::new(Style::OneToOne, socket.settings.clone());
        let bound = socket.bound.clone();
        let engine = association.engine;
        let open = association.closed.is_none();
        own.associations.insert(number, association);
        own.ready.extend(ready.then_some(number));
        own.blocked.extend(blocked.then_some(number));
        self.mark(id);
        let new = self.add(own);
        if let Some(bound) = bound {
            self.take_place(new, bound)?;
        }
        if open {
            self.owners.insert(engine, (new, number));
        }
        Ok(new)
    }

    /// Begins an association with the peer that has these addresses; the others are for the case that the
    /// first one cannot be reached.
    ///
    /// # Errors
    /// `EISCONN`, `EALREADY`, `ENETUNREACH` without a local address of that family, and others.
    pub fn connect(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        addresses: &[SocketAddr],
    ) -> Result<sctp_assoc_t, Errno> {
        let (first, others) = addresses.split_first().ok_or(Errno::INVALID)?;
        if first.port() == 0 || link_of(*first) == Some(0) {
            return Err(Errno::INVALID);
        }
        self.check_unconnected(host, id, *first)?;
        self.bind_if_needed(id)?;
        let parameters = self.parameters(self.sockets.get(&id).ok_or(Errno::BADF)?);
        let number = self.next_association();
        let socket = self.sockets.get_mut(&id).ok_or(Errno::BADF)?;
        let defaults = socket.settings.defaults;
        let mut association = Association::new(number, AssociationId(0), *first, defaults);
        let encapsulation = socket.settings.encapsulation;
        association.engine = begin(host, parameters, at_port(*first, encapsulation), first.port())?;
        association.others = others.iter().map(|other| at_port(*other, encapsulation)).collect();
        self.owners.insert(association.engine, (id, number));
        socket.associations.insert(number, association);
        self.mark(id);
        Ok(number)
    }

    fn check_unconnected(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        peer: SocketAddr,
    ) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if !socket.settings.family.takes(peer.ip()) {
            let ipv6 = socket.settings.family.ipv6;
            return Err(if ipv6 {
                Errno::NETWORK_UNREACHABLE
            } else {
                Errno::FAMILY_NOT_SUPPORTED
            });
        }
        if let Some(only) = socket.only() {
            let old = &socket.associations[&only];
            if old.closed.is_none() {
                let known = old.streams.is_some();
                return Err(if known { Errno::IS_CONNECTED } else { Errno::ALREADY });
            }
            drop_unread(host, old.engine);
            socket.associations.clear();
            socket.ready.clear();
            socket.error = None;
        }
        let listens = socket.is_one_to_one() && socket.backlog.is_some();
        if listens || self.with_peer(host, id, peer).is_some() {
            return Err(Errno::IS_CONNECTED);
        }
        Ok(())
    }

    /// Whether an association that was begun is established.
    ///
    /// # Errors
    /// `EINPROGRESS` if that is not known yet; else why it is not, once.
    pub fn connection(&mut self, id: SocketId, number: sctp_assoc_t) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        let Some(association) = socket.associations.get(&number) else {
            return Err(socket.error.take().unwrap_or(Errno::CONNECTION_REFUSED));
        };
        match (&association.closed, association.streams) {
            (_, Some(_)) => Ok(()),
            (None, None) => Err(Errno::IN_PROGRESS),
            (Some(reason), None) => {
                let error = Errno::of_end(reason, false).unwrap_or(Errno::CONNECTION_REFUSED);
                socket.error = None;
                if socket.is_one_to_one() {
                    socket.associations.remove(&number);
                    socket.ready.remove(&number);
                }
                self.mark(id);
                Err(error)
            }
        }
    }

    /// Begins an association anew at another address of the peer, if it has not come about at the first
    /// and there is one.
    pub(crate) fn begin_elsewhere(
        &mut self,
        host: &mut Host<'_>,
        owner: SocketId,
        number: sctp_assoc_t,
        reason: &CloseReason,
    ) -> bool {
        if !matches!(reason, CloseReason::NoAnswer | CloseReason::Unreachable) {
            return false;
        }
        let Some(socket) = self.sockets.get(&owner) else { return false };
        let parameters = self.parameters(socket);
        let Some(socket) = self.sockets.get_mut(&owner) else { return false };
        loop {
            let Some(association) = socket.associations.get_mut(&number) else { return false };
            if association.streams.is_some() {
                return false;
            }
            let Some(next) = association.others.pop_front() else { return false };
            let (old, port) = (association.engine, association.peer.port());
            if let Ok(engine) = begin(host, parameters.clone(), next, port) {
                self.owners.remove(&old);
                self.owners.insert(engine, (owner, number));
                if let Some(association) = socket.associations.get_mut(&number) {
                    association.engine = engine;
                    association.peer = at_port(next, port);
                    carry_on(host, association, &socket.settings);
                }
                return true;
            }
        }
    }

    /// A peer has begun an association at a port where a socket listens.
    pub(crate) fn adopt(&mut self, host: &mut Host<'_>, engine: AssociationId) {
        let Some((port, peer_port)) = host.endpoint.ports(engine) else { return };
        let status = host.status(engine);
        let path = status.and_then(|status| status.paths.first().map(|path| path.addr));
        let Some(PathAddr { local, remote }) = path else { return };
        let full = |socket: &Socket| socket.backlog.is_some_and(|most| socket.waiting.len() > most);
        let found = self.listener_at(local.ip(), port);
        let Some(id) = found.filter(|id| self.sockets.get(id).is_some_and(|one| !full(one))) else {
            host.endpoint.abort(host.now, engine, b"nobody accepts it");
            return;
        };
        let number = self.next_association();
        let peer = at_port(remote, peer_port);
        self.owners.insert(engine, (id, number));
        if let Some(socket) = self.sockets.get_mut(&id) {
            let association = Association::new(number, engine, peer, socket.settings.defaults);
            socket.associations.insert(number, association);
            if socket.is_one_to_one() {
                socket.waiting.push_back(number);
            }
        }
    }

    /// Shuts a one-to-one socket down for reading, for writing or both. With SCTP only writing is told to
    /// the peer (RFC 6458 section 4.1.7).
    ///
    /// # Errors
    /// `ENOTCONN`; `EOPNOTSUPP` for a one-to-many socket.
    pub fn shut_down(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        (reading, writing): (bool, bool),
    ) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if !socket.is_one_to_one() {
            return Err(Errno::NOT_SUPPORTED);
        }
        let only = socket.only().ok_or(Errno::NOT_CONNECTED)?;
        socket.shut = (socket.shut.0 || reading, socket.shut.1 || writing);
        if writing {
            let engine = socket.associations[&only].engine;
            end(host, engine);
        }
        self.mark(id);
        Ok(())
    }

    /// Closes a socket: its associations are shut down; those with something unread, or without time to
    /// linger, are aborted. Those that are not over yet are returned, and how many seconds to wait for
    /// them.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
    ) -> Result<(Vec<AssociationId>, u16), Errno> {
        let mut socket = self.sockets.remove(&id).ok_or(Errno::BADF)?;
        if let Some(bound) = &socket.bound {
            self.leave_place(id, bound);
        }
        let mut left = Vec::new();
        for association in socket.associations.values_mut() {
            self.owners.remove(&association.engine);
            if association.closed.is_some() {
                // The engine keeps what is unread until it is read, and charges all associations for it.
                drop_unread(host, association.engine);
                continue;
            }
            if association.has_message(host.endpoint) || socket.settings.linger == Some(0) {
                host.endpoint.abort(host.now, association.engine, &[]);
            } else {
                end(host, association.engine);
                left.push(association.engine);
            }
        }
        if socket.backlog.is_some() {
            self.renew_listeners(host);
        }
        Ok((left, socket.settings.linger.unwrap_or(0)))
    }

    /// Closes all sockets, as the end of a program does.
    pub fn close_all(&mut self, host: &mut Host<'_>) {
        let all: Vec<_> = self.sockets.keys().copied().collect();
        for id in all {
            let _gone = self.close(host, id);
        }
    }

    /// The addresses of the peer, the primary one first.
    ///
    /// # Errors
    /// `ENOTCONN` or `EINVAL` without such an association.
    pub fn peer_addresses(
        &mut self,
        host: &Host<'_>,
        id: SocketId,
        number: sctp_assoc_t,
    ) -> Result<Vec<SocketAddr>, Errno> {
        let one_to_one = self.socket(id)?.is_one_to_one();
        let lost = if one_to_one { Errno::NOT_CONNECTED } else { Errno::INVALID };
        let association = self.association(id, number).map_err(|_| lost)?;
        if association.streams.is_none() {
            return Err(lost);
        }
        let Some(mut status) = host.status(association.engine) else {
            return Ok(vec![association.peer]);
        };
        status.paths.sort_by_key(|path| !path.primary);
        let mut all = Vec::new();
        for path in status.paths {
            let address = at_port(path.addr.remote, association.peer.port());
            if !all.contains(&address) {
                all.push(address);
            }
        }
        Ok(all)
    }
}

/// Gives the engine once more what it has handed back.
fn carry_on(host: &mut Host<'_>, association: &mut Association, settings: &Settings) {
    let engine = association.engine;
    // What it does not take now, because the socket's buffer has been made smaller, fails with the association.
    association.carried.retain(|(message, reliability)| {
        host.endpoint.send_with(host.now, engine, message.clone(), *reliability).is_err()
    });
    if settings.events.has(SCTP_SENDER_DRY_EVENT) {
        host.endpoint.tell_when_dry(host.now, engine);
    }
}

fn begin(
    host: &mut Host<'_>,
    parameters: Config,
    to: SocketAddr,
    port: u16,
) -> Result<AssociationId, Errno> {
    host.endpoint.connect_with(host.now, to, port, parameters, None).map_err(|error| match error {
        ConnectError::NoLocalAddress => Errno::NETWORK_UNREACHABLE,
        ConnectError::TooMany => Errno::NO_BUFFERS,
        ConnectError::AlreadyConnected => Errno::ADDRESS_NOT_AVAILABLE,
        ConnectError::InvalidPort => Errno::INVALID,
    })
}
