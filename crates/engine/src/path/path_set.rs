//! A set of paths without allocation.

use super::PathId;

/// Some of the paths of an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathSet([u64; 4]);

impl PathSet {
    /// Adds a path.
    pub(crate) fn insert(&mut self, id: PathId) {
        self.0[usize::from(id.0 >> 6)] |= 1 << (id.0 & 63);
    }

    /// Takes a path out.
    pub(crate) fn remove(&mut self, id: PathId) {
        self.0[usize::from(id.0 >> 6)] &= !(1 << (id.0 & 63));
    }

    /// Whether `id` is in the set.
    pub(crate) fn contains(self, id: PathId) -> bool {
        self.0[usize::from(id.0 >> 6)] & (1 << (id.0 & 63)) != 0
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Number of paths in the set.
    pub(crate) fn len(self) -> usize {
        // Most processors that we are compiled for count bits one by one.
        self.0.iter().filter(|word| **word != 0).map(|word| word.count_ones() as usize).sum()
    }

    /// Whether `id` is in the set and nothing else is.
    pub(crate) fn is_only(self, id: PathId) -> bool {
        let mut only = Self::default();
        only.insert(id);
        self == only
    }

    /// The paths in the order of their numbers.
    pub(crate) fn iter(mut self) -> impl Iterator<Item = PathId> {
        core::iter::from_fn(move || {
            let word = self.0.iter().position(|word| *word != 0)?;
            let bit = self.0[word].trailing_zeros();
            self.0[word] &= self.0[word] - 1;
            u8::try_from(word * 64 + bit as usize).ok().map(PathId)
        })
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
        for id in [200, 0, 63, 64, 255] {
            set.insert(PathId(id));
        }
        assert!(set.contains(PathId(63)) && !set.contains(PathId(62)));
        let ids: Vec<u8> = set.iter().map(|id| id.0).collect();
        assert_eq!(ids, [0, 63, 64, 200, 255]);
        assert_eq!((set.len(), PathSet::default().len()), (5, 0));
        assert!(!set.is_only(PathId(0)));
        set.remove(PathId(64));
        assert!(!set.contains(PathId(64)) && set.contains(PathId(0)));
        let mut one = PathSet::default();
        one.insert(PathId(200));
        assert!(one.is_only(PathId(200)) && !one.is_only(PathId(8)));
    }
}
