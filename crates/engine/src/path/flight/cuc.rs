//! Congestion window update for CMT (Iyengar, Amer, Stewart 2006;
//! draft-tuexen-tsvwg-sctp-multipath 5.2).
//!
//! With several paths the cumulative TSN stands still most of the time, although every path by
//! itself delivers in order. So each path has a pseudo-cumulative acknowledgement: the earliest
//! chunk sent on it that is not acknowledged. When that chunk is acknowledged the path's window may
//! grow. Version 2 keeps a second one for retransmissions, so that a path that only repeats what
//! other paths lost grows as well.
//!
//! The drafts find the chunk by walking all outstanding TSNs with each SACK. Here the walk is
//! replaced by the path's queues in transmission order (`order`), whose first live entry is the same
//! chunk; among retransmissions "earliest" means the one that was sent first.

use super::PathAckSummary;
use crate::config::CwndUpdate;
use crate::tsn::Tsn64;

impl CwndUpdate {
    /// Whether the SACK under work lets the window grow.
    pub(super) fn advances(self, news: &PathAckSummary, cuc: &Cuc) -> bool {
        match self {
            Self::None => news.cum_advanced,
            Self::V1 => news.earliest_acked,
            Self::V2 => cuc.advanced(),
        }
    }
}

/// The two pseudo-cumulative acknowledgements of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuc {
    /// Earliest outstanding chunk that was sent once; `None` if it must be looked for.
    first: Option<Tsn64>,
    /// Earliest outstanding retransmission; `None` if it must be looked for.
    again: Option<Tsn64>,
    first_acked: bool,
    again_acked: bool,
}

impl Cuc {
    /// The next SACK is looked at.
    pub(crate) fn begin(&mut self) {
        self.first_acked = false;
        self.again_acked = false;
    }

    /// Chunk `tsn` of this path was newly acknowledged. Returns whether it was the earliest of all
    /// that is outstanding on the path.
    pub(crate) fn on_acked(&mut self, tsn: Tsn64) -> bool {
        let earliest = self.earliest() == Some(tsn);
        if self.first == Some(tsn) {
            self.first = None;
            self.first_acked = true;
        }
        if self.again == Some(tsn) {
            self.again = None;
            self.again_acked = true;
        }
        earliest
    }

    /// A chunk left the path for another one, or came from there: look for both again.
    pub(crate) fn forget(&mut self) {
        self.first = None;
        self.again = None;
    }

    /// Whether chunks have to be looked for: (sent once, retransmitted).
    pub(crate) fn wants(&self) -> (bool, bool) {
        (self.first.is_none(), self.again.is_none())
    }

    /// `tsn` is the earliest outstanding chunk that was sent once.
    pub(crate) fn found_first(&mut self, tsn: Option<Tsn64>) {
        self.first = tsn;
    }

    /// `tsn` is the earliest outstanding retransmission.
    pub(crate) fn found_again(&mut self, tsn: Option<Tsn64>) {
        self.again = tsn;
    }

    /// Whether the SACK moved one of the two: the window may grow.
    pub(crate) fn advanced(&self) -> bool {
        self.first_acked || self.again_acked
    }

    /// The lowest TSN outstanding on the path as far as it is known.
    pub(crate) fn earliest(&self) -> Option<Tsn64> {
        match (self.first, self.again) {
            (Some(first), Some(again)) => Some(first.min(again)),
            (first, again) => first.or(again),
        }
    }

    /// Whether an acknowledgement has moved past `exit` (the end of fast recovery).
    pub(crate) fn is_past(&self, exit: Tsn64) -> bool {
        let past = |moved: bool, found: Option<Tsn64>| moved && found.is_some_and(|tsn| tsn > exit);
        let nothing_left = self.first.is_none() && self.again.is_none();
        past(self.first_acked, self.first)
            || past(self.again_acked, self.again)
            || (self.advanced() && nothing_left)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cuc, PathAckSummary};
    use crate::config::CwndUpdate;
    use crate::tsn::Tsn64;
    use manypath_wire::Tsn;

    fn tsn(number: u64) -> Tsn64 {
        Tsn64::initial(Tsn(0)).plus(number)
    }

    #[test]
    fn only_the_earliest_chunk_advances() {
        let mut cuc = Cuc::default();
        cuc.found_first(Some(tsn(1)));
        cuc.on_acked(tsn(2));
        assert!(!cuc.advanced());
        assert!(cuc.on_acked(tsn(1)));
        assert!(cuc.advanced());
        cuc.begin();
        assert!(!cuc.advanced());
        assert_eq!(cuc.wants(), (true, true));
    }

    #[test]
    fn a_retransmission_advances_although_first_transmissions_do_not() {
        let mut cuc = Cuc::default();
        cuc.found_first(Some(tsn(5)));
        cuc.found_again(Some(tsn(9)));
        assert!(!cuc.on_acked(tsn(9)));
        assert!(cuc.advanced() && !cuc.first_acked);
    }

    #[test]
    fn the_versions_want_different_acknowledgements() {
        let mut cuc = Cuc::default();
        cuc.found_first(Some(tsn(9)));
        cuc.found_again(Some(tsn(5)));
        let earliest_acked = cuc.on_acked(tsn(9));
        let mut news = PathAckSummary { earliest_acked, ..PathAckSummary::default() };
        let seen = |news: &PathAckSummary| -> [bool; 3] {
            [CwndUpdate::None, CwndUpdate::V1, CwndUpdate::V2].map(|v| v.advances(news, &cuc))
        };
        assert_eq!(seen(&news), [false, false, true]);
        news.cum_advanced = true;
        assert_eq!(seen(&news), [true, false, true]);
    }

    #[test]
    fn recovery_ends_past_its_exit_or_when_nothing_is_left() {
        let mut cuc = Cuc::default();
        cuc.found_first(Some(tsn(5)));
        cuc.on_acked(tsn(5));
        cuc.found_first(Some(tsn(7)));
        assert!(cuc.is_past(tsn(6)) && !cuc.is_past(tsn(7)));
        cuc.begin();
        assert!(!cuc.is_past(tsn(6)));
        cuc.on_acked(tsn(7));
        assert!(cuc.is_past(tsn(99)));
    }
}
