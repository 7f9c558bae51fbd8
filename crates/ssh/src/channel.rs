//! One channel: its windows in both directions, and how far it has been opened and closed.

use core::time::Duration;
use manypath_window::{Budget, Policy, Refresh, Window, WindowConfig};
use std::collections::VecDeque;

/// The first window of a channel whose data is asked for: that of OpenSSH.
const REQUESTED: u64 = 2 << 20;

/// A quarter more than the path carries, in percent. What a stock sender has been granted and cannot send, it queues in
/// memory that it copies again and again, the more the slower.
const LEAN: u32 = 125;

/// The size of receive windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Windows {
    /// They follow the path and the reader.
    Follow,
    /// All of them have this many bytes, for comparison.
    Fixed(u32),
}

impl Windows {
    /// The most that a sender of OpenSSH bears: beyond 16 MiB it copies its whole queue for each packet.
    pub const CAP: u64 = 15 << 20;

    pub(crate) fn config(self, pull: Pull) -> WindowConfig {
        let usual = WindowConfig { cap: Self::CAP, ..WindowConfig::default() };
        match (self, pull) {
            (Self::Follow, Pull::Window) => {
                WindowConfig { policy: Policy::Path, gain: LEAN, ..usual }
            }
            (Self::Follow, Pull::Requests) => WindowConfig { first: REQUESTED, ..usual },
            (Self::Fixed(size), _) => {
                WindowConfig::fixed(u64::from(size), Refresh::Bytes(96 << 10))
            }
        }
    }
}

/// What decides how much the peer sends on a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pull {
    /// Nothing but the window.
    Window,
    /// Requests, as those of SFTP: the window must only not be in their way.
    Requests,
}

/// What a request was for whose answer has not come yet. Answers come in the order of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// To start a program.
    Start,
    /// How long an answer takes; when that was asked.
    Probe(Duration),
}

/// How far a channel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// CHANNEL_OPEN was sent, at this time.
    Opening(Duration),
    Open,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) phase: Phase,
    /// The peer's number for it.
    pub(crate) remote: u32,
    pub(crate) asked: VecDeque<Asked>,
    /// Bytes that the peer still takes.
    pub(crate) credit: u64,
    /// The longest data that the peer takes in one message.
    pub(crate) max_packet: u32,
    pub(crate) eof_sent: bool,
    pub(crate) close_sent: bool,
    window: Window,
}

impl Channel {
    /// A channel about to be opened; `None` if there is no memory for its window.
    pub(crate) fn new(
        now: Duration,
        windows: Windows,
        pull: Pull,
        budget: &Budget,
    ) -> Option<Self> {
        Some(Self {
            phase: Phase::Opening(now),
            remote: 0,
            asked: VecDeque::new(),
            credit: 0,
            max_packet: 0,
            eof_sent: false,
            close_sent: false,
            window: Window::open(windows.config(pull), budget)?,
        })
    }

    /// What to announce when it is opened.
    pub(crate) fn first_window(&self) -> u32 {
        self.window.granted() as u32
    }

    /// Data came. False if that is more than was granted.
    pub(crate) fn on_received(&mut self, bytes: usize) -> bool {
        self.window.on_received(bytes as u64)
    }

    /// The reader took `bytes`; what to grant now, if anything.
    pub(crate) fn on_consumed(&mut self, now: Duration, bytes: u64) -> Option<u32> {
        self.window.on_consumed(now, bytes);
        let due = self.window.is_grant_due() && self.phase == Phase::Open && !self.close_sent;
        due.then(|| self.window.take_grant() as u32)
    }

    pub(crate) fn on_round_trip(&mut self, now: Duration, sample: Duration) {
        self.window.on_round_trip(now, sample);
    }

    pub(crate) fn on_end(&mut self) {
        self.window.on_end();
    }

    /// The size of the receive window.
    pub(crate) fn window_size(&self) -> u64 {
        self.window.size()
    }

    /// Whether data may be sent.
    pub(crate) fn is_writable(&self) -> bool {
        self.phase == Phase::Open && !self.eof_sent && !self.close_sent
    }
}
