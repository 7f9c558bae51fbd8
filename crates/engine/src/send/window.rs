//! The peer's receive window (RFC 9260 section 6.2.1) and the probing of a closed one
//! (section 6.1 rule A).
//!
//! A chunk is never cut to fit a small window, so there is no silly window syndrome to avoid on
//! this side: a chunk leaves whole when it fits, or waits.

use crate::config::WindowProbing;
use crate::path::Rtt;
use crate::time::{Duration, Instant};
use crate::tsn::Tsn64;

/// The peer's window as far as known.
#[derive(Debug)]
pub(crate) struct PeerWindow {
    probing: WindowProbing,
    rwnd: usize,
    /// The largest window that was announced.
    most: usize,
    closed_since: Option<Instant>,
    /// Probes sent since the window closed.
    probes: u32,
    probe: Option<Tsn64>,
    answered: bool,
}

impl PeerWindow {
    /// The window announced at setup.
    pub(crate) fn new(probing: WindowProbing, rwnd: u32) -> Self {
        let rwnd = rwnd as usize;
        let most = rwnd;
        Self { probing, rwnd, most, closed_since: None, probes: 0, probe: None, answered: false }
    }

    /// The peer has announced its window at setup.
    pub(crate) fn restart(&mut self, rwnd: u32) {
        *self = Self::new(self.probing, rwnd);
    }

    /// Whether it did not take a full chunk when it was announced last.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed_since.is_some()
    }

    /// Bytes of user data that the peer takes.
    pub(crate) fn rwnd(&self) -> usize {
        self.rwnd
    }

    /// The size of its receive buffer as far as known: the largest window that it has announced.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// `bytes` were sent (rule B).
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.rwnd = self.rwnd.saturating_sub(bytes);
    }

    /// `bytes` were found lost (rule C).
    pub(crate) fn on_lost(&mut self, bytes: usize) {
        self.rwnd = self.rwnd.saturating_add(bytes);
    }

    /// A SACK arrived (rule D): `needed` is the size of a full chunk; whether the probe is acknowledged. Returns the
    /// probe if it must be sent again at once, because the window has opened without the probe being acknowledged.
    pub(crate) fn on_sack(
        &mut self,
        now: Instant,
        rwnd: usize,
        needed: usize,
        acked: bool,
    ) -> Option<Tsn64> {
        self.rwnd = rwnd;
        self.most = self.most.max(rwnd);
        self.answered = true;
        let pending = self.probe.filter(|_| !acked);
        self.probe = pending;
        if rwnd < needed {
            self.closed_since.get_or_insert(now);
            return None;
        }
        self.closed_since = None;
        self.probes = 0;
        self.probe.take().filter(|_| self.probing == WindowProbing::Rfc9260)
    }

    /// When a probe may leave, on a path with this round trip: one RTO after the window closed, then with
    /// exponentially growing pauses.
    pub(crate) fn probe_due(&self, rtt: &Rtt) -> Instant {
        let Some(since) = self.closed_since else { return Instant::ZERO };
        if self.probes == 0 && self.probing == WindowProbing::Immediate {
            return since;
        }
        since + self.probe_pause(rtt)
    }

    /// The pause until the next probe.
    pub(crate) fn probe_pause(&self, rtt: &Rtt) -> Duration {
        let (rto, rto_max) = (rtt.rto(), rtt.rto_max());
        let doublings = match self.probing {
            WindowProbing::Rfc9260 => self.probes,
            WindowProbing::Immediate => self.probes.saturating_sub(1),
        };
        rto.saturating_mul(1u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(rto_max.max(rto))
    }

    /// Chunk `tsn` left although the window is closed.
    pub(crate) fn on_probe_sent(&mut self, now: Instant, tsn: Tsn64) {
        self.probe = Some(tsn);
        self.answered = false;
        self.probes += 1;
        self.closed_since = Some(now);
    }

    /// Nothing came back within an RTO, which is doubled for that: the pause is not doubled twice.
    pub(crate) fn on_timeout(&mut self) {
        if self.probe.is_some() {
            self.probes = self.probes.saturating_sub(1);
        }
    }

    /// The probe under way.
    pub(crate) fn probe(&self) -> Option<Tsn64> {
        self.probe
    }

    /// Whether SACKs have arrived since the probe was sent: the peer lives, its window is closed.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }
}
