//! Sending a run of packets: whole where the kernel segments, packet by packet where it does not,
//! later where it takes no more.

use crate::counters::Counters;
use crate::path_io::PathIo;
use crate::socket::{Lacks, PathSocket, TooBig, Unreachable};
use crate::waiting::Packets;
use manypath_engine::Instant;
use std::io;

/// Bytes that may wait for a socket to become writable; runs beyond it are dropped.
const WAITING_LIMIT: usize = 1 << 20;

/// Why packets could not be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    QueueFull,
    TooBig,
    NoRoute,
    Forbidden,
    Other,
}

enum Outcome {
    Sent,
    /// The same packets are to be tried again in a smaller piece.
    Again,
    Blocked,
    Failed(Failure),
}

impl<I: PathIo> PathSocket<I> {
    /// Sends a run after everything that waits; what the kernel does not take waits in turn, up to a
    /// bound.
    pub(crate) fn send(&mut self, now: Instant, packets: Packets<'_>) {
        let sent = if self.is_blocked() { 0 } else { self.send_run(now, packets) };
        if sent == packets.bytes.len() {
            return;
        }
        if self.waiting.bytes() < WAITING_LIMIT {
            self.waiting.hold(packets, sent);
        } else {
            self.drop_packets(Failure::QueueFull, packets);
        }
    }

    /// The socket is writable again: sends what waits.
    pub(crate) fn resume(&mut self, now: Instant) {
        while let Some(mut run) = self.waiting.runs.pop_front() {
            run.sent += self.send_run(now, run.rest());
            if run.sent < run.bytes.len() {
                self.waiting.runs.push_front(run);
                return;
            }
            self.waiting.recycle(run.bytes);
        }
    }

    /// Whether packets wait for the socket to become writable.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.waiting.runs.is_empty()
    }

    /// Returns the bytes done with, sent or dropped. Fewer than all: the kernel takes no more.
    fn send_run(&mut self, now: Instant, packets: Packets<'_>) -> usize {
        let mut done = 0;
        while done < packets.bytes.len() {
            let segments = if packets.may_fragment { 1 } else { self.offload.segments(now) };
            let piece = packets.piece(done, segments);
            match self.send_piece(now, piece) {
                Outcome::Sent => done += piece.bytes.len(),
                Outcome::Again => {}
                Outcome::Blocked => return done,
                Outcome::Failed(failure) => {
                    let lost = if failure.hits_the_rest() { packets.from(done) } else { piece };
                    self.drop_packets(failure, lost);
                    done += lost.bytes.len();
                }
            }
        }
        done
    }

    fn send_piece(&mut self, now: Instant, piece: Packets<'_>) -> Outcome {
        self.counters.send_calls += 1;
        let Packets { remote, segment_size, bytes, may_fragment, ecn } = piece;
        let sent = self.with_errors_read(|io| match may_fragment {
            true => io.send_in_fragments(remote, bytes),
            false => io.send(remote, bytes, segment_size, ecn),
        });
        match sent {
            Ok(()) => {
                self.on_sent(now, piece);
                Outcome::Sent
            }
            Err(error) => self.on_send_error(piece, &error),
        }
    }

    fn on_sent(&mut self, now: Instant, piece: Packets<'_>) {
        let packets = piece.count();
        self.counters.packets_sent += packets;
        self.counters.bytes_sent += piece.bytes.len() as u64;
        if packets > 1 {
            self.counters.gso_sends += 1;
            self.offload.on_run_sent();
        } else if self.offload.on_packet_sent(now) {
            self.counters.gso_refused += 1;
        }
    }

    fn on_send_error(&mut self, piece: Packets<'_>, error: &io::Error) -> Outcome {
        if error.kind() == io::ErrorKind::WouldBlock {
            self.counters.send_blocked += 1;
            return Outcome::Blocked;
        }
        let errno = error.raw_os_error();
        if errno == Some(libc::EMSGSIZE) && self.allow_fragmentation() {
            return Outcome::Again;
        }
        let refused = matches!(errno, Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE));
        if refused && piece.count() > 1 {
            self.offload.on_run_refused();
            self.io.forget_failures();
            return Outcome::Again;
        }
        self.offload.on_packet_refused();
        Outcome::Failed(Failure::of(error))
    }

    fn drop_packets(&mut self, failure: Failure, lost: Packets<'_>) {
        *failure.counter(&mut self.counters) += lost.count();
        if let Some(mtu) = self.link_mtu.take().filter(|_| failure == Failure::TooBig) {
            self.report_too_big(TooBig { remote: lost.remote, mtu, quote: None });
        }
        if failure.closes_the_path() {
            self.report_unreachable(Unreachable {
                remote: lost.remote,
                quote: None,
                lacks: Lacks::Way,
            });
        }
    }
}

impl Failure {
    /// EINVAL for a single packet means that its source address has left the host (udp_sendmsg
    /// looks up a route for it), ENODEV and ENXIO that the interface has.
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::ENOMEM) => Self::QueueFull,
            Some(libc::EMSGSIZE) => Self::TooBig,
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden,
            Some(
                libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::EADDRNOTAVAIL
                | libc::ENODEV
                | libc::ENXIO
                | libc::EINVAL,
            ) => Self::NoRoute,
            _ => Self::Other,
        }
    }

    fn counter(self, counters: &mut Counters) -> &mut u64 {
        match self {
            Self::QueueFull => &mut counters.dropped_queue_full,
            Self::TooBig => &mut counters.dropped_too_big,
            Self::NoRoute => &mut counters.dropped_no_route,
            Self::Forbidden => &mut counters.dropped_forbidden,
            Self::Other => &mut counters.dropped_send_error,
        }
    }

    /// Whether the other packets of the run, of the same size on the same path, must fail too.
    fn hits_the_rest(self) -> bool {
        match self {
            Self::TooBig | Self::NoRoute | Self::Forbidden => true,
            Self::QueueFull | Self::Other => false,
        }
    }

    fn closes_the_path(self) -> bool {
        match self {
            Self::NoRoute | Self::Forbidden => true,
            Self::TooBig | Self::QueueFull | Self::Other => false,
        }
    }
}

#[cfg(test)]
#[path = "send_tests.rs"]
mod tests;
