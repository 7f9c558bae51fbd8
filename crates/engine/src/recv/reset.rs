//! Inbound streams that begin anew, or are added (RFC 6525 section 5.2; RFC 8260 section 2.3.2).

use super::receiver::{Held, Receiver};
use crate::send::{Streams, includes};
use crate::tsn::Tsn64;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::chunk::{Data, FragmentPlace, IData};
use manypath_wire::{StreamId, Tsn};

/// A reset that waits for all that was sent before it ("deferred reset processing", rule E2).
#[derive(Debug)]
pub(super) struct Deferred {
    streams: Streams,
    last: Tsn64,
    held: Vec<(Tsn64, Held, Bytes)>,
}

#[cfg(any(test, feature = "fuzzing"))]
impl Deferred {
    /// Bytes and chunks that are held.
    pub(super) fn recount(&self) -> (usize, usize) {
        (self.held.iter().map(|(_, _, payload)| payload.len()).sum(), self.held.len())
    }
}

impl Receiver {
    /// The peer numbers messages of `streams` from 0 again after TSN `last`. Returns whether that
    /// could be done at once; otherwise it is done when the TSN has arrived.
    ///
    /// # Errors
    /// As [`Self::handle_data`].
    pub(crate) fn reset_after(
        &mut self,
        streams: Streams,
        last: Tsn,
    ) -> Result<bool, &'static str> {
        let last = self.tracker.unwrap(last);
        self.deferred = Some(Deferred { streams, last, held: Vec::new() });
        Ok(self.finish_reset()?.is_some())
    }

    /// Does a reset that waited, if it need not wait any longer. Returns its streams.
    ///
    /// # Errors
    /// As [`Self::handle_data`].
    pub(crate) fn finish_reset(&mut self) -> Result<Option<Streams>, &'static str> {
        let cum = self.tracker.cum();
        let Some(deferred) = self.deferred.take_if(|deferred| deferred.last <= cum) else {
            return Ok(None);
        };
        self.reset_streams(&deferred.streams);
        for (tsn, chunk, payload) in deferred.held {
            self.process(tsn, &chunk, payload)?;
        }
        Ok(Some(deferred.streams))
    }

    /// Whether a reset waits.
    pub(crate) fn has_deferred_reset(&self) -> bool {
        self.deferred.is_some()
    }

    /// Whether a chunk must wait for a reset: then it is kept.
    pub(super) fn hold_for_reset(
        &mut self,
        tsn: Tsn64,
        (stream, chunk): (StreamId, Held),
        payload: &Bytes,
    ) -> bool {
        let Some(deferred) = &mut self.deferred else { return false };
        let waits = tsn > deferred.last && includes(&deferred.streams, stream);
        if waits {
            deferred.held.push((tsn, chunk, payload.clone()));
        }
        waits
    }

    fn reset_streams(&mut self, streams: &Streams) {
        self.reassembly.reset_streams(streams);
        if let Some(interleaved) = &mut self.interleaved {
            let dropped = interleaved.reset_streams(streams);
            self.window.release(dropped.bytes, dropped.chunks);
        }
        self.abort_parts();
        self.note_deliverable();
    }

    /// The peer was asked to begin anew, or has answered that. While the answer is awaited, new chunks
    /// are refused, so that they come again.
    pub(crate) fn await_restart(&mut self, awaited: bool) {
        self.awaits_restart = awaited;
    }

    /// The peer begins with `next` again, with all streams (rules G4 and G5, H5). What it sent
    /// before is taken for received.
    pub(crate) fn restart(&mut self, next: Tsn) {
        self.tracker.jump_to(next);
        self.echoes.clear();
        for (_, _, payload) in self.deferred.take().into_iter().flat_map(|reset| reset.held) {
            self.window.release(payload.len(), 1);
        }
        self.drop_incomplete();
        self.reset_streams(&None);
    }

    /// The TSN from which the peer is to go on so that all before can be discarded (rule G1).
    pub(crate) fn distant_tsn(&self) -> Tsn {
        Tsn(self.tracker.cum().next().wire().0.wrapping_add(1 << 31))
    }

    /// The next TSN that is missing.
    pub(crate) fn next_tsn(&self) -> Tsn {
        self.tracker.cum().next().wire()
    }

    /// Number of streams.
    pub(crate) fn inbound_streams(&self) -> u16 {
        self.inbound_streams
    }

    /// There are so many more streams.
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.inbound_streams = self.inbound_streams.saturating_add(count);
    }
}

/// The chunk without its user data.
pub(super) fn bare_data(data: &Data<'_>) -> Data<'static> {
    let Data { tsn, stream, ssn, ppid, unordered, begin, end, immediate, payload: _ } = *data;
    Data { tsn, stream, ssn, ppid, unordered, begin, end, immediate, payload: &[] }
}

/// The chunk without its user data.
pub(super) fn bare_i_data(data: &IData<'_>) -> IData<'static> {
    let IData { tsn, stream, mid, place, unordered, end, immediate, payload: _ } = *data;
    let place: FragmentPlace = place;
    IData { tsn, stream, mid, place, unordered, end, immediate, payload: &[] }
}

#[cfg(test)]
#[path = "reset_tests.rs"]
mod tests;
