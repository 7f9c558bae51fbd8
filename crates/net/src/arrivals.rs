//! What has arrived on several sockets, in the order and at the times at which the kernel received it.
//!
//! A process that gets the processor late reads late. The endpoint is told when packets came, not when they
//! were read: else its own lateness would look like a round trip that has grown, or like a queue.

use crate::bound::Bound;
use crate::receive::{Datagram, ReceiveBuffers};
use manypath_engine::{Duration, Instant};
use std::time::SystemTime;

/// The system's clock has been set if it has moved so much against ours.
const STEP: Duration = Duration::from_millis(20);

/// One receive call on each socket that has something to read.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// One for each socket that was read, used again and again.
    buffers: Vec<ReceiveBuffers>,
    order: Vec<Arrival>,
    /// Whether packets come when they are read, because `now` is not of this host's clocks.
    pub(crate) is_unstamped: bool,
    clock: Clock,
}

/// Whether stamps can be compared with the system's clock.
#[derive(Debug, Default)]
struct Clock {
    /// What that clock was ahead of ours, in nanoseconds.
    ahead: Option<i128>,
    /// It was set, and what is still unread may have come before.
    was_set: bool,
}

impl Clock {
    fn look(&mut self, now: Instant, wall: Duration) {
        let ahead = wall.as_nanos().cast_signed() - i128::from(now.as_nanos());
        let moved = self.ahead.replace(ahead).map_or(0, |before| ahead.abs_diff(before));
        self.was_set |= moved > STEP.as_nanos();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Arrival {
    at: Instant,
    socket: usize,
    buffers: usize,
    datagram: usize,
}

impl Arrivals {
    /// Makes one receive call on each socket that is unread. `now` is `wall` by the system's clock. `false` if there was
    /// none.
    pub(crate) fn receive(&mut self, now: Instant, wall: Duration, sockets: &mut [Bound]) -> bool {
        self.order.clear();
        self.clock.look(now, wall);
        let is_unstamped = self.is_unstamped || self.clock.was_set;
        let unread = sockets.iter_mut().enumerate().filter(|(_, socket)| socket.unread);
        let mut used = 0;
        for (index, socket) in unread {
            if used == self.buffers.len() {
                self.buffers.push(ReceiveBuffers::default());
            }
            let buffers = &mut self.buffers[used];
            let received = socket.path.receive(buffers);
            socket.unread = received.more;
            let arrivals = buffers.datagrams(received.datagrams).enumerate();
            self.order.extend(arrivals.map(|(datagram, it)| Arrival {
                at: arrival(now, wall, it.stamp.filter(|_| !is_unstamped)),
                socket: index,
                buffers: used,
                datagram,
            }));
            used += 1;
        }
        self.clock.was_set &= sockets.iter().any(|socket| socket.unread);
        self.order.sort_unstable();
        used > 0
    }

    /// Gives the datagrams of the last calls to `each`, oldest first: when each came, the socket that it came to, and itself.
    pub(crate) fn in_order(&mut self, mut each: impl FnMut(Instant, usize, Datagram<&mut [u8]>)) {
        for arrival in &self.order {
            let datagram = self.buffers[arrival.buffers].datagram_mut(arrival.datagram);
            each(arrival.at, arrival.socket, datagram);
        }
    }
}

/// The system's clock, by which packets are stamped.
pub(crate) fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// When a packet came that has the kernel's `stamp`, if it is `wall` by the same clock at `now`. That clock may be
/// set back: then the packet comes now.
fn arrival(now: Instant, wall: Duration, stamp: Option<Duration>) -> Instant {
    let age = stamp.map_or(Duration::ZERO, |stamp| wall.saturating_sub(stamp));
    let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
    Instant::from_nanos(now.as_nanos().saturating_sub(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_from_before_the_clock_was_set_do_not_count() {
        let s = Duration::from_secs;
        let (mut clock, begin) = (Clock::default(), Instant::ZERO + s(100));
        let mut set_at = |ours, wall| {
            clock.look(begin + ours, wall);
            std::mem::take(&mut clock.was_set)
        };
        assert!(!set_at(s(0), s(5_000)), "nothing to compare with");
        assert!(!set_at(s(10), s(5_010)));
        assert!(set_at(s(11), s(8_611)), "an hour forth");
        assert!(!set_at(s(12), s(8_612)));
        assert!(set_at(s(13), s(5_013)), "and back");
        assert!(!set_at(s(14), s(5_014) + STEP / 2), "it is slewed");
    }

    #[test]
    fn a_packet_came_as_long_ago_as_its_stamp_says() {
        let ms = Duration::from_millis;
        let now = Instant::ZERO + ms(500);
        let wall = ms(90_000);
        assert_eq!(arrival(now, wall, Some(ms(89_980))), Instant::ZERO + ms(480));
        assert_eq!(arrival(now, wall, None), now, "a socket without stamps");
        assert_eq!(arrival(now, wall, Some(ms(90_001))), now, "the clock was set back");
        assert_eq!(arrival(now, wall, Some(ms(5))), Instant::ZERO, "the clock was set forth");
    }
}
