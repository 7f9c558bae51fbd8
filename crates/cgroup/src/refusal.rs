//! Letting a socket that waits at the gate fail as it would have failed without manypath.
//!
//! A reset that acknowledges the socket's SYN is a refusal (RFC 9293 section 3.10.7.3), and ICMP errors about
//! it are what they say (RFC 1122 section 4.2.3.9, which Linux takes for final while connecting). Both are
//! made by hand, because no socket of ours may answer at the gate.

use crate::layout::Connecting;
use manypath_gate::packet::{RawSockets, TCP, UDP, checksum, icmp, ip_packet, pseudo_header};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What refusals are sent by.
#[derive(Debug)]
pub(crate) struct Refuser(RawSockets);

impl Refuser {
    /// # Errors
    /// `EPERM` without CAP_NET_RAW.
    pub(crate) fn new() -> io::Result<Self> {
        RawSockets::new().map(Self)
    }

    /// Tells a UDP socket that nobody listens at the destination of what it has sent.
    ///
    /// # Errors
    /// As `sendto` says.
    pub(crate) fn unreachable(&self, own: SocketAddr, peer: SocketAddr) -> io::Result<()> {
        let ports = [own.port().to_be_bytes(), peer.port().to_be_bytes()].concat();
        let sent = [&ports[..], &[0, 8, 0, 0]].concat();
        let (kind, code) = if peer.is_ipv6() { (1, 4) } else { (3, 3) };
        let about = ip_packet(own.ip(), peer.ip(), UDP, &sent);
        self.0.send(own.ip(), &icmp(peer.ip(), own.ip(), &about, kind, code))
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
            Some((kind, code, exact)) => {
                (icmp(gate.ip(), own.ip(), &syn(own, gate, of.isn), kind, code), exact)
            }
        };
        self.0.send(own.ip(), &packet)?;
        Ok(exact)
    }
}

/// The gate is at loopback, wherever its sockets are bound.
pub(crate) fn loopback(like: IpAddr) -> IpAddr {
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

/// The SYN that went from `waiting` to the gate, as far as an error quotes it.
fn syn(waiting: SocketAddr, gate: SocketAddr, isn: u32) -> Vec<u8> {
    let mut syn = Vec::with_capacity(20);
    syn.extend(waiting.port().to_be_bytes());
    syn.extend(gate.port().to_be_bytes());
    syn.extend(isn.to_be_bytes());
    syn.extend([0, 0, 0, 0, 5 << 4, 2, 0, 0, 0, 0, 0, 0]);
    ip_packet(waiting.ip(), gate.ip(), TCP, &syn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_gate::packet::sum;

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
