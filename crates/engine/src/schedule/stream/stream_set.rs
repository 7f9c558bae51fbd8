//! A set of streams in the order of their numbers, as bits. Which one comes next is found in a few
//! steps however many there are, because whole words without any are passed over.

use alloc::vec::Vec;
use manypath_wire::StreamId;

/// Bits in a word.
const BITS: usize = 64;
/// Words for all 2^16 streams, and bits to say which of them are not zero.
const SUMMARY: usize = (1 << 16) / BITS / BITS;

/// Some of the streams of an association.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamSet {
    words: Vec<u64>,
    /// Which of `words` are not zero.
    summary: [u64; SUMMARY],
}

impl StreamSet {
    pub(super) fn insert(&mut self, stream: StreamId) {
        let (word, bit) = place(stream);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << bit;
        self.summary[word / BITS] |= 1 << (word % BITS);
    }

    pub(super) fn remove(&mut self, stream: StreamId) {
        let (at, bit) = place(stream);
        let Some(word) = self.words.get_mut(at) else { return };
        *word &= !(1 << bit);
        if *word == 0 {
            self.summary[at / BITS] &= !(1 << (at % BITS));
        }
    }

    pub(super) fn contains(&self, stream: StreamId) -> bool {
        let (word, bit) = place(stream);
        self.words.get(word).is_some_and(|word| word >> bit & 1 == 1)
    }

    /// The first stream that `may`, cyclically after `last`.
    pub(super) fn next_after(
        &self,
        last: Option<StreamId>,
        may: &dyn Fn(StreamId) -> bool,
    ) -> Option<StreamId> {
        let Some(last) = last else { return self.from(StreamId(0)).find(|stream| may(*stream)) };
        let mut later =
            last.0.checked_add(1).into_iter().flat_map(|next| self.from(StreamId(next)));
        let mut others = self.from(StreamId(0)).take_while(|stream| *stream <= last);
        later.find(|stream| may(*stream)).or_else(|| others.find(|stream| may(*stream)))
    }

    /// The streams from `first` on.
    fn from(&self, first: StreamId) -> impl Iterator<Item = StreamId> {
        let (mut at, bit) = place(first);
        let mut rest = self.words.get(at).map_or(0, |word| word & u64::MAX << bit);
        core::iter::from_fn(move || {
            if rest == 0 {
                at = self.word_after(at)?;
                rest = *self.words.get(at)?;
            }
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            u16::try_from(at * BITS + bit).ok().map(StreamId)
        })
    }

    /// The next word that is not zero.
    fn word_after(&self, word: usize) -> Option<usize> {
        let (mut at, bit) = ((word + 1) / BITS, (word + 1) % BITS);
        let mut rest = self.summary.get(at)? & u64::MAX << bit;
        while rest == 0 {
            at += 1;
            rest = *self.summary.get(at)?;
        }
        Some(at * BITS + rest.trailing_zeros() as usize)
    }
}

/// The word of a stream and its bit in it.
fn place(stream: StreamId) -> (usize, usize) {
    let number = usize::from(stream.0);
    (number / BITS, number % BITS)
}

#[cfg(test)]
mod tests {
    use super::StreamSet;
    use alloc::collections::BTreeSet;
    use manypath_wire::StreamId;
    use proptest::prelude::*;

    /// The same, step by step.
    fn expected(set: &BTreeSet<u16>, last: Option<u16>, odd: bool) -> Option<u16> {
        let may = |stream: &&u16| !odd || **stream % 2 == 1;
        let later = set.iter().filter(|stream| last.is_none_or(|last| **stream > last)).find(may);
        later.or_else(|| set.iter().find(may)).copied()
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(
            ops in prop::collection::vec((any::<bool>(), prop_oneof![0..200u16, any::<u16>()]), 1..80),
            last in prop::option::of(prop_oneof![0..200u16, any::<u16>(), Just(u16::MAX)]),
        ) {
            let (mut set, mut model) = (StreamSet::default(), BTreeSet::new());
            for (add, stream) in ops {
                if add {
                    set.insert(StreamId(stream));
                    model.insert(stream);
                } else {
                    set.remove(StreamId(stream));
                    model.remove(&stream);
                }
                prop_assert_eq!(set.contains(StreamId(stream)), add);
                for odd in [false, true] {
                    let may = |stream: StreamId| !odd || stream.0 % 2 == 1;
                    let found = set.next_after(last.map(StreamId), &may).map(|stream| stream.0);
                    prop_assert_eq!(found, expected(&model, last, odd));
                }
            }
        }
    }
}
