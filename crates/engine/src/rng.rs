//! The engine's only source of randomness: ChaCha20 (RFC 8439 section 2.3) run from a 32-byte seed.
//!
//! Tags, initial TSNs, nonces and cookie keys must not be guessable (RFC 9260 section 5.3.1: "It is
//! very important that the Initiate Tag value be randomized"), and the same seed must give the same
//! packets on any machine: a stream cipher gives both.

const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
const DOUBLE_ROUNDS: usize = 10;

/// A deterministic generator of unpredictable numbers.
#[derive(Clone)]
pub(crate) struct Rng {
    key: [u32; 8],
    counter: u64,
    block: [u32; 16],
    used: usize,
}

impl core::fmt::Debug for Rng {
    /// Does not print the key: it would reveal every tag to come.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Rng").field("counter", &self.counter).finish_non_exhaustive()
    }
}

impl Rng {
    /// A generator that is fully determined by `seed`.
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let mut key = [0; 8];
        for (word, bytes) in key.iter_mut().zip(seed.chunks_exact(4)) {
            *word = bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
        }
        Self { key, counter: 0, block: [0; 16], used: 16 }
    }

    /// Any 32-bit number.
    pub(crate) fn next_u32(&mut self) -> u32 {
        if self.used == self.block.len() {
            self.block = chacha20_block(&self.key, self.counter);
            self.counter = self.counter.wrapping_add(1);
            self.used = 0;
        }
        let word = self.block[self.used];
        self.used += 1;
        word
    }

    /// Any 64-bit number.
    pub(crate) fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// A number from 1 to 2^32 - 1.
    pub(crate) fn nonzero_u32(&mut self) -> u32 {
        loop {
            let word = self.next_u32();
            if word != 0 {
                return word;
            }
        }
    }

    /// A number below `limit`, or 0 if `limit` is 0. Its bias of at most `limit`/2^64 does not
    /// matter for jitter and ports.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        u64::try_from((u128::from(self.next_u64()) * u128::from(limit)) >> 64).unwrap_or(0)
    }

    /// 32 bytes of key material.
    pub(crate) fn key(&mut self) -> [u8; 32] {
        let mut key = [0; 32];
        for bytes in key.chunks_exact_mut(4) {
            bytes.copy_from_slice(&self.next_u32().to_le_bytes());
        }
        key
    }
}

/// The ChaCha20 block function with a 64-bit counter and a zero nonce.
fn chacha20_block(key: &[u32; 8], counter: u64) -> [u32; 16] {
    let mut input = [0; 16];
    input[..4].copy_from_slice(&CONSTANTS);
    input[4..12].copy_from_slice(key);
    // The truncation is the split into two words.
    input[12] = counter as u32;
    input[13] = (counter >> 32) as u32;
    let mut state = input;
    for _ in 0..DOUBLE_ROUNDS {
        double_round(&mut state);
    }
    for (word, start) in state.iter_mut().zip(input) {
        *word = word.wrapping_add(start);
    }
    state
}

fn double_round(state: &mut [u32; 16]) {
    for column in 0..4 {
        quarter_round(state, [column, column + 4, column + 8, column + 12]);
    }
    for diagonal in 0..4 {
        let at = |row: usize| 4 * row + (diagonal + row) % 4;
        quarter_round(state, [at(0), at(1), at(2), at(3)]);
    }
}

fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (x, y, z, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[x] = state[x].wrapping_add(state[y]);
        state[z] = (state[z] ^ state[x]).rotate_left(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::{Rng, chacha20_block};
    use std::collections::BTreeSet;

    /// The well-known first block of ChaCha20 with an all-zero key, nonce and counter
    /// (RFC 8439 appendix A.1, test vector 1).
    #[test]
    fn block_function_meets_the_rfc_vector() {
        let block = chacha20_block(&[0; 8], 0);
        let expected = [
            0xade0_b876,
            0x903d_f1a0,
            0xe56a_5d40,
            0x28bd_8653,
            0xb819_d2bd,
            0x1aed_8da0,
            0xccef_36a8,
            0xc70d_778b,
            0x7c59_41da,
            0x8d48_5751,
            0x3fe0_2477,
            0x374a_d8b8,
            0xf4b8_436a,
            0x1ca1_1815,
            0x69b6_87c3,
            0x8665_eeb2,
        ];
        assert_eq!(block, expected);
    }

    #[test]
    fn seeds_give_their_own_reproducible_sequence() {
        let draw = |seed| {
            let mut rng = Rng::new([seed; 32]);
            (0..100).map(|_| rng.next_u64()).collect::<std::vec::Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_eq!(draw(1).into_iter().chain(draw(2)).collect::<BTreeSet<_>>().len(), 200);
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::new([7; 32]);
        let drawn: BTreeSet<_> = (0..1000).map(|_| rng.below(10)).collect();
        assert_eq!(drawn, (0..10).collect());
        assert_eq!(rng.below(0), 0);
    }
}
