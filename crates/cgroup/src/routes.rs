//! The routes of this host, so that the kernel's programs know what is in reach and from where.
//!
//! A connect that goes to the gate never sees the routes of its destination: where there is none, the
//! program would hear of it late, and it would be told loopback as its own address. Only the tables `main`,
//! `default` and `local` are read; what other tables lead to is left to the kernel.

use crate::layout::RouteKind;
use manypath_gate::socket::route_source;
use manypath_netlink::{Netlink, ROUTE, Request, attributes, ip, u32_at as word};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Routes, neighbours of nothing else: IPv4 and IPv6 addresses and routes that come and go.
const GROUPS: u32 = 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10;
const CLONED: u32 = 0x200;

/// Length of a burst of changes.
const PAUSE: Duration = Duration::from_millis(50);

/// Tables `default`, `main` and `local`.
const TABLES: [u32; 3] = [253, 254, 255];

/// One prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: IpAddr,
    pub(crate) length: u8,
    pub(crate) kind: RouteKind,
    /// From where it is reached.
    pub(crate) source: Option<IpAddr>,
}

/// The routes, and the news of them.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) news: Netlink,
    /// When they are to be read again.
    due: Option<Instant>,
}

impl Routes {
    /// Listens for news.
    ///
    /// # Errors
    /// As the kernel says.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { news: Netlink::open(ROUTE, GROUPS)?, due: None })
    }

    /// Takes the news. Those that may have changed are to be read a little later: they change in bursts.
    pub(crate) fn look(&mut self, now: Instant) {
        let mut any = false;
        // What was told and did not fit is news, too.
        if self.news.news(|_| any = true).is_err() || any {
            self.due.get_or_insert(now + PAUSE);
        }
    }

    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it is time to read them, once.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        self.due.take_if(|at| now >= *at).is_some()
    }

    /// Whether any route leads to other hosts.
    ///
    /// # Errors
    /// As the kernel says.
    pub(crate) fn lead_out() -> io::Result<bool> {
        Ok(Self::read()?.iter().any(|route| route.kind == RouteKind::Forward && !is_local(route)))
    }

    /// All routes as they are now.
    ///
    /// # Errors
    /// As the kernel says.
    pub(crate) fn read() -> io::Result<Vec<Route>> {
        let mut routes = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut request = [0; 12];
            request[0] = family as u8;
            let request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &request);
            Netlink::open(ROUTE, 0)?.ask(request, |body| routes.extend(parse(body)))?;
        }
        let sources: Vec<_> = routes.iter().map(|route| source(route, &routes)).collect();
        for (route, source) in routes.iter_mut().zip(sources) {
            route.source = source;
        }
        Ok(routes)
    }
}

/// Loopback, and what every interface has by itself (IPv6).
fn is_local(route: &Route) -> bool {
    match route.to {
        IpAddr::V4(to) => to.is_loopback(),
        IpAddr::V6(to) => to.is_loopback() || to.is_unicast_link_local() || to.is_multicast(),
    }
}

/// `struct rtmsg` and its attributes.
fn parse(body: &[u8]) -> Option<Route> {
    const DESTINATION: u16 = 1;
    const TABLE: u16 = 15;
    let [family, length, _, _, table, _, _, kind] = *body.first_chunk()?;
    if word(body, 8)? & CLONED != 0 {
        return None;
    }
    let mut to = match i32::from(family) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let mut table = u32::from(table);
    for (name, value) in attributes(body.get(12..)?) {
        match name {
            DESTINATION => to = ip(value)?,
            TABLE => table = word(value, 0)?,
            _ => {}
        }
    }
    let kind = match kind {
        1 => RouteKind::Forward,
        2 => RouteKind::Own,
        _ => RouteKind::Reject,
    };
    TABLES.contains(&table).then_some(Route { to, length, kind, source: None })
}

/// From where the kernel would go to an address that only this route is about.
fn source(route: &Route, all: &[Route]) -> Option<IpAddr> {
    if route.kind != RouteKind::Forward {
        return None;
    }
    let best = |address: IpAddr| {
        all.iter().filter(|one| contains(one, address)).map(|one| one.length).max()
    };
    let mut probes = probes(route).filter(|probe| best(*probe) == Some(route.length));
    let probe = probes.next()?;
    route_source(SocketAddr::new(probe, 9)).ok().map(|source| source.ip())
}

/// Some addresses of a prefix.
fn probes(route: &Route) -> impl Iterator<Item = IpAddr> {
    const PATTERNS: [u128; 6] = [
        1,
        0x0101_0101_0101_0101_0101_0101_0101_0101,
        0x2001_4860_0000_0000_0000_0000_0808_0808,
        0x5555_5555_5555_5555_5555_5555_5555_5555,
        0x2a00_0000_0000_0000_0000_0000_c633_6401,
        u128::MAX - 1,
    ];
    let Route { to, length, .. } = *route;
    PATTERNS.into_iter().map(move |pattern| match to {
        IpAddr::V4(to) => {
            let free = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            IpAddr::V4((to.to_bits() | pattern as u32 & free).into())
        }
        IpAddr::V6(to) => {
            let free = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            IpAddr::V6((to.to_bits() | pattern & free).into())
        }
    })
}

fn contains(route: &Route, address: IpAddr) -> bool {
    let shift = |width: u8| u32::from(width - route.length.min(width));
    match (route.to, address) {
        (IpAddr::V4(to), IpAddr::V4(one)) => {
            let shift = shift(32);
            to.to_bits().checked_shr(shift) == one.to_bits().checked_shr(shift)
        }
        (IpAddr::V6(to), IpAddr::V6(one)) => {
            let shift = shift(128);
            to.to_bits().checked_shr(shift) == one.to_bits().checked_shr(shift)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(to: &str, length: u8) -> Route {
        Route { to: to.parse().unwrap(), length, kind: RouteKind::Forward, source: None }
    }

    #[test]
    fn a_probe_is_in_its_prefix() {
        for one in [
            route("10.1.0.0", 16),
            route("0.0.0.0", 0),
            route("10.1.2.3", 32),
            route("fd00::", 8),
            route("::", 0),
        ] {
            assert!(probes(&one).all(|probe| contains(&one, probe)), "{one:?}");
        }
        assert!(!contains(&route("10.1.0.0", 16), "10.2.0.1".parse().unwrap()));
        assert!(!contains(&route("0.0.0.0", 0), "::1".parse().unwrap()));
    }

    #[test]
    fn the_kernels_own_routes_are_read() {
        let routes = Routes::read().unwrap();
        let loopback =
            |one: &Route| one.kind == RouteKind::Own && contains(one, "127.0.0.1".parse().unwrap());
        assert!(routes.iter().any(loopback), "{routes:?}");
    }
}
