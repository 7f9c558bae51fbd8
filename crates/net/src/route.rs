//! What the kernel's routing tables say (rtnetlink(7), RTM_GETROUTE).

use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Bytes of `struct nlmsghdr` and of `struct rtmsg`.
const HEADER: usize = 16;
const ROUTE: usize = 12;
/// Bytes of an answer that are read in one go.
const ANSWER: usize = 32 << 10;
/// Datagrams of an answer: more routes than fit into so many are not looked at.
const DATAGRAMS: usize = 256;
/// The kernel answers at once.
const LIMIT: Duration = Duration::from_secs(1);

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
    let mut request = Request::new(remote.is_ipv4(), libc::NLM_F_REQUEST);
    request.address(libc::RTA_DST, remote, 1);
    if let Some(from) = from {
        request.address(libc::RTA_SRC, from, 2);
    }
    if let Some(interface) = interface {
        request.attribute(libc::RTA_OIF, &interface.to_ne_bytes());
    }
    let routes = request.ask()?;
    routes.into_iter().next().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// All routes of a family, of all tables.
///
/// # Errors
/// Where the system permits no netlink sockets.
pub fn routes(ipv4: bool) -> io::Result<Vec<Route>> {
    Request::new(ipv4, libc::NLM_F_REQUEST | libc::NLM_F_DUMP).ask()
}

struct Request(Vec<u8>);

impl Request {
    fn new(ipv4: bool, flags: libc::c_int) -> Self {
        let family = if ipv4 { libc::AF_INET } else { libc::AF_INET6 };
        let mut bytes = vec![0; HEADER + ROUTE];
        bytes[4..6].copy_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        bytes[HEADER] = family as u8;
        Self(bytes)
    }

    /// An address, whose length in bits is kept in a byte of `struct rtmsg`.
    fn address(&mut self, kind: u16, address: IpAddr, bits_at: usize) {
        match address {
            IpAddr::V4(v4) => self.attribute(kind, &v4.octets()),
            IpAddr::V6(v6) => self.attribute(kind, &v6.octets()),
        }
        self.0[HEADER + bits_at] = if address.is_ipv4() { 32 } else { 128 };
    }

    /// Every value is a multiple of four bytes long.
    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
    }

    fn ask(mut self) -> io::Result<Vec<Route>> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let kind = Type::RAW.cloexec();
        let protocol = Protocol::from(libc::NETLINK_ROUTE);
        let mut socket = Socket::new_raw(Domain::from(libc::AF_NETLINK), kind, Some(protocol))?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.send(&self.0)?;
        let (mut found, mut buffer) = (Vec::new(), vec![0; ANSWER]);
        for _ in 0..DATAGRAMS {
            let length = socket.read(&mut buffer)?;
            if understand(&buffer[..length], &mut found)? {
                break;
            }
        }
        Ok(found)
    }
}

/// Takes in the messages of a datagram. Tells whether they were the last ones.
fn understand(mut bytes: &[u8], found: &mut Vec<Route>) -> io::Result<bool> {
    while let Some(header) = bytes.get(..HEADER) {
        let length = u32_at(header, 0).unwrap_or(0) as usize;
        let kind = u32_at(header, 4).unwrap_or(0);
        let (kind, flags) = split(kind);
        let body = bytes.get(HEADER..length).unwrap_or_default();
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let error = u32_at(body, 0).unwrap_or(0).cast_signed();
                return Err(io::Error::from_raw_os_error(error.saturating_neg()));
            }
            _ if kind == libc::RTM_NEWROUTE => found.push(route(body)),
            _ => {}
        }
        if i32::from(flags) & libc::NLM_F_MULTI == 0 {
            return Ok(true);
        }
        bytes = bytes.get(length.next_multiple_of(4).max(HEADER)..).unwrap_or_default();
    }
    Ok(false)
}

/// Two 16-bit fields that stand in one word.
fn split(word: u32) -> (u16, u16) {
    let [a, b, c, d] = word.to_ne_bytes();
    (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))
}

fn route(body: &[u8]) -> Route {
    let table = body.get(4).copied().unwrap_or(0).into();
    let mut route = Route { table, ..Route::default() };
    let mut rest = body.get(ROUTE..).unwrap_or_default();
    while let Some(head) = u32_at(rest, 0) {
        let (length, kind) = split(head);
        let length = usize::from(length).max(4);
        let value = rest.get(4..length).unwrap_or_default();
        match kind {
            libc::RTA_OIF => route.interface = u32_at(value, 0).unwrap_or(0),
            libc::RTA_GATEWAY => route.gateway = ip(value),
            libc::RTA_PREFSRC => route.source = ip(value),
            libc::RTA_TABLE => route.table = u32_at(value, 0).unwrap_or(0),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    route
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::{Route, route_to, routes, understand};
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

    #[test]
    fn garbage_is_no_route_and_ends() {
        for bytes in [&[0; 64][..], &[255; 64], &[1], &[]] {
            let mut found = Vec::new();
            let _ = understand(bytes, &mut found);
            assert!(found.len() <= 4, "{bytes:?}");
        }
    }
}
