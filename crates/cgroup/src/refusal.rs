//! Letting a socket that waits at the gate fail as it would have failed without manypath.
//!
//! A reset that acknowledges the socket's SYN is a refusal (RFC 9293 section 3.10.7.3), and ICMP errors about
//! it are what they say (RFC 1122 section 4.2.3.9, which Linux takes for final while connecting). Both are
//! made by hand, because no socket of ours may answer at the gate.

use crate::layout::Connecting;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd};

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// Raw sockets of both families, that only send.
#[derive(Debug)]
pub(crate) struct Refuser {
    v4: OwnedFd,
    /// A host may have no IPv6.
    v6: Option<OwnedFd>,
}

impl Refuser {
    /// # Errors
    /// `EPERM` without CAP_NET_RAW.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { v4: raw(libc::AF_INET)?, v6: raw(libc::AF_INET6).ok() })
    }

    /// Lets the connect fail as near to `errno` as a packet can. Whether it was exactly that.
    ///
    /// # Errors
    /// As `sendto` says.
    pub(crate) fn refuse(&self, of: &Connecting, errno: i32) -> io::Result<bool> {
        let (gate, own) = (SocketAddr::new(loopback(of.own.ip()), of.gate), of.own);
        let v6 = of.peer.is_ipv6();
        let (packet, exact) = match complaint(errno, v6) {
            None => (reset(gate, own, of.isn), errno == libc::ECONNREFUSED),
            Some((kind, code, exact)) => (icmp(gate, own, of.isn, kind, code), exact),
        };
        let socket = if v6 { self.v6.as_ref() } else { Some(&self.v4) };
        let socket = socket.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
        send(socket, own.ip(), &packet)?;
        Ok(exact)
    }
}

/// The gate is at loopback, wherever its sockets are bound.
fn loopback(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// ICMP type and code that come nearest to an error, and whether they mean just that. `None`: a reset does.
fn complaint(errno: i32, v6: bool) -> Option<(u8, u8, bool)> {
    match (errno, v6) {
        (libc::ECONNREFUSED | libc::ECONNRESET | libc::ECONNABORTED, _) => None,
        (libc::ENETUNREACH, false) => Some((3, 0, true)),
        (libc::ENETUNREACH, true) => Some((1, 0, true)),
        (libc::EACCES, true) => Some((1, 1, true)),
        (_, false) => Some((3, 1, errno == libc::EHOSTUNREACH)),
        (_, true) => Some((1, 3, errno == libc::EHOSTUNREACH)),
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

/// RST, ACK of the SYN.
fn reset(from: SocketAddr, to: SocketAddr, isn: u32) -> Vec<u8> {
    const RST_ACK: u8 = 0x14;
    let mut segment = Vec::with_capacity(20);
    segment.extend(from.port().to_be_bytes());
    segment.extend(to.port().to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(isn.wrapping_add(1).to_be_bytes());
    segment.extend([5 << 4, RST_ACK, 0, 0, 0, 0, 0, 0]);
    checksum(&mut segment, 16, pseudo_header(from.ip(), to.ip(), 20, TCP));
    ip_packet(from.ip(), to.ip(), TCP, &segment)
}

/// "Destination unreachable", with the beginning of the SYN that went from `waiting` to the gate.
fn icmp(gate: SocketAddr, waiting: SocketAddr, isn: u32, kind: u8, code: u8) -> Vec<u8> {
    let mut syn = Vec::with_capacity(20);
    syn.extend(waiting.port().to_be_bytes());
    syn.extend(gate.port().to_be_bytes());
    syn.extend(isn.to_be_bytes());
    syn.extend([0, 0, 0, 0, 5 << 4, 2, 0, 0, 0, 0, 0, 0]);
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend(ip_packet(waiting.ip(), gate.ip(), TCP, &syn));
    let (sum, protocol) = match gate.ip() {
        IpAddr::V4(_) => (0, ICMP),
        IpAddr::V6(_) => {
            let length = message.len() as u32;
            (pseudo_header(gate.ip(), waiting.ip(), length, ICMP_V6), ICMP_V6)
        }
    };
    checksum(&mut message, 2, sum);
    ip_packet(gate.ip(), waiting.ip(), protocol, &message)
}

fn ip_packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
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
fn pseudo_header(from: IpAddr, to: IpAddr, length: u32, protocol: u8) -> u32 {
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

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|word| match *word {
        [high, low] => u32::from(high) << 8 | u32::from(low),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    words.sum()
}

/// Writes the internet checksum (RFC 1071) of `bytes` at a place in them that is still zero.
fn checksum(bytes: &mut [u8], at: usize, more: u32) {
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
    fn what_is_summed_with_its_checksum_is_zero() {
        let (from, to) = ("127.0.0.1:80".parse().unwrap(), "10.0.0.1:4000".parse().unwrap());
        let packet = reset(from, to, 99);
        let fold = |mut sum: u32| {
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            sum
        };
        assert_eq!(fold(sum(&packet[..20])), 0xffff);
        let pseudo = pseudo_header(from.ip(), to.ip(), 20, TCP);
        assert_eq!(fold(sum(&packet[20..]) + pseudo), 0xffff);
        assert_eq!(packet[28..32], 100_u32.to_be_bytes());
    }

    #[test]
    fn every_error_has_a_packet_and_only_exact_ones_say_so() {
        assert_eq!(complaint(libc::ECONNREFUSED, false), None);
        assert_eq!(complaint(libc::ENETUNREACH, true), Some((1, 0, true)));
        assert_eq!(complaint(libc::ETIMEDOUT, false), Some((3, 1, false)));
    }
}
