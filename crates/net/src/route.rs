//! What the kernel's routing tables say (rtnetlink(7), RTM_GETROUTE).

use manypath_netlink::{Netlink, ROUTE, Request, attributes, ip, u32_at};
use std::cell::Cell;
use std::io;
use std::net::IpAddr;

/// Bytes of `struct rtmsg`.
const HEADER: usize = 12;

/// Where packets leave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// Number of the interface; 0 if the route names none.
    pub interface: u32,
    /// The next hop; none for what is on the link itself, or is taken to be.
    pub gateway: Option<IpAddr>,
    /// The source address that the kernel would choose.
    pub source: Option<IpAddr>,
    /// Number of the routing table.
    pub table: u32,
}

/// The route that the kernel chooses towards `remote`: for packets from `from` if that is given, and of a
/// socket bound to the interface with the number `interface` if that is given. An IPv4 socket that is bound to an
/// interface without a route takes everything to be on its link.
///
/// # Errors
/// What stands in the way: no route (`ENETUNREACH`), or one that forbids (`EACCES`, `EHOSTUNREACH`, `EINVAL`).
pub fn route_to(remote: IpAddr, from: Option<IpAddr>, interface: Option<u32>) -> io::Result<Route> {
    let mut request = about_routes(remote.is_ipv4(), 0);
    add_address(&mut request, libc::RTA_DST, remote, 1);
    if let Some(from) = from {
        add_address(&mut request, libc::RTA_SRC, from, 2);
    }
    if let Some(interface) = interface {
        request.attribute(libc::RTA_OIF, &interface.to_ne_bytes());
    }
    ask(request)?.into_iter().next().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// All routes of a family, of all tables.
///
/// # Errors
/// Where the system permits no netlink sockets.
pub fn routes(ipv4: bool) -> io::Result<Vec<Route>> {
    ask(about_routes(ipv4, libc::NLM_F_DUMP))
}

thread_local! {
    /// The socket of the last question, if its answer is complete.
    static SOCKET: Cell<Option<Netlink>> = const { Cell::new(None) };
}

fn ask(request: Request) -> io::Result<Vec<Route>> {
    let mut routes = Vec::new();
    let socket = SOCKET.take().map_or_else(|| Netlink::open(ROUTE, 0), Ok)?;
    socket.ask(request, |body| routes.push(route(body)))?;
    SOCKET.set(Some(socket));
    Ok(routes)
}

/// A request about routes of a family.
fn about_routes(ipv4: bool, flags: libc::c_int) -> Request {
    let family = if ipv4 { libc::AF_INET } else { libc::AF_INET6 };
    let mut header = [0; HEADER];
    header[0] = family as u8;
    Request::new(libc::RTM_GETROUTE, flags, &header)
}

/// Adds an address, whose length in bits is kept in a byte of `struct rtmsg`.
fn add_address(request: &mut Request, kind: u16, address: IpAddr, bits_at: usize) {
    match address {
        IpAddr::V4(v4) => request.attribute(kind, &v4.octets()),
        IpAddr::V6(v6) => request.attribute(kind, &v6.octets()),
    }
    request.set(bits_at, if address.is_ipv4() { 32 } else { 128 });
}

fn route(body: &[u8]) -> Route {
    let table = body.get(4).copied().unwrap_or(0).into();
    let mut route = Route { table, ..Route::default() };
    for (kind, value) in attributes(body.get(HEADER..).unwrap_or_default()) {
        match kind {
            libc::RTA_OIF => route.interface = u32_at(value, 0).unwrap_or(0),
            libc::RTA_GATEWAY => route.gateway = ip(value),
            libc::RTA_PREFSRC => route.source = ip(value),
            libc::RTA_TABLE => route.table = u32_at(value, 0).unwrap_or(0),
            _ => {}
        }
    }
    route
}

#[cfg(test)]
mod tests {
    use super::{Route, route_to, routes};
    use crate::interfaces::number_of;
    use crate::namespace::{in_namespace, ip};

    #[test]
    fn the_kernel_says_where_packets_leave_and_what_forbids_it() {
        in_namespace(|| {
            ip("link add one type veth peer name two");
            ip("link set one up");
            ip("link set two up");
            ip("address add 10.1.2.3/24 dev one");
            let remote = "192.0.2.1".parse().unwrap();
            let errno = |result: std::io::Result<Route>| result.unwrap_err().raw_os_error();
            assert_eq!(errno(route_to(remote, None, None)), Some(libc::ENETUNREACH));
            ip("route add default via 10.1.2.1 dev one");
            let found = route_to(remote, None, None).unwrap();
            assert_eq!(found.interface, number_of("one"));
            assert_eq!(found.gateway, Some("10.1.2.1".parse().unwrap()));
            assert_eq!(found.source, Some("10.1.2.3".parse().unwrap()));
            let bound = route_to(remote, None, Some(number_of("two"))).unwrap();
            assert_eq!((bound.interface, bound.gateway), (number_of("two"), None));
            ip("route add prohibit 198.51.100.0/24");
            let forbidden = route_to("198.51.100.7".parse().unwrap(), None, None);
            assert_eq!(errno(forbidden), Some(libc::EACCES));
            let through = |route: &Route| route.gateway == Some("10.1.2.1".parse().unwrap());
            assert_eq!(routes(true).unwrap().iter().filter(|it| through(it)).count(), 1);
        });
    }
}
