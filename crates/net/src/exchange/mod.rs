//! What goes on between the endpoint and its sockets, in bounded turns.

mod siblings;
mod streams;

use crate::arrivals::{self, Arrivals};
use crate::bound::Bound;
use crate::carriage::Carriage;
use crate::counters::Counters;
use crate::error_queue::ErrorKind;
use crate::flood::{self, Flood};
use crate::loops::Seat;
use crate::moderation::Moderation;
use crate::parcels::Parcels;
use crate::receive::Datagram;
use crate::socket::{Lacks, TooBig};
use crate::stray::Report;
use crate::waiting::{MAX_DATAGRAM, Packets};
use manypath_engine::{Endpoint, Instant, PacketBatch, PathAddr, Transmit};
use std::collections::BTreeSet;

/// Closed ports that are kept for the user at most; more say nothing new.
const MAX_CLOSED_PORTS: usize = 1024;
/// Most packets of one run: as many of 1472 bytes (Ethernet, IPv4) as one datagram holds, so that
/// a run is one call.
const PACKETS_PER_RUN: usize = MAX_DATAGRAM / 1472;
/// Runs sent in one flush.
const RUNS_PER_FLUSH: usize = 64;
/// Receive calls per socket and turn.
const RECEIVES_PER_TURN: usize = 4;
/// Bytes given to the endpoint between two flushes, so that acknowledgements leave while the rest
/// of a long queue is still being read. Acknowledgements that arrive are small: many of them open
/// the way for one long run.
const BYTES_PER_FLUSH: usize = 32 << 10;

/// The endpoint and its sockets.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) endpoint: Endpoint,
    pub(crate) sockets: Vec<Bound>,
    /// Counts that belong to no socket.
    pub(crate) counters: Counters,
    /// The last flush stopped because it had done enough, not because there was nothing to do.
    pub(crate) unflushed: bool,
    /// Paths whose far host says that nobody listens, for the user to ask for.
    pub(crate) closed_ports: BTreeSet<PathAddr>,
    pub(crate) batch: PacketBatch,
    /// The endpoint has been told that it is this late.
    pub(crate) told: Instant,
    /// Bytes given to the endpoint since the last flush.
    unanswered: usize,
    pub(crate) flood: Flood,
    pub(crate) moderation: Moderation,
    /// Which of several loops this is.
    pub(crate) seat: Option<Seat>,
    pub(crate) carriage: Carriage,
    pub(crate) parcels: Parcels,
}

impl Exchange {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            sockets: Vec::new(),
            counters: Counters::default(),
            unflushed: false,
            closed_ports: BTreeSet::new(),
            batch: PacketBatch::new(PACKETS_PER_RUN),
            told: Instant::ZERO,
            unanswered: 0,
            flood: Flood::default(),
            moderation: Moderation::default(),
            seat: None,
            carriage: Carriage::default(),
            parcels: Parcels::default(),
        }
    }

    /// Reads what has arrived on the sockets that are unread, up to a bound. Returns whether there was something.
    pub(crate) fn read(&mut self, now: Instant, arrivals: &mut Arrivals) -> bool {
        // Read once, so that what comes to several sockets stays in order.
        let wall = arrivals::wall();
        let mut came = false;
        for _ in 0..RECEIVES_PER_TURN {
            if !arrivals.receive(now, wall, &mut self.sockets) {
                break;
            }
            arrivals.in_order(|at, index, datagram| {
                came = true;
                self.deliver(now, at, index, datagram);
            });
        }
        self.read_streams(now);
        for index in 0..self.sockets.len() {
            if self.sockets[index].has_reports() {
                self.sockets[index].path.read_errors();
            }
            self.pass_on_reports(now, index);
            self.take_back(index);
        }
        self.take_strays(now);
        self.endpoint.leave_strays(self.passes_on());
        let others = self.counters.handed_on + self.counters.unrelated_icmp;
        self.flood.look(now, flood::dropped(self.endpoint.counters()) + others);
        self.moderate(now);
        came
    }

    fn moderate(&mut self, now: Instant) {
        let sockets = self.sockets.iter().map(|socket| &socket.path.counters);
        let all = sockets.chain([&self.counters]);
        let bytes = all.map(|counters| counters.bytes_received).sum();
        let endpoint = &self.endpoint;
        self.moderation.look(now, bytes, || {
            let ids = endpoint.associations().into_iter();
            ids.filter_map(|id| endpoint.round_trips(id).min_rtt).min()
        });
    }

    /// Whether a server before this one gets what concerns nobody here.
    pub(crate) fn passes_on(&self) -> bool {
        self.sockets.iter().any(Bound::passes_strays_on)
    }

    /// Reads a socket again that was lent to a process that has gone.
    fn take_back(&mut self, index: usize) {
        if self.sockets[index].take_back().is_err() {
            // No descriptor or no memory: the next turn tries again.
            self.sockets[index].unread = true;
        }
    }

    /// Gives the endpoint what came to a socket at `at`. What was left unread by an earlier turn comes when that one
    /// ended: time does not go back from packet to packet.
    fn deliver(&mut self, now: Instant, at: Instant, index: usize, datagram: Datagram<&mut [u8]>) {
        self.told = self.told.max(at);
        // Where strays of one run begin.
        let (mut strays, mut end) = (None, 0);
        let Datagram { from, bytes, ecn, stamp, stride } = datagram;
        while end < bytes.len() {
            let next = bytes.len().min(end + stride.max(1));
            let taken = self.take_packet(index, (from, ecn), &mut bytes[end..next]);
            match (taken, strays.take()) {
                (true, Some(begin)) => {
                    let strays = Datagram { from, bytes: &bytes[begin..end], ecn, stamp, stride };
                    self.sockets[index].pass_on(&strays);
                }
                (true, None) => {}
                (false, begin) => strays = Some(begin.unwrap_or(end)),
            }
            end = next;
        }
        if let Some(begin) = strays {
            let strays = Datagram { from, bytes: &bytes[begin..], ecn, stamp, stride };
            self.sockets[index].pass_on(&strays);
        }
        self.count_unanswered(now, bytes.len());
    }

    /// The endpoint has been given so many bytes.
    pub(crate) fn count_unanswered(&mut self, now: Instant, bytes: usize) {
        self.unanswered += bytes;
        if self.unanswered >= BYTES_PER_FLUSH {
            self.flush(now);
        }
    }

    /// Runs the endpoint's timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.told = self.told.max(now);
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
    }

    /// Reads the error queue of a socket.
    pub(crate) fn read_errors(&mut self, now: Instant, index: usize) {
        self.sockets[index].path.read_errors();
        self.pass_on_reports(now, index);
    }

    /// Hears reports again on sockets that had too many, after a pause.
    pub(crate) fn count_reports_anew(&mut self, now: Instant) {
        self.sockets.iter_mut().for_each(|socket| socket.path.count_reports_anew(now));
    }

    /// Sends what waited for a socket to become writable.
    pub(crate) fn resume(&mut self, now: Instant, index: usize) {
        self.sockets[index].path.resume(now);
        self.after_send(now, index);
    }

    /// Sends the endpoint's packets, up to a bound.
    pub(crate) fn flush(&mut self, now: Instant) {
        self.told = self.told.max(now);
        self.unanswered = 0;
        self.unflushed = false;
        for _ in 0..RUNS_PER_FLUSH {
            let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.batch) else { return };
            self.transmit(now, &transmit);
        }
        self.unflushed = true;
    }

    fn transmit(&mut self, now: Instant, transmit: &Transmit) {
        let PathAddr { local, remote } = transmit.path;
        let Transmit { segment_size, may_fragment, ecn, .. } = *transmit;
        if let Some(dropped) = self.parcels.take(transmit.path, self.batch.bytes(), segment_size) {
            self.counters.dropped_not_carried += dropped;
            return;
        }
        if self.transmit_by_stream(now, transmit.path, segment_size) {
            return;
        }
        let bytes = self.batch.bytes();
        let packets = Packets { remote, segment_size, bytes, may_fragment, ecn };
        let position = self.sockets.iter().position(|socket| socket.path.local == local);
        let Some(index) = position else {
            self.counters.dropped_no_socket += packets.count();
            return;
        };
        let bound = &mut self.sockets[index];
        match self.carriage.ways.covers(&transmit.path) {
            true => self.carriage.send(now, &self.endpoint, bound, packets),
            false => bound.path.send(now, packets),
        }
        self.after_send(now, index);
    }

    pub(crate) fn after_send(&mut self, now: Instant, index: usize) {
        if let Some(blocked) = self.sockets[index].await_writable_if_blocked() {
            let local = self.sockets[index].path.local;
            self.endpoint.handle_backpressure(now, local, blocked);
        }
        self.pass_on_reports(now, index);
    }

    fn pass_on_reports(&mut self, now: Instant, index: usize) {
        let path = &mut self.sockets[index].path;
        let local = path.local;
        let mut reports = std::mem::take(&mut path.settled);
        for report in std::mem::take(&mut path.unreachable) {
            reports.extend(self.carriage.heard_report(now, local, report));
        }
        for report in reports {
            let path = PathAddr { local, remote: report.remote };
            let Some(quote) = report.quote else {
                self.endpoint.handle_unreachable(now, path);
                continue;
            };
            if report.lacks == Lacks::Protocol && local.port() == 0 {
                pass_on_no_protocol(&mut self.endpoint, now, quote.bytes());
                continue;
            }
            let kind = report.lacks.kind();
            self.report(now, index, Report { kind, remote: report.remote, mtu: 0, quote });
        }
        for report in std::mem::take(&mut self.sockets[index].path.too_big) {
            for remote in self.carriage.remotes(local, report.remote) {
                self.pass_on_too_big(now, index, TooBig { remote, ..report });
            }
        }
    }

    fn pass_on_too_big(&mut self, now: Instant, index: usize, report: TooBig) {
        let TooBig { remote, mtu, quote } = report;
        let local = self.sockets[index].path.local;
        match quote {
            Some(quote) => {
                self.report(now, index, Report { kind: ErrorKind::TooBig, remote, mtu, quote });
            }
            None => self.endpoint.handle_too_big(now, PathAddr { local, remote }, mtu),
        }
    }

    fn report(&mut self, now: Instant, index: usize, report: Report) {
        if !self.is_proven(now, index, report) {
            self.leave_report(index, report);
        }
    }

    /// Nobody listens at the far end of a path.
    pub(crate) fn note_closed_port(&mut self, path: PathAddr) {
        if self.closed_ports.len() < MAX_CLOSED_PORTS {
            self.closed_ports.insert(path);
        }
    }
}

/// A host without SCTP is known by its answer to the INIT. Of other packets Linux says the same when
/// the receive buffer of the raw socket that they were for is full (`raw_v4_input`), so that is a loss
/// like any other, although by RFC 9260 section 10 it would end the association.
fn pass_on_no_protocol(endpoint: &mut Endpoint, now: Instant, quote: &[u8]) {
    let tag = quote.get(4..8);
    if tag == Some(&[0; 4]) {
        endpoint.handle_icmp_no_protocol(now, quote);
    }
}
