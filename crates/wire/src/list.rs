//! Lists of fixed-size numbers: borrowed from a packet when read, from values when written.

use crate::numbers::{StreamId, Tsn};
use core::fmt;

pub(crate) mod sealed {
    /// Keeps [`Item`](super::Item) closed: its implementations are the lists of SCTP.
    pub trait Sealed {}
}

/// What a [`List`] can hold.
pub trait Item: Copy + PartialEq + fmt::Debug + sealed::Sealed + 'static {
    /// The item's bytes in a packet.
    type Wire: Copy + AsRef<[u8]> + fmt::Debug + 'static;
    /// From network byte order.
    fn from_wire(wire: Self::Wire) -> Self;
    /// To network byte order.
    fn to_wire(self) -> Self::Wire;
}

/// Numbers of one kind, in the order in which they stand in the packet. Two lists are equal when
/// their items are, wherever they are borrowed from.
#[derive(Clone, Copy)]
pub struct List<'a, T: Item> {
    source: Source<'a, T>,
}

#[derive(Clone, Copy)]
enum Source<'a, T: Item> {
    Wire(&'a [T::Wire]),
    Values(&'a [T]),
}

impl<'a, T: Item> List<'a, T> {
    /// No items.
    pub const EMPTY: Self = Self { source: Source::Values(&[]) };

    /// A list to be written.
    pub const fn from_slice(values: &'a [T]) -> Self {
        Self { source: Source::Values(values) }
    }

    pub(crate) const fn from_wire(wire: &'a [T::Wire]) -> Self {
        Self { source: Source::Wire(wire) }
    }

    /// Number of items.
    pub const fn len(&self) -> usize {
        match self.source {
            Source::Wire(wire) => wire.len(),
            Source::Values(values) => values.len(),
        }
    }

    /// Whether there is no item.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at `index`, if there are that many.
    pub fn get(&self, index: usize) -> Option<T> {
        match self.source {
            Source::Wire(wire) => wire.get(index).map(|&item| T::from_wire(item)),
            Source::Values(values) => values.get(index).copied(),
        }
    }

    /// Number of items at the beginning for which `holds`. Long lists are compared so with each SACK: that looks but once
    /// where the items are.
    pub fn count_while(&self, mut holds: impl FnMut(T) -> bool) -> usize {
        match self.source {
            Source::Wire(wire) => {
                wire.iter().take_while(|item| holds(T::from_wire(**item))).count()
            }
            Source::Values(values) => values.iter().take_while(|item| holds(**item)).count(),
        }
    }

    /// The items in order.
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter { list: *self, range: 0..self.len() }
    }
}

impl<T: Item> Default for List<'_, T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T: Item> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Item + Eq> Eq for List<'_, T> {}

impl<T: Item> fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Item> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

/// Iterator over a [`List`].
#[derive(Clone, Debug)]
pub struct ListIter<'a, T: Item> {
    list: List<'a, T>,
    range: core::ops::Range<usize>,
}

impl<T: Item> Iterator for ListIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.range.next().and_then(|index| self.list.get(index))
    }

    fn nth(&mut self, n: usize) -> Option<T> {
        self.range.nth(n).and_then(|index| self.list.get(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl<T: Item> DoubleEndedIterator for ListIter<'_, T> {
    fn next_back(&mut self) -> Option<T> {
        self.range.next_back().and_then(|index| self.list.get(index))
    }
}

impl<T: Item> ExactSizeIterator for ListIter<'_, T> {}

macro_rules! item {
    ($name:ty, $wire:ty, $from:expr, $to:expr) => {
        impl $crate::list::sealed::Sealed for $name {}
        impl $crate::list::Item for $name {
            type Wire = $wire;

            fn from_wire(wire: $wire) -> Self {
                $from(wire)
            }

            fn to_wire(self) -> $wire {
                $to(self)
            }
        }
    };
}

pub(crate) use item;

item!(u16, [u8; 2], Self::from_be_bytes, Self::to_be_bytes);
item!(Tsn, [u8; 4], |wire| Self(u32::from_be_bytes(wire)), |tsn: Self| tsn.0.to_be_bytes());
item!(StreamId, [u8; 2], |wire| Self(u16::from_be_bytes(wire)), |id: Self| id.0.to_be_bytes());

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    const WIRE: List<'static, Tsn> = List::from_wire(&[[0, 0, 0, 1], [0xFF, 0, 0, 2]]);
    const VALUES: List<'static, Tsn> = List::from_slice(&[Tsn(1), Tsn(0xFF00_0002)]);

    #[test]
    fn both_sources_hold_the_same_items() {
        assert_eq!(WIRE, VALUES);
        assert_eq!(WIRE.len(), 2);
        assert!(WIRE.iter().rev().eq([Tsn(0xFF00_0002), Tsn(1)]));
        assert_eq!(WIRE.iter().len(), 2);
        assert_eq!((WIRE.get(1), WIRE.get(2)), (Some(Tsn(0xFF00_0002)), None));
        assert_eq!((VALUES.get(0), VALUES.get(2)), (Some(Tsn(1)), None));
        for list in [WIRE, VALUES] {
            let mut items = list.iter();
            assert_eq!((items.nth(1), items.next()), (Some(Tsn(0xFF00_0002)), None));
            assert_eq!(list.iter().nth(2), None);
            let counts = [1, 2, 3].map(|most| list.count_while(|tsn| tsn.0 % 3 < most));
            assert_eq!(counts, [0, 1, 2], "the items are 1 and 2 modulo 3: {list:?}");
        }
        assert_eq!(format!("{WIRE:?}"), "[Tsn(1), Tsn(4278190082)]");
    }

    #[test]
    fn lists_differ_by_an_item_or_by_length() {
        assert_ne!(WIRE, List::from_slice(&[Tsn(1)]));
        assert_ne!(WIRE, List::from_slice(&[Tsn(1), Tsn(2)]));
        assert!(List::<u16>::default().is_empty() && !WIRE.is_empty());
    }
}
