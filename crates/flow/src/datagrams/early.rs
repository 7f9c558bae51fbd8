//! Datagrams that have overtaken the message that opens their flow: they wait for it, a few.

use alloc::collections::VecDeque;
use bytes::Bytes;
use core::time::Duration;

/// Most datagrams that wait, of all flows together.
pub(super) const MAX_WAITING: usize = 64;
/// Most bytes that wait.
const MAX_BYTES: usize = 128 << 10;

#[derive(Debug, Default)]
pub(super) struct Early {
    waiting: VecDeque<(u32, Duration, Bytes)>,
    bytes: usize,
}

impl Early {
    /// Keeps a datagram of the peer's flow `number` that has come `now`; returns how many had to go.
    pub(super) fn keep(&mut self, number: u32, now: Duration, payload: Bytes) -> u64 {
        self.bytes += payload.len();
        self.waiting.push_back((number, now, payload));
        let mut dropped = 0;
        while self.waiting.len() > MAX_WAITING || self.bytes > MAX_BYTES {
            let Some((_, _, oldest)) = self.waiting.pop_front() else { break };
            self.bytes -= oldest.len();
            dropped += 1;
        }
        dropped
    }

    /// Takes those of a flow that is open now, with the times at which they came.
    pub(super) fn take(&mut self, number: u32) -> VecDeque<(Duration, Bytes)> {
        let mut taken = VecDeque::new();
        let bytes = &mut self.bytes;
        self.waiting.retain(|(of, came, payload)| {
            if *of == number {
                *bytes -= payload.len();
                taken.push_back((*came, payload.clone()));
            }
            *of != number
        });
        taken
    }
}
