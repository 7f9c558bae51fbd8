//! The receiver where I-DATA was agreed on (RFC 8260 section 2.2).

use super::interleaved::{Dropped, Interleaved, Whole};
use super::receiver::{Admission, DataOutcome, Held, Receiver};
use super::reset::bare_i_data;
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::chunk::{IData, IForwardTsn};

impl Receiver {
    /// The peer sends I-DATA instead of DATA. To be called before anything has arrived.
    pub(crate) fn interleave(&mut self) {
        self.interleaved = Some(Interleaved::default());
        self.window.interleave();
    }

    /// Whether I-DATA was agreed on.
    pub(crate) fn is_interleaving(&self) -> bool {
        self.interleaved.is_some()
    }

    /// An I-DATA chunk has arrived.
    ///
    /// # Errors
    /// The peer broke the protocol; the text says how.
    pub(crate) fn handle_i_data(&mut self, data: &IData<'_>) -> Result<DataOutcome, &'static str> {
        if self.interleaved.is_none() {
            return Err("I-DATA although it was not agreed on");
        }
        let IData { tsn, stream, immediate, payload, .. } = *data;
        let tsn = match self.admit(tsn, stream, immediate, payload.len())? {
            Admission::Take(tsn) => tsn,
            Admission::Refuse(outcome) => return Ok(outcome),
        };
        self.window.hold(payload.len());
        let payload = Bytes::copy_from_slice(payload);
        if !self.hold_for_reset(tsn, (stream, Held::IData(bare_i_data(data))), &payload) {
            self.process_i_data(tsn, data, payload)?;
        }
        Ok(DataOutcome::Accepted)
    }

    pub(super) fn process_i_data(
        &mut self,
        tsn: Tsn64,
        data: &IData<'_>,
        payload: Bytes,
    ) -> Result<(), &'static str> {
        let Some(interleaved) = &mut self.interleaved else { return Ok(()) };
        let mut ready = Vec::new();
        let thresholds = self.partial.thresholds();
        let dropped = interleaved.insert(tsn, data, payload, thresholds, &mut ready)?;
        self.settle(ready, dropped);
        self.deliver_parts(tsn);
        Ok(())
    }

    /// The peer has given up messages (RFC 8260 section 2.3.1, RFC 3758 section 3.6).
    ///
    /// # Errors
    /// It was not agreed on.
    pub(crate) fn handle_i_forward_tsn(
        &mut self,
        forward: &IForwardTsn<'_>,
    ) -> Result<DataOutcome, &'static str> {
        if self.interleaved.is_none() {
            return Err("I-FORWARD-TSN although I-DATA was not agreed on");
        }
        let cum = match self.admit_forward(forward.cum_tsn) {
            Ok(cum) => cum,
            Err(outcome) => return Ok(outcome),
        };
        self.tracker.forward(cum);
        self.gap |= self.tracker.has_gap();
        let streams = self.inbound_streams;
        for skipped in forward.skipped.iter().filter(|item| item.stream.0 < streams) {
            let Some(interleaved) = &mut self.interleaved else { break };
            let mut ready = Vec::new();
            let dropped = interleaved.skip(&skipped, &mut ready);
            self.settle(ready, dropped);
        }
        Ok(DataOutcome::Accepted)
    }

    fn settle(&mut self, ready: Vec<Whole>, dropped: Dropped) {
        self.window.release(dropped.bytes, dropped.chunks);
        for (complete, tsns) in ready {
            self.reassembly.push_ready(complete, &tsns);
        }
        self.abort_parts();
        self.note_deliverable();
    }
}

#[cfg(test)]
#[path = "interleaving_tests.rs"]
mod tests;
