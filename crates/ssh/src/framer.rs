//! A stream of bytes, cut into packets that begin with their length.

use std::fmt;

/// A packet is longer than any that the protocol allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong(pub u32);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a packet of {} bytes", self.0)
    }
}

/// Bytes that have come, until the packet that they are part of is whole. Both the multiplexing
/// protocol of OpenSSH and SFTP begin each packet with its length, 4 bytes.
#[derive(Debug)]
pub(crate) struct Framer {
    bytes: Vec<u8>,
    /// Everything before this has been taken.
    taken: usize,
    longest: u32,
}

impl Framer {
    /// For packets of at most `longest` bytes.
    pub(crate) fn new(longest: u32) -> Self {
        Self { bytes: Vec::new(), taken: 0, longest }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken >= self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole packet, without its length.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(*length);
        if length > self.longest {
            return Err(TooLong(length));
        }
        let Some(packet) = rest.get(..length as usize) else { return Ok(None) };
        self.taken += 4 + packet.len();
        Ok(Some(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_come_out_as_they_went_in_however_they_are_cut(
            packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..20),
            cut in 1usize..40,
        ) {
            let stream: Vec<u8> = packets
                .iter()
                .flat_map(|p| [&(p.len() as u32).to_be_bytes()[..], p].concat())
                .collect();
            let mut framer = Framer::new(100);
            let mut out = Vec::new();
            for piece in stream.chunks(cut) {
                framer.put(piece);
                while let Some(packet) = framer.next().expect("short") {
                    out.push(packet.to_vec());
                }
            }
            prop_assert_eq!(out, packets);
        }
    }

    #[test]
    fn a_length_beyond_the_longest_packet_is_an_error_before_anything_is_stored_for_it() {
        let mut framer = Framer::new(100);
        framer.put(&101u32.to_be_bytes());
        assert_eq!(framer.next(), Err(TooLong(101)));
    }
}
