//! Sockets and associations come and go.

use crate::address::unspecified;
use crate::association::Association;
use crate::errno::Errno;
use crate::socket::{Bound, Settings, Socket, Style};
use crate::structures::sctp_assoc_t;
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::{AssociationId, CloseReason, Config, ConnectError};
use std::net::{IpAddr, SocketAddr};

/// First of the ports that IANA leaves for dynamic use.
const FIRST_DYNAMIC_PORT: u16 = 49152;

impl Sockets {
    /// Binds a socket to an address, or to all of them.
    ///
    /// # Errors
    /// `EINVAL` if it is bound already, `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`.
    pub fn bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), Errno> {
        if self.socket(id)?.bound.is_some() {
            return Err(Errno::INVALID);
        }
        self.check_local(id, address)?;
        let port = self.port_for(id, address.port())?;
        let ip = address.ip();
        let addresses = if ip.is_unspecified() { Vec::new() } else { vec![ip] };
        self.socket(id)?.bound = Some(Bound { port, addresses });
        Ok(())
    }

    /// `sctp_bindx` with `SCTP_BINDX_ADD_ADDR` (RFC 6458 section 9.1). With an association that allows it
    /// the peer is told of the new addresses.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind), and those of RFC 5061.
    pub fn bind_more(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        addresses: &[SocketAddr],
    ) -> Result<(), Errno> {
        for address in addresses {
            self.check_local(id, *address)?;
            let Some(bound) = self.socket(id)?.bound.clone() else {
                self.bind(id, *address)?;
                continue;
            };
            if ![0, bound.port].contains(&address.port()) {
                return Err(Errno::INVALID);
            }
            let ip = address.ip();
            let socket = self.socket(id)?;
            if let Some(bound) = socket.bound.as_mut().filter(|bound| !bound.addresses.is_empty()) {
                bound.addresses.retain(|known| *known != ip);
                bound.addresses.push(ip);
            }
            for association in socket.associations.values().filter(|one| one.streams.is_some()) {
                host.endpoint.add_address(host.now, association.engine, ip)?;
            }
        }
        self.renew_listeners(host);
        Ok(())
    }

    /// `sctp_bindx` with `SCTP_BINDX_REM_ADDR`.
    ///
    /// # Errors
    /// `EINVAL` for an address that is not bound or is the last one, and those of RFC 5061.
    pub fn unbind(
        &mut self,
        host: &mut Host<'_>,
        id: SocketId,
        addresses: &[SocketAddr],
    ) -> Result<(), Errno> {
        let locals = self.locals.clone();
        let socket = self.socket(id)?;
        let bound = socket.bound.as_mut().ok_or(Errno::INVALID)?;
        let mut left = if bound.addresses.is_empty() { locals } else { bound.addresses.clone() };
        for address in addresses {
            let before = left.len();
            left.retain(|known| *known != address.ip());
            if left.len() == before || left.is_empty() {
                return Err(Errno::INVALID);
            }
        }
        bound.addresses = left;
        for address in addresses {
            for association in socket.associations.values().filter(|one| one.streams.is_some()) {
                host.endpoint.remove_address(host.now, association.engine, address.ip())?;
            }
        }
        self.renew_listeners(host);
        Ok(())
    }

    fn check_local(&mut self, id: SocketId, address: SocketAddr) -> Result<(), Errno> {
        let ipv6 = self.socket(id)?.settings.ipv6;
        if address.is_ipv6() && !ipv6 {
            return Err(Errno::FAMILY_NOT_SUPPORTED);
        }
        let known = address.ip().is_unspecified() || self.locals.contains(&address.ip());
        if known { Ok(()) } else { Err(Errno::ADDRESS_NOT_AVAILABLE) }
    }

    /// A port that no other socket is bound to: this one, or for 0 one that is chosen.
    fn port_for(&mut self, id: SocketId, wanted: u16) -> Result<u16, Errno> {
        let taken = |port: u16, sockets: &Self| {
            let bound = |socket: &Socket| socket.bound.as_ref().is_some_and(|at| at.port == port);
            sockets.sockets.iter().any(|(other, socket)| *other != id && bound(socket))
        };
        if wanted != 0 {
            return if taken(wanted, self) { Err(Errno::ADDRESS_IN_USE) } else { Ok(wanted) };
        }
        for _ in 0..=u16::MAX - FIRST_DYNAMIC_PORT {
            let port = self.next_port.max(FIRST_DYNAMIC_PORT);
            self.next_port = port.wrapping_add(1);
            if !taken(port, self) {
                return Ok(port);
            }
        }
        Err(Errno::ADDRESS_IN_USE)
    }

    fn bind_if_needed(&mut self, id: SocketId) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if socket.bound.is_some() {
            return Ok(());
        }
        let any = unspecified(socket.settings.ipv6);
        self.bind(id, SocketAddr::new(any, 0))
    }

    /// Lets a socket accept associations; with a backlog of 0 or less no more of them.
    ///
    /// # Errors
    /// `EINVAL` for a one-to-one socket that is connected.
    pub fn listen(&mut self, host: &mut Host<'_>, id: SocketId, backlog: i32) -> Result<(), Errno> {
        if self.socket(id)?.only().is_some() {
            return Err(Errno::INVALID);
        }
        self.bind_if_needed(id)?;
        let backlog = usize::try_from(backlog).ok().filter(|backlog| *backlog > 0);
        self.socket(id)?.backlog = backlog;
        self.mark(id);
        self.renew_listeners(host);
        Ok(())
    }

    /// Tells the engine who listens where, and with which parameters.
    pub(crate) fn renew_listeners(&self, host: &mut Host<'_>) {
        let listens = self.sockets.values().filter(|socket| socket.backlog.is_some());
        let listener = |socket: &Socket| {
            let port = socket.bound.as_ref()?.port;
            Some((port..=port, Config { accept: true, ..parameters(socket) }))
        };
        host.endpoint.listen(listens.filter_map(listener).collect());
    }

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
        self.split_off(id, number)
    }

    fn split_off(&mut self, id: SocketId, number: sctp_assoc_t) -> Result<SocketId, Errno> {
        let socket = self.socket(id)?;
        let association = socket.associations.remove(&number).ok_or(Errno::INVALID)?;
        let (ready, blocked) = (socket.ready.remove(&number), socket.blocked.remove(&number));
        let mut own = Socket::new(Style::OneToOne, socket.settings.clone());
        own.bound = socket.bound.clone();
        let engine = association.engine;
        let open = association.closed.is_none();
        own.associations.insert(number, association);
        own.ready.extend(ready.then_some(number));
        own.blocked.extend(blocked.then_some(number));
        self.mark(id);
        let new = self.add(own);
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
        self.check_unconnected(id, *first)?;
        self.bind_if_needed(id)?;
        let number = self.next_association();
        let socket = self.sockets.get_mut(&id).ok_or(Errno::BADF)?;
        let mut association = Association::new(number, AssociationId(0), *first);
        let encapsulation = socket.settings.encapsulation;
        association.engine =
            begin(host, socket, SocketAddr::new(first.ip(), encapsulation), first.port())?;
        association.others =
            others.iter().map(|other| SocketAddr::new(other.ip(), encapsulation)).collect();
        self.owners.insert(association.engine, (id, number));
        socket.associations.insert(number, association);
        self.mark(id);
        Ok(number)
    }

    fn check_unconnected(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if peer.is_ipv6() && !socket.settings.ipv6 {
            return Err(Errno::FAMILY_NOT_SUPPORTED);
        }
        if let Some(only) = socket.only() {
            let old = &socket.associations[&only];
            if old.closed.is_none() {
                let known = old.streams.is_some();
                return Err(if known { Errno::IS_CONNECTED } else { Errno::ALREADY });
            }
            socket.associations.clear();
            socket.ready.clear();
            socket.error = None;
        }
        let known = socket.with_peer(|one| one.peer == peer);
        if socket.is_one_to_one() && socket.backlog.is_some() || known.is_some() {
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
        let Some(socket) = self.sockets.get_mut(&owner) else { return false };
        loop {
            let Some(association) = socket.associations.get_mut(&number) else { return false };
            if association.streams.is_some() {
                return false;
            }
            let Some(next) = association.others.pop_front() else { return false };
            let (old, port) = (association.engine, association.peer.port());
            if let Ok(engine) = begin(host, socket, next, port) {
                self.owners.remove(&old);
                self.owners.insert(engine, (owner, number));
                if let Some(association) = socket.associations.get_mut(&number) {
                    association.engine = engine;
                    association.peer = SocketAddr::new(next.ip(), port);
                }
                return true;
            }
        }
    }

    /// A peer has begun an association at a port where a socket listens.
    pub(crate) fn adopt(&mut self, host: &mut Host<'_>, engine: AssociationId) {
        let Some((port, peer_port)) = host.endpoint.ports(engine) else { return };
        let listens = |socket: &Socket| {
            let here = socket.bound.as_ref().is_some_and(|bound| bound.port == port);
            here && socket.backlog.is_some()
        };
        let found = self.sockets.iter().find(|(_, socket)| listens(socket)).map(|(id, _)| *id);
        let full = |socket: &Socket| socket.backlog.is_some_and(|most| socket.waiting.len() > most);
        let Some(id) = found.filter(|id| !full(&self.sockets[id])) else {
            host.endpoint.abort(host.now, engine, b"nobody accepts it");
            return;
        };
        let status = host.status(engine);
        let remote = status.and_then(|status| status.paths.first().map(|path| path.addr.remote));
        let Some(remote) = remote else { return };
        let number = self.next_association();
        let association = Association::new(number, engine, SocketAddr::new(remote.ip(), peer_port));
        self.owners.insert(engine, (id, number));
        if let Some(socket) = self.sockets.get_mut(&id) {
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
            host.endpoint.shutdown(host.now, engine);
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
        let mut left = Vec::new();
        for association in socket.associations.values_mut() {
            self.owners.remove(&association.engine);
            if association.closed.is_some() {
                continue;
            }
            let unread = !association.messages.is_empty()
                || host.endpoint.read(association.engine).is_some();
            if unread || socket.settings.linger == Some(0) {
                host.endpoint.abort(host.now, association.engine, &[]);
            } else {
                host.endpoint.shutdown(host.now, association.engine);
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

    /// The addresses that a socket, or one of its associations, uses here, with the port.
    ///
    /// # Errors
    /// `EINVAL` if there is no such association.
    pub fn local_addresses(
        &mut self,
        host: &Host<'_>,
        id: SocketId,
        number: sctp_assoc_t,
    ) -> Result<Vec<SocketAddr>, Errno> {
        let locals = self.locals.clone();
        let socket = self.socket(id)?;
        let Some(bound) = socket.bound.clone() else { return Ok(Vec::new()) };
        let engine = socket
            .chosen(number)
            .and_then(|chosen| socket.associations.get(&chosen))
            .map(|one| one.engine);
        if engine.is_none() && number != 0 && !socket.is_one_to_one() {
            return Err(Errno::INVALID);
        }
        let status = engine.and_then(|engine| host.status(engine));
        let used =
            status.map(|status| status.paths.iter().map(|path| path.addr.local.ip()).collect());
        let fits = |ip: &IpAddr| socket.settings.ipv6 || ip.is_ipv4();
        let mut all: Vec<IpAddr> = used.unwrap_or(bound.addresses);
        if all.is_empty() {
            all = locals.into_iter().filter(fits).collect();
        }
        all.dedup();
        Ok(all.into_iter().map(|ip| SocketAddr::new(ip, bound.port)).collect())
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
            let address = SocketAddr::new(path.addr.remote.ip(), association.peer.port());
            if !all.contains(&address) {
                all.push(address);
            }
        }
        Ok(all)
    }

    /// What `getsockname` tells.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn local_name(&mut self, host: &Host<'_>, id: SocketId) -> Result<SocketAddr, Errno> {
        let socket = self.socket(id)?;
        let any = SocketAddr::new(unspecified(socket.settings.ipv6), 0);
        let Some(bound) = socket.bound.clone() else { return Ok(any) };
        if socket.only().is_some()
            && let Some(first) = self.local_addresses(host, id, 0)?.first()
        {
            return Ok(*first);
        }
        let ip = bound.addresses.first().copied().unwrap_or(any.ip());
        Ok(SocketAddr::new(ip, bound.port))
    }
}

/// The parameters of the associations of a socket.
fn parameters(socket: &Socket) -> Config {
    let Settings { config, .. } = &socket.settings;
    let bound = socket.bound.clone().unwrap_or_default();
    Config { port: bound.port, ..config.clone() }
}

fn begin(
    host: &mut Host<'_>,
    socket: &Socket,
    to: SocketAddr,
    port: u16,
) -> Result<AssociationId, Errno> {
    host.endpoint.connect_with(host.now, to, port, parameters(socket)).map_err(
        |error| match error {
            ConnectError::NoLocalAddress => Errno::NETWORK_UNREACHABLE,
            ConnectError::TooMany => Errno::NO_BUFFERS,
            ConnectError::AlreadyConnected => Errno::ADDRESS_NOT_AVAILABLE,
            ConnectError::InvalidPort => Errno::INVALID,
        },
    )
}
