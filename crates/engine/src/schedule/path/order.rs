//! Paths in the order in which they are served.

use crate::path::{Path, PathId, PathSet, Paths};

/// Paths in the order in which they are served. Iterates without allocation.
#[derive(Clone, Debug)]
pub(crate) struct PathOrder {
    ids: [PathId; Self::MAX],
    len: usize,
    next: usize,
}

impl PathOrder {
    /// Room for every path that an association can have.
    pub(super) const MAX: usize = 32;

    /// No path at all.
    pub(crate) fn none() -> Self {
        Self { ids: [PathId(0); Self::MAX], len: 0, next: 0 }
    }

    /// The paths of `usable` by ascending `key`; the lower number first among equals.
    pub(super) fn by<K: Ord>(paths: &Paths, usable: PathSet, key: impl Fn(&Path) -> K) -> Self {
        let mut order = Self::none();
        for path in paths.among(usable).take(Self::MAX) {
            order.insert(path.id(), |other| paths.get(other).map(&key) > Some(key(path)));
        }
        order
    }

    /// The same paths, cheaper ones first.
    pub(crate) fn cheapest_first(self, paths: &Paths) -> Self {
        let cost = |id| paths.get(id).map(|path| path.regime().cost());
        let mut order = Self::none();
        for id in self {
            order.insert(id, |other| cost(other) > cost(id));
        }
        order
    }

    /// Puts `id` behind all others but those of which it `precedes` the last ones.
    fn insert(&mut self, id: PathId, precedes: impl Fn(PathId) -> bool) {
        let mut at = self.len;
        while at > 0 && precedes(self.ids[at - 1]) {
            self.ids[at] = self.ids[at - 1];
            at -= 1;
        }
        self.ids[at] = id;
        self.len += 1;
    }
}

impl Iterator for PathOrder {
    type Item = PathId;

    fn next(&mut self) -> Option<PathId> {
        let id = *self.ids[..self.len].get(self.next)?;
        self.next += 1;
        Some(id)
    }
}
