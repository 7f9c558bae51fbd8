//! ICMP errors of a socket, from its error queue (`IP_RECVERR`, `IPV6_RECVERR`; ip(7), ipv6(7)).
//!
//! Read here and not through quinn-udp because the destination of the packet that caused the error
//! is wanted, which names the path; quinn-udp tells who complained.

use crate::ancillary;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// One message of the error queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ErrorReport {
    pub(crate) kind: ErrorKind,
    /// Where the packet was going that caused the error.
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) quote: Quote,
    /// What the link takes, in bytes of IP packet, if the packet was too big.
    pub(crate) mtu: u16,
}

/// The start of an SCTP packet as an ICMP message quotes it; empty if it quotes only UDP and IP
/// headers. 20 bytes are what tells whose packet it is: common header, chunk header, Initiate Tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Quote {
    bytes: [u8; 20],
    length: usize,
}

impl Quote {
    /// The first bytes of `packet`.
    pub(crate) fn of(packet: &[u8]) -> Self {
        let mut quote = Self::default();
        quote.length = packet.len().min(quote.bytes.len());
        quote.bytes[..quote.length].copy_from_slice(&packet[..quote.length]);
        quote
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorKind {
    /// ICMP destination unreachable of any code except the next ones': network, host, or prohibited.
    Unreachable,
    /// ICMP protocol unreachable, or ICMPv6 unrecognized next header: the host is there, and does not
    /// know what carries the packet.
    NoProtocol,
    /// ICMP port unreachable: the host is there, and says that nobody listens.
    PortClosed,
    /// ICMP fragmentation needed, or ICMPv6 packet too big.
    TooBig,
    /// Any other ICMP message.
    Other,
    /// The kernel's own: the packet was larger than the interface takes.
    LocalTooBig,
    /// The kernel's own: the failing call has returned it already.
    Local,
}

/// Takes the oldest message off the error queue of a socket; `None` if it is empty.
pub(crate) fn receive(socket: RawFd) -> io::Result<Option<ErrorReport>> {
    let mut quote = Quote::default();
    let got = loop {
        match ancillary::receive(socket, &mut quote.bytes, libc::MSG_ERRQUEUE, extended_error) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            other => break other?,
        }
    };
    quote.length = got.length.min(quote.bytes.len());
    let kind = got.found.as_ref().map_or(ErrorKind::Other, classify);
    let mtu = got.found.map_or(0, |error| u16::try_from(error.ee_info).unwrap_or(u16::MAX));
    Ok(Some(ErrorReport { kind, destination: got.name, quote, mtu }))
}

/// The error that a control message tells of, if it is one of those.
fn extended_error(kind: ancillary::Kind, data: &[u8]) -> Option<libc::sock_extended_err> {
    const KINDS: [ancillary::Kind; 2] =
        [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
    let (words, _) = data.as_chunks::<4>();
    let [errno, [origin, kind_of, code, pad], info, rest, ..] = *words else { return None };
    KINDS.contains(&kind).then(|| libc::sock_extended_err {
        ee_errno: u32::from_ne_bytes(errno),
        ee_origin: origin,
        ee_type: kind_of,
        ee_code: code,
        ee_pad: pad,
        ee_info: u32::from_ne_bytes(info),
        ee_data: u32::from_ne_bytes(rest),
    })
}

/// For an association that is being set up all unreachable messages say the same (RFC 6951 section
/// 5.5 maps port unreachable to protocol unreachable). For one that was established a closed port
/// says more: its peer has ended without a word.
fn classify(error: &libc::sock_extended_err) -> ErrorKind {
    match (error.ee_origin, error.ee_type, error.ee_code) {
        (libc::SO_EE_ORIGIN_ICMP, 3, 4) | (libc::SO_EE_ORIGIN_ICMP6, 2, _) => ErrorKind::TooBig,
        (libc::SO_EE_ORIGIN_ICMP, 3, 3) | (libc::SO_EE_ORIGIN_ICMP6, 1, 4) => ErrorKind::PortClosed,
        (libc::SO_EE_ORIGIN_ICMP, 3, 2) | (libc::SO_EE_ORIGIN_ICMP6, 4, 1) => ErrorKind::NoProtocol,
        (libc::SO_EE_ORIGIN_ICMP, 3, _) | (libc::SO_EE_ORIGIN_ICMP6, 1, _) => {
            ErrorKind::Unreachable
        }
        (libc::SO_EE_ORIGIN_LOCAL, _, _) if error.ee_errno == libc::EMSGSIZE as u32 => {
            ErrorKind::LocalTooBig
        }
        (libc::SO_EE_ORIGIN_LOCAL, _, _) => ErrorKind::Local,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(origin: u8, kind: u8, code: u8) -> libc::sock_extended_err {
        libc::sock_extended_err {
            ee_errno: 0,
            ee_origin: origin,
            ee_type: kind,
            ee_code: code,
            ee_pad: 0,
            ee_info: 0,
            ee_data: 0,
        }
    }

    #[test]
    fn icmp_messages_are_told_apart() {
        let v4 = |kind, code| classify(&error(libc::SO_EE_ORIGIN_ICMP, kind, code));
        let v6 = |kind, code| classify(&error(libc::SO_EE_ORIGIN_ICMP6, kind, code));
        assert_eq!(v4(3, 3), ErrorKind::PortClosed);
        assert_eq!(v4(3, 1), ErrorKind::Unreachable);
        assert_eq!(v4(3, 2), ErrorKind::NoProtocol);
        assert_eq!(v4(3, 4), ErrorKind::TooBig);
        assert_eq!(v4(3, 13), ErrorKind::Unreachable);
        assert_eq!(v4(11, 0), ErrorKind::Other);
        assert_eq!(v6(1, 4), ErrorKind::PortClosed);
        assert_eq!(v6(1, 0), ErrorKind::Unreachable);
        assert_eq!(v6(2, 0), ErrorKind::TooBig);
        assert_eq!(v6(3, 0), ErrorKind::Other);
        assert_eq!((v6(4, 1), v6(4, 0)), (ErrorKind::NoProtocol, ErrorKind::Other));
        let local = error(libc::SO_EE_ORIGIN_LOCAL, 0, 0);
        assert_eq!(classify(&local), ErrorKind::Local);
        let too_big = libc::sock_extended_err { ee_errno: libc::EMSGSIZE as u32, ..local };
        assert_eq!(classify(&too_big), ErrorKind::LocalTooBig);
    }
}
