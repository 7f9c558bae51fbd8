//! What arrives at this host, before routing checks and firewalls look at it (packet(7)). Needs CAP_NET_RAW.

use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// ETH_P_ALL of linux/if_ether.h.
const EVERYTHING: u16 = 3;
/// UDP's number among the protocols over IP.
const UDP: u8 = 17;
/// Packets looked at in one go.
const TURN: usize = 4096;
/// Bytes looked at of each: headers are enough.
const LENGTH: usize = 256;

/// Sees it.
#[derive(Debug)]
pub(super) struct Capture {
    socket: Socket,
}

impl Capture {
    /// Begins to look, if that is permitted.
    pub(super) fn open() -> Option<Self> {
        let protocol = Protocol::from(i32::from(EVERYTHING.to_be()));
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = Socket::new_raw(Domain::PACKET, kind, Some(protocol)).ok()?;
        Some(Self { socket })
    }

    /// Hands what has come in UDP to `each`: its destination, and the tag of the SCTP packet inside.
    pub(super) fn take(&mut self, mut each: impl FnMut(SocketAddr, u32)) {
        let mut buffer = [0; LENGTH];
        for _ in 0..TURN {
            let Ok(length) = self.socket.read(&mut buffer) else { return };
            if let Some((to, tag)) = read(&buffer[..length]) {
                each(to, tag);
            }
        }
    }
}

/// Destination and tag of SCTP in UDP in IP.
fn read(packet: &[u8]) -> Option<(SocketAddr, u32)> {
    let (ip, udp) = match packet.first()? >> 4 {
        4 => {
            let length = usize::from(packet[0] & 0xF) * 4;
            (*packet.get(9)? == UDP).then_some(())?;
            let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            (IpAddr::from(Ipv4Addr::from(octets)), packet.get(length..)?)
        }
        6 => {
            (*packet.get(6)? == UDP).then_some(())?;
            let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            (IpAddr::from(Ipv6Addr::from(octets)), packet.get(40..)?)
        }
        _ => return None,
    };
    let port = u16::from_be_bytes(udp.get(2..4)?.try_into().ok()?);
    // UDP header, then the ports of SCTP.
    let tag = u32::from_be_bytes(udp.get(12..16)?.try_into().ok()?);
    Some((SocketAddr::new(ip, port), tag))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn tags_are_found_behind_headers() {
        let mut v4 = vec![0; 36];
        (v4[0], v4[9]) = (0x45, 17);
        v4[16..20].copy_from_slice(&[192, 0, 2, 1]);
        v4[22..24].copy_from_slice(&9u16.to_be_bytes());
        v4[32..36].copy_from_slice(&7u32.to_be_bytes());
        assert_eq!(read(&v4), Some(("192.0.2.1:9".parse().unwrap(), 7)));
        assert_eq!(read(&v4[..35]), None);
        v4[9] = 6;
        assert_eq!(read(&v4), None);
        let mut v6 = vec![0; 56];
        (v6[0], v6[6], v6[39]) = (0x60, 17, 1);
        v6[42..44].copy_from_slice(&9u16.to_be_bytes());
        v6[52..56].copy_from_slice(&7u32.to_be_bytes());
        assert_eq!(read(&v6), Some(("[::1]:9".parse().unwrap(), 7)));
        assert_eq!(read(&[]), None);
    }
}
