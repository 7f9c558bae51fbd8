//! How a path is supervised: whether and how often it is probed, and after how many errors it has failed.

use crate::config::Config;
use crate::time::Duration;
use alloc::boxed::Box;

/// How paths are supervised (RFC 9260 sections 8.2 and 8.3, RFC 7829 section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Supervision {
    /// Whether confirmed paths are probed by HEARTBEATs.
    pub heartbeats: bool,
    /// HB.interval, RFC 9260 section 16.
    pub heartbeat_interval: Duration,
    /// Path.Max.Retrans, RFC 9260 section 16: more errors in a row and the path is Inactive.
    pub max_retransmits: u32,
    /// PFMR, RFC 7829 section 3: more errors in a row and the path is potentially failed.
    pub potentially_failed_retransmits: u32,
}

impl Supervision {
    /// What `config` says.
    #[must_use]
    pub const fn of(config: &Config) -> Self {
        Self {
            heartbeats: config.heartbeats,
            heartbeat_interval: config.heartbeat_interval,
            max_retransmits: config.path_max_retransmits,
            potentially_failed_retransmits: config.potentially_failed_retransmits,
        }
    }

    /// Makes it what `config` says.
    pub const fn keep_in(self, config: &mut Config) {
        config.heartbeats = self.heartbeats;
        config.heartbeat_interval = self.heartbeat_interval;
        config.path_max_retransmits = self.max_retransmits;
        config.potentially_failed_retransmits = self.potentially_failed_retransmits;
    }

    /// With `change`.
    #[must_use]
    pub fn with(self, change: SupervisionChange) -> Self {
        let pf = change.potentially_failed_retransmits;
        Self {
            heartbeats: change.heartbeats.unwrap_or(self.heartbeats),
            heartbeat_interval: change.heartbeat_interval.unwrap_or(self.heartbeat_interval),
            max_retransmits: change.max_retransmits.unwrap_or(self.max_retransmits),
            potentially_failed_retransmits: pf.unwrap_or(self.potentially_failed_retransmits),
        }
    }
}

/// What is to be different (`SCTP_PEER_ADDR_PARAMS` and `SCTP_PEER_ADDR_THLDS`, RFC 6458 section 8.1.12, RFC
/// 7829 section 7.2). `None`: as it was.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SupervisionChange {
    /// See [`Supervision::heartbeats`].
    pub heartbeats: Option<bool>,
    /// See [`Supervision::heartbeat_interval`].
    pub heartbeat_interval: Option<Duration>,
    /// See [`Supervision::max_retransmits`].
    pub max_retransmits: Option<u32>,
    /// See [`Supervision::potentially_failed_retransmits`].
    pub potentially_failed_retransmits: Option<u32>,
}

/// A supervision of a path's own, which few have.
#[derive(Clone, Default, Debug)]
pub(crate) struct OwnSupervision(Option<Box<Supervision>>);

impl OwnSupervision {
    /// What holds.
    pub(crate) fn get(&self, config: &Config) -> Supervision {
        self.0.as_deref().copied().unwrap_or_else(|| Supervision::of(config))
    }

    pub(crate) fn change(&mut self, change: SupervisionChange, config: &Config) {
        self.0 = Some(Box::new(self.get(config).with(change)));
    }
}
