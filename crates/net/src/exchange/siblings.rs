//! What the kernel has given to the wrong one of several loops (`loops.rs`): it goes from loop to loop until one knows it.
//!
//! ```text
//! network ─▶ loop 1 ── not mine ─▶ loop 2 ── not mine ─▶ loop 0: the last one answers, as out of the blue
//! ```
//!
//! That happens to an ABORT or SHUTDOWN COMPLETE that reflects the peer's tag (T bit, RFC 9260 section 8.4), to ICMP
//! messages, for which the kernel asks no program, and to packets that the kernel has put together (GRO) behind one with
//! another tag. All others name their loop.

use super::Exchange;
use crate::carriers::{Carrier, Link, Over, Packed};
use crate::error_queue::ErrorKind;
use crate::loops::Seat;
use crate::receive::Datagram;
use crate::socket::Lacks;
use crate::stray::{Report, Stray, What};
use manypath_engine::{Ecn, Instant, PathAddr};
use mio::Token;
use std::net::SocketAddr;

/// Chunk types that may bear the tag of their receiver's peer, and the bit that says so.
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;
const TAG_REFLECTED: u8 = 1;
/// Where the first chunk begins.
const FIRST_CHUNK: usize = 12;

impl Seat {
    /// Whether a packet may be for another loop.
    fn may_be_for_another(&self, packet: &[u8]) -> bool {
        let tag = tag_of(packet).unwrap_or(0);
        let reflects = matches!(packet.get(FIRST_CHUNK..FIRST_CHUNK + 2),
            Some([ABORT | SHUTDOWN_COMPLETE, flags]) if flags & TAG_REFLECTED != 0);
        tag != 0 && (reflects || tag % self.count() != self.index())
    }
}

/// The verification tag of a packet, as a number that names a loop.
fn tag_of(packet: &[u8]) -> Option<usize> {
    let tag = packet.get(4..8).and_then(|tag| <[u8; 4]>::try_from(tag).ok())?;
    Some(u32::from_be_bytes(tag) as usize)
}

impl Exchange {
    /// Gives the endpoint a packet that has come to the socket `index`; false if it is left to the server before this one.
    pub(crate) fn take_packet(
        &mut self,
        index: usize,
        (from, ecn): (SocketAddr, Ecn),
        packet: &mut [u8],
    ) -> bool {
        let path = PathAddr { local: self.sockets[index].path.local, remote: from };
        let carrier = Carrier::Udp(from.port());
        let belongs = self.carriage.path_of(self.told, &self.endpoint, path, packet, carrier);
        let path = belongs.unwrap_or(path);
        let left = match &self.seat {
            Some(seat) if seat.may_be_for_another(packet) => seat.count() - 1,
            _ => return self.endpoint.handle_marked_packet(self.told, path, packet, ecn),
        };
        let local = path.local;
        self.offer(path, ecn, packet)
            || self.hand_on(|| {
                let what = What::Packet { from, ecn, bytes: packet.to_vec() };
                Stray { local, left, what }
            })
    }

    /// Whether an association here knows the packet.
    fn offer(&mut self, path: PathAddr, ecn: Ecn, packet: &mut [u8]) -> bool {
        self.endpoint.leave_strays(true);
        let taken = self.endpoint.handle_marked_packet(self.told, path, packet, ecn);
        self.endpoint.leave_strays(self.passes_on());
        taken
    }

    /// Hands something to the next loop, or counts that it could not. True, for it is looked after.
    fn hand_on(&mut self, stray: impl FnOnce() -> Stray) -> bool {
        if let Some(seat) = &self.seat {
            self.counters.handed_on += 1;
            self.counters.hand_on_dropped += u64::from(!seat.hand_on(stray()));
        }
        true
    }

    /// A report concerns no association here: it goes to the other loops first.
    pub(crate) fn leave_report(&mut self, index: usize, report: Report) {
        match self.seat.as_ref().map(|seat| seat.count() - 1) {
            Some(left @ 1..) => {
                let local = self.sockets[index].path.local;
                self.hand_on(|| Stray { local, left, what: What::Report(report) });
            }
            _ => self.pass_to_predecessor(index, report),
        }
    }

    fn pass_to_predecessor(&mut self, index: usize, report: Report) {
        let Report { kind, remote, mtu, quote } = report;
        self.sockets[index].pass_report_on((kind, remote), mtu, &quote);
    }

    /// Looks at what other loops did not know.
    pub(crate) fn take_strays(&mut self, now: Instant) {
        let Some(seat) = &self.seat else { return };
        for stray in seat.take_strays() {
            let Stray { local, left, what } = stray;
            self.told = self.told.max(now);
            match what {
                What::Stream { to, link, packets } => {
                    self.take_stray_stream(now, local, (to, left), link, packets);
                }
                What::Packet { from, ecn, bytes } => {
                    if let Some(index) = self.socket_for_stray(local) {
                        self.take_stray_packet(index, left, (from, ecn, bytes));
                    }
                }
                What::Report(report) => {
                    if let Some(index) = self.socket_for_stray(local) {
                        self.take_stray_report(now, index, left, report);
                    }
                }
            }
        }
    }

    fn socket_for_stray(&mut self, local: SocketAddr) -> Option<usize> {
        let position = self.sockets.iter().position(|socket| socket.path.local == local);
        self.counters.hand_on_dropped += u64::from(position.is_none());
        position
    }

    /// Hands a connection to the loop that has the association of what came first: the kernel gives connections to whichever
    /// loop is free. True if it has gone.
    pub(crate) fn hand_stream_on(&mut self, id: Token, packets: &mut Packed) -> bool {
        let Some(seat) = self.seat.as_ref().filter(|seat| seat.count() > 1) else { return false };
        let tag = packets.iter_mut().next().and_then(|first| tag_of(first)).unwrap_or(0);
        let (to, left) = (tag % seat.count(), seat.count() - 1);
        if tag == 0 || to == seat.index() || !self.carriage.streams.may_move(id) {
            return false;
        }
        let Some(link) = self.carriage.streams.forget(id) else { return false };
        let packets = packets.iter_mut().map(|packet| packet.to_vec()).collect();
        let local = link.ends.local;
        let what = What::Stream { to, link: Box::new(link), packets };
        self.hand_on(|| Stray { local, left, what })
    }

    fn take_stray_stream(
        &mut self,
        now: Instant,
        local: SocketAddr,
        (to, left): (usize, usize),
        link: Box<Link>,
        packets: Vec<Vec<u8>>,
    ) {
        if self.seat.as_ref().is_some_and(|seat| seat.index() != to) {
            if left > 1 {
                let what = What::Stream { to, link, packets };
                self.hand_on(|| Stray { local, left: left - 1, what });
            }
            return;
        }
        let locals = self.local_ips();
        let Some(id) = self.carriage.streams.adopt(now, *link, &locals) else { return };
        let goes_on =
            packets.into_iter().all(|mut packet| self.take_from_stream(now, id, &mut packet));
        if !goes_on {
            self.carriage.streams.end(now, id, Over::Foreign);
        }
    }

    fn take_stray_packet(
        &mut self,
        index: usize,
        left: usize,
        (from, ecn, mut bytes): (SocketAddr, Ecn, Vec<u8>),
    ) {
        let local = self.sockets[index].path.local;
        let path = PathAddr { local, remote: from };
        if left > 1 {
            if !self.offer(path, ecn, &mut bytes) {
                let what = What::Packet { from, ecn, bytes };
                self.hand_on(|| Stray { local, left: left - 1, what });
            }
        } else if !self.endpoint.handle_marked_packet(self.told, path, &mut bytes, ecn) {
            let datagram =
                Datagram { from, bytes: &bytes[..], ecn, stamp: None, stride: bytes.len() };
            self.sockets[index].pass_on(&datagram);
        }
    }

    fn take_stray_report(&mut self, now: Instant, index: usize, left: usize, report: Report) {
        if self.is_proven(now, index, report) {
            return;
        }
        if left > 1 {
            let local = self.sockets[index].path.local;
            self.hand_on(|| Stray { local, left: left - 1, what: What::Report(report) });
        } else {
            self.pass_to_predecessor(index, report);
        }
    }

    /// Whether the report quotes a packet of an association here, which then knows what it says.
    pub(crate) fn is_proven(&mut self, now: Instant, index: usize, report: Report) -> bool {
        let path = PathAddr { local: self.sockets[index].path.local, remote: report.remote };
        let quote = report.quote.bytes();
        if report.kind == ErrorKind::TooBig {
            // The endpoint counts those that prove nothing.
            return self.endpoint.handle_icmp_too_big(now, path, report.mtu, quote);
        }
        let proven = self.endpoint.handle_icmp_unreachable(now, path, quote);
        if proven && report.kind == Lacks::Port.kind() {
            self.note_closed_port(path);
        }
        proven
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::Loops;

    fn packet(tag: u32, chunk: [u8; 2]) -> Vec<u8> {
        [&[0; 4][..], &tag.to_be_bytes(), &[0; 4], &chunk, &[0, 4]].concat()
    }

    #[test]
    fn a_tag_of_another_loop_or_a_reflected_one_may_be_for_another() {
        let seats = Loops::seats(2);
        let may = |packet: &[u8]| seats[1].may_be_for_another(packet);
        assert!(!may(&packet(7, [0, 3])));
        assert!(may(&packet(8, [0, 3])));
        assert!(!may(&packet(7, [ABORT, 0])));
        assert!(may(&packet(7, [ABORT, TAG_REFLECTED])));
        assert!(may(&packet(7, [SHUTDOWN_COMPLETE, TAG_REFLECTED])));
        assert!(!may(&packet(0, [1, 0])), "an INIT is for whoever gets it");
        assert!(!may(&[1, 2, 3]));
    }

    #[test]
    fn a_box_that_is_full_takes_no_more() {
        let seats = Loops::seats(2);
        let local = "127.0.0.1:9899".parse().unwrap();
        let stray = || {
            let what = What::Packet { from: local, ecn: Ecn::NotEct, bytes: vec![0; 12] };
            Stray { local, left: 1, what }
        };
        let taken = (0..1000).filter(|_| seats[0].hand_on(stray())).count();
        assert_eq!(seats[1].take_strays().len(), taken);
        assert!((1..1000).contains(&taken));
        assert!(seats[0].hand_on(stray()) && seats[0].take_strays().is_empty());
    }
}
