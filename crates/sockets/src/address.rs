//! Socket addresses in the memory of C programs.

use crate::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Length of a `struct sockaddr_in`.
pub const IPV4_LEN: usize = 16;
/// Length of a `struct sockaddr_in6`.
pub const IPV6_LEN: usize = 28;

/// How long the address is that begins in `bytes`; none if its family is not known.
pub fn len(bytes: &[u8]) -> Option<usize> {
    match i32::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?])) {
        libc::AF_INET => Some(IPV4_LEN),
        libc::AF_INET6 => Some(IPV6_LEN),
        _ => None,
    }
}

/// The address at the beginning of `bytes`. An IPv4 address in IPv6 clothes is taken out of them.
pub fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let len = len(bytes)?;
    let bytes = bytes.get(..len)?;
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    if len == IPV4_LEN {
        return Some(SocketAddr::from(([bytes[4], bytes[5], bytes[6], bytes[7]], port)));
    }
    let ip = Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?);
    let scope = u32::from_ne_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]);
    Some(match ip.to_ipv4_mapped() {
        Some(v4) => SocketAddr::new(v4.into(), port),
        None => SocketAddrV6::new(ip, port, 0, scope).into(),
    })
}

/// All addresses of an array in which they stand one after the other.
pub fn decode_packed(mut bytes: &[u8]) -> Result<Vec<SocketAddr>, Errno> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let len = len(bytes).ok_or(Errno::INVALID)?;
        all.push(decode(bytes).ok_or(Errno::INVALID)?);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    Ok(all)
}

/// The address as it stands in memory. With `mapped` an IPv4 address comes as an IPv6 one.
pub fn encode(address: SocketAddr, mapped: bool) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address.ip() {
        IpAddr::V4(ip) if !mapped => {
            let mut bytes = vec![0; IPV4_LEN];
            bytes[..2].copy_from_slice(&family(libc::AF_INET));
            bytes[2..4].copy_from_slice(&port);
            bytes[4..8].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V4(ip) => encode_v6(ip.to_ipv6_mapped(), port, 0),
        IpAddr::V6(ip) => match address {
            SocketAddr::V6(v6) => encode_v6(ip, port, v6.scope_id()),
            SocketAddr::V4(_) => encode_v6(ip, port, 0),
        },
    }
}

fn encode_v6(ip: Ipv6Addr, port: [u8; 2], scope: u32) -> Vec<u8> {
    let mut bytes = vec![0; IPV6_LEN];
    bytes[..2].copy_from_slice(&family(libc::AF_INET6));
    bytes[2..4].copy_from_slice(&port);
    bytes[8..24].copy_from_slice(&ip.octets());
    bytes[24..].copy_from_slice(&scope.to_ne_bytes());
    bytes
}

fn family(number: i32) -> [u8; 2] {
    u16::try_from(number).unwrap_or(0).to_ne_bytes()
}

/// The same host, and for an IPv6 link-local address the same link, at another port.
pub(crate) fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// The number of the interface of an IPv6 link-local address, which means nothing without it; 0 if it is not said. None
/// for other addresses.
pub fn link_of(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(v6) => v6.ip().is_unicast_link_local().then(|| v6.scope_id()),
        SocketAddr::V4(_) => None,
    }
}

/// The address in a `struct sockaddr_storage`.
pub fn storage(address: SocketAddr, mapped: bool) -> [u8; 128] {
    let mut all = [0; 128];
    let bytes = encode(address, mapped);
    all[..bytes.len()].copy_from_slice(&bytes);
    all
}

/// The unspecified address of a family.
pub fn unspecified(ipv6: bool) -> IpAddr {
    if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_memory_of_a_c_program() {
        for text in ["192.0.2.1:80", "[2001:db8::1]:443"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(decode(&encode(address, false)), Some(address));
        }
        let v4: SocketAddr = "192.0.2.1:80".parse().unwrap();
        assert_eq!(encode(v4, true).len(), IPV6_LEN);
        assert_eq!(decode(&encode(v4, true)), Some(v4));
    }

    #[test]
    fn a_packed_array_may_mix_families_and_may_not_be_cut_off() {
        let all: [SocketAddr; 2] =
            ["192.0.2.1:80".parse().unwrap(), "[2001:db8::1]:80".parse().unwrap()];
        let bytes = all.map(|address| encode(address, false)).concat();
        assert_eq!(decode_packed(&bytes), Ok(all.to_vec()));
        assert_eq!(decode_packed(&bytes[..40]), Err(Errno::INVALID));
    }
}
