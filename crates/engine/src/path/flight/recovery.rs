//! Fast recovery per path (RFC 9260 section 7.2.4, draft-tuexen-tsvwg-sctp-multipath): several
//! losses in one window of a path cut its window once, and other paths are not touched.

use super::{Cuc, Flight};
use crate::path::Subflow;
use crate::path::congestion::Group;
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

/// The window that RFC 9260 section 7.2.3 leaves at least, in chunks.
const MIN_WINDOW: usize = 4;

/// Fast recovery of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct FastRecovery {
    exit: Option<Tsn64>,
}

impl FastRecovery {
    /// Whether the path is in fast recovery: its window does not move.
    pub(crate) fn is_active(&self) -> bool {
        self.exit.is_some()
    }

    /// A loss was found; `exit` is the highest TSN outstanding on the path. Returns false if the path was
    /// in fast recovery already.
    pub(crate) fn enter(&mut self, exit: Option<Tsn64>) -> bool {
        if self.is_active() {
            return false;
        }
        self.exit = exit;
        true
    }

    /// A SACK was worked in: all up to the exit point may be acknowledged now, cumulatively or on
    /// this path alone.
    fn on_sack(&mut self, cum: Tsn64, cuc: &Cuc) {
        self.exit = self.exit.filter(|exit| cum < *exit && !cuc.is_past(*exit));
    }

    /// The same where the whole association is in fast recovery.
    pub(crate) fn on_cumulative(&mut self, cum: Tsn64) {
        self.exit = self.exit.filter(|exit| cum < *exit);
    }

    /// A chunk that was sent after its beginning says that there is congestion again.
    pub(crate) fn leave_before(&mut self, tsn: Tsn64) {
        self.exit = self.exit.filter(|exit| tsn <= *exit);
    }

    /// A timeout ends fast recovery.
    pub(crate) fn leave(&mut self) {
        self.exit = None;
    }
}

impl Flight {
    /// Whether it is in fast recovery.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery.is_active()
    }

    /// Ends fast recovery if what was outstanding at its beginning is acknowledged, all up to `cum` being so.
    pub(super) fn leave_recovery(&mut self, cum: Tsn64) {
        let was_recovering = self.recovery.is_active();
        self.recovery.on_sack(cum, &self.cuc);
        if was_recovering && !self.recovery.is_active() {
            self.rack.on_recovered();
        }
    }

    /// Whether a retransmission is lost that left after the window was cut last, which is a second sign
    /// of congestion (RFC 8985 section 9.3): fast recovery is over.
    pub(crate) fn is_lost_again(&mut self, repeated: Option<u64>) -> bool {
        let again = repeated.is_some_and(|number| number > self.cut_at);
        if again {
            self.recovery.leave();
        }
        again
    }

    /// Begins fast recovery, with the highest TSN outstanding on the path as its exit point, where all up to `cum` is
    /// acknowledged. A path that only repeats what others have lost has sent none of its own, or none that is still
    /// outstanding. False if the path was in it already.
    pub(crate) fn enter_recovery(&mut self, cum: Tsn64) -> bool {
        let own = self.highest_tsn.filter(|tsn| *tsn > cum);
        self.recovery.enter(own.or_else(|| self.retransmissions.highest()))
    }
}

impl Subflow {
    /// Cuts the window for losses.
    pub(crate) fn cut(&mut self, group: &Group) {
        self.flight.cut_at = self.flight.transmissions;
        self.congestion.on_loss(group);
        self.flight.fast_packet = true;
    }

    /// The peer has got chunk `tsn` with a mark of congestion, which a CWR is to answer: one that is under way is lost
    /// after a round trip. Returns whether that is news. What was sent after the last cut and is marked again is
    /// congestion that the cut has not ended.
    pub(crate) fn on_echo(&mut self, now: Instant, tsn: Tsn64) -> bool {
        self.stats.ecne_received += 1;
        self.ecn.want_cwr(now, tsn, self.rtt.smoothed().unwrap_or(self.rtt.rto()));
        let is_new = self.ecn.is_new(tsn);
        if is_new {
            self.ecn.on_answered(self.flight.highest_tsn);
            self.flight.recovery.leave_before(tsn);
        }
        is_new
    }

    /// Cuts the window for a mark on transmission `number`, if that is known.
    pub(crate) fn cut_for_mark(&mut self, now: Instant, number: Option<u64>, group: &Group) {
        let flight = &mut self.flight;
        // Marked again no sooner than any packet could tell.
        let at_once = number.is_some_and(|number| number <= flight.cut_at + MIN_WINDOW as u64);
        flight.cut_at = flight.transmissions;
        flight.news.flight_before = flight.bytes;
        let round_trip = self.rtt.smoothed().unwrap_or_default();
        let used = flight.used_window(now, round_trip, self.congestion.window());
        self.congestion.on_marked(now, used, group);
        self.stats.ecn_reductions += 1;
        let is_least = self.congestion.window() <= MIN_WINDOW * self.congestion.chunk_limit();
        self.ecn.on_reduced(at_once && is_least);
    }

    /// A chunk of the path is sent again because it holds up all others, as if it were lost.
    pub(crate) fn on_rescheduled(&mut self, now: Instant, cum: Tsn64, group: &Group) {
        self.stats.rescheduled += 1;
        if self.flight.enter_recovery(cum) {
            self.congestion.on_loss(group);
        } else {
            self.pacer.hold_back(now + self.rtt.smoothed().unwrap_or(Duration::ZERO));
        }
    }

    /// T3-rtx has expired with something in flight.
    pub(crate) fn on_timeout(&mut self, group: &Group) {
        self.rtt.back_off();
        self.collapse(self.flight.bytes, group);
        self.flight.silence.end_suspicion();
        self.flight.tail_probe.on_timeout();
        self.flight.rack.set_timer(None);
    }

    /// The flight of `used` bytes has timed out.
    pub(super) fn collapse(&mut self, used: usize, group: &Group) {
        self.stats.timeouts += 1;
        self.congestion.on_timeout(used, group);
        self.flight.recovery.leave();
        self.flight.fast_packet = false;
        self.flight.one_packet = true;
    }
}

#[cfg(test)]
mod tests {
    use super::{Cuc, FastRecovery};
    use crate::tsn::Tsn64;
    use manypath_wire::Tsn;

    #[test]
    fn one_entry_until_the_exit_point_is_acknowledged() {
        let tsn = |number| Tsn64::initial(Tsn(0)).plus(number);
        let mut recovery = FastRecovery::default();
        assert!(recovery.enter(Some(tsn(9))));
        assert!(!recovery.enter(Some(tsn(20))));
        recovery.on_sack(tsn(8), &Cuc::default());
        assert!(recovery.is_active());
        recovery.on_sack(tsn(9), &Cuc::default());
        assert!(!recovery.is_active());
    }
}
