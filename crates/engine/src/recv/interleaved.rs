//! From I-DATA chunks to messages (RFC 8260 section 2.2.3): fragments find each other by stream,
//! message identifier and fragment sequence number, whatever their TSNs. Ordered messages wait for
//! their predecessors, unordered ones for nothing.

use super::partial_delivery::Thresholds;
use super::reassembly::Complete;
use crate::event::Message;
use crate::send::{Streams, includes};
use crate::tsn::Tsn64;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use manypath_wire::chunk::{FragmentPlace, IData, SkippedMessage};
use manypath_wire::{Mid, Ppid, StreamId, Tsn};

const USED_TWICE: &str = "a fragment sequence number used twice";

/// All that has arrived and cannot be delivered yet.
#[derive(Debug, Default)]
pub(crate) struct Interleaved {
    /// Ordered (false) and unordered (true) messages of a stream have numbers of their own.
    series: BTreeMap<(StreamId, bool), Series>,
    /// First TSNs of messages that were dropped although parts of them were handed out.
    broken: Vec<Tsn>,
}

/// Messages with consecutive numbers. Identifiers are unwrapped to 64 bits.
#[derive(Debug, Default)]
struct Series {
    /// Messages before this one were delivered or given up; of unordered ones only the latter.
    next: u64,
    messages: BTreeMap<u64, Partial>,
}

/// A message of which something has arrived.
#[derive(Debug, Default)]
struct Partial {
    /// Those that were not delivered.
    fragments: BTreeMap<u32, (Tsn64, Bytes)>,
    ppid: Ppid,
    /// TSN of its first fragment.
    tsn: Option<Tsn>,
    last: Option<u32>,
    bytes: usize,
    /// Fragments before this one were delivered in parts.
    delivered: u32,
    /// The first fragment that is missing, and the bytes of those before it that were not delivered.
    missing: u32,
    in_sequence: usize,
}

/// A complete message, or a part of one, and the TSNs of its chunks.
pub(crate) type Whole = (Complete, Vec<Tsn64>);

/// User data that was held and is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Dropped {
    pub(crate) bytes: usize,
    pub(crate) chunks: usize,
}

impl Interleaved {
    /// Takes a chunk that is no duplicate; `payload` is a copy of its user data. Messages, or parts of
    /// them that are large enough, that can be delivered now go to `ready`. Returns what is dropped at once: a fragment of a message that
    /// was given up.
    ///
    /// # Errors
    /// The peer contradicts itself: the text says how.
    pub(crate) fn insert(
        &mut self,
        tsn: Tsn64,
        chunk: &IData<'_>,
        payload: Bytes,
        thresholds: Thresholds,
        ready: &mut Vec<Whole>,
    ) -> Result<Dropped, &'static str> {
        let key = (chunk.stream, chunk.unordered);
        let series = self.series.entry(key).or_default();
        let Some(mid) = series.unwrap(chunk.mid) else {
            return Ok(Dropped { bytes: payload.len(), chunks: 1 });
        };
        let message = series.messages.entry(mid).or_default();
        message.insert(tsn, chunk, payload)?;
        if chunk.unordered {
            if message.is_complete()
                && let Some(message) = series.messages.remove(&mid)
            {
                ready.push(message.into_complete(chunk.stream, true, mid));
            }
        } else {
            series.deliver(chunk.stream, ready);
        }
        let turn = if chunk.unordered { mid } else { series.next };
        let message = series.messages.get_mut(&turn);
        if let Some(message) = message.filter(|message| message.is_enough(thresholds)) {
            ready.push(message.take_part(chunk.stream, chunk.unordered, turn));
        }
        Ok(Dropped::default())
    }

    /// Takes what is in sequence of the message that has most of it, among those whose turn it is.
    pub(super) fn take_largest_part(&mut self) -> Option<Whole> {
        let candidates = self.series.iter_mut().flat_map(|((stream, unordered), series)| {
            let Series { next, messages } = series;
            let last = if *unordered { u64::MAX } else { *next };
            let messages = messages.range_mut(..=last);
            messages.map(|(number, message)| (*stream, *unordered, *number, message))
        });
        let (stream, unordered, number, message) =
            candidates.max_by_key(|(.., message)| message.in_sequence)?;
        (message.in_sequence > 0).then(|| message.take_part(stream, unordered, number))
    }

    /// First TSNs of messages that were dropped since the last call although parts of them were handed
    /// out.
    pub(super) fn take_broken(&mut self) -> Vec<Tsn> {
        core::mem::take(&mut self.broken)
    }

    /// The messages up to `skipped.mid` will not come any more (RFC 8260 section 2.3.1): those that
    /// are complete are delivered, the others dropped, and who waited for them waits no longer.
    pub(crate) fn skip(&mut self, skipped: &SkippedMessage, ready: &mut Vec<Whole>) -> Dropped {
        let SkippedMessage { stream, unordered, mid } = *skipped;
        let series = self.series.entry((stream, unordered)).or_default();
        let Some(mid) = series.unwrap(mid) else { return Dropped::default() };
        let later = series.messages.split_off(&(mid + 1));
        let mut dropped = Dropped::default();
        for (number, message) in core::mem::replace(&mut series.messages, later) {
            if message.is_complete() {
                ready.push(message.into_complete(stream, unordered, number));
            } else {
                dropped.bytes += message.bytes;
                dropped.chunks += message.fragments.len();
                self.broken.extend(message.begun());
            }
        }
        series.next = mid + 1;
        if !unordered {
            series.deliver(stream, ready);
        }
        dropped
    }

    /// Bytes and chunks that are held, counted anew.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn recount(&self) -> (usize, usize) {
        let messages = self.series.values().flat_map(|series| series.messages.values());
        let fragments = messages.flat_map(|message| message.fragments.values());
        fragments.fold((0, 0), |sum, (_, payload)| (sum.0 + payload.len(), sum.1 + 1))
    }

    /// The messages of `streams`, ordered and unordered, are numbered from 0 again. What is not
    /// complete will never be.
    pub(crate) fn reset_streams(&mut self, streams: &Streams) -> Dropped {
        let mut dropped = Dropped::default();
        let concerned = self.series.iter_mut().filter(|((id, _), _)| includes(streams, *id));
        for (_, series) in concerned {
            series.next = series.next.next_multiple_of(1 << 32);
            for message in core::mem::take(&mut series.messages).into_values() {
                dropped.bytes += message.bytes;
                dropped.chunks += message.fragments.len();
                self.broken.extend(message.begun());
            }
        }
        dropped
    }
}

impl Series {
    /// The number that `mid` stands for; `None` if it lies before all that can still come.
    #[allow(clippy::cast_possible_truncation, reason = "the wire carries the low 32 bits")]
    fn unwrap(&self, mid: Mid) -> Option<u64> {
        let ahead = mid.0.wrapping_sub(self.next as u32);
        (ahead < 1 << 31).then(|| self.next + u64::from(ahead))
    }

    /// Hands out what is complete and in order.
    fn deliver(&mut self, stream: StreamId, ready: &mut Vec<Whole>) {
        while let Some(entry) = self.messages.first_entry() {
            if *entry.key() != self.next || !entry.get().is_complete() {
                return;
            }
            ready.push(entry.remove().into_complete(stream, false, self.next));
            self.next += 1;
        }
    }
}

impl Partial {
    fn insert(
        &mut self,
        tsn: Tsn64,
        chunk: &IData<'_>,
        payload: Bytes,
    ) -> Result<(), &'static str> {
        let number = match chunk.place {
            FragmentPlace::First(ppid) if self.tsn.is_none() => {
                self.ppid = ppid;
                self.tsn = Some(tsn.wire());
                0
            }
            FragmentPlace::First(_) => return Err(USED_TWICE),
            FragmentPlace::Later(fsn) if fsn.0 > 0 => fsn.0,
            FragmentPlace::Later(_) => return Err("a later fragment with the first one's number"),
        };
        let beyond = self.last.is_some_and(|last| number > last);
        let highest = self.fragments.last_key_value().map(|(number, _)| *number);
        let before = chunk.end && (self.last.is_some() || highest > Some(number));
        if beyond || before {
            return Err("a fragment beyond the end of its message");
        }
        if chunk.end {
            self.last = Some(number);
        }
        self.bytes += payload.len();
        if number < self.delivered || self.fragments.insert(number, (tsn, payload)).is_some() {
            return Err(USED_TWICE);
        }
        while let Some((_, payload)) = self.fragments.get(&self.missing) {
            self.in_sequence += payload.len();
            self.missing += 1;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| self.missing > last)
    }

    /// Its first TSN, if parts of it were delivered.
    fn begun(&self) -> Option<Tsn> {
        self.tsn.filter(|_| self.delivered > 0)
    }

    fn is_enough(&self, thresholds: Thresholds) -> bool {
        self.in_sequence >= thresholds.of(self.delivered > 0)
    }

    /// Takes out what is in sequence.
    fn take_part(&mut self, stream: StreamId, unordered: bool, number: u64) -> Whole {
        let later = self.fragments.split_off(&self.missing);
        let fragments = core::mem::replace(&mut self.fragments, later);
        self.bytes -= core::mem::take(&mut self.in_sequence);
        self.delivered = self.missing;
        let (tsn, ppid) = (self.tsn, self.ppid);
        let part = Self { fragments, tsn, ppid, ..Self::default() };
        let (mut part, tsns) = part.into_complete(stream, unordered, number);
        part.message.more = true;
        (part, tsns)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the wire carries the low 32 bits")]
    fn into_complete(self, stream: StreamId, unordered: bool, number: u64) -> Whole {
        let (tsns, parts): (Vec<_>, Vec<_>) = self.fragments.into_values().unzip();
        let payload = match &parts[..] {
            [only] => only.clone(),
            _ => parts.concat().into(),
        };
        let tsn = self.tsn.unwrap_or(Tsn(0));
        let (number, ppid, more) = (number as u32, self.ppid, false);
        let message = Message { stream, ppid, unordered, number, tsn, payload, more };
        (Complete { message, chunks: tsns.len() }, tsns)
    }
}

#[cfg(test)]
#[path = "interleaved_tests.rs"]
mod tests;
