//! A path in steps of a millisecond: a rate, a delay, a sender that starts slowly, a reader.

use core::time::Duration;
use manypath_window::{Adjustment, Window};
use std::collections::VecDeque;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// One direction of one channel.
pub(crate) struct Path {
    pub(crate) window: Window,
    /// Bytes per millisecond.
    pub(crate) rate: u64,
    /// Bytes per millisecond that the reader takes.
    pub(crate) reader: u64,
    /// Bytes per millisecond that the sender's program has.
    pub(crate) source: u64,
    rtt: u64,
    now: u64,
    cwnd: u64,
    credit: u64,
    to_receiver: VecDeque<(u64, u64)>,
    to_sender: VecDeque<(u64, u64)>,
    acks: VecDeque<(u64, u64)>,
    probed: u64,
    pub(crate) consumed: u64,
    pub(crate) largest: u64,
    pub(crate) grants: u64,
    pub(crate) adjustments: Vec<Adjustment>,
}

impl Path {
    /// `mbit` Mbit/s and `rtt` milliseconds.
    pub(crate) fn new(window: Window, mbit: u64, rtt: u64) -> Self {
        Self {
            credit: window.granted(),
            largest: window.size(),
            window,
            rate: mbit * 125,
            reader: u64::MAX,
            source: u64::MAX,
            rtt,
            now: 0,
            cwnd: 14_600,
            to_receiver: VecDeque::new(),
            to_sender: VecDeque::new(),
            acks: VecDeque::new(),
            probed: 0,
            consumed: 0,
            grants: 0,
            adjustments: Vec::new(),
        }
    }

    pub(crate) fn bdp(&self) -> u64 {
        self.rate * self.rtt
    }

    /// Lets `millis` pass; what the reader took meanwhile, in Mbit/s.
    pub(crate) fn run(&mut self, millis: u64) -> u64 {
        let before = self.consumed;
        for _ in 0..millis {
            self.step();
        }
        (self.consumed - before) / (125 * millis.max(1))
    }

    pub(crate) fn step(&mut self) {
        self.now += 1;
        self.send();
        self.receive();
        self.largest = self.largest.max(self.window.size());
    }

    fn send(&mut self) {
        for grant in arrived(&mut self.to_sender, self.now) {
            self.credit += grant;
        }
        // Slow start: a congestion window per round trip, which grows by what is acked.
        let acked: u64 = arrived(&mut self.acks, self.now).iter().sum();
        self.cwnd = (self.cwnd + acked).min(4 * self.bdp());
        let bytes = self.rate.min(self.cwnd / self.rtt).min(self.credit).min(self.source);
        self.credit -= bytes;
        if bytes > 0 {
            self.to_receiver.push_back((self.now + self.rtt / 2, bytes));
        }
    }

    fn receive(&mut self) {
        for bytes in arrived(&mut self.to_receiver, self.now) {
            assert!(self.window.on_received(bytes), "more than granted");
            self.acks.push_back((self.now + self.rtt / 2, bytes));
        }
        let now = Duration::from_millis(self.now);
        if self.now >= self.probed + self.rtt {
            self.probed = self.now;
            self.window.on_round_trip(now, Duration::from_millis(self.rtt));
        }
        let taken = self.window.buffered().min(self.reader);
        if taken > 0 {
            self.consumed += taken;
            let adjustment = self.window.on_consumed(now, taken);
            self.adjustments.push(adjustment);
        }
        if self.window.is_grant_due() {
            self.grants += 1;
            self.to_sender.push_back((self.now + self.rtt / 2, self.window.take_grant()));
        }
    }
}

fn arrived(queue: &mut VecDeque<(u64, u64)>, now: u64) -> Vec<u64> {
    let count = queue.iter().take_while(|(at, _)| *at <= now).count();
    queue.drain(..count).map(|(_, bytes)| bytes).collect()
}
