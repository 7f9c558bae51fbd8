//! The receiving direction of a flow.

use crate::byte_queue::ByteQueue;
use bytes::Bytes;
use core::time::Duration;
use manypath_window::{Adjustment, Window};

/// A round trip is measured no more often than this, however short it is.
const LEAST_PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// The same for a flow of an association of which others are measured.
const CROWDED_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes consumed before a flow is worth a measurement: a quarter of the least window.
const WORTH_A_PROBE: u64 = crate::INITIAL_CREDIT as u64 / 4;

/// The receiving direction of a flow: bytes on their way to the reader, and the window for them.
#[derive(Debug)]
pub(crate) struct Recv {
    queue: ByteQueue,
    window: Window,
    /// When the peer was told of the window that it knows, and which one that is.
    told: (u32, Duration),
    /// When a report was asked for last, and whether it has not come yet.
    probed: Option<Duration>,
    probing: bool,
    /// A report has come: the peer knows probes.
    reported: bool,
    /// Bytes that waited at the peer when it reported last.
    waiting_there: u64,
    /// The peer's end has come.
    ended: bool,
    /// The reader knows that there is data.
    announced: bool,
    /// The reader knows that there is no more.
    finished: bool,
}

impl Recv {
    pub(crate) fn new(window: Window, now: Duration) -> Self {
        Self {
            queue: ByteQueue::default(),
            told: (narrow(window.size()), now),
            window,
            probed: None,
            probing: false,
            reported: false,
            waiting_there: 0,
            ended: false,
            announced: false,
            finished: false,
        }
    }

    pub(crate) fn received(&self) -> u64 {
        self.window.received()
    }

    pub(crate) fn window(&self) -> u32 {
        narrow(self.window.size())
    }

    /// What a round trip takes, as far as is known.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.window.round_trip()
    }

    /// Bytes that waited at the peer when it reported last.
    pub(crate) fn waiting_there(&self) -> u64 {
        self.waiting_there
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Bytes received and not consumed.
    pub(crate) fn buffered(&self) -> u64 {
        self.window.buffered()
    }

    /// Bytes that may still come.
    pub(crate) fn credit(&self) -> u64 {
        self.window.credit()
    }

    /// Takes received bytes; false if there was no credit for them.
    pub(crate) fn receive(&mut self, bytes: Bytes) -> bool {
        let allowed = self.window.on_received(bytes.len() as u64);
        if allowed {
            self.queue.push(bytes);
        }
        allowed
    }

    /// Whether the reader must be told of data now.
    pub(crate) fn should_announce(&mut self) -> bool {
        let tell = !self.announced && !self.queue.is_empty();
        self.announced |= tell;
        tell
    }

    pub(crate) fn read(&mut self) -> Option<Bytes> {
        let bytes = self.queue.pop();
        self.announced = bytes.is_some();
        bytes
    }

    /// The reader has taken `bytes` of what it has read. Data may take a path whose round trip is `slowest`.
    pub(crate) fn consume(&mut self, now: Duration, bytes: usize, slowest: Duration) -> Adjustment {
        self.window.set_slowest_path(slowest);
        let read = self.buffered() - self.queue.len() as u64;
        debug_assert!(bytes as u64 <= read, "consumed more than was read");
        self.window.on_consumed(now, (bytes as u64).min(read))
    }

    /// The peer's end has come.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.window.on_end();
    }

    /// Whether the reader must be told now that there is no more.
    pub(crate) fn should_finish(&mut self) -> bool {
        let tell = self.ended && !self.finished && self.queue.is_empty();
        self.finished |= tell;
        tell
    }

    /// Whether a grant is worth a message now.
    pub(crate) fn is_grant_due(&self) -> bool {
        self.window.is_grant_due()
    }

    /// Grants what is due; the window and the cumulative grant to tell the peer of.
    pub(crate) fn grant(&mut self, now: Duration) -> (u32, u64) {
        self.window.take_grant();
        let window = self.window();
        if window != self.told.0 {
            self.told = (window, now);
        }
        (window, self.window.granted())
    }

    /// Raises the window to its first size as the flow is accepted, if memory has room.
    pub(crate) fn raise_to_first(&mut self) -> bool {
        self.window.raise_to_first()
    }

    /// Lets a large window that is not used fall back to the first size.
    pub(crate) fn fall_back(&mut self) {
        self.window.fall_back();
    }

    /// Whether a round trip is to be measured now. `crowded`: that of another flow has just been.
    pub(crate) fn should_probe(&mut self, now: Duration, crowded: bool) -> bool {
        let least = if crowded { CROWDED_PROBE_INTERVAL } else { LEAST_PROBE_INTERVAL };
        let interval = self.round_trip().unwrap_or_default().max(least);
        let rested = self.probed.is_none_or(|at| now.saturating_sub(at) >= interval);
        let consumed = self.received() - self.buffered();
        let due = rested && !self.probing && !self.ended && consumed >= WORTH_A_PROBE;
        if due {
            (self.probed, self.probing) = (Some(now), true);
        }
        due
    }

    /// The peer has answered the probe that was sent at `sent`. False if there was none.
    pub(crate) fn on_report(&mut self, now: Duration, sent: Duration, queued: u64) -> bool {
        let asked = core::mem::take(&mut self.probing) && sent <= now;
        if asked {
            (self.reported, self.waiting_there) = (true, queued);
            self.window.on_round_trip(now, now.saturating_sub(sent));
        }
        asked
    }

    /// The peer is short of credit although it knows of a window of this size: that it says so is an answer to
    /// the grant, and its time a round trip for peers that know no probes. False if it is outdated.
    pub(crate) fn on_want(&mut self, now: Duration, window: u32) -> bool {
        let (told, at) = self.told;
        if window != told || self.ended {
            return false;
        }
        if !self.reported && now > at {
            self.window.on_round_trip(now, now.saturating_sub(at));
        }
        true
    }

    /// The peer has given credit back, `returned` bytes in all; how much of it is news. `None` if
    /// it did not have that much.
    pub(crate) fn give_back(&mut self, returned: u64) -> Option<u64> {
        if self.ended {
            return Some(0);
        }
        let news = returned.saturating_sub(self.window.returned());
        self.window.on_returned(news).then_some(news)
    }
}

/// The window field of messages has 32 bits.
fn narrow(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
