//! Random choices that a seed repeats.

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Dice(u64);

impl Dice {
    /// `purpose` keeps those apart who share a seed, whatever the order is in which they choose.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = Self(seed ^ purpose.wrapping_mul(0xD1B5_4A32_D192_ED03));
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From `from` up to, but not including, `to`.
    pub(crate) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    /// As often small as large: evenly spread over the logarithm.
    pub(crate) fn size(&mut self, least: u64, most: u64) -> u64 {
        let doublings = (most / least).ilog2();
        let scale = least << self.range(0, u64::from(doublings) + 1);
        (scale + self.next() % scale).min(most)
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.range(0, all.len() as u64);
        &all[usize::try_from(index).expect("an index")]
    }
}
