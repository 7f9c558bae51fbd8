use crate::host::MTU;
use manypath_sim::{Ecn, Packet};
use std::fs::File;
use std::io::{self, Read};

/// One IP packet in a buffer of its own.
#[derive(Clone)]
pub(super) struct IpPacket {
    buffer: Box<[u8; MTU as usize]>,
    len: usize,
}

impl IpPacket {
    fn empty() -> Self {
        Self { buffer: Box::new([0; MTU as usize]), len: 0 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Packet for IpPacket {
    fn wire_len(&self) -> usize {
        self.len
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }

    fn ecn(&self) -> Ecn {
        let [first, second, ..] = *self.buffer;
        match first >> 4 {
            4 => Ecn::from_octet(second),
            // The Traffic Class begins in the middle of the first octet.
            6 => Ecn::from_octet(second >> 4),
            _ => Ecn::NotEct,
        }
    }

    fn mark(&mut self) {
        let buffer = &mut self.buffer;
        match buffer[0] >> 4 {
            4 => {
                let before = u16::from_be_bytes([buffer[0], buffer[1]]);
                buffer[1] |= Ecn::Ce.bits();
                let after = u16::from_be_bytes([buffer[0], buffer[1]]);
                let checksum = u16::from_be_bytes([buffer[10], buffer[11]]);
                let updated = updated_checksum(checksum, before, after);
                buffer[10..12].copy_from_slice(&updated.to_be_bytes());
            }
            6 => buffer[1] |= Ecn::Ce.bits() << 4,
            _ => {}
        }
    }
}

/// RFC 1624 equation 3: one word of what the checksum is about has changed.
fn updated_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !(((folded & 0xFFFF) + (folded >> 16)) as u16)
}

/// Packets whose buffers can be used again.
#[derive(Default)]
pub(super) struct Pool {
    free: Vec<IpPacket>,
}

impl Pool {
    const MOST: usize = 4096;

    /// Reads the next packet of a TUN device; `None` when there is none.
    pub(super) fn read(&mut self, mut device: &File) -> io::Result<Option<IpPacket>> {
        let mut packet = self.free.pop().unwrap_or_else(IpPacket::empty);
        match device.read(&mut packet.buffer[..]) {
            Ok(len) => {
                packet.len = len;
                Ok(Some(packet))
            }
            Err(error) => {
                self.free.push(packet);
                if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) }
            }
        }
    }

    pub(super) fn give_back(&mut self, packet: IpPacket) {
        if self.free.len() < Self::MOST {
            self.free.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ecn, IpPacket, Packet};

    fn sum(bytes: &[u8]) -> u32 {
        let words = bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        (sum & 0xFFFF) + (sum >> 16)
    }

    fn packet(bytes: &[u8]) -> IpPacket {
        let mut packet = IpPacket::empty();
        packet.buffer[..bytes.len()].copy_from_slice(bytes);
        packet.len = bytes.len();
        packet
    }

    #[test]
    fn a_mark_leaves_the_checksum_of_ipv4_right() {
        for octet in [0x02, 0x01, 0xBA] {
            let mut header =
                [0x45, octet, 0, 20, 1, 2, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            let checksum = !(sum(&header) as u16);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            let mut packet = packet(&header);
            assert!(packet.ecn().is_capable() && sum(packet.bytes()) == 0xFFFF);
            packet.mark();
            assert_eq!((packet.ecn(), sum(packet.bytes())), (Ecn::Ce, 0xFFFF));
            assert_eq!(packet.bytes()[1] & !3, octet & !3);
        }
    }

    #[test]
    fn a_mark_of_ipv6_is_in_the_middle_of_the_traffic_class() {
        let mut packet = packet(&[0x6A, 0x21, 0xFF, 0xFF]);
        assert_eq!(packet.ecn(), Ecn::Ect0);
        packet.mark();
        assert_eq!((packet.ecn(), packet.bytes()), (Ecn::Ce, &[0x6A, 0x31, 0xFF, 0xFF][..]));
    }
}
