//! What an IP packet is, as far as it matters here. No I/O, and nothing that a stranger writes makes it panic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// Bytes of the header of an ICMP echo.
const ECHO_HEADER: usize = 8;

/// An IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// How many routers it may still pass.
    pub(crate) ttl: u8,
    pub(crate) content: Content<'a>,
    /// All of it.
    pub(crate) bytes: &'a [u8],
}

/// What it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content<'a> {
    Request(Echo<'a>),
    Reply,
    /// An ICMP error: the ends of the packet that it is about, if it tells them and that is neither TCP nor UDP.
    Error(Option<(IpAddr, IpAddr)>),
    /// Another ICMP message.
    Icmp,
    /// What goes as a flow.
    TcpOrUdp,
    /// A part of a packet.
    Fragment,
    /// Anything else.
    Other,
}

/// An ICMP echo request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Echo<'a> {
    pub(crate) identifier: u16,
    /// Identifier, sequence number and data.
    pub(crate) rest: &'a [u8],
}

/// The packet in `bytes`; `None` if it is none.
pub(crate) fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    match bytes.first()? >> 4 {
        4 => parse_v4(bytes),
        6 => parse_v6(bytes),
        _ => None,
    }
}

fn parse_v4(bytes: &[u8]) -> Option<Packet<'_>> {
    let head: &[u8; 20] = bytes.first_chunk()?;
    let (header, length) =
        (usize::from(head[0] & 0xf) * 4, usize::from(u16::from_be_bytes([head[2], head[3]])));
    let bytes = bytes.get(..length).filter(|_| (20..=length).contains(&header))?;
    let is_fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0;
    let content = match is_fragment {
        true => Content::Fragment,
        false => content(head[9], ICMP, bytes.get(header..)?),
    };
    let (source, destination) = ends_v4(head);
    Some(Packet { source, destination, ttl: head[8], content, bytes })
}

/// Extension headers are not looked behind: what has some is something else.
fn parse_v6(bytes: &[u8]) -> Option<Packet<'_>> {
    const FRAGMENT: u8 = 44;
    let head: &[u8; 40] = bytes.first_chunk()?;
    let length = 40 + usize::from(u16::from_be_bytes([head[4], head[5]]));
    let bytes = bytes.get(..length)?;
    let content = match head[6] {
        FRAGMENT => Content::Fragment,
        protocol => content(protocol, ICMP_V6, bytes.get(40..)?),
    };
    let (source, destination) = ends_v6(head)?;
    Some(Packet { source, destination, ttl: head[7], content, bytes })
}

fn ends_v4(head: &[u8; 20]) -> (IpAddr, IpAddr) {
    let source = Ipv4Addr::new(head[12], head[13], head[14], head[15]);
    let destination = Ipv4Addr::new(head[16], head[17], head[18], head[19]);
    (source.into(), destination.into())
}

fn ends_v6(head: &[u8; 40]) -> Option<(IpAddr, IpAddr)> {
    let address = |at: usize| {
        let octets: [u8; 16] = head.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::from(Ipv6Addr::from(octets)))
    };
    Some((address(8)?, address(24)?))
}

/// The ends of a packet that an error quotes, which may be cut short; `None` if it is one of TCP or UDP.
fn quoted_ends(is_v4: bool, quoted: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let (protocol, ends) = match is_v4 {
        true => {
            let head: &[u8; 20] = quoted.first_chunk()?;
            (head[9], ends_v4(head))
        }
        false => {
            let head: &[u8; 40] = quoted.first_chunk()?;
            (head[6], ends_v6(head)?)
        }
    };
    (!matches!(protocol, TCP | UDP)).then_some(ends)
}

fn content(protocol: u8, icmp: u8, content: &[u8]) -> Content<'_> {
    match protocol {
        TCP | UDP => Content::TcpOrUdp,
        _ if protocol == icmp => message(icmp == ICMP, content),
        _ => Content::Other,
    }
}

fn message(is_v4: bool, message: &[u8]) -> Content<'_> {
    let Some(&[kind, code, _, _, high, low, _, _]) = message.first_chunk::<ECHO_HEADER>() else {
        return Content::Icmp;
    };
    let (request, reply) = if is_v4 { (8, 0) } else { (128, 129) };
    // A redirect says where packets are to go, which is not for others to say; and a quench is obsolete (RFC 6633).
    let is_error = if is_v4 { matches!(kind, 3 | 11 | 12) } else { matches!(kind, 1..=4) };
    match (kind, code) {
        (kind, 0) if kind == request => {
            let identifier = u16::from_be_bytes([high, low]);
            Content::Request(Echo { identifier, rest: &message[4..] })
        }
        (kind, 0) if kind == reply => Content::Reply,
        _ if is_error => Content::Error(quoted_ends(is_v4, &message[ECHO_HEADER..])),
        _ => Content::Icmp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manypath_net::{icmp, icmp_error};

    fn ends(v4: bool) -> (IpAddr, IpAddr) {
        match v4 {
            true => ("10.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap()),
            false => ("fd00::1".parse().unwrap(), "2001:db8::1".parse().unwrap()),
        }
    }

    #[test]
    fn requests_replies_and_errors_are_told_apart() {
        for v4 in [true, false] {
            let (request, reply) = if v4 { (8, 0) } else { (128, 129) };
            let bytes = icmp(ends(v4), 9, vec![request, 0, 0, 0, 1, 2, 3, 4, 5]).unwrap();
            let packet = parse(&bytes).unwrap();
            assert_eq!((packet.source, packet.destination), ends(v4));
            let echo = Echo { identifier: 0x102, rest: &[1, 2, 3, 4, 5] };
            assert_eq!((packet.ttl, packet.content), (9, Content::Request(echo)));
            let bytes = icmp(ends(v4), 9, vec![reply, 0, 0, 0, 1, 2, 3, 4, 5]).unwrap();
            assert_eq!(parse(&bytes).unwrap().content, Content::Reply);
            let is_about = |quoted: &[u8], kind, expected: Content<'_>| {
                let bytes = icmp_error(ends(v4), (kind, 1, 0), quoted).unwrap();
                assert_eq!(parse(&bytes).unwrap().content, expected, "{kind}");
            };
            is_about(&bytes, 3, Content::Error(Some(ends(v4))));
            // Cut short by a router that quotes little.
            let head = if v4 { 20 } else { 40 };
            is_about(&bytes[..head + 8], 3, Content::Error(Some(ends(v4))));
            is_about(&bytes[..head - 1], 3, Content::Error(None));
            let mut of_tcp = bytes.clone();
            of_tcp[if v4 { 9 } else { 6 }] = TCP;
            is_about(&of_tcp, 3, Content::Error(None));
            let redirect = if v4 { 5 } else { 137 };
            is_about(&bytes, redirect, Content::Icmp);
        }
    }

    #[test]
    fn nothing_makes_the_parser_panic() {
        let whole = icmp(ends(true), 9, vec![8, 0, 0, 0, 1, 2, 3, 4]).unwrap();
        let whole_v6 = icmp(ends(false), 9, vec![128, 0, 0, 0, 1, 2, 3, 4]).unwrap();
        for whole in [whole, whole_v6] {
            for length in 0..whole.len() {
                assert_eq!(parse(&whole[..length]), None);
            }
            for at in 0..whole.len() {
                for value in 0..=255 {
                    let mut changed = whole.clone();
                    changed[at] = value;
                    let _ = parse(&changed);
                }
            }
        }
    }

    #[test]
    fn fragments_and_flows_are_no_packets_to_be_sent_on() {
        let mut bytes = icmp(ends(true), 9, vec![8, 0, 0, 0, 1, 2, 3, 4]).unwrap();
        bytes[6] = 0x20;
        assert_eq!(parse(&bytes).unwrap().content, Content::Fragment);
        (bytes[6], bytes[9]) = (0x40, TCP);
        assert_eq!(parse(&bytes).unwrap().content, Content::TcpOrUdp);
        bytes[9] = 47;
        assert_eq!(parse(&bytes).unwrap().content, Content::Other);
    }
}
