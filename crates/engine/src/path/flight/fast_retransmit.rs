//! Which chunks a SACK reports missing (RFC 9260 section 7.2.4), by the order in which chunks were
//! sent on one path.
//!
//! * `off` - RFC 9260: everything below the highest TSN newly acknowledged, whatever its path. With
//!   several paths that strikes all that is merely slower.
//! * `tsn` - split fast retransmit as published (Iyengar, Amer, Stewart 2006;
//!   draft-tuexen-tsvwg-sctp-multipath 5.1): what is below the highest TSN newly acknowledged *of
//!   its path*. Acknowledgements of what T3-rtx has repeated are ambiguous and do not count.
//! * `lsfr` - load sharing fast retransmit: a chunk is struck if a higher TSN of its group, that is,
//!   of its path, is newly acknowledged. The same rule with one difference: every acknowledgement
//!   counts. It was published with a threshold of 4 reports.
//! * `txseq` - as `tsn`, with the transmission numbers of the path (see `order`) in place of TSNs.
//!   The same as long as nothing is retransmitted.

use super::{PathAckSummary, Sent};
use crate::config::SplitFastRetransmit;
use crate::tsn::Tsn64;

/// The least and the largest of what was newly acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent<T> {
    pub(crate) least: T,
    pub(crate) most: T,
}

impl<T: Copy + Ord> Extent<T> {
    /// `so_far` with one more.
    pub(crate) fn with(so_far: Option<Self>, one: T) -> Option<Self> {
        Some(match so_far {
            Some(Self { least, most }) => Self { least: least.min(one), most: most.max(one) },
            None => Self { least: one, most: one },
        })
    }

    /// Both together.
    pub(crate) fn union(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        b.map_or(a, |b| Self::with(Self::with(a, b.least), b.most))
    }
}

/// What a SACK tells about what is missing on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Transmissions with these numbers have arrived.
    Numbers(Extent<u64>),
    /// These TSNs have arrived.
    Tsns(Extent<Tsn64>),
}

impl SplitFastRetransmit {
    /// What the SACK tells about a path with this `news`, if anything. `all` is what was newly
    /// acknowledged on all paths.
    pub(super) fn reach(self, news: &PathAckSummary, all: Option<Extent<Tsn64>>) -> Option<Reach> {
        match self {
            Self::Off => all.map(Reach::Tsns),
            Self::Tsn => news.sure_tsns.map(Reach::Tsns),
            Self::Lsfr => news.tsns.map(Reach::Tsns),
            Self::TxSeq => news.numbers.map(Reach::Numbers),
        }
    }
}

impl Reach {
    /// Whether something later than `sent` has arrived.
    pub(crate) fn is_beyond(self, sent: Sent) -> bool {
        match self {
            Self::Numbers(numbers) => sent.number < numbers.most,
            Self::Tsns(tsns) => sent.tsn < tsns.most,
        }
    }

    /// Whether something earlier than `sent` has arrived with the same SACK.
    pub(crate) fn begins_before(self, sent: Sent) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.least < sent.number,
            Self::Tsns(tsns) => tsns.least < sent.tsn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Reach};
    use crate::config::SplitFastRetransmit;
    use crate::path::flight::{PathAckSummary, Sent};
    use crate::tsn::Tsn64;
    use manypath_wire::Tsn;

    fn tsn(number: u64) -> Tsn64 {
        Tsn64::initial(Tsn(0)).plus(number)
    }

    fn extent<T: Copy + Ord>(least: T, most: T) -> Option<Extent<T>> {
        Extent::with(Extent::with(None, most), least)
    }

    #[test]
    fn each_rule_looks_at_its_own_order() {
        let news = PathAckSummary {
            numbers: extent(3, 5),
            tsns: extent(tsn(20), tsn(40)),
            sure_tsns: extent(tsn(20), tsn(30)),
            ..PathAckSummary::default()
        };
        let all = extent(tsn(10), tsn(50));
        let most = |rule: SplitFastRetransmit| match rule.reach(&news, all).unwrap() {
            Reach::Numbers(numbers) => numbers.most,
            Reach::Tsns(tsns) => tsns.most.since(tsn(0)),
        };
        let rules = SplitFastRetransmit::ALL.iter().map(|rule| most(*rule));
        assert!(rules.eq([50, 30, 5, 40]));
        assert_eq!(SplitFastRetransmit::Tsn.reach(&PathAckSummary::default(), all), None);
    }

    #[test]
    fn beyond_and_before() {
        let reach = Reach::Numbers(Extent { least: 3, most: 5 });
        let seen = |number| {
            let sent = Sent { number, tsn: tsn(99) };
            (reach.is_beyond(sent), reach.begins_before(sent))
        };
        assert_eq!(
            [2, 3, 4, 5].map(seen),
            [(true, false), (true, false), (true, true), (false, true)]
        );
        let (a, b) = (extent(4, 6), extent(1, 5));
        assert_eq!(Extent::union(a, b), extent(1, 6));
        assert_eq!(Extent::union(a, None), a);
    }
}
