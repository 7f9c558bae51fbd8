//! Packets as they are on a wire: IP, where it applies UDP (RFC 6951), SCTP.

use crate::link::Packet;
use manypath_engine::PathAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IPPROTO_UDP: u8 = 17;
const IPPROTO_SCTP: u8 = 132;
const HOP_LIMIT: u8 = 64;
const UDP_HEADER: usize = 8;

/// One IP packet.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    bytes: Vec<u8>,
    /// Where SCTP begins.
    sctp_at: usize,
}

impl Datagram {
    /// The SCTP packet `sctp` on its way from `path.local` to `path.remote`.
    pub(super) fn new(path: PathAddr, sctp: &[u8]) -> Self {
        let native = path.local.port() == 0;
        let udp_len = if native { 0 } else { UDP_HEADER };
        let protocol = if native { IPPROTO_SCTP } else { IPPROTO_UDP };
        let mut bytes = Vec::with_capacity(sctp.len() + 48);
        let payload = sctp.len() + udp_len;
        let pseudo_sum = match (path.local.ip(), path.remote.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                v4_header(&mut bytes, from, to, protocol, payload)
            }
            (from, to) => v6_header(&mut bytes, mapped(from), mapped(to), protocol, payload),
        };
        if !native {
            udp_header(&mut bytes, path, sctp, pseudo_sum);
        }
        let sctp_at = bytes.len();
        bytes.extend_from_slice(sctp);
        Self { bytes, sctp_at }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn sctp(&self) -> &[u8] {
        &self.bytes[self.sctp_at..]
    }
}

impl Packet for Datagram {
    fn wire_len(&self) -> usize {
        self.bytes.len()
    }

    /// Only SCTP: a wrong IP header would not arrive at all, and the UDP checksum would hide from
    /// the endpoint what its own checksum is there to find.
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.sctp_at..]
    }
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Appends an IPv4 header (RFC 791) with DF set; returns the sum over the pseudo header.
fn v4_header(out: &mut Vec<u8>, from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: usize) -> u64 {
    let total = (20 + payload) as u16;
    out.extend_from_slice(&[0x45, 0]);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0x40, 0, HOP_LIMIT, protocol, 0, 0]);
    out.extend_from_slice(&from.octets());
    out.extend_from_slice(&to.octets());
    let checksum = fold(sum(out));
    out[10..12].copy_from_slice(&checksum.to_be_bytes());
    sum(&from.octets()) + sum(&to.octets()) + u64::from(protocol) + payload as u64
}

/// Appends an IPv6 header (RFC 8200); returns the sum over the pseudo header.
fn v6_header(out: &mut Vec<u8>, from: Ipv6Addr, to: Ipv6Addr, protocol: u8, payload: usize) -> u64 {
    out.extend_from_slice(&[0x60, 0, 0, 0]);
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
    fn udp_is_correct(datagram: &Datagram, addresses: std::ops::Range<usize>) -> bool {
        let udp = &datagram.bytes[datagram.sctp_at - UDP_HEADER..];
        let pseudo = sum(&datagram.bytes[addresses]) + u64::from(IPPROTO_UDP) + udp.len() as u64;
        fold(pseudo + sum(udp)) == 0
    }

    #[test]
    fn ipv4_and_udp_are_as_the_rfcs_say() {
        let datagram = Datagram::new(path("10.0.0.1:9899", "10.0.0.2:9900"), b"odd");
        assert_eq!(datagram.bytes.len(), 20 + 8 + 3);
        assert_eq!(fold(sum(&datagram.bytes[..20])), 0);
        assert_eq!(datagram.bytes[2..4], [0, 31]);
        assert_eq!(datagram.bytes[20..26], [0x26, 0xAB, 0x26, 0xAC, 0, 11]);
        assert!(udp_is_correct(&datagram, 12..20));
        assert_eq!(datagram.sctp(), b"odd");
    }

    #[test]
    fn ipv6_carries_the_same() {
        let datagram = Datagram::new(path("[fd00::1]:9899", "[fd00::2]:9899"), &[7; 64]);
        assert_eq!((datagram.bytes[0], datagram.bytes[6], datagram.bytes.len()), (0x60, 17, 112));
        assert!(udp_is_correct(&datagram, 8..40));
    }

    #[test]
    fn port_zero_is_native_sctp() {
        let datagram = Datagram::new(path("10.0.0.1:0", "10.0.0.2:0"), &[7; 64]);
        assert_eq!((datagram.bytes[9], datagram.bytes.len()), (132, 84));
    }
}
