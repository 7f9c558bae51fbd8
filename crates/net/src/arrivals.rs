//! What has arrived on several sockets, in the order and at the times at which the kernel received it.
//!
//! A process that gets the processor late reads late. The endpoint is told when packets came, not when they
//! were read: else its own lateness would look like a round trip that has grown, or like a queue.

use crate::bound::Bound;
use crate::receive::{Datagram, ReceiveBuffers};
use manypath_engine::{Duration, Instant};
use std::time::SystemTime;

/// One receive call on each socket that has something to read.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// One for each socket that was read, used again and again.
    buffers: Vec<ReceiveBuffers>,
    order: Vec<Arrival>,
    /// Whether packets come when they are read, because `now` is not of this host's clocks.
    pub(crate) is_unstamped: bool,
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
                at: arrival(now, wall, it.stamp.filter(|_| !self.is_unstamped)),
                socket: index,
                buffers: used,
                datagram,
            }));
            used += 1;
        }
        self.order.sort_unstable();
        used > 0
    }

    /// The datagrams of the last calls, oldest first: when each came, the socket that it came to, and itself.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (Instant, usize, Datagram<'_>)> {
        self.order.iter().map(|arrival| {
            let datagram = self.buffers[arrival.buffers].datagram(arrival.datagram);
            (arrival.at, arrival.socket, datagram)
        })
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
