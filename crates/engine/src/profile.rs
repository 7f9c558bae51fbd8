//! The named sets of parameters.

use crate::cmt::{
    CwndUpdate, FastRecoveryScope, LossRecovery, PathSuspicion, RetransmissionPolicy,
    SplitFastRetransmit,
};
use crate::config::Config;
use crate::path::{BurstLimit, CongestionControl, InitialWindow, Pacing, PathMtu};
use crate::recv::{NrSack, SackPath};
use crate::schedule::map::StreamMapping;
use crate::schedule::path::PathScheduling;
use crate::schedule::stream::StreamScheduling;
use crate::send::{BufferSplit, SplitMeasure, SplitShares, SplitSides};
use crate::time::Duration;

impl Config {
    /// The parameters for real use: the defaults.
    pub fn production() -> Self {
        Self::default()
    }

    /// The parameters of the simulations of Dreibholz et al. (2010), as far as they are stated, and
    /// otherwise those of their simulation model: RFC 4960, CMT with the published algorithms,
    /// buffer splitting by queued bytes, NR-SACK in case 2.
    ///
    /// Buffer sizes, streams and the mapping of streams to paths are left to each experiment.
    pub fn paper() -> Self {
        Self {
            rto_initial: Duration::from_secs(3),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            // No potentially failed state.
            potentially_failed_retransmits: u32::MAX,
            path_suspicion: PathSuspicion::Off,
            heartbeat_interval: Duration::from_secs(30),
            failed_path_probe_interval: Duration::from_secs(60),
            path_mtu: PathMtu::Interface,
            sack_delay: Duration::from_millis(200),
            sack_frequency: 2,
            sack_path: SackPath::Standard,
            immediate_sacks: false,
            max_burst: 4,
            burst_limit: BurstLimit::Packets,
            pacing: Pacing::Off,
            congestion: CongestionControl::Rfc9260,
            hystart: false,
            initial_window: InitialWindow::Rfc4960,
            slow_start_limit: 1,
            multipath: true,
            stream_scheduling: StreamScheduling::RoundRobin,
            stream_mapping: StreamMapping::Any,
            path_scheduling: PathScheduling::LeastRecentlyUsed,
            split_fast_retransmit: SplitFastRetransmit::Tsn,
            missing_reports: 3,
            loss_recovery: LossRecovery::Rfc9260,
            cwnd_update: CwndUpdate::V2,
            fast_recovery: FastRecoveryScope::Path,
            smart_t3: true,
            delayed_ack_cmt: true,
            fast_retransmission_policy: RetransmissionPolicy::Same,
            timeout_retransmission_policy: RetransmissionPolicy::Next,
            nr_sack: NrSack::Case2,
            buffer_split: BufferSplit {
                sides: SplitSides::Both,
                measure: SplitMeasure::Queued,
                shares: SplitShares::Equal,
            },
            ..Self::default()
        }
    }
}
