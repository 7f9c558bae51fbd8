//! Reads the kernel's socket addresses.

use std::mem::{offset_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The address in `bytes`, a `sockaddr` of any family as the kernel wrote it; `None` for families
/// other than IPv4 and IPv6 and for one that is too short.
pub(crate) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    match i32::from(family) {
        libc::AF_INET => parse_v4(bytes),
        libc::AF_INET6 => parse_v6(bytes),
        _ => None,
    }
}

/// Bytes that [`parse`] wants to see for the address at `family`.
pub(crate) fn length(family: libc::sa_family_t) -> usize {
    match i32::from(family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => size_of::<libc::sa_family_t>(),
    }
}

fn parse_v4(bytes: &[u8]) -> Option<SocketAddr> {
    let ip: [u8; 4] = field(bytes, offset_of!(libc::sockaddr_in, sin_addr))?;
    let port = u16::from_be_bytes(field(bytes, offset_of!(libc::sockaddr_in, sin_port))?);
    Some(SocketAddrV4::new(Ipv4Addr::from(ip), port).into())
}

/// The flow label is left out: it does not belong to the identity of a path.
fn parse_v6(bytes: &[u8]) -> Option<SocketAddr> {
    let ip: [u8; 16] = field(bytes, offset_of!(libc::sockaddr_in6, sin6_addr))?;
    let port = u16::from_be_bytes(field(bytes, offset_of!(libc::sockaddr_in6, sin6_port))?);
    let scope = u32::from_ne_bytes(field(bytes, offset_of!(libc::sockaddr_in6, sin6_scope_id))?);
    Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
}

fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_families_and_nothing_else() {
        let mut v4 = [0u8; 16];
        v4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        v4[2..8].copy_from_slice(&[0x26, 0xab, 192, 0, 2, 7]);
        assert_eq!(parse(&v4), Some("192.0.2.7:9899".parse().unwrap()));
        assert_eq!(parse(&v4[..7]), None);

        let mut v6 = [0u8; 28];
        v6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        v6[2..4].copy_from_slice(&9899u16.to_be_bytes());
        v6[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        assert_eq!(parse(&v6), Some("[::1]:9899".parse().unwrap()));

        assert_eq!(parse(&[0u8; 28]), None);
        assert_eq!(parse(&[]), None);
    }
}
