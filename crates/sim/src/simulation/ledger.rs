//! When each message was made and when it was delivered.
//!
//! Messages of a stream are delivered in the order in which they were sent, so a queue of times per
//! stream is all that is needed. Time counts from generation, when the application had the message,
//! until the receiving application has all of it; waiting in the send buffer is part of it.

use super::histogram::Histogram;
use manypath_engine::{Duration, Instant};
use std::collections::VecDeque;

const TENTH: Duration = Duration::from_millis(100);

/// The messages of one direction.
#[derive(Debug)]
pub struct Ledger {
    streams: Vec<StreamLedger>,
    window: (Instant, Instant),
    last: Option<Instant>,
    longest_gap: Duration,
    /// Bytes delivered in each tenth of a second from `origin` on, if anybody wants to know.
    tenths: Option<(Instant, Vec<u64>)>,
}

/// One stream of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamLedger {
    generated: VecDeque<Instant>,
    /// Bytes delivered while measuring.
    pub(super) bytes: u64,
    /// Bytes delivered at all.
    pub(super) bytes_ever: u64,
    /// Delays in nanoseconds of messages delivered while measuring.
    pub(super) delays: Histogram,
    last: Option<Instant>,
    /// Longest time between two deliveries while measuring.
    pub(super) longest_gap: Duration,
}

impl Ledger {
    /// Of an association with so many streams, measured between two times.
    pub fn new(streams: u16, window: (Instant, Instant)) -> Self {
        Self {
            streams: vec![StreamLedger::default(); streams.into()],
            window,
            last: None,
            longest_gap: Duration::ZERO,
            tenths: None,
        }
    }

    /// Keeps what is delivered over time, from `origin` on.
    pub(super) fn keep_tenths(&mut self, origin: Instant) {
        self.tenths = Some((origin, Vec::new()));
    }

    /// The end of the first second after `after` (counted from the origin) in which at least `bits`
    /// were delivered, in seconds after `after`.
    pub(super) fn first_second_with(&self, after: Duration, bits: f64) -> Option<f64> {
        let (_, tenths) = self.tenths.as_ref()?;
        let first = (after.as_nanos().div_ceil(TENTH.as_nanos())) as usize;
        let seconds = tenths.get(first..)?.windows(10);
        let found = seconds.map(|second| second.iter().sum::<u64>() as f64 * 8.0);
        let place = found.into_iter().position(|delivered| delivered >= bits)?;
        Some((first + place + 10) as f64 / 10.0 - after.as_secs_f64())
    }

    pub(super) fn on_sent(&mut self, stream: u16, generated: Instant) {
        if let Some(stream) = self.streams.get_mut(usize::from(stream)) {
            stream.generated.push_back(generated);
        }
    }

    pub(super) fn on_delivered(&mut self, now: Instant, stream: u16, len: usize) {
        let stream_ledger = self.streams.get_mut(usize::from(stream));
        let generated = stream_ledger.and_then(|stream| stream.generated.pop_front());
        self.note_delivery(now, stream, len, generated);
    }

    /// A message of `len` bytes, which exists since `generated` if that is known, was delivered.
    pub fn note_delivery(
        &mut self,
        now: Instant,
        stream: u16,
        len: usize,
        generated: Option<Instant>,
    ) {
        let Some(stream) = self.streams.get_mut(usize::from(stream)) else { return };
        stream.bytes_ever += len as u64;
        if let Some((origin, tenths)) = &mut self.tenths {
            let tenth = (now.since(*origin).as_nanos() / TENTH.as_nanos()) as usize;
            tenths.resize(tenths.len().max(tenth + 1), 0);
            tenths[tenth] += len as u64;
        }
        let (from, to) = self.window;
        if now < from || now > to {
            return;
        }
        stream.bytes += len as u64;
        if let Some(generated) = generated {
            let delay = now.since(generated).as_nanos();
            stream.delays.add(u64::try_from(delay).unwrap_or(u64::MAX));
        }
        note_gap(&mut stream.last, &mut stream.longest_gap, now, from);
        note_gap(&mut self.last, &mut self.longest_gap, now, from);
    }

    /// The measurement ended at `end`: silence until then is a gap too.
    pub fn finish(&mut self, end: Instant) {
        let from = self.window.0;
        for stream in &mut self.streams {
            note_gap(&mut stream.last, &mut stream.longest_gap, end, from);
        }
        note_gap(&mut self.last, &mut self.longest_gap, end, from);
    }

    pub(super) fn streams(&self) -> &[StreamLedger] {
        &self.streams
    }

    /// Bytes delivered at all, on all streams.
    pub(super) fn bytes_ever(&self) -> u64 {
        self.streams.iter().map(|stream| stream.bytes_ever).sum()
    }

    /// Longest time between two deliveries of any stream.
    pub(super) fn longest_gap(&self) -> Duration {
        self.longest_gap
    }
}

fn note_gap(last: &mut Option<Instant>, longest: &mut Duration, now: Instant, from: Instant) {
    *longest = (*longest).max(now.since(last.unwrap_or(from)));
    *last = Some(now);
}
