//! The receiver where partial reliability was agreed on (RFC 3758 section 3.6): messages that the
//! peer gives up.

use super::interleaved::Dropped;
use super::receiver::{DataOutcome, Receiver};
use crate::tsn::Tsn64;
use manypath_wire::Tsn;
use manypath_wire::chunk::ForwardTsn;

impl Receiver {
    /// The peer may give up messages. To be called before anything has arrived.
    pub(crate) fn expect_forward_tsn(&mut self) {
        self.reassembly.expect_gaps();
    }

    /// Whether FORWARD-TSN was agreed on, or I-FORWARD-TSN where messages are interleaved.
    pub(crate) fn expects_forward_tsn(&self) -> bool {
        self.reassembly.expects_gaps()
    }

    /// The peer has given up messages. Its violations of the order of fragments are no reason to
    /// complain: what cannot be completed any more is dropped.
    pub(crate) fn handle_forward_tsn(&mut self, forward: &ForwardTsn<'_>) -> DataOutcome {
        let cum = match self.admit_forward(forward.cum_tsn) {
            Ok(cum) => cum,
            Err(outcome) => return outcome,
        };
        self.tracker.forward(cum);
        self.gap |= self.tracker.has_gap();
        let streams = self.inbound_streams;
        for skipped in forward.skipped.iter().filter(|item| item.stream.0 < streams) {
            self.reassembly.skip(skipped);
        }
        self.drop_incomplete();
        self.note_deliverable();
        DataOutcome::Accepted
    }

    /// The TSN that a FORWARD-TSN or I-FORWARD-TSN moves the cumulative one to, if it does.
    ///
    /// # Errors
    /// What becomes of the chunk instead: it is an old one, which tells that a SACK was lost.
    pub(super) fn admit_forward(&mut self, cum: Tsn) -> Result<Tsn64, DataOutcome> {
        self.gap |= self.tracker.has_gap();
        let cum = self.tracker.unwrap(cum);
        if cum <= self.tracker.cum() {
            self.urgent = true;
            return Err(DataOutcome::Accepted);
        }
        if self.tracker.is_from_before_jump(cum) {
            return Err(DataOutcome::BeyondReport);
        }
        if self.awaits_restart {
            return Err(DataOutcome::AwaitsRestart);
        }
        Ok(cum)
    }

    /// "The receiver MUST remove any partially reassembled message, which is still missing one or
    /// more TSNs earlier than or equal to the new cumulative TSN point" (section 3.6).
    pub(super) fn drop_incomplete(&mut self) {
        let Dropped { bytes, chunks } = self.reassembly.drop_incomplete(self.tracker.cum());
        self.window.release(bytes, chunks);
        self.abort_parts();
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
