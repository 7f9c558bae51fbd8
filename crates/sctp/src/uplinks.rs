//! Addresses of the host that come and go while the process runs.
//!
//! The kernel says when to look (netlink). Where it permits no such socket the addresses remain those of the start.

use crate::place;
use manypath_engine::Instant;
use manypath_net::{Driver, Interface, NetworkWatch, interfaces};
use manypath_sockets::address::link_of;
use manypath_sockets::{Host, Sockets};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// The kernel has something to say.
pub(crate) const NEWS: Token = Token(usize::MAX - 1);

/// Begins to listen, before it is looked at what there is.
pub(crate) fn watch(registry: &Registry) -> Option<NetworkWatch> {
    let watch = NetworkWatch::open().ok()?;
    registry.register(&mut SourceFd(&watch.as_raw_fd()), NEWS, Interest::READABLE).ok()?;
    Some(watch)
}

/// The addresses that are open, and what is heard of others.
#[derive(Debug)]
pub(crate) struct Uplinks {
    watch: Option<NetworkWatch>,
    registry: Registry,
    open: Vec<(Token, IpAddr)>,
    /// The interfaces whose IPv6 link-local addresses are open.
    links: Vec<u32>,
    /// Names the next socket.
    next: usize,
    native: bool,
}

impl Uplinks {
    /// From now on the addresses are followed, of which these are `open`.
    pub(crate) fn new(
        watch: Option<NetworkWatch>,
        registry: Registry,
        open: Vec<(Token, IpAddr)>,
        native: bool,
    ) -> Self {
        let next = open.len();
        Self { watch, registry, open, links: Vec::new(), next, native }
    }

    /// Brings the network and the sockets up to date. What has come is offered before what has gone is withdrawn, so
    /// that an association can move from its only address to another one.
    pub(crate) fn follow(&mut self, now: Instant, driver: &mut Driver, sockets: &mut Sockets) {
        if !self.watch.as_mut().is_some_and(|watch| watch.take().addresses) {
            return;
        }
        let Ok(found) = interfaces() else { return };
        for interface in &found {
            if !place::is_on_link(interface) || self.links.contains(&interface.index) {
                self.open(now, driver, sockets, interface);
            }
        }
        let stands = |open: IpAddr, one: &Interface| one.addr == open || holds(one, open);
        let is_gone = |open: &IpAddr| !found.iter().any(|interface| stands(*open, interface));
        for (token, address) in self.open.extract_if(.., |(_, open)| is_gone(open)) {
            driver.unbind(now, token);
            let mut host = Host { now, endpoint: driver.endpoint_mut() };
            sockets.on_address_removed(&mut host, address);
        }
    }

    /// Programs may bind to any address of 127.0.0.0/8, of which interfaces name one.
    pub(crate) fn open_loopback(
        &mut self,
        now: Instant,
        driver: &mut Driver,
        sockets: &mut Sockets,
        wanted: &[SocketAddr],
    ) {
        let is_open = |to: &IpAddr| self.open.iter().any(|(_, open)| open == to);
        let mut wanted: Vec<_> = wanted.iter().map(SocketAddr::ip).collect();
        wanted.retain(|to| to.is_loopback() && to.is_ipv4() && !is_open(to));
        if wanted.is_empty() {
            return;
        }
        let Ok(found) = interfaces() else { return };
        for addr in wanted {
            if let Some(whole) = found.iter().find(|one| holds(one, addr)) {
                self.open(now, driver, sockets, &Interface { addr, ..whole.clone() });
            }
        }
    }

    /// Programs bind to, or want to reach, these addresses: what is IPv6 link-local among them takes such an address of
    /// ours at the same interface.
    pub(crate) fn open_links(
        &mut self,
        now: Instant,
        driver: &mut Driver,
        sockets: &mut Sockets,
        wanted: &[SocketAddr],
    ) {
        let links = wanted.iter().filter_map(|address| link_of(*address));
        let links: Vec<_> = links.filter(|link| *link != 0 && !self.links.contains(link)).collect();
        if links.is_empty() {
            return;
        }
        let Ok(found) = interfaces() else { return };
        let is_wanted = |one: &&Interface| place::is_on_link(one) && links.contains(&one.index);
        for interface in found.iter().filter(is_wanted) {
            self.links.push(interface.index);
            self.open(now, driver, sockets, interface);
        }
    }

    fn open(
        &mut self,
        now: Instant,
        driver: &mut Driver,
        sockets: &mut Sockets,
        interface: &Interface,
    ) {
        if self.open.iter().any(|(_, open)| *open == interface.addr) {
            return;
        }
        let (token, binding) = (Token(self.next), place::binding(interface));
        let bound = match self.native {
            true => driver.bind_native(&self.registry, token, &binding),
            false => driver.bind(&self.registry, token, binding),
        };
        // An IPv6 address that is not usable yet is told of again when it is.
        if bound.is_ok() {
            self.next += 1;
            self.open.push((token, interface.addr));
            let mut host = Host { now, endpoint: driver.endpoint_mut() };
            sockets.on_address_added(&mut host, interface.socket_addr(0));
        }
    }
}

/// Whether the interface has every address of the network of its own, `address` among them: loopback's.
fn holds(interface: &Interface, address: IpAddr) -> bool {
    match (interface.addr, address) {
        (IpAddr::V4(own), IpAddr::V4(other)) => own.is_loopback() && other.is_loopback(),
        (IpAddr::V4(_) | IpAddr::V6(_), _) => false,
    }
}
