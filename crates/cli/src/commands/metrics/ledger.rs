//! Sums of counters whose owners come and go: stacks, associations and paths end, and a sum over those that are left would fall.

use std::collections::BTreeMap;

/// Names and values of a series.
pub(super) type Labels = Vec<(&'static str, String)>;
/// Which process, association and path counts; zero where it is not one. Without an association, the engine loop stands for the
/// path.
pub(super) type Owner = (u32, u64, u64);
/// Which series, by the name of its family.
type Series = (&'static str, Labels);

/// What all owners have counted since the first look.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    totals: BTreeMap<Series, u64>,
    seen: BTreeMap<(Owner, Series), u64>,
    /// Those of the look that has begun.
    now: BTreeMap<(Owner, Series), u64>,
}

impl Ledger {
    /// An owner's counter, as it stands. What was not there at the last look, or counts from the beginning again, adds all of it.
    pub(super) fn record(&mut self, owner: Owner, name: &'static str, labels: Labels, value: u64) {
        let key = (owner, (name, labels));
        let before = self.seen.get(&key).copied().unwrap_or(0);
        let added = value.checked_sub(before).unwrap_or(value);
        *self.totals.entry(key.1.clone()).or_default() += added;
        *self.now.entry(key).or_default() = value;
    }

    /// All owners have been recorded: those that were not are forgotten, and their part of the sums stays.
    pub(super) fn close(&mut self) {
        self.seen = std::mem::take(&mut self.now);
    }

    /// The sums of a family.
    pub(super) fn family(&self, name: &'static str) -> impl Iterator<Item = (&Labels, u64)> {
        let all = self.totals.iter().filter(move |((family, _), _)| *family == name);
        all.map(|((_, labels), value)| (labels, *value))
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Owner};

    fn sum(ledger: &Ledger) -> Vec<u64> {
        ledger.family("sent").map(|(_, value)| value).collect()
    }

    #[test]
    fn a_sum_never_falls_when_its_owners_end() {
        let mut ledger = Ledger::default();
        let mut look = |owners: &[(Owner, u64)]| {
            for (owner, value) in owners {
                ledger.record(*owner, "sent", vec![("interface", "eth0".to_owned())], *value);
            }
            ledger.close();
            sum(&ledger)
        };
        assert_eq!(look(&[((1, 1, 0), 10), ((2, 1, 0), 5)]), [15]);
        assert_eq!(look(&[((1, 1, 0), 12)]), [17], "the second has ended");
        assert_eq!(look(&[((1, 1, 0), 12)]), [17]);
        assert_eq!(look(&[((1, 1, 0), 3)]), [20], "another process with the same number");
        assert_eq!(look(&[]), [20]);
    }
}
