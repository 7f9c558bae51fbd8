//! One local address: its socket and everything that waits, is judged or is counted there.

use crate::counters::Counters;
use crate::error_queue::{ErrorKind, ErrorReport, Quote};
use crate::offload::Offload;
use crate::path_io::PathIo;
use crate::waiting::Waiting;
use manypath_engine::{Duration, Instant};
use std::io;
use std::net::SocketAddr;

/// Error reports of the network that a socket hears in [`REPORT_PAUSE`]. If more come, somebody forges them: the kernel
/// throws them away until that time is over, and no call fails by them.
pub(crate) const REPORTS_PER_PAUSE: usize = 256;
pub(crate) const REPORT_PAUSE: Duration = Duration::from_millis(100);

/// How often a call is made that fails by reports about other packets.
const CALLS_UNDER_REPORTS: usize = 8;

/// The socket of one local address. Sending is in `send.rs`, receiving in `receive.rs`.
#[derive(Debug)]
pub(crate) struct PathSocket<I> {
    pub(crate) io: I,
    pub(crate) local: SocketAddr,
    pub(crate) offload: Offload,
    pub(crate) waiting: Waiting,
    /// Whether IP may fragment the packets.
    pub(crate) fragments: bool,
    /// Whether the endpoint finds out itself how large packets may be: then IP must not fragment any
    /// of which it does not say so.
    pub(crate) searches: bool,
    /// Reports not yet told to the endpoint.
    pub(crate) unreachable: Vec<Unreachable>,
    /// Those of which it is clear that the endpoint is to hear.
    pub(crate) settled: Vec<Unreachable>,
    /// Likewise, of packets that were too big.
    pub(crate) too_big: Vec<TooBig>,
    /// What the interface took when a packet was last too large for it, in bytes of IP packet.
    pub(crate) link_mtu: Option<u16>,
    reports: Reports,
    pub(crate) counters: Counters,
}

/// How many reports have come of late.
#[derive(Debug, Default)]
struct Reports {
    begun: Instant,
    heard: usize,
    /// The same in the time before.
    heard_before: usize,
    paused: bool,
}

/// A packet was larger than a link takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooBig {
    pub(crate) remote: SocketAddr,
    /// What the link takes, in bytes of IP packet.
    pub(crate) mtu: u16,
    /// What ICMP quotes of our packet; `None` if the link is our own.
    pub(crate) quote: Option<Quote>,
}

/// A destination cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unreachable {
    pub(crate) remote: SocketAddr,
    /// What ICMP quotes of our packet; `None` if sending failed here.
    pub(crate) quote: Option<Quote>,
    pub(crate) lacks: Lacks,
}

/// What is missing where a destination cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lacks {
    /// A way to it, or the permission to go there.
    Way,
    /// Somebody who listens at the port, says its host.
    Port,
    /// The protocol, says its host.
    Protocol,
}

impl Lacks {
    /// The kind of report that says so.
    pub(crate) const fn kind(self) -> ErrorKind {
        match self {
            Self::Way => ErrorKind::Unreachable,
            Self::Port => ErrorKind::PortClosed,
            Self::Protocol => ErrorKind::NoProtocol,
        }
    }
}

impl<I: PathIo> PathSocket<I> {
    pub(crate) fn new(io: I, local: SocketAddr) -> Self {
        Self {
            offload: Offload::new(io.offload_segments()),
            io,
            local,
            waiting: Waiting::default(),
            fragments: false,
            searches: false,
            unreachable: Vec::new(),
            settled: Vec::new(),
            link_mtu: None,
            too_big: Vec::new(),
            reports: Reports::default(),
            counters: Counters::default(),
        }
    }

    /// Reads the error queue. Returns how many reports came from the network: each of them may
    /// have made an unrelated call fail.
    pub(crate) fn read_errors(&mut self) -> usize {
        let mut reports = 0;
        for _ in 0..REPORTS_PER_PAUSE {
            let Ok(Some(report)) = self.io.next_error() else { break };
            match report.kind {
                ErrorKind::Unreachable => self.counters.icmp_unreachable += 1,
                ErrorKind::PortClosed => self.counters.icmp_port_closed += 1,
                ErrorKind::NoProtocol => self.counters.icmp_no_protocol += 1,
                ErrorKind::TooBig => self.on_icmp_too_big(),
                ErrorKind::Other => self.counters.icmp_other += 1,
                ErrorKind::LocalTooBig | ErrorKind::Local => {}
            }
            let local = matches!(report.kind, ErrorKind::LocalTooBig | ErrorKind::Local);
            reports += usize::from(!local);
            if let Some(destination) = report.destination {
                self.on_report(&report, destination);
            }
        }
        self.reports.heard += reports;
        if self.reports.heard >= REPORTS_PER_PAUSE && !self.reports.paused {
            self.counters.report_pauses += 1;
            self.reports.paused = self.io.hear_reports(false).is_ok();
        }
        reports
    }

    /// Hears reports again after a pause. To be called in every turn.
    pub(crate) fn count_reports_anew(&mut self, now: Instant) {
        if now.since(self.reports.begun) < REPORT_PAUSE {
            return;
        }
        let paused = self.reports.paused && self.io.hear_reports(true).is_err();
        let heard_before = self.reports.heard;
        self.reports = Reports { begun: now, heard: 0, heard_before, paused };
    }

    fn on_report(&mut self, report: &ErrorReport, remote: SocketAddr) {
        let quote = Some(report.quote);
        let unreachable = |lacks| Unreachable { remote, quote, lacks };
        match report.kind {
            ErrorKind::Unreachable => self.report_unreachable(unreachable(Lacks::Way)),
            ErrorKind::PortClosed => self.report_unreachable(unreachable(Lacks::Port)),
            ErrorKind::NoProtocol => self.report_unreachable(unreachable(Lacks::Protocol)),
            ErrorKind::TooBig => self.report_too_big(TooBig { remote, mtu: report.mtu, quote }),
            // Who sends knows where to; the kernel leaves out the port.
            ErrorKind::LocalTooBig => self.link_mtu = Some(report.mtu),
            ErrorKind::Other | ErrorKind::Local => {}
        }
    }

    pub(crate) fn report_too_big(&mut self, report: TooBig) {
        if self.searches && !self.too_big.contains(&report) {
            self.too_big.push(report);
        }
    }

    fn on_icmp_too_big(&mut self) {
        self.counters.icmp_too_big += 1;
        self.allow_fragmentation();
    }

    /// RFC 9260 section 7.3: chunks that were cut for a larger path MTU can only get through in IP
    /// fragments. Where paths do not learn their MTU themselves, the association lives on so, at some
    /// cost. Returns whether that changed anything.
    pub(crate) fn allow_fragmentation(&mut self) -> bool {
        let wanted = !self.searches && !self.fragments;
        let changed = wanted && self.io.allow_fragmentation().is_ok();
        self.fragments |= changed;
        changed
    }

    /// The endpoint is to hear a report that has waited for the answers of other carriers.
    pub(crate) fn settle_report(&mut self, report: Unreachable) {
        self.settled.push(report);
    }

    pub(crate) fn report_unreachable(&mut self, report: Unreachable) {
        if !self.unreachable.contains(&report) {
            self.unreachable.push(report);
        }
    }

    /// Runs `call`. An ICMP error of an earlier packet makes the next call on the socket fail,
    /// wherever that one goes; in that case the error queue is read and the call made again. Reports
    /// may come faster than that, forged ones at any rate: then they are not heard for a while. Where the kernel
    /// does not allow that, the failure says nothing of the call, and is [`io::ErrorKind::Interrupted`].
    pub(crate) fn with_errors_read<T>(
        &mut self,
        mut call: impl FnMut(&mut I) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut unexplained = false;
        for _ in 0..CALLS_UNDER_REPORTS {
            match call(&mut self.io) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    let explained = self.read_errors() > 0;
                    // A report for which the queue had no room makes a call fail, too, and so does one that is read
                    // just before: once more, if others have come of late.
                    let quiet = self.reports.heard + self.reports.heard_before == 0;
                    if !explained && (unexplained || quiet) {
                        return Err(error);
                    }
                    unexplained = !explained;
                }
                result => return result,
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }
}

/// One socket as it stands, for people and tools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketStatus {
    /// The address and UDP port it is bound to.
    pub local: SocketAddr,
    /// The interface it is bound to.
    pub device: Option<String>,
    /// Why it is not bound to the interface that was asked for: then the routing table decides
    /// where its packets leave.
    pub device_error: Option<String>,
    /// Size of the kernel's receive buffer in bytes, as the kernel accounts it.
    pub receive_buffer: usize,
    /// Size of the kernel's send buffer in bytes, as the kernel accounts it.
    pub send_buffer: usize,
    /// Packets that the kernel has dropped because the receive buffer was full.
    pub receive_overflows: u64,
    /// Whether whole runs are given to the kernel for segmentation (GSO).
    pub offload: bool,
    /// Whether IP may fragment packets, because a link turned out to be narrower than the interface.
    pub fragments: bool,
    /// Bytes that wait for the socket to become writable.
    pub waiting: usize,
    /// What went out, came in and was dropped.
    pub counters: Counters,
}
