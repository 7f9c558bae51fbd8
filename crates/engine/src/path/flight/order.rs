//! The order of transmission on a path, by which split fast retransmit finds what is missing
//! (Iyengar, Amer, Stewart 2006; draft-tuexen-tsvwg-sctp-multipath 5.1).
//!
//! A chunk gets a missing report only if the SACK newly acknowledges something that was sent later
//! *on the same path*. The published algorithm compares TSNs, which is the same as long as nothing
//! is retransmitted: a retransmission leaves later than the higher TSNs before it, and would be
//! reported missing by their acknowledgements. So each transmission gets a number per path, and the
//! numbers are compared. This also finds lost retransmissions.
//!
//! The queue keeps what is in flight in order of transmission, so that the work per SACK is in
//! proportion to what was newly acknowledged and what is missing, not to the window.

use super::Reach;
use crate::tsn::Tsn64;
use alloc::collections::{VecDeque, vec_deque};
use alloc::vec::Vec;

/// One transmission of a chunk on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    /// Its number on the path.
    pub(crate) number: u64,
    /// The chunk.
    pub(crate) tsn: Tsn64,
}

/// Transmissions of a path in order. Some may be over (acknowledged or moved away): they are
/// recognised by a look at the chunk and leave the queue when they come to its front.
#[derive(Debug, Default)]
pub(crate) struct SentOrder {
    queue: VecDeque<Sent>,
}

impl SentOrder {
    /// A chunk was sent; its number is larger than all before.
    pub(crate) fn push(&mut self, sent: Sent) {
        self.queue.push_back(sent);
    }

    /// Nothing is under way: gives memory back.
    pub(crate) fn release_memory(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// Puts a transmission back to its place.
    pub(crate) fn restore(&mut self, sent: Sent) {
        let at = self.queue.partition_point(|other| other.number < sent.number);
        if self.queue.get(at) != Some(&sent) {
            self.queue.insert(at, sent);
        }
    }

    /// The earliest transmission for which `is_live` holds; what is over before it is forgotten.
    pub(crate) fn earliest(&mut self, mut is_live: impl FnMut(Sent) -> bool) -> Option<Sent> {
        while let Some(&sent) = self.queue.front() {
            if is_live(sent) {
                return Some(sent);
            }
            self.queue.pop_front();
        }
        None
    }

    /// The earliest transmission after `number` for which `is_live` holds.
    pub(crate) fn earliest_after(
        &self,
        number: u64,
        is_live: impl Fn(Sent) -> bool,
    ) -> Option<Sent> {
        // In order, all that had to be passed over is forgotten already.
        let passes = |sent: &Sent| sent.number <= number;
        let from = if self.queue.front().is_some_and(passes) {
            self.queue.partition_point(passes)
        } else {
            0
        };
        self.queue.range(from..).copied().find(|sent| is_live(*sent))
    }

    /// The latest transmission for which `is_live` holds.
    pub(crate) fn latest(&self, is_live: impl Fn(Sent) -> bool) -> Option<Sent> {
        self.queue.iter().rev().copied().find(|sent| is_live(*sent))
    }

    /// The latest transmissions for which `is_live` holds, back to the first for which `is_late` does not. What is over
    /// among them is forgotten.
    pub(crate) fn late(
        &mut self,
        is_live: impl Fn(Sent) -> bool,
        is_late: impl Fn(Sent) -> bool,
    ) -> Vec<Sent> {
        let mut late = Vec::new();
        while let Some(&sent) = self.queue.back() {
            let live = is_live(sent);
            if live && !is_late(sent) {
                break;
            }
            self.queue.pop_back();
            late.extend(live.then_some(sent));
        }
        self.queue.extend(late.iter().rev());
        late
    }

    /// The earliest transmissions for which `is_live` holds, up to the first for which `is_overdue` does not, and that one.
    pub(crate) fn overdue(
        &mut self,
        is_live: impl Fn(Sent) -> bool,
        is_overdue: impl Fn(Sent) -> bool,
    ) -> (Vec<Sent>, Option<Sent>) {
        self.earliest(&is_live);
        let mut overdue = Vec::new();
        for sent in self.queue.iter().copied().filter(|sent| is_live(*sent)) {
            if !is_overdue(sent) {
                return (overdue, Some(sent));
            }
            overdue.push(sent);
        }
        (overdue, None)
    }

    /// The highest TSN among them, over or not.
    pub(crate) fn highest(&self) -> Option<Tsn64> {
        self.queue.iter().map(|sent| sent.tsn).max()
    }

    /// Calls `keep` for each transmission after which something has arrived and forgets those for
    /// which it returns false. `in_tsn_order`: TSNs grow with the numbers.
    pub(crate) fn retain_reached(
        &mut self,
        reach: Reach,
        in_tsn_order: bool,
        mut keep: impl FnMut(Sent) -> bool,
    ) {
        let (mut read, mut write) = (0, 0);
        let sorted = in_tsn_order || matches!(reach, Reach::Numbers(_));
        let ends = |sent: &Sent| sorted && !reach.is_beyond(*sent);
        while let Some(&sent) = self.queue.get(read).filter(|sent| !ends(sent)) {
            if !reach.is_beyond(sent) || keep(sent) {
                self.queue[write] = sent;
                write += 1;
            }
            read += 1;
        }
        self.queue.drain(write..read);
    }

    /// Transmissions remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// All transmissions, over or not.
impl IntoIterator for SentOrder {
    type Item = Sent;
    type IntoIter = vec_deque::IntoIter<Sent>;

    fn into_iter(self) -> Self::IntoIter {
        self.queue.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{Sent, SentOrder};
    use crate::path::flight::{Extent, Reach};
    use crate::tsn::Tsn64;
    use alloc::vec::Vec;
    use manypath_wire::Tsn;

    fn order(numbers: &[u64]) -> SentOrder {
        let mut order = SentOrder::default();
        for number in numbers {
            order.push(sent(*number));
        }
        order
    }

    fn sent(number: u64) -> Sent {
        Sent { number, tsn: Tsn64::initial(Tsn(0)).plus(number) }
    }

    #[test]
    fn only_earlier_transmissions_are_looked_at() {
        let mut order = order(&[1, 2, 3, 4, 5]);
        let mut seen = Vec::new();
        let reach = Reach::Numbers(Extent { least: 4, most: 4 });
        order.retain_reached(reach, false, |sent| {
            seen.push(sent.number);
            sent.number != 2
        });
        assert_eq!(seen, [1, 2, 3]);
        assert_eq!(order.queue, [sent(1), sent(3), sent(4), sent(5)]);
    }

    #[test]
    fn retransmissions_are_in_no_order_of_tsns() {
        let mut order = SentOrder::default();
        for (number, of) in [(1, 8), (2, 3), (3, 9), (4, 5)] {
            order.push(Sent { number, ..sent(of) });
        }
        let least = sent(6).tsn;
        let mut seen = Vec::new();
        order.retain_reached(Reach::Tsns(Extent { least, most: least }), false, |sent| {
            seen.push(sent.number);
            false
        });
        assert_eq!((seen, order.len()), (Vec::from([2, 4]), 2));
    }

    #[test]
    fn the_earliest_live_one_is_found() {
        let mut order = order(&[1, 2, 3]);
        assert_eq!(order.earliest(|sent| sent.number > 1), Some(sent(2)));
        assert_eq!(order.len(), 2);
        assert_eq!(order.earliest(|_| false), None);
        assert_eq!(order.len(), 0);
    }

    #[test]
    fn a_restored_transmission_takes_its_old_place_once() {
        let mut order = order(&[1, 4]);
        for number in [3, 3, 1, 9] {
            order.restore(sent(number));
        }
        assert_eq!(order.queue, [sent(1), sent(3), sent(4), sent(9)]);
    }
}
