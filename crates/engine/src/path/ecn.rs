//! ECN of one path, as the sender sees it (RFC 3168 section 6.1 with TSNs, RFC 4960 appendix A,
//! draft-stewart-tsvwg-sctpecn): whether packets are marked as ECN-capable, which marks have been answered,
//! and whether the path bears it.
//!
//! ```text
//!          first marked packet arrived           never a window without CE
//! testing ─────────────────────────────▶ on ─────────────────────────────────▶ always-marked
//!    │     marked packets are lost,      │
//!    └────────────── unmarked ones arrive┴──▶ black-hole
//! ```
//!
//! A path that clears the bits does no harm: its queues drop then, as if there were no ECN. One that drops
//! packets because of the bits is found by losses of marked packets that unmarked ones do not share. One
//! that sets CE on everything would hold the window at its least for ever: after some windows in a row
//! that were marked although they could not be smaller, ECN is given up as well, and what queues there may
//! be drop. A path on which it was given up stays without.

use super::PathAddr;
use crate::config::EcnUse;
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

crate::names::named! {
    /// What ECN does on a path.
    #[derive(Default)]
    pub enum EcnState as "ECN state" {
        /// It was not agreed on with the peer, or the peer would not see the bits.
        #[default]
        Off = "off",
        /// Packets are ECN-capable; none of them is known to have arrived.
        Testing = "testing",
        /// Packets are ECN-capable, and arrive.
        On = "on",
        /// Given up: ECN-capable packets were lost where others arrived.
        BlackHole = "black-hole",
        /// Given up: the path marked every window, however small.
        AlwaysMarked = "always-marked",
    }
}

/// Losses of ECN-capable packets, without an arrival of one, that show a black hole on a path where none
/// has ever arrived.
const LOST_IN_TEST: u32 = 3;
/// Times that such losses were repaired by packets that are not ECN-capable, without an arrival of one
/// that is: a path that worked may have changed.
const REPAIRS: u8 = 3;
/// Windows at their least that were marked one after the other.
const LEAST_WINDOWS: u8 = 8;

/// ECN of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathEcn {
    state: EcnState,
    /// ECN-capable chunks lost since the last that arrived.
    lost: u32,
    /// Those among them after which others were seen to arrive count once.
    repairs: u8,
    unrepaired: bool,
    least_windows: u8,
    /// Marks up to this TSN were answered by a smaller window.
    answered: Option<Tsn64>,
    /// The CWR that is to be sent, up to this TSN, for this path or for all.
    cwr: Option<(Tsn64, bool)>,
    /// The last one, and when it left.
    told: Option<(Tsn64, Instant)>,
    /// It was given up and nobody has counted that yet.
    news: bool,
}

impl PathEcn {
    /// Not agreed on, or agreed on and to be tried.
    fn new(agreed: bool) -> Self {
        let state = if agreed { EcnState::Testing } else { EcnState::Off };
        Self { state, ..Self::default() }
    }

    /// On a path with these addresses, with what was agreed on with the peer.
    pub(super) fn of(agreed: EcnUse, addr: &PathAddr) -> Self {
        Self::new(match agreed {
            EcnUse::Off => false,
            EcnUse::WhereSeen => addr.remote.port() == 0,
            EcnUse::On => true,
        })
    }

    /// What it does.
    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// Whether packets with new data are ECN-capable.
    pub(crate) fn is_used(&self) -> bool {
        matches!(self.state, EcnState::Testing | EcnState::On)
    }

    /// An ECN-capable chunk was lost.
    pub(crate) fn on_lost(&mut self) {
        self.lost = self.lost.saturating_add(1);
        self.unrepaired = true;
    }

    /// An ECN-capable chunk has arrived.
    pub(crate) fn on_capable_passed(&mut self) {
        (self.lost, self.repairs, self.unrepaired) = (0, 0, false);
        if self.state == EcnState::Testing {
            self.state = EcnState::On;
        }
    }

    /// A chunk that was not ECN-capable has arrived.
    pub(crate) fn on_plain_passed(&mut self) {
        if !core::mem::take(&mut self.unrepaired) {
            return;
        }
        self.repairs = self.repairs.saturating_add(1);
        let tested = self.state == EcnState::Testing && self.lost >= LOST_IN_TEST;
        if tested || self.repairs >= REPAIRS {
            self.give_up(EcnState::BlackHole);
        }
    }

    /// Whether the mark on chunk `tsn` came after what was answered.
    pub(crate) fn is_new(&self, tsn: Tsn64) -> bool {
        self.answered.is_none_or(|answered| tsn > answered)
    }

    /// A mark was answered; `sent` is the highest TSN that has left on the path.
    pub(crate) fn on_answered(&mut self, sent: Option<Tsn64>) {
        self.answered = self.answered.max(sent);
    }

    /// The window was made smaller: after the first packets that left since it was before, and to what
    /// is its `least`, or otherwise.
    pub(crate) fn on_reduced(&mut self, least: bool) {
        self.least_windows = if least { self.least_windows + 1 } else { 0 };
        if self.least_windows >= LEAST_WINDOWS {
            self.give_up(EcnState::AlwaysMarked);
        }
    }

    /// An ECNE with `tsn` is to be answered by a CWR, unless one is under way that has done so less than
    /// `patience` ago.
    pub(super) fn want_cwr(&mut self, now: Instant, tsn: Tsn64, patience: Duration) {
        let under_way = |(told, at): (Tsn64, Instant)| tsn <= told && now.since(at) < patience;
        if !self.told.is_some_and(under_way) {
            let (wanted, all) = self.cwr.unwrap_or((tsn, false));
            self.cwr = Some((wanted.max(tsn), all));
        }
    }

    /// The same for an ECNE of which it is not known any more which path it is about.
    pub(crate) fn want_cwr_for_all(&mut self, tsn: Tsn64) {
        let wanted = self.cwr.map_or(tsn, |(wanted, _)| wanted.max(tsn));
        self.cwr = Some((wanted, true));
    }

    /// The CWR that is to be sent: its TSN, and whether it is for all paths.
    pub(crate) fn cwr(&self) -> Option<(Tsn64, bool)> {
        self.cwr
    }

    /// Whether the last CWR that was sent had this TSN.
    pub(crate) fn has_told(&self, tsn: Tsn64) -> bool {
        self.told.is_some_and(|(told, _)| told == tsn)
    }

    /// The CWR has left.
    pub(crate) fn on_cwr_sent(&mut self, now: Instant) {
        self.told = self.cwr.take().map(|(tsn, _)| (tsn, now)).or(self.told);
    }

    /// Whether it was given up since the last call.
    pub(crate) fn take_news(&mut self) -> bool {
        core::mem::take(&mut self.news)
    }

    fn give_up(&mut self, state: EcnState) {
        if self.is_used() {
            self.state = state;
            self.news = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EcnState, LEAST_WINDOWS, PathEcn};
    use crate::time::{Duration, Instant};
    use crate::tsn::Tsn64;
    use manypath_wire::Tsn;

    fn tsn(number: u64) -> Tsn64 {
        Tsn64::initial(Tsn(0)).plus(number)
    }

    #[test]
    fn a_black_hole_is_found_at_once_if_nothing_marked_ever_arrived() {
        let mut ecn = PathEcn::new(true);
        (0..3).for_each(|_| ecn.on_lost());
        assert_eq!(ecn.state(), EcnState::Testing, "everything may be lost");
        ecn.on_plain_passed();
        assert_eq!(ecn.state(), EcnState::BlackHole);
        assert!(ecn.take_news() && !ecn.take_news() && !ecn.is_used());
    }

    #[test]
    fn single_messages_into_a_black_hole_are_enough_too() {
        let mut ecn = PathEcn::new(true);
        for message in 0..3 {
            assert!(ecn.is_used(), "after {message}");
            ecn.on_lost();
            ecn.on_plain_passed();
        }
        assert_eq!(ecn.state(), EcnState::BlackHole);
    }

    #[test]
    fn losses_among_arrivals_prove_nothing() {
        let mut ecn = PathEcn::new(true);
        for _ in 0..100 {
            ecn.on_lost();
            ecn.on_lost();
            ecn.on_plain_passed();
            ecn.on_capable_passed();
        }
        assert_eq!(ecn.state(), EcnState::On);
        (0..50).for_each(|_| ecn.on_lost());
        (0..50).for_each(|_| ecn.on_plain_passed());
        assert_eq!(ecn.state(), EcnState::On, "one burst, repaired once");
    }

    #[test]
    fn a_path_that_worked_is_given_up_after_three_repairs() {
        let mut ecn = PathEcn::new(true);
        ecn.on_capable_passed();
        for _ in 0..3 {
            assert_eq!(ecn.state(), EcnState::On);
            ecn.on_lost();
            ecn.on_plain_passed();
        }
        assert_eq!(ecn.state(), EcnState::BlackHole);
        ecn.on_capable_passed();
        assert_eq!(ecn.state(), EcnState::BlackHole, "for good");
    }

    #[test]
    fn marks_on_every_window_at_its_least_end_it() {
        let mut ecn = PathEcn::new(true);
        for _ in 0..20 {
            (1..LEAST_WINDOWS).for_each(|_| ecn.on_reduced(true));
            ecn.on_reduced(false);
        }
        assert!(ecn.is_used());
        (0..LEAST_WINDOWS).for_each(|_| ecn.on_reduced(true));
        assert_eq!(ecn.state(), EcnState::AlwaysMarked);
    }

    #[test]
    fn a_cwr_is_repeated_only_when_it_must_have_been_lost() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let patience = Duration::from_millis(50);
        let mut ecn = PathEcn::new(true);
        ecn.want_cwr(at(0), tsn(5), patience);
        assert_eq!(ecn.cwr(), Some((tsn(5), false)));
        ecn.on_cwr_sent(at(0));
        ecn.want_cwr(at(49), tsn(5), patience);
        assert_eq!(ecn.cwr(), None);
        ecn.want_cwr(at(49), tsn(6), patience);
        assert_eq!(ecn.cwr(), Some((tsn(6), false)), "a later mark");
        ecn.on_cwr_sent(at(49));
        ecn.want_cwr(at(99), tsn(6), patience);
        assert_eq!(ecn.cwr(), Some((tsn(6), false)), "lost");
        ecn.want_cwr_for_all(tsn(3));
        assert_eq!(ecn.cwr(), Some((tsn(6), true)));
    }

    #[test]
    fn marks_of_one_window_are_new_once() {
        let mut ecn = PathEcn::new(true);
        assert!(ecn.is_new(tsn(3)));
        ecn.on_answered(Some(tsn(9)));
        assert!(!ecn.is_new(tsn(9)) && ecn.is_new(tsn(10)));
    }
}
