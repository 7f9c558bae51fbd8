//! Connects that go ahead of the stack's first answer.
//!
//! The stack says first whether it leaves a connect to the kernel; until then a program waits inside the call, also one
//! that does not block. A browser that begins dozens of connects in a row would wait each time until two other processes
//! have been woken. After several connects in a row that were not left to the kernel, the next ones enter the gate at
//! once, and the stack is asked as for sockets that wait already (`OpenWaiting`). It relays what it would have left to
//! the kernel, and says so (`Plain`): then each connect waits for its answer again.

use super::Supervisor;
use super::egress::EgressPolicy;
use crate::socket;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// So many answers in a row stand for the next one.
const ANSWERS: u32 = 4;
/// How long they do.
const LIFETIME: Duration = Duration::from_secs(1);

/// The last answers of the stack, for each family: a host may have no route for one of them.
#[derive(Debug, Default)]
pub(super) struct Ahead([Row; 2]);

#[derive(Debug, Default)]
struct Row {
    length: u32,
    last: Option<Instant>,
}

impl Ahead {
    /// The stack does not leave a connect to the kernel about which it was asked first.
    pub(super) fn note_pending(&mut self, destination: SocketAddr, now: Instant) {
        let row = self.row(destination);
        (row.length, row.last) = (row.length.saturating_add(1), Some(now));
    }

    /// The stack leaves one to the kernel, or would have.
    pub(super) fn end(&mut self, destination: SocketAddr) {
        *self.row(destination) = Row::default();
    }

    fn permits(&mut self, destination: SocketAddr, now: Instant) -> bool {
        let row = self.row(destination);
        row.length >= ANSWERS && row.last.is_some_and(|last| now < last + LIFETIME)
    }

    const fn row(&mut self, destination: SocketAddr) -> &mut Row {
        &mut self.0[destination.is_ipv6() as usize]
    }
}

impl Supervisor {
    /// Whether a connect that does not block is answered before the stack has said anything. What a rule excludes is
    /// never relayed, and what has no route fails at once. The egress policy has been asked before, where it is.
    pub(super) fn goes_ahead(&mut self, destination: SocketAddr) -> bool {
        let found = self.egress.as_ref().is_some_and(EgressPolicy::is_routed);
        self.ahead.permits(destination, Instant::now())
            && !self.only_sctp.leaves_to_tcp(destination)
            && (found || socket::route_source(destination).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_a_row_count_for_a_while_and_for_their_family() {
        let (now, mut ahead) = (Instant::now(), Ahead::default());
        let [v4, v6] = ["192.0.2.1:80", "[2001:db8::1]:80"].map(|text| text.parse().unwrap());
        for _ in 0..ANSWERS {
            assert!(!ahead.permits(v4, now));
            ahead.note_pending(v4, now);
        }
        assert!(ahead.permits(v4, now) && !ahead.permits(v6, now));
        assert!(!ahead.permits(v4, now + LIFETIME));
        ahead.end(v6);
        assert!(ahead.permits(v4, now));
        ahead.end(v4);
        assert!(!ahead.permits(v4, now));
    }
}
