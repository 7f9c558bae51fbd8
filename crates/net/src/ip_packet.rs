//! IP packets as bytes: UDP datagrams, their fragments, and ICMP messages.

use std::net::{IpAddr, SocketAddr};

/// Protocol numbers.
pub(crate) const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// Bytes of an ICMP header, and of a packet that an error quotes at most, so that the error fits everywhere.
const ICMP_HEADER: usize = 8;
const MAX_QUOTE: usize = 548;
const FRAGMENT: u8 = 44;
/// How many routers the answer may pass, as hosts usually send it.
const TTL: u8 = 64;
const UDP_HEADER: usize = 8;
const MORE_FRAGMENTS: u16 = 1;

/// A UDP header with its checksum, and the payload; `None` for ends of two families or too much payload.
pub(crate) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(UDP_HEADER + payload.len()).ok()?;
    let mut bytes = Vec::with_capacity(usize::from(length));
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    let sum = match checksum(pseudo_header(from.ip(), to.ip(), UDP, length)?, &bytes) {
        // Zero stands for no checksum (RFC 768).
        0 => u16::MAX,
        sum => sum,
    };
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    Some(bytes)
}

/// An IP packet. Its IPv4 checksum is left to the kernel, which computes it for raw sockets.
pub(crate) fn ip(from: IpAddr, to: IpAddr, protocol: u8, content: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = u16::try_from(20 + content.len()).ok()?.to_be_bytes();
            let mut head = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, TTL, protocol, 0, 0];
            head.extend(from.octets());
            head.extend(to.octets());
            head
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let length = u16::try_from(content.len()).ok()?.to_be_bytes();
            let mut head = vec![0x60, 0, 0, 0, length[0], length[1], protocol, TTL];
            head.extend(from.octets());
            head.extend(to.octets());
            head
        }
        _ => return None,
    };
    bytes.extend(content);
    Some(bytes)
}

/// The same in packets of at most `mtu` bytes. Those of IPv4 are told apart by the lower half of `number`.
pub(crate) fn fragments(
    (from, to): (IpAddr, IpAddr),
    protocol: u8,
    content: &[u8],
    number: u32,
    mtu: usize,
) -> Vec<Vec<u8>> {
    let head = if from.is_ipv4() { 20 } else { 48 };
    let room = (mtu - head) / 8 * 8;
    let count = content.len().div_ceil(room);
    let fragment = |(index, piece): (usize, &[u8])| {
        let units = u16::try_from(index * room / 8).ok()?;
        let more = index + 1 < count;
        if from.is_ipv4() {
            let mut packet = ip(from, to, protocol, piece)?;
            // Zero would let the kernel choose one for each fragment.
            let number = (number % 0xffff) as u16 + 1;
            packet[4..6].copy_from_slice(&number.to_be_bytes());
            let field = units | if more { MORE_FRAGMENTS << 13 } else { 0 };
            packet[6..8].copy_from_slice(&field.to_be_bytes());
            return Some(packet);
        }
        let mut extended = vec![protocol, 0];
        extended.extend((units << 3 | u16::from(more)).to_be_bytes());
        extended.extend(number.to_be_bytes());
        extended.extend(piece);
        ip(from, to, FRAGMENT, &extended)
    };
    content.chunks(room).enumerate().filter_map(fragment).collect()
}

/// What `destination` says to `client` when nobody listens there. It quotes the headers of a datagram without payload.
pub(crate) fn port_unreachable(destination: SocketAddr, client: SocketAddr) -> Option<Vec<u8>> {
    let quoted = ip(client.ip(), destination.ip(), UDP, &udp(client, destination, &[])?)?;
    let (kind, code) = if destination.is_ipv4() { (3, 3) } else { (1, 4) };
    icmp_error((destination.ip(), client.ip()), (kind, code, 0), &quoted)
}

/// A packet with an ICMP error (RFC 792, RFC 4443) from one address to another: its type, its code and the four bytes
/// behind the checksum, and what it quotes. `None` for ends of two families.
#[must_use]
pub fn icmp_error(
    ends: (IpAddr, IpAddr),
    (kind, code, word): (u8, u8, u32),
    quoted: &[u8],
) -> Option<Vec<u8>> {
    let quoted = quoted.get(..MAX_QUOTE).unwrap_or(quoted);
    let mut message = vec![kind, code, 0, 0];
    message.extend(word.to_be_bytes());
    message.extend(quoted);
    icmp(ends, TTL, message)
}

/// An ICMP or ICMPv6 message, whose checksum is computed here, as an IP packet. `None` for ends of two families, and for
/// too much content.
#[must_use]
pub fn icmp((from, to): (IpAddr, IpAddr), ttl: u8, mut message: Vec<u8>) -> Option<Vec<u8>> {
    let protocol = if from.is_ipv4() { ICMP } else { ICMP_V6 };
    let length = u16::try_from(message.len()).ok()?;
    let start = if from.is_ipv4() { 0 } else { pseudo_header(from, to, protocol, length)? };
    put_icmp_checksum(start, &mut message)?;
    let mut packet = ip(from, to, protocol, &message)?;
    packet[if from.is_ipv4() { 8 } else { 7 }] = ttl;
    if from.is_ipv4() {
        let sum = checksum(0, &packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    Some(packet)
}

/// Writes the checksum of an ICMP message; `None` if it is too short for one. `start`: the sum of its pseudo header.
pub(crate) fn put_icmp_checksum(start: u32, message: &mut [u8]) -> Option<()> {
    message.get_mut(..ICMP_HEADER)?[2..4].fill(0);
    let sum = checksum(start, message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// The sum of the pseudo header (RFC 768, RFC 8200 section 8.1).
fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, length: u16) -> Option<u32> {
    let ends = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => sum(&from.octets()) + sum(&to.octets()),
        (IpAddr::V6(from), IpAddr::V6(to)) => sum(&from.octets()) + sum(&to.octets()),
        _ => return None,
    };
    Some(ends + u32::from(protocol) + u32::from(length))
}

fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| {
        u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]))
    };
    bytes.chunks(2).map(word).sum()
}

/// The checksum of the internet (RFC 1071).
pub(crate) fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let mut total = start + sum(bytes);
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    !(total as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_checksum_over_a_packet_with_its_checksum_is_zero() {
        for (from, to) in [("192.0.2.1:53", "10.0.0.7:4000"), ("[2001:db8::1]:53", "[fd00::7]:9")] {
            for payload in [&b""[..], b"x", b"answer"] {
                let datagram = udp(at(from), at(to), payload).unwrap();
                let length = u16::try_from(datagram.len()).unwrap();
                let start = pseudo_header(at(from).ip(), at(to).ip(), UDP, length).unwrap();
                assert_eq!(checksum(start, &datagram), 0, "{from}");
            }
        }
        assert_eq!(udp(at("192.0.2.1:1"), at("[::1]:1"), b""), None);
        assert_eq!(udp(at("192.0.2.1:1"), at("192.0.2.2:1"), &[0; 65_528]), None);
    }

    #[test]
    fn fragments_hold_the_whole_content_and_fit() {
        let content: Vec<u8> = (0..4000u32).map(|byte| byte as u8).collect();
        for (from, to, head) in [("192.0.2.1", "10.0.0.7", 20), ("2001:db8::1", "fd00::7", 48)] {
            let ends = (from.parse().unwrap(), to.parse().unwrap());
            let all = fragments(ends, UDP, &content, 7, 1280);
            assert!(all.iter().all(|one| one.len() <= 1280), "{from}");
            let joined: Vec<u8> = all.iter().flat_map(|one| one[head..].to_vec()).collect();
            assert_eq!(joined, content, "{from}");
            let more: Vec<bool> = all
                .iter()
                .map(|one| if head == 20 { one[6] & 0x20 != 0 } else { one[43] & 1 != 0 })
                .collect();
            assert_eq!(more, [true, true, true, false], "{from}");
        }
    }

    #[test]
    fn port_unreachable_quotes_what_it_is_about() {
        let message = port_unreachable(at("192.0.2.1:53"), at("10.0.0.7:4000")).unwrap();
        assert_eq!((message[9], message[20], message[21]), (ICMP, 3, 3));
        assert_eq!(checksum(0, &message[20..]), 0);
        assert_eq!(message[40..44], [10, 0, 0, 7]);
        assert_eq!(message[48..52], [0x0f, 0xa0, 0, 53]);
        assert_eq!(checksum(0, &message[..20]), 0);
        let message = port_unreachable(at("[2001:db8::1]:53"), at("[fd00::7]:4000")).unwrap();
        assert_eq!((message[6], message[40], message[41]), (ICMP_V6, 1, 4));
    }
}
