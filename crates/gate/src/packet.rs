//! Packets made by hand, and the raw sockets that send them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd};

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// Raw sockets of both families, that only send.
#[derive(Debug)]
pub struct RawSockets {
    v4: OwnedFd,
    /// A host may have no IPv6.
    v6: Option<OwnedFd>,
}

impl RawSockets {
    /// # Errors
    /// `EPERM` without CAP_NET_RAW.
    pub fn new() -> io::Result<Self> {
        Ok(Self { v4: raw(libc::AF_INET)?, v6: raw(libc::AF_INET6).ok() })
    }

    /// Sends a packet, header and all.
    ///
    /// # Errors
    /// As `sendto` says.
    pub fn send(&self, to: IpAddr, packet: &[u8]) -> io::Result<()> {
        let socket = if to.is_ipv6() { self.v6.as_ref() } else { Some(&self.v4) };
        let socket = socket.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
        send(socket, to, packet)
    }
}

fn raw(family: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain numbers; then the kernel has just made the descriptor.
    let fd = unsafe {
        let fd = libc::socket(family, kind, libc::IPPROTO_RAW);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    Ok(fd)
}

fn send(socket: &OwnedFd, to: IpAddr, packet: &[u8]) -> io::Result<()> {
    // Raw sockets take no port.
    let to = socket2::SockAddr::from(SocketAddr::new(to, 0));
    let sent = socket2::SockRef::from(socket).send_to(packet, &to)?;
    debug_assert_eq!(sent, packet.len());
    Ok(())
}

/// "Destination unreachable" from `from`, about a packet of `to` whose beginning it quotes.
pub fn icmp(from: IpAddr, to: IpAddr, about: &[u8], kind: u8, code: u8) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend(about);
    let (sum, protocol) = match from {
        IpAddr::V4(_) => (0, ICMP),
        IpAddr::V6(_) => (pseudo_header(from, to, message.len() as u32, ICMP_V6), ICMP_V6),
    };
    checksum(&mut message, 2, sum);
    ip_packet(from, to, protocol, &message)
}

/// A UDP datagram, header and checksum included (RFC 768), for a socket that adds the IP header.
pub fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len();
    let mut datagram = Vec::with_capacity(length);
    datagram.extend(from.port().to_be_bytes());
    datagram.extend(to.port().to_be_bytes());
    datagram.extend((length as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    checksum(&mut datagram, 6, pseudo_header(from.ip(), to.ip(), length as u32, UDP));
    if let Some(none @ [0, 0]) = datagram.get_mut(6..8) {
        // Zero says that there is none.
        none.copy_from_slice(&[0xff, 0xff]);
    }
    datagram
}

/// An IP packet around a payload; a pair of addresses of two families makes an IPv6 packet.
#[must_use]
pub fn ip_packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(40 + payload.len());
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = (20 + payload.len()) as u16;
            packet.extend([0x45, 0]);
            packet.extend(length.to_be_bytes());
            packet.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            checksum(&mut packet, 10, 0);
        }
        _ => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend((payload.len() as u16).to_be_bytes());
            packet.extend([protocol, 64]);
            packet.extend(v6_octets(from));
            packet.extend(v6_octets(to));
        }
    }
    packet.extend(payload);
    packet
}

fn v6_octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Sum of the words that a checksum covers besides the packet (RFC 9293 section 3.1, RFC 8200 section 8.1).
pub fn pseudo_header(from: IpAddr, to: IpAddr, length: u32, protocol: u8) -> u32 {
    let mut bytes = Vec::with_capacity(40);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        _ => {
            bytes.extend(v6_octets(from));
            bytes.extend(v6_octets(to));
        }
    }
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    sum(&bytes)
}

/// The sum of 16-bit words, as checksums are made of it.
#[must_use]
pub fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|word| match *word {
        [high, low] => u32::from(high) << 8 | u32::from(low),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    words.sum()
}

/// Writes the internet checksum (RFC 1071) of `bytes` at a place in them that is still zero.
pub fn checksum(bytes: &mut [u8], at: usize, more: u32) {
    let mut sum = sum(bytes) + more;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let value = !(sum as u16);
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_of_any_length_has_its_checksum() {
        for (from, to) in [("10.0.0.1:1", "10.0.0.2:2"), ("[fd00::1]:1", "[fd00::2]:2")] {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            for length in [0, 1, 1471, 65507] {
                let datagram = udp(from, to, &vec![7; length]);
                let pseudo = pseudo_header(from.ip(), to.ip(), datagram.len() as u32, UDP);
                let mut sum = sum(&datagram) + pseudo;
                while sum > 0xffff {
                    sum = (sum & 0xffff) + (sum >> 16);
                }
                assert_eq!((sum, datagram.len()), (0xffff, length + 8));
            }
        }
    }
}
