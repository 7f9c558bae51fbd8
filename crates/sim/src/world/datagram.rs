//! Packets as they are on a wire: IP, where it applies UDP (RFC 6951), SCTP.

use crate::link::Packet;
use manypath_engine::{Ecn, PathAddr};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IPPROTO_UDP: u8 = 17;
const IPPROTO_SCTP: u8 = 132;
const HOP_LIMIT: u8 = 64;
const UDP_HEADER: usize = 8;

/// Port of background traffic in captures: discard (RFC 863).
const DISCARD: u16 = 9;

/// One IP packet on its way through the links of a route. Its IP and UDP headers are only counted;
/// they are written when somebody captures it.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    /// The path that it travels.
    pub(super) path: usize,
    /// Which end of the path it goes to.
    pub(super) end: usize,
    /// Links of the route that it has passed.
    pub(super) hop: usize,
    /// The SCTP packet; empty for background traffic.
    pub(super) sctp: Vec<u8>,
    /// Bytes of the whole IP packet.
    pub(super) ip_len: usize,
    /// Whether IP may fragment it.
    pub(super) may_fragment: bool,
    /// The ECN bits.
    pub(super) ecn: Ecn,
}

impl Packet for Datagram {
    fn wire_len(&self) -> usize {
        self.ip_len
    }

    fn may_be_fragmented(&self) -> bool {
        self.may_fragment
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::Ce;
    }

    /// Only SCTP: a wrong IP header would not arrive at all, and the UDP checksum would hide from
    /// the endpoint what its own checksum is there to find.
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.sctp
    }
}

/// Bytes that IP and, with encapsulation ports, UDP add to an SCTP packet between `path`'s ends.
pub(super) fn header_len(path: PathAddr) -> usize {
    let ip = if path.local.is_ipv4() && path.remote.is_ipv4() { 20 } else { 40 };
    if path.local.port() == 0 { ip } else { ip + UDP_HEADER }
}

/// The SCTP packet `sctp` on its way from `path.local` to `path.remote`, with all headers.
pub(super) fn ip_packet(path: PathAddr, sctp: &[u8], ecn: Ecn) -> Vec<u8> {
    let native = path.local.port() == 0;
    let udp_len = if native { 0 } else { UDP_HEADER };
    let protocol = if native { IPPROTO_SCTP } else { IPPROTO_UDP };
    let mut bytes = Vec::with_capacity(sctp.len() + 48);
    let payload = sctp.len() + udp_len;
    let pseudo_sum = match (path.local.ip(), path.remote.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            v4_header(&mut bytes, (from, to), protocol, payload, ecn)
        }
        (from, to) => v6_header(&mut bytes, (mapped(from), mapped(to)), protocol, payload, ecn),
    };
    if !native {
        udp_header(&mut bytes, path, sctp, pseudo_sum);
    }
    bytes.extend_from_slice(sctp);
    bytes
}

/// A packet of background traffic of `ip_len` bytes: UDP to the discard port, filled with zeros.
pub(super) fn background_packet(mut path: PathAddr, ip_len: usize) -> Vec<u8> {
    path.local.set_port(DISCARD);
    path.remote.set_port(DISCARD);
    ip_packet(path, &vec![0; ip_len.saturating_sub(header_len(path))], Ecn::NotEct)
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Appends an IPv4 header (RFC 791) with DF set; returns the sum over the pseudo header.
fn v4_header(
    out: &mut Vec<u8>,
    (from, to): (Ipv4Addr, Ipv4Addr),
    protocol: u8,
    payload: usize,
    ecn: Ecn,
) -> u64 {
    let total = (20 + payload) as u16;
    out.extend_from_slice(&[0x45, ecn.bits()]);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0x40, 0, HOP_LIMIT, protocol, 0, 0]);
    out.extend_from_slice(&from.octets());
    out.extend_from_slice(&to.octets());
    let checksum = fold(sum(out));
    out[10..12].copy_from_slice(&checksum.to_be_bytes());
    sum(&from.octets()) + sum(&to.octets()) + u64::from(protocol) + payload as u64
}

/// Appends an IPv6 header (RFC 8200); returns the sum over the pseudo header.
fn v6_header(
    out: &mut Vec<u8>,
    (from, to): (Ipv6Addr, Ipv6Addr),
    protocol: u8,
    payload: usize,
    ecn: Ecn,
) -> u64 {
    out.extend_from_slice(&[0x60, ecn.bits() << 4, 0, 0]);
    out.extend_from_slice(&(payload as u16).to_be_bytes());
    out.extend_from_slice(&[protocol, HOP_LIMIT]);
    out.extend_from_slice(&from.octets());
    out.extend_from_slice(&to.octets());
    sum(&from.octets()) + sum(&to.octets()) + u64::from(protocol) + payload as u64
}

/// Appends a UDP header (RFC 768) with its checksum.
fn udp_header(out: &mut Vec<u8>, path: PathAddr, sctp: &[u8], pseudo_sum: u64) {
    let length = (UDP_HEADER + sctp.len()) as u16;
    let [from, to] = [path.local.port(), path.remote.port()];
    let header = u64::from(from) + u64::from(to) + u64::from(length);
    let checksum = match fold(pseudo_sum + header + sum(sctp)) {
        0 => u16::MAX, // zero would mean none
        checksum => checksum,
    };
    for field in [from, to, length, checksum] {
        out.extend_from_slice(&field.to_be_bytes());
    }
}

/// Sum of 16-bit words (RFC 1071), not yet folded.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    words.map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & u64::from(u16::MAX)) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(local: &str, remote: &str) -> PathAddr {
        PathAddr { local: local.parse().unwrap(), remote: remote.parse().unwrap() }
    }

    /// Over a correct packet with its checksum in place the sum folds to zero.
    fn udp_is_correct(packet: &[u8], udp_at: usize, addresses: std::ops::Range<usize>) -> bool {
        let udp = &packet[udp_at..];
        let pseudo = sum(&packet[addresses]) + u64::from(IPPROTO_UDP) + udp.len() as u64;
        fold(pseudo + sum(udp)) == 0
    }

    #[test]
    fn ipv4_and_udp_are_as_the_rfcs_say() {
        let path = path("10.0.0.1:9899", "10.0.0.2:9900");
        let packet = ip_packet(path, b"odd", Ecn::Ce);
        assert_eq!(packet.len(), header_len(path) + 3);
        assert_eq!(fold(sum(&packet[..20])), 0);
        assert_eq!(packet[1..4], [3, 0, 31]);
        assert_eq!(packet[20..26], [0x26, 0xAB, 0x26, 0xAC, 0, 11]);
        assert!(udp_is_correct(&packet, 20, 12..20));
        assert_eq!(&packet[28..], b"odd");
    }

    #[test]
    fn ipv6_carries_the_same() {
        let path = path("[fd00::1]:9899", "[fd00::2]:9899");
        let packet = ip_packet(path, &[7; 64], Ecn::Ect0);
        assert_eq!((packet[1], packet[6], packet.len()), (0x20, 17, header_len(path) + 64));
        assert!(udp_is_correct(&packet, 40, 8..40));
    }

    #[test]
    fn port_zero_is_native_sctp() {
        let packet = ip_packet(path("10.0.0.1:0", "10.0.0.2:0"), &[7; 64], Ecn::NotEct);
        assert_eq!((packet[9], packet.len()), (132, 84));
    }

    #[test]
    fn background_traffic_is_udp_of_the_length_asked_for() {
        let packet = background_packet(path("10.0.0.1:0", "10.0.0.2:0"), 500);
        assert_eq!((packet[9], packet.len()), (17, 500));
        assert!(udp_is_correct(&packet, 20, 12..20));
    }
}
