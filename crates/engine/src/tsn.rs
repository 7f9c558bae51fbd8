//! TSNs unwrapped to 64 bits. On the wire they are serial numbers without a total order (RFC 9260
//! section 1.6: "all arithmetic dealing with Transmission Sequence Numbers MUST be performed modulo
//! 2^32"); here comparison and subtraction are the ordinary ones.

use manypath_wire::Tsn;

/// A TSN that never wraps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tsn64(u64);

/// Distance of one turn of the wire's number space.
const TURN: u64 = 1 << 32;

/// Nobody is this far ahead: a TSN that seems to be is an old one, from before the peer began anew half
/// of the number space further on (RFC 6525 section 5.2.4).
pub(crate) const MAX_AHEAD: u64 = 1 << 30;

impl Tsn64 {
    /// The first TSN of a direction. One turn above zero, so that `before` never underflows.
    pub(crate) const fn initial(tsn: Tsn) -> Self {
        Self(TURN + tsn.0 as u64)
    }

    /// The TSN that `tsn` stands for: of all candidates the one closest to `reference`.
    #[allow(clippy::cast_possible_truncation, reason = "the wire carries the low 32 bits")]
    pub(crate) const fn near(tsn: Tsn, reference: Self) -> Self {
        let ahead = tsn.0.wrapping_sub(reference.0 as u32);
        let forward = reference.0 + ahead as u64;
        if ahead < 1 << 31 { Self(forward) } else { Self(forward.saturating_sub(TURN)) }
    }

    /// The first TSN after this one that is `tsn` on the wire, however far ahead.
    #[allow(clippy::cast_possible_truncation, reason = "the wire carries the low 32 bits")]
    pub(crate) const fn jump(self, tsn: Tsn) -> Self {
        let ahead = tsn.0.wrapping_sub(self.0 as u32).wrapping_sub(1);
        Self(self.0 + 1 + ahead as u64)
    }

    /// The TSN as it goes on the wire.
    #[allow(clippy::cast_possible_truncation, reason = "the wire carries the low 32 bits")]
    pub(crate) const fn wire(self) -> Tsn {
        Tsn(self.0 as u32)
    }

    /// The TSN `count` after this one.
    pub(crate) const fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }

    /// The next TSN.
    pub(crate) const fn next(self) -> Self {
        self.plus(1)
    }

    /// The TSN before this one.
    pub(crate) const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// How many TSNs lie between `earlier` and this one; zero if `earlier` is later.
    pub(crate) const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{TURN, Tsn64};
    use manypath_wire::Tsn;

    #[test]
    fn a_wrapped_tsn_is_later() {
        let last = Tsn64::initial(Tsn(u32::MAX));
        let next = Tsn64::near(Tsn(0), last);
        assert_eq!(next, last.next());
        assert_eq!(Tsn64::near(Tsn(u32::MAX), next), last);
        assert_eq!(next.wire(), Tsn(0));
    }

    #[test]
    fn the_closest_candidate_is_taken() {
        let reference = Tsn64::initial(Tsn(100)).plus(5 * TURN);
        for distance in [0, 1, 77, (1 << 31) - 1] {
            let above = reference.plus(distance);
            assert_eq!(Tsn64::near(above.wire(), reference), above);
            assert_eq!(Tsn64::near(reference.wire(), above), reference);
        }
    }

    #[test]
    fn old_tsns_of_a_fresh_association_do_not_underflow() {
        let first = Tsn64::initial(Tsn(0));
        let old = Tsn64::near(Tsn(u32::MAX), first);
        assert!(old < first);
        assert_eq!(first.since(old), 1);
    }

    /// Distances from a TSN, on the wire: all that are close to where the answer changes.
    fn distances() -> impl Iterator<Item = u32> {
        const HALF: u32 = 1 << 31;
        let span = 1 << 16;
        (0..span).chain(HALF - span..HALF + span).chain(u32::MAX - span..=u32::MAX)
    }

    /// Positions on the wire close to where the numbers wrap, and in turns where they have.
    fn references() -> impl Iterator<Item = u64> {
        let positions = [0, 1, 77, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, TURN - 2, TURN - 1];
        [1, 2, 3, 1 << 20].into_iter().flat_map(move |turn| positions.map(|at| turn * TURN + at))
    }

    #[test]
    fn no_other_candidate_is_closer_whatever_the_distance() {
        for reference in references() {
            for distance in distances() {
                let tsn = Tsn((reference as u32).wrapping_add(distance));
                let near = Tsn64::near(tsn, Tsn64(reference));
                assert_eq!(near.wire(), tsn);
                let off = near.0.abs_diff(reference);
                assert!(off <= TURN / 2, "{off} from {reference:#x} by {distance:#x}");
                // Of two that are equally far the earlier one is taken: it may be old, and not from the future.
                assert!(off < TURN / 2 || near.0 < reference);
                assert_eq!(Tsn64(reference).since(near) + near.since(Tsn64(reference)), off);
            }
        }
    }

    #[test]
    fn a_jump_leads_to_the_first_such_tsn_that_is_later() {
        for reference in references() {
            for distance in distances() {
                let tsn = Tsn((reference as u32).wrapping_add(distance));
                let next = Tsn64(reference).jump(tsn);
                assert_eq!(next.wire(), tsn);
                assert!(next.0 > reference && next.0 - reference <= TURN);
            }
        }
    }
}
