//! Fast recovery per path (RFC 9260 section 7.2.4, draft-tuexen-tsvwg-sctp-multipath): several
//! losses in one window of a path cut its window once, and other paths are not touched.

use super::Cuc;
use crate::tsn::Tsn64;

crate::names::named! {
    /// What is in fast recovery after a loss.
    pub enum FastRecoveryScope as "scope of fast recovery" {
        /// The path: it is cut once per window, the others go on.
        Path = "path",
        /// The association (RFC 9260 section 7.2.4): until everything that was outstanding is
        /// acknowledged cumulatively no window is cut again, and none grows.
        Association = "association",
        /// Nothing: every SACK that finds a loss cuts the window of the path (RFC 2960 section
        /// 7.2.4). For comparison only.
        None = "none",
    }
}

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
    pub(crate) fn on_sack(&mut self, cum: Tsn64, cuc: &Cuc) {
        if self.exit.is_some_and(|exit| cum >= exit || cuc.is_past(exit)) {
            self.exit = None;
        }
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
