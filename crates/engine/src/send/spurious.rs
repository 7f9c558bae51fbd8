//! Telling which retransmissions were for nothing: the chunk is acknowledged sooner than that is possible,
//! or the peer reports its TSN as a duplicate (RFC 9260 section 3.3.4; the DSACK of RFC 2883).

use crate::path::{PathId, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;
use alloc::collections::VecDeque;
use manypath_wire::chunk::Tsns;

/// Most retransmissions that are remembered; a report comes within a round trip.
const MOST: usize = 256;

/// Retransmissions of which no duplicate was reported yet, the latest at the end.
#[derive(Debug, Default)]
pub(super) struct Repetitions {
    recent: VecDeque<Repetition>,
}

/// One retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Repetition {
    pub(super) tsn: Tsn64,
    /// The path that was taken to have lost the chunk.
    pub(super) from: PathId,
    /// When that path was sent it.
    pub(super) sent: Instant,
    /// Whether its loss was found by what arrived after it.
    pub(super) reported: bool,
}

impl Repetitions {
    pub(super) fn push(&mut self, repetition: Repetition) {
        if self.recent.len() == MOST {
            self.recent.pop_front();
        }
        self.recent.push_back(repetition);
    }

    /// One of the retransmissions of `tsn`, which is forgotten.
    pub(super) fn take(&mut self, tsn: Tsn64) -> Option<Repetition> {
        let at = self.recent.iter().rposition(|repetition| repetition.tsn == tsn)?;
        self.recent.remove(at)
    }

    /// Counts the retransmissions that a SACK reports to have been for nothing. `cum` is the cumulative TSN. To be
    /// asked only where nothing is sent twice on purpose (redundant transmission): then duplicates say nothing.
    pub(super) fn on_duplicates(&mut self, duplicates: Tsns<'_>, cum: Tsn64, paths: &mut Paths) {
        for tsn in duplicates.iter() {
            let tsn = Tsn64::near(tsn, cum);
            let Some(repetition) = self.take(tsn) else { continue };
            let Some(path) = paths.get_mut(repetition.from) else { continue };
            path.subflow_mut().on_spurious(tsn, repetition.reported);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Repetition, Repetitions};
    use crate::path::PathId;
    use crate::time::Instant;
    use crate::tsn::Tsn64;
    use manypath_wire::Tsn;

    #[test]
    fn each_retransmission_is_found_once_and_old_ones_are_forgotten() {
        let of = |number| Repetition {
            tsn: Tsn64::initial(Tsn(0)).plus(number),
            from: PathId(1),
            sent: Instant::ZERO,
            reported: true,
        };
        let mut repetitions = Repetitions::default();
        (0..=MOST as u64).for_each(|number| repetitions.push(of(number)));
        assert_eq!(repetitions.take(of(0).tsn), None);
        assert_eq!(repetitions.take(of(9).tsn), Some(of(9)));
        assert_eq!(repetitions.take(of(9).tsn), None);
    }
}
