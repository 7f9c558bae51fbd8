//! Looks at the sender at regular times: how often the receive window was in the way, and on request
//! a time series.

use super::ledger::Ledger;
use super::network::Network;
use crate::scenario::PathSpec;
use manypath_engine::{
    AssociationId, AssociationStatus, Duration, IdleReason, Instant, PathStatus,
};
use std::fmt::Write;

/// Period of the looks when no series is asked for.
const PERIOD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Sampler {
    next: Instant,
    period: Duration,
    from: Instant,
    samples: u64,
    blocked: u64,
    series: Option<String>,
    /// Names of the paths, for the series.
    paths: Vec<String>,
    sent_before: Vec<u64>,
    bytes_before: Vec<u64>,
}

impl Sampler {
    /// Looks from `start` on; what is counted begins at `from`.
    pub(super) fn new(
        start: Instant,
        from: Instant,
        series: Option<Duration>,
        paths: &[PathSpec],
    ) -> Self {
        Self {
            next: if series.is_some() { start } else { from },
            period: series.unwrap_or(PERIOD).max(Duration::from_micros(1)),
            from,
            samples: 0,
            blocked: 0,
            series: series.map(|_| String::new()),
            paths: paths.iter().map(|path| path.name.clone()).collect(),
            sent_before: vec![0; paths.len()],
            bytes_before: Vec::new(),
        }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn run(&mut self, network: &Network, id: AssociationId, ledger: &Ledger) {
        let now = network.world.now();
        if now < self.next {
            return;
        }
        self.next = self.next + self.period;
        let Some(status) = network.world.look(network.sender).status(now, id) else { return };
        if now >= self.from {
            self.samples += 1;
            let stops = |path: &PathStatus| path.idle == Some(IdleReason::ReceiveWindow);
            self.blocked += u64::from(status.paths.iter().any(stops));
        }
        if self.series.is_some() {
            self.write(now, network, &status, ledger);
        }
    }

    /// Part of the looks at which the peer's receive window kept a path idle.
    pub(super) fn blocked(&self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.blocked as f64 / self.samples as f64 }
    }

    /// The series as CSV.
    pub(super) fn into_series(self) -> Option<String> {
        self.series
    }

    fn write(
        &mut self,
        now: Instant,
        network: &Network,
        status: &AssociationStatus,
        ledger: &Ledger,
    ) {
        let Some(out) = &mut self.series else { return };
        if out.is_empty() {
            header(out, &self.paths, ledger);
        }
        // Memory takes everything.
        let _ = write!(out, "{:.6}", now.since(Instant::ZERO).as_secs_f64());
        let _ = write!(out, ",{},{},{}", status.unsent, status.outstanding, status.peer_rwnd);
        let mbps = |bytes: u64| bytes as f64 * 8.0 / self.period.as_secs_f64() / 1e6;
        let paths = network.paths.iter().zip(&mut self.sent_before);
        for (number, before) in paths {
            let queue = network.world.queue_len(*number, network.receiver);
            let Some(path) = network.status_of(*number, status) else {
                // The peer has not told its address yet.
                let _ = write!(out, ",,,,,,{queue}");
                continue;
            };
            // What is not known yet is empty.
            let srtt = path.srtt.map_or(String::new(), |srtt| format!("{:.6}", srtt.as_secs_f64()));
            let ssthresh = Some(path.ssthresh).filter(|bytes| *bytes < u32::MAX);
            let ssthresh = ssthresh.map_or(String::new(), |bytes| bytes.to_string());
            let sent = mbps(path.bytes_sent - *before);
            let _ = write!(
                out,
                ",{},{ssthresh},{},{srtt},{sent:.4},{queue}",
                path.cwnd, path.in_flight
            );
            *before = path.bytes_sent;
        }
        self.bytes_before.resize(ledger.streams().len(), 0);
        for (stream, before) in ledger.streams().iter().zip(&mut self.bytes_before) {
            let _ = write!(out, ",{:.4}", mbps(stream.bytes_ever - *before));
            *before = stream.bytes_ever;
        }
        out.push('\n');
    }
}

fn header(out: &mut String, paths: &[String], ledger: &Ledger) {
    out.push_str("time_s,unsent,outstanding,peer_rwnd");
    for name in paths {
        for column in ["cwnd", "ssthresh", "in_flight", "srtt_s", "sent_mbps", "queue"] {
            let _ = write!(out, ",{name}_{column}");
        }
    }
    for number in 0..ledger.streams().len() {
        let _ = write!(out, ",s{number}_mbps");
    }
    out.push('\n');
}
