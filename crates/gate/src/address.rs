//! Socket addresses as programs write and read them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The longest address any family has, in bytes.
pub const MAX_SOCKADDR: usize = 128;

/// Shortest IPv6 address that Linux accepts: without the scope.
const SHORT_V6: usize = 24;

/// What a program passed as an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramAddress {
    /// An IPv4 or IPv6 address, as written.
    Ip(SocketAddr),
    /// `AF_UNSPEC`: dissolves a connection.
    Unspecified,
    /// Another family, or too short: the kernel knows what to do with it.
    Other,
}

/// Reads a `sockaddr` as the program passed it.
pub fn parse(bytes: &[u8]) -> ProgramAddress {
    let Some(family) = field(bytes, 0).map(u16::from_ne_bytes) else {
        return ProgramAddress::Other;
    };
    let parsed = match i32::from(family) {
        libc::AF_UNSPEC => return ProgramAddress::Unspecified,
        libc::AF_INET => parse_v4(bytes),
        libc::AF_INET6 => parse_v6(bytes),
        _ => None,
    };
    parsed.map_or(ProgramAddress::Other, ProgramAddress::Ip)
}

/// Writes a `sockaddr` as the kernel would for a socket of that family: an IPv6 socket shows an
/// IPv4 address in its mapped form.
pub fn emit(address: SocketAddr, v6_socket: bool) -> Vec<u8> {
    match address {
        SocketAddr::V4(v4) if !v6_socket => emit_v4(v4),
        SocketAddr::V4(v4) => emit_v6(SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0)),
        SocketAddr::V6(v6) => emit_v6(v6),
    }
}

/// The address without the IPv6 coat of a mapped IPv4 address.
pub fn unmapped(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// The address in the form that an `AF_INET6` socket takes.
pub fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        SocketAddr::V6(_) => address,
    }
}

/// Why no association can lead to this (unmapped) address, if so. With `loopback_paths` addresses
/// of 127.0.0.0/8 can.
pub fn unsuitable(address: SocketAddr, loopback_paths: bool) -> Option<&'static str> {
    let ip = address.ip();
    let carried = loopback_paths && ip.is_ipv4();
    if (ip.is_loopback() && !carried) || ip.is_unspecified() {
        // The kernel takes the unspecified address as this host.
        Some("loopback")
    } else if ip.is_multicast() || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast()) {
        Some("not-unicast")
    } else if address.port() == 0 {
        Some("port-zero")
    } else {
        None
    }
}

fn parse_v4(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(field(bytes, 2)?);
    let ip: [u8; 4] = field(bytes, 4)?;
    // Linux wants all sixteen bytes though the last eight mean nothing.
    (bytes.len() >= 16).then(|| SocketAddr::new(IpAddr::from(ip), port))
}

fn parse_v6(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(field(bytes, 2)?);
    let flow = u32::from_be_bytes(field(bytes, 4)?);
    let ip: [u8; 16] = field(bytes, 8)?;
    let scope = field(bytes, SHORT_V6).map_or(0, u32::from_ne_bytes);
    Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into())
}

fn emit_v4(address: SocketAddrV4) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16);
    bytes.extend((libc::AF_INET as u16).to_ne_bytes());
    bytes.extend(address.port().to_be_bytes());
    bytes.extend(address.ip().octets());
    bytes.extend([0; 8]);
    bytes
}

fn emit_v6(address: SocketAddrV6) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
    bytes.extend(address.port().to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(address.ip().octets());
    bytes.extend(address.scope_id().to_ne_bytes());
    bytes
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{ProgramAddress, emit, mapped, parse, unmapped, unsuitable};
    use std::net::SocketAddr;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("address")
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["192.0.2.1:80", "[fd99::1]:443", "[fe80::1%3]:22"] {
            let it = address(text);
            assert_eq!(parse(&emit(it, it.is_ipv6())), ProgramAddress::Ip(it));
        }
    }

    #[test]
    fn an_ipv6_socket_shows_ipv4_addresses_mapped() {
        let v4 = address("192.0.2.1:80");
        let v6 = address("[::ffff:192.0.2.1]:80");
        assert_eq!(parse(&emit(v4, true)), ProgramAddress::Ip(v6));
        assert_eq!((unmapped(v6), mapped(v4)), (v4, v6));
    }

    #[test]
    fn short_and_foreign_addresses_are_left_to_the_kernel() {
        let v4 = emit(address("192.0.2.1:80"), false);
        let v6 = emit(address("[fd99::1]:80"), true);
        assert_eq!(parse(&v4[..15]), ProgramAddress::Other);
        assert_eq!(parse(&v6[..23]), ProgramAddress::Other);
        assert!(matches!(parse(&v6[..24]), ProgramAddress::Ip(_)), "the scope may be missing");
        assert_eq!(parse(&[1, 0, b'/', b'x']), ProgramAddress::Other);
        assert_eq!(parse(&[0, 0]), ProgramAddress::Unspecified);
        assert_eq!(parse(&[0]), ProgramAddress::Other);
    }

    #[test]
    fn unsuitable_destinations_have_a_reason() {
        let reason = |text| unsuitable(unmapped(address(text)), false);
        assert_eq!(reason("127.9.9.9:80"), Some("loopback"));
        assert_eq!(reason("0.0.0.0:80"), Some("loopback"));
        assert_eq!(reason("[::1]:80"), Some("loopback"));
        assert_eq!(reason("[::]:80"), Some("loopback"));
        assert_eq!(unsuitable(address("127.0.1.2:80"), true), None);
        assert_eq!(reason("[::ffff:127.0.0.1]:80"), Some("loopback"));
        assert_eq!(reason("224.0.0.1:80"), Some("not-unicast"));
        assert_eq!(reason("255.255.255.255:80"), Some("not-unicast"));
        assert_eq!(reason("[ff02::1]:80"), Some("not-unicast"));
        assert_eq!(reason("192.0.2.1:0"), Some("port-zero"));
        assert_eq!(reason("192.0.2.1:80"), None);
    }
}
