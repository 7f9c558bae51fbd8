//! Messages that wait to be sent and may be given up, in the order in which that may happen.

use super::reliability::Terms;
use crate::time::Instant;
use alloc::collections::BTreeMap;
use manypath_wire::StreamId;

/// A message that waits: its stream, and its number among all that were ever queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct MessageKey {
    pub(super) stream: StreamId,
    pub(super) arrival: u64,
}

/// Those among the waiting messages that may be given up without being sent.
#[derive(Debug, Default)]
pub(super) struct Perishables {
    /// By the end of their lifetime. A message stays here until its last part has left.
    by_end: BTreeMap<(Instant, u64), StreamId>,
    /// By priority, the least important last; of equal ones the oldest. Not those of which a part
    /// has left.
    by_priority: BTreeMap<(u32, u64), StreamId>,
}

impl Perishables {
    /// A message has been queued.
    pub(super) fn insert(&mut self, key: MessageKey, terms: Terms) {
        match terms {
            Terms::Until(end) => drop(self.by_end.insert((end, key.arrival), key.stream)),
            Terms::Priority(priority) => {
                self.by_priority.insert((priority, u64::MAX - key.arrival), key.stream);
            }
            Terms::Reliable | Terms::Retransmissions(_) => {}
        }
    }

    /// A part of a message has left.
    pub(super) fn on_begun(&mut self, key: MessageKey, terms: Terms) {
        if let Terms::Priority(priority) = terms {
            self.by_priority.remove(&(priority, u64::MAX - key.arrival));
        }
    }

    /// A message waits no longer.
    pub(super) fn remove(&mut self, key: MessageKey, terms: Terms) {
        self.on_begun(key, terms);
        if let Terms::Until(end) = terms {
            self.by_end.remove(&(end, key.arrival));
        }
    }

    /// When the first lifetime ends.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.by_end.first_key_value().map(|((end, _), _)| *end)
    }

    /// A message whose lifetime is over. It is not known here any more.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<MessageKey> {
        let first = self.by_end.first_entry().filter(|first| first.key().0 <= now)?;
        let ((_, arrival), stream) = first.remove_entry();
        Some(MessageKey { stream, arrival })
    }

    /// The messages that are less important than `priority`, the least important first; without a
    /// priority all that have one. With their priorities.
    pub(super) fn below(&self, priority: Option<u32>) -> impl Iterator<Item = (u32, MessageKey)> {
        let less = move |other: u32| priority.is_none_or(|priority| other > priority);
        let all = self.by_priority.iter().rev().take_while(move |((other, _), _)| less(*other));
        all.map(|((other, order), stream)| {
            (*other, MessageKey { stream: *stream, arrival: u64::MAX - order })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{MessageKey, Perishables};
    use crate::send::reliability::Terms;
    use crate::time::{Duration, Instant};
    use alloc::vec::Vec;
    use manypath_wire::StreamId;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn key(arrival: u64) -> MessageKey {
        MessageKey { stream: StreamId(1), arrival }
    }

    #[test]
    fn the_first_to_expire_is_known() {
        let mut perishables = Perishables::default();
        for (arrival, end) in [(1, 30), (2, 10), (3, 20)] {
            perishables.insert(key(arrival), Terms::Until(at(end)));
        }
        assert_eq!(perishables.next_end(), Some(at(10)));
        assert_eq!(perishables.pop_expired(at(9)), None);
        perishables.on_begun(key(2), Terms::Until(at(10)));
        assert_eq!(perishables.pop_expired(at(10)), Some(key(2)));
        perishables.remove(key(3), Terms::Until(at(20)));
        assert_eq!(perishables.next_end(), Some(at(30)));
        assert_eq!(perishables.pop_expired(at(29)), None);
    }

    #[test]
    fn the_least_important_and_of_these_the_oldest_goes_first() {
        let mut perishables = Perishables::default();
        for (arrival, priority) in [(1, 5), (2, 9), (3, 9), (4, 0)] {
            perishables.insert(key(arrival), Terms::Priority(priority));
        }
        perishables.insert(key(5), Terms::Reliable);
        let below = |perishables: &Perishables, priority| -> Vec<u64> {
            perishables.below(priority).map(|(_, key)| key.arrival).collect()
        };
        assert_eq!(below(&perishables, Some(5)), [2, 3]);
        assert_eq!(below(&perishables, Some(0)), [2, 3, 1]);
        assert_eq!(below(&perishables, None), [2, 3, 1, 4]);
        perishables.on_begun(key(2), Terms::Priority(9));
        assert_eq!(below(&perishables, Some(9)), []);
        assert_eq!(below(&perishables, Some(8)), [3]);
    }
}
