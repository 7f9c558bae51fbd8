//! A set of paths without allocation.

use super::PathId;

/// Some of the paths of an association, by the bits of one word: every packet asks for such sets many times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathSet(u64);

impl PathSet {
    /// Numbers of paths that a set can hold: those below this one.
    pub(super) const IDS: u8 = 64;

    /// Adds a path.
    pub(crate) fn insert(&mut self, id: PathId) {
        self.0 |= Self::bit(id);
    }

    /// Takes a path out.
    pub(crate) fn remove(&mut self, id: PathId) {
        self.0 &= !Self::bit(id);
    }

    /// Whether `id` is in the set.
    pub(crate) fn contains(self, id: PathId) -> bool {
        self.0 & Self::bit(id) != 0
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of paths in the set.
    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether `id` is in the set and nothing else is.
    pub(crate) fn is_only(self, id: PathId) -> bool {
        self.contains(id) && self.0.is_power_of_two()
    }

    /// The paths in the order of their numbers.
    pub(crate) fn iter(mut self) -> impl Iterator<Item = PathId> {
        core::iter::from_fn(move || {
            let bit = u8::try_from(self.0.trailing_zeros()).ok().filter(|bit| *bit < Self::IDS)?;
            self.0 &= self.0 - 1;
            Some(PathId(bit))
        })
    }

    /// None for a number that no path has.
    fn bit(id: PathId) -> u64 {
        1_u64.checked_shl(u32::from(id.0)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{PathId, PathSet};
    use alloc::vec::Vec;

    #[test]
    fn holds_what_was_inserted() {
        let mut set = PathSet::default();
        assert!(set.is_empty());
        for id in [20, 0, 63, 31, 64, 255] {
            set.insert(PathId(id));
        }
        assert!(set.contains(PathId(63)) && !set.contains(PathId(62)) && !set.contains(PathId(64)));
        let ids: Vec<u8> = set.iter().map(|id| id.0).collect();
        assert_eq!(ids, [0, 20, 31, 63]);
        assert_eq!((set.len(), PathSet::default().len()), (4, 0));
        assert!(!set.is_only(PathId(0)));
        set.remove(PathId(31));
        assert!(!set.contains(PathId(31)) && set.contains(PathId(0)));
        let mut one = PathSet::default();
        one.insert(PathId(20));
        assert!(one.is_only(PathId(20)) && !one.is_only(PathId(8)));
    }
}
