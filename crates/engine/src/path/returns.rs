//! What SACKs may take of a way back. The fastest path is the best one for them, but its uplink may be narrow, and the SACKs
//! for all paths would fill it: over 140 Mbit/s and 22 Mbit/s with an uplink of 0.8, they took 0.9. So the fastest path
//! carries SACKs for a part of what arrives over it, and what is more goes back over the others.

/// A SACK byte for so many that arrive: about what TCP sends, a packet of 52 bytes for two of 1500.
const WORTH: u32 = 40;
/// What may be saved up, and what may be taken in advance.
const MOST: i32 = 6000;

/// The account of one path, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returns(i32);

impl Default for Returns {
    fn default() -> Self {
        Self(MOST)
    }
}

impl Returns {
    /// A packet of `len` bytes with data has arrived.
    pub(crate) fn earn(&mut self, len: usize) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.0 = self.0.saturating_add_unsigned(len / WORTH).min(MOST);
    }

    /// A SACK has left in `len` bytes.
    pub(crate) fn spend(&mut self, len: usize) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.0 = self.0.saturating_sub_unsigned(len).max(-MOST);
    }

    /// How much more than nothing is missing: zero where a SACK may leave.
    pub(crate) fn missing(self) -> u32 {
        self.0.min(0).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Returns, WORTH};

    #[test]
    fn sacks_take_a_part_of_what_arrives() {
        let (mut returns, mut left) = (Returns::default(), 0);
        for _ in 0..10_000 {
            returns.earn(1200);
            if returns.missing() == 0 {
                returns.spend(100);
                left += 100;
            }
        }
        let most = 10_000 * 1200 / WORTH;
        assert!((most..=most + MOST as u32 + 100).contains(&left), "{left} {most}");
    }

    #[test]
    fn a_long_silence_and_a_large_debt_count_as_little() {
        let mut returns = Returns::default();
        returns.earn(1 << 30);
        returns.spend(2 * MOST as usize);
        assert_eq!(returns.missing(), MOST as u32);
        returns.earn(usize::MAX);
        assert_eq!(returns.missing(), 0);
    }
}
