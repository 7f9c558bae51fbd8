//! UDP encapsulation (RFC 6951), as far as it is syntax: the port and the sizes.

use core::net::IpAddr;

/// The UDP port that a peer listens on unless it is known to use another one (RFC 6951 section 4).
pub const UDP_PORT: u16 = 9899;
/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER_LEN: u16 = 20;
/// Bytes of an IPv6 header without extension headers.
pub const IPV6_HEADER_LEN: u16 = 40;
/// Bytes of a UDP header.
pub const UDP_HEADER_LEN: u16 = 8;

/// Bytes in front of the SCTP common header, in a packet to or from `address`.
pub const fn overhead(address: IpAddr, udp: bool) -> u16 {
    let ip = match address {
        IpAddr::V4(_) => IPV4_HEADER_LEN,
        IpAddr::V6(_) => IPV6_HEADER_LEN,
    };
    if udp { ip + UDP_HEADER_LEN } else { ip }
}

/// Largest SCTP packet in bytes for an IP packet of `mtu` bytes: a multiple of four, because chunks
/// are padded. Zero if the MTU has no room for the headers.
pub const fn packet_size(mtu: u16, address: IpAddr, udp: bool) -> u16 {
    mtu.saturating_sub(overhead(address, udp)) & !3
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    #[test]
    fn sizes_are_what_the_headers_leave() {
        let cases = [
            (1500, V4, true, 1472),
            (1500, V4, false, 1480),
            (1500, V6, true, 1452),
            (1500, V6, false, 1460),
            (1492, V4, true, 1464),
            (1495, V4, true, 1464),
            (65_535, V4, true, 65_504),
        ];
        for (mtu, address, udp, size) in cases {
            assert_eq!(packet_size(mtu, address, udp), size, "{mtu} {address} {udp}");
        }
    }

    #[test]
    fn an_mtu_without_room_leaves_nothing() {
        assert_eq!(packet_size(28, V4, true), 0);
        assert_eq!(packet_size(31, V4, true), 0);
        assert_eq!(packet_size(32, V4, true), 4);
        assert_eq!(packet_size(0, V6, true), 0);
    }
}
