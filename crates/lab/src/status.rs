//! What a lab says about itself.

use crate::host::Isolation;
use crate::units::{show_delay, show_rate, show_share};
use manypath_sim::LinkConfig;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A lab as it stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Process that holds it.
    pub pid: u32,
    /// How its hosts are isolated; never `auto`.
    pub isolation: Isolation,
    /// Seconds since it came up.
    pub uptime_s: f64,
    /// Whether the paths' threads have real-time priority; without, delays are less exact.
    pub realtime: bool,
    /// File of the capture in progress.
    pub capture: Option<PathBuf>,
    /// The paths.
    pub paths: Vec<PathStatus>,
}

/// A path as it stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathStatus {
    /// A, B, C ..
    pub name: String,
    /// Name of its device on both hosts.
    pub device: String,
    /// Addresses of left and right.
    pub left: Addresses,
    #[allow(missing_docs, reason = "see left")]
    pub right: Addresses,
    /// From left to right.
    pub towards_right: DirectionStatus,
    /// From right to left.
    pub towards_left: DirectionStatus,
    /// Why the path has stopped to carry packets, if it has.
    pub failure: Option<String>,
}

/// Addresses of a host on a path.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Addresses {
    pub v4: std::net::Ipv4Addr,
    pub v6: std::net::Ipv6Addr,
}

/// One direction of a path as it stands: parameters, then counters since the lab came up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// False: a black hole.
    pub up: bool,
    /// Capacity, of a trace its mean; none is unlimited.
    pub rate_bps: Option<u64>,
    /// File of the trace, if the capacity varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// One-way delay in milliseconds.
    pub delay_ms: f64,
    /// Random loss, 0 to 1.
    pub loss: f64,
    /// Queue limit in packets.
    pub queue_packets: usize,
    /// Additional random delay in milliseconds.
    pub jitter_ms: f64,
    /// Duplicated packets, 0 to 1.
    pub duplicate: f64,
    /// Reordered packets, 0 to 1.
    pub reorder: f64,
    /// Corrupted packets, 0 to 1.
    pub corrupt: f64,
    /// Delivered over the last second, in bits per second.
    pub delivered_bps: f64,
    /// Packets waiting now.
    pub queued: usize,
    /// Most packets that waited at a time.
    pub queue_peak: usize,
    /// Packets and bytes that the sending host has sent.
    pub packets_in: u64,
    #[allow(missing_docs, reason = "see packets_in")]
    pub bytes_in: u64,
    /// Packets and bytes that the receiving host has been given.
    pub packets_out: u64,
    #[allow(missing_docs, reason = "see packets_out")]
    pub bytes_out: u64,
    /// Dropped by random loss.
    pub dropped_loss: u64,
    /// Dropped because the queue was full.
    pub dropped_queue: u64,
    /// Dropped because the queue was becoming full (random early detection).
    #[serde(default)]
    pub dropped_early: u64,
    /// Marked instead, because they were ECN-capable.
    #[serde(default)]
    pub marked: u64,
    /// Dropped because the path was down.
    pub dropped_down: u64,
    /// Sent by the host but lost before the path, because the lab was too slow to read them.
    pub dropped_overrun: u64,
    /// Not taken by the receiving host, whose device is down.
    pub undeliverable: u64,
}

/// Bytes that the paths have delivered over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Samples {
    /// Length of a bucket.
    pub bucket: Duration,
    /// Number of the first bucket here; bucket n begins n buckets after the lab's origin.
    pub first: u64,
    /// The paths, in their order. All series are equally long; only complete buckets are there.
    pub paths: Vec<PathSamples>,
}

/// Bytes of IP packets delivered by one path per bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathSamples {
    /// A, B, C ..
    pub name: String,
    /// To the right host.
    pub towards_right: Vec<u64>,
    /// To the left host.
    pub towards_left: Vec<u64>,
}

/// What a capture has got.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CaptureSummary {
    /// Packets in the file.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that are not in the file because the disk was too slow.
    pub missed: u64,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("(unnamed)");
        let isolation = match self.isolation {
            Isolation::UserNamespace => "user namespace",
            Isolation::Root | Isolation::Auto => "root",
        };
        writeln!(f, "lab {name}: up {:.0} s, pid {}, {isolation}", self.uptime_s, self.pid)?;
        if !self.realtime {
            writeln!(f, "  without real-time priority: on a busy machine delays are less exact")?;
        }
        if let Some(file) = &self.capture {
            writeln!(f, "  capturing to {}", file.display())?;
        }
        self.paths.iter().try_for_each(|path| write!(f, "{path}"))
    }
}

impl fmt::Display for PathStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, device, left, right, .. } = self;
        writeln!(
            f,
            "path {name} ({device})  left {} {}  right {} {}",
            left.v4, left.v6, right.v4, right.v6
        )?;
        if let Some(failure) = &self.failure {
            writeln!(f, "  FAILED, carries nothing: {failure}")?;
        }
        writeln!(f, "  left -> right  {}", self.towards_right)?;
        writeln!(f, "  right -> left  {}", self.towards_left)
    }
}

impl fmt::Display for DirectionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rate = self.rate_bps.map_or("unlimited".into(), |bps| show_rate(bps as f64));
        if let Some(trace) = &self.trace {
            rate += &format!(" on average by {trace}");
        }
        let delay = show_delay(Duration::from_secs_f64(self.delay_ms / 1e3));
        let loss = show_share((self.loss * 1e6).round() as u32);
        let state = if self.up { "up" } else { "DOWN" };
        write!(f, "{state}, {rate}, {delay}, loss {loss}, queue {}", self.queue_packets)?;
        write!(
            f,
            "\n                 now {}, {} queued; {} packets sent, {} delivered ({} bytes)",
            show_rate(self.delivered_bps),
            self.queued,
            self.packets_in,
            self.packets_out,
            self.bytes_out,
        )?;
        let drops = [
            ("lost at random", self.dropped_loss),
            ("queue full", self.dropped_queue),
            ("dropped early", self.dropped_early),
            ("marked", self.marked),
            ("path down", self.dropped_down),
            ("lab too slow", self.dropped_overrun),
            ("not taken", self.undeliverable),
        ];
        drops.iter().filter(|(_, n)| *n > 0).try_for_each(|(why, n)| write!(f, ", {n} {why}"))
    }
}

impl DirectionStatus {
    /// Parameters from `config`, counters zero.
    pub(crate) fn from_config(config: &LinkConfig) -> Self {
        let share = |ppm: u32| f64::from(ppm) / 1e6;
        let ms = |delay: Duration| delay.as_secs_f64() * 1e3;
        Self {
            up: config.up,
            rate_bps: config.mean_rate_bps(),
            trace: config.trace.as_ref().map(|trace| trace.name().to_owned()),
            delay_ms: ms(config.delay),
            loss: share(config.loss_ppm),
            queue_packets: config.queue_packets,
            jitter_ms: ms(config.jitter),
            duplicate: share(config.duplicate_ppm),
            reorder: share(config.reorder_ppm),
            corrupt: share(config.corrupt_ppm),
            delivered_bps: 0.0,
            queued: 0,
            queue_peak: 0,
            packets_in: 0,
            bytes_in: 0,
            packets_out: 0,
            bytes_out: 0,
            dropped_loss: 0,
            dropped_queue: 0,
            dropped_early: 0,
            marked: 0,
            dropped_down: 0,
            dropped_overrun: 0,
            undeliverable: 0,
        }
    }
}
