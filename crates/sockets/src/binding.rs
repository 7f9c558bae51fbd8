//! Where sockets are: addresses and ports, and who listens.

use crate::address::{link_of, unspecified};
use crate::errno::Errno;
use crate::socket::{Bound, Settings, Socket};
use crate::structures::sctp_assoc_t;
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::Config;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

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
        let ip = address.ip();
        let addresses = if ip.is_unspecified() { Vec::new() } else { vec![ip] };
        let port = self.port_for(id, address.port(), &addresses)?;
        self.take_place(id, Bound { port, addresses })
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
        let family = self.socket(id)?.settings.family;
        if !family.takes(address.ip()) {
            return Err(if family.ipv6 { Errno::INVALID } else { Errno::FAMILY_NOT_SUPPORTED });
        }
        let is_ours =
            |ip| self.locals.contains(&ip) && link_of(address) == self.links.get(&ip).copied();
        let known = address.ip().is_unspecified() || is_ours(address.ip());
        if known { Ok(()) } else { Err(Errno::ADDRESS_NOT_AVAILABLE) }
    }

    /// A port that no other socket is bound to at these addresses: this one, or for 0 one that is chosen.
    fn port_for(&mut self, id: SocketId, wanted: u16, addresses: &[IpAddr]) -> Result<u16, Errno> {
        if wanted != 0 {
            let taken = self.ports.contains_key(&wanted) && self.is_taken(id, wanted, addresses);
            return if taken { Err(Errno::ADDRESS_IN_USE) } else { Ok(wanted) };
        }
        for _ in 0..=u16::MAX - FIRST_DYNAMIC_PORT {
            let port = self.next_port.max(FIRST_DYNAMIC_PORT);
            self.next_port = port.wrapping_add(1);
            if !self.ports.contains_key(&port) {
                return Ok(port);
            }
        }
        Err(Errno::ADDRESS_IN_USE)
    }

    /// Whether another socket has the port at one of these addresses. With SO_REUSEADDR on both that matters
    /// only while the other one listens, and with SCTP_REUSE_PORT on both not at all.
    fn is_taken(&self, id: SocketId, port: u16, addresses: &[IpAddr]) -> bool {
        let Some(own) = self.sockets.get(&id) else { return false };
        let shares = |other: &Socket| {
            let idle = own.settings.reuse && other.settings.reuse && other.backlog.is_none();
            idle || own.settings.reuse_port && other.settings.reuse_port
        };
        self.meets(id, port, addresses, |other| !shares(other))
    }

    /// Whether a socket is bound to the port at one of these addresses, beside this one, that is so.
    fn meets(
        &self,
        id: SocketId,
        port: u16,
        addresses: &[IpAddr],
        is_so: impl Fn(&Socket) -> bool,
    ) -> bool {
        let Some(own) = self.sockets.get(&id) else { return false };
        let wanted = self.addresses_of(&own.settings, addresses);
        self.sockets.iter().filter(|(other, _)| **other != id).any(|(_, other)| {
            let bound = other.bound.as_ref().filter(|at| at.port == port && is_so(other));
            let theirs = bound.map(|bound| self.addresses_of(&other.settings, &bound.addresses));
            theirs.is_some_and(|theirs| theirs.iter().any(|ip| wanted.contains(ip)))
        })
    }

    /// The addresses of a socket that is bound to these; none stand for all.
    fn addresses_of(&self, settings: &Settings, bound: &[IpAddr]) -> Vec<IpAddr> {
        let all = if bound.is_empty() { &self.locals } else { bound };
        all.iter().copied().filter(|ip| settings.family.takes(*ip)).collect()
    }

    pub(crate) fn take_place(&mut self, id: SocketId, bound: Bound) -> Result<(), Errno> {
        *self.ports.entry(bound.port).or_default() += 1;
        self.socket(id)?.bound = Some(bound);
        Ok(())
    }

    pub(crate) fn leave_place(&mut self, id: SocketId, bound: &Bound) {
        if let Some(count) = self.ports.get_mut(&bound.port) {
            *count -= 1;
            if *count == 0 {
                self.ports.remove(&bound.port);
            }
        }
        self.stop_listening(id, bound.port);
    }

    fn stop_listening(&mut self, id: SocketId, port: u16) {
        if let Some(all) = self.listeners.get_mut(&port) {
            all.retain(|other| *other != id);
            if all.is_empty() {
                self.listeners.remove(&port);
            }
        }
    }

    /// The socket that listens at an address and a port.
    pub(crate) fn listener_at(&self, local: IpAddr, port: u16) -> Option<SocketId> {
        let fits = |id: &&SocketId| {
            let Some(socket) = self.sockets.get(id) else { return false };
            let bound = socket.bound.as_ref().map_or(&[][..], |bound| &bound.addresses);
            self.addresses_of(&socket.settings, bound).contains(&local)
        };
        self.listeners.get(&port)?.iter().find(fits).copied()
    }

    pub(crate) fn bind_if_needed(&mut self, id: SocketId) -> Result<(), Errno> {
        let socket = self.socket(id)?;
        if socket.bound.is_some() {
            return Ok(());
        }
        let any = unspecified(socket.settings.family.ipv6);
        self.bind(id, SocketAddr::new(any, 0))
    }

    /// Lets a socket accept associations; with a backlog of 0 or less no more of them.
    ///
    /// # Errors
    /// `EINVAL` for a one-to-one socket that is connected, `EADDRINUSE` if another one listens there.
    pub fn listen(&mut self, host: &mut Host<'_>, id: SocketId, backlog: i32) -> Result<(), Errno> {
        if self.socket(id)?.only().is_some() {
            return Err(Errno::INVALID);
        }
        self.bind_if_needed(id)?;
        let backlog = usize::try_from(backlog).ok().filter(|backlog| *backlog > 0);
        let bound = self.socket(id)?.bound.clone().unwrap_or_default();
        let port = bound.port;
        let listens = |other: &Socket| other.backlog.is_some();
        if backlog.is_some() && self.meets(id, port, &bound.addresses, listens) {
            return Err(Errno::ADDRESS_IN_USE);
        }
        self.socket(id)?.backlog = backlog;
        self.stop_listening(id, port);
        if backlog.is_some() {
            self.listeners.entry(port).or_default().push(id);
        }
        self.mark(id);
        self.renew_listeners(host);
        Ok(())
    }

    /// Tells the engine who listens where, and with which parameters.
    pub(crate) fn renew_listeners(&self, host: &mut Host<'_>) {
        let all = self.listeners.values().flatten();
        let listener = |id: &SocketId| {
            let parameters = self.parameters(self.sockets.get(id)?);
            Some((parameters.port..=parameters.port, Config { accept: true, ..parameters }))
        };
        host.endpoint.listen(all.filter_map(listener).collect());
    }

    /// The parameters of the associations of a socket.
    pub(crate) fn parameters(&self, socket: &Socket) -> Config {
        let bound = socket.bound.clone().unwrap_or_default();
        let local_addresses = self.addresses_of(&socket.settings, &bound.addresses);
        Config { port: bound.port, local_addresses, ..socket.settings.config.clone() }
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
        let fits = |ip: &IpAddr| socket.settings.family.takes(*ip);
        let mut all: Vec<IpAddr> = used.unwrap_or(bound.addresses);
        if all.is_empty() {
            all = locals.into_iter().filter(fits).collect();
        }
        all.dedup();
        Ok(all.into_iter().map(|ip| local_at(&self.links, ip, bound.port)).collect())
    }

    /// What `getsockname` tells.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn local_name(&mut self, host: &Host<'_>, id: SocketId) -> Result<SocketAddr, Errno> {
        let socket = self.socket(id)?;
        let any = SocketAddr::new(unspecified(socket.settings.family.ipv6), 0);
        let Some(bound) = socket.bound.clone() else { return Ok(any) };
        if socket.only().is_some()
            && let Some(first) = self.local_addresses(host, id, 0)?.first()
        {
            return Ok(*first);
        }
        let ip = bound.addresses.first().copied().unwrap_or(any.ip());
        Ok(local_at(&self.links, ip, bound.port))
    }
}

/// One of our addresses with a port, and with its scope if it is an IPv6 link-local one.
fn local_at(links: &BTreeMap<IpAddr, u32>, ip: IpAddr, port: u16) -> SocketAddr {
    match (ip, links.get(&ip)) {
        (IpAddr::V6(v6), Some(link)) => SocketAddrV6::new(v6, port, 0, *link).into(),
        (IpAddr::V4(_) | IpAddr::V6(_), _) => SocketAddr::new(ip, port),
    }
}
