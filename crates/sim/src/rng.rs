//! The one source of chance: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
//! generators", 2021), seeded through SplitMix64 as its authors recommend.

/// A small seeded generator. The same seed gives the same numbers on any machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator; every seed, also 0, is a good one.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        Self { state: core::array::from_fn(|_| split_mix(&mut x)) }
    }

    /// A generator whose numbers have nothing to do with those of `self` or of other `stream`s.
    pub fn fork(&mut self, stream: u64) -> Self {
        Self::new(self.next_u64() ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`, 0 when `bound` is 0. The bias is below 2^-32 for the small bounds here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `ppm` times in a million.
    pub fn ppm(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// 32 random bytes, a seed for something else.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        for word in seed.chunks_exact_mut(8) {
            word.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        seed
    }
}

fn split_mix(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values: the authors' C code (xoshiro256plusplus.c) with state 1, 2, 3, 4.
    #[test]
    fn matches_the_reference() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn ppm_comes_out_as_asked() {
        let mut rng = Rng::new(7);
        let hits = (0..100_000).filter(|_| rng.ppm(10_000)).count();
        assert!((900..1100).contains(&hits), "{hits} of 1000 expected");
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.below(0), 0);
    }
}
