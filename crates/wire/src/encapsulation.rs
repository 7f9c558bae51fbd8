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
