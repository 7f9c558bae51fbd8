//! The checksum of one direction, and bytes that never repeat.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// What went in one direction.
#[derive(Default)]
pub(crate) struct Checksum {
    unordered: bool,
    streams: BTreeMap<u16, Sha256>,
    sum: [u8; 32],
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

impl Checksum {
    pub(crate) fn new(unordered: bool) -> Self {
        Self { unordered, ..Self::default() }
    }

    /// A whole message of `stream`.
    pub(crate) fn add(&mut self, stream: u16, message: &[u8]) {
        self.bytes += message.len() as u64;
        self.messages += 1;
        if self.unordered {
            fold(&mut self.sum, Sha256::new_with_prefix(message));
        } else {
            self.streams.entry(stream).or_default().update(message);
        }
    }

    /// The checksum in hexadecimal digits.
    pub(crate) fn text(&self) -> String {
        let mut sum = self.sum;
        self.streams.values().for_each(|state| fold(&mut sum, state.clone()));
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn fold(sum: &mut [u8; 32], state: Sha256) {
    sum.iter_mut().zip(state.finalize()).for_each(|(sum, byte)| *sum ^= byte);
}

/// Bytes that never repeat: xorshift64*.
pub(crate) struct Content(u64);

impl Content {
    pub(crate) fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    pub(crate) fn take(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size + 7);
        while bytes.len() < size {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            bytes.extend_from_slice(&self.0.wrapping_mul(0x2545_F491_4F6C_DD1D).to_be_bytes());
        }
        bytes.truncate(size);
        bytes
    }
}
