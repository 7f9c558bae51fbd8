use crate::host::MTU;
use manypath_sim::Packet;
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
