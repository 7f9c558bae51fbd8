//! The checksum of what goes in one direction, and the bytes themselves: see `../../sockets/checksum.h`.

use sha2::{Digest, Sha256};
use std::collections::HashMap;

#[derive(Default)]
pub(crate) struct Checksum {
    by_message: bool,
    streams: HashMap<u16, Sha256>,
    sum: [u8; 32],
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

impl Checksum {
    pub(crate) fn new(by_message: bool) -> Self {
        Self { by_message, ..Self::default() }
    }

    pub(crate) fn add(&mut self, stream: u16, message: &[u8]) {
        if self.by_message {
            fold(&mut self.sum, Sha256::digest(message).as_slice());
        } else {
            self.streams.entry(stream).or_default().update(message);
        }
        self.bytes += message.len() as u64;
        self.messages += 1;
    }

    pub(crate) fn text(&self) -> String {
        let mut sum = self.sum;
        for state in self.streams.values() {
            fold(&mut sum, state.clone().finalize().as_slice());
        }
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn fold(sum: &mut [u8; 32], digest: &[u8]) {
    sum.iter_mut().zip(digest).for_each(|(sum, byte)| *sum ^= byte);
}

/// Bytes that never repeat: xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(0x2545_f491_4f6c_dd1d ^ seed)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            bytes.extend(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// FNV-1a.
pub(crate) fn seal(data: &[u8]) -> [u8; 4] {
    let step = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(16_777_619);
    data.iter().fold(2_166_136_261, step).to_le_bytes()
}
