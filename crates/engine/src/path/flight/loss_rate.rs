//! How much of what a path carries is lost, for the retransmission policy LOSSRATE.

/// Each chunk changes the average by one part of this.
const WEIGHT: u32 = 64;
/// Everything is lost.
const ALL: u32 = 1 << 20;

/// Exponentially weighted share of chunks that were found lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct LossRate(u32);

impl LossRate {
    /// A chunk was found lost.
    pub(crate) fn on_lost(&mut self) {
        self.0 += (ALL - self.0) / WEIGHT;
    }

    /// The rate, in parts of 2^20.
    pub(crate) fn level(self) -> u64 {
        self.0.into()
    }

    /// A chunk was acknowledged.
    pub(crate) fn on_acked(&mut self) {
        self.0 -= self.0 / WEIGHT;
    }
}

#[cfg(test)]
mod tests {
    use super::LossRate;

    #[test]
    fn more_losses_give_a_higher_rate() {
        let mut rates = [LossRate::default(); 3];
        for chunk in 0..1000 {
            for (rate, period) in rates.iter_mut().zip([usize::MAX, 100, 10]) {
                if chunk % period == period - 1 { rate.on_lost() } else { rate.on_acked() }
            }
        }
        assert!(rates[0] == LossRate::default() && rates[0] < rates[1] && rates[1] < rates[2]);
    }
}
