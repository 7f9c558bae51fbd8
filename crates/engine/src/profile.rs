//! The named sets of parameters.

use crate::config::{
    BufferSplit, BurstLimit, Config, CongestionControl, CwndUpdate, EcnUse, Experiment,
    FastRecoveryScope, InitialWindow, LossRecovery, NrSack, Pacing, PathMtu, PathScheduling,
    PathSuspicion, RetransmissionPolicy, SackPath, SharedBottleneck, SplitFastRetransmit,
    SplitMeasure, SplitShares, SplitSides, StreamMapping, StreamScheduling, WindowProbing,
};
use crate::names::named;
use crate::time::Duration;

named! {
    /// A set of parameters by name.
    pub enum Profile as "profile" {
        /// For real use: the defaults.
        Production = "production",
        /// `production` with each stream assigned to its best path.
        Dynamic = "dynamic",
        /// The simulations of Dreibholz et al. (2010).
        Paper = "paper",
    }
}

impl Profile {
    /// Those for real use.
    pub const LIVE: [Self; 2] = [Self::Production, Self::Dynamic];

    /// Its parameters.
    pub fn config(self) -> Config {
        match self {
            Self::Production => Config::production(),
            Self::Dynamic => Config::dynamic(),
            Self::Paper => Config::paper(),
        }
    }
}

impl Config {
    /// The parameters for real use: the defaults.
    pub fn production() -> Self {
        Self::default()
    }

    /// The parameters for real use with the dynamic stream-to-path scheduler, and what it needs:
    /// NR-SACK, because otherwise everything waits in the send buffer for the slowest path; streams
    /// that take turns, so that none keeps the others off its path; and pacing, because a path whose
    /// streams have waited for another one would send all it may at once. The shares of the paths are measured by their
    /// windows, as CUBIC has them.
    pub fn dynamic() -> Self {
        Self {
            stream_mapping: StreamMapping::Dynamic,
            congestion: CongestionControl::Cubic,
            nr_sack: NrSack::Case3,
            pacing: Pacing::On,
            stream_scheduling: StreamScheduling::RoundRobin,
            ..Self::production()
        }
    }

    /// RFC 9260 as it stands, without anything of our own: what conformance scripts are written for.
    pub fn rfc9260() -> Self {
        Self {
            rto_min: Duration::from_secs(1),
            sack_delay: Duration::from_millis(200),
            sack_frequency_max: 2,
            immediate_sacks: false,
            burst_limit: BurstLimit::Packets,
            congestion: CongestionControl::Rfc9260,
            shared_bottleneck: SharedBottleneck::Ignore,
            queue_bound: Duration::ZERO,
            hystart: false,
            loss_recovery: LossRecovery::Rfc9260,
            path_suspicion: PathSuspicion::Off,
            handshake_race: false,
            multipath: false,
            path_mtu: PathMtu::Interface,
            stream_scheduling: StreamScheduling::Fcfs,
            nagle: true,
            failed_path_probe_interval: Duration::from_secs(60),
            // No path is potentially failed (RFC 7829).
            potentially_failed_retransmits: u32::MAX,
            experiment: Experiment {
                sack_path: SackPath::Standard,
                delayed_ack_cmt: false,
                slow_start_limit: 1,
                window_probing: WindowProbing::Immediate,
                // "the most divergent source-destination pair" (section 6.4.1).
                timeout_retransmission_policy: RetransmissionPolicy::Next,
                ..Experiment::default()
            },
            ..Self::default()
        }
    }

    /// The parameters of the simulations of Dreibholz et al. (2010), as far as they are stated, and
    /// otherwise those of their simulation model: RFC 4960, CMT with the published algorithms,
    /// buffer splitting by queued bytes, NR-SACK in case 2.
    ///
    /// Buffer sizes, streams and the mapping of streams to paths are left to each experiment.
    pub fn paper() -> Self {
        Self {
            // RFC 4960 has neither.
            amplification_limit: u32::MAX,
            unverified_reply_rate: u32::MAX,
            rto_initial: Duration::from_secs(3),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            // No potentially failed state.
            potentially_failed_retransmits: u32::MAX,
            path_suspicion: PathSuspicion::Off,
            heartbeat_interval: Duration::from_secs(30),
            failed_path_probe_interval: Duration::from_secs(60),
            handshake_race: false,
            path_mtu: PathMtu::Interface,
            sack_delay: Duration::from_millis(200),
            sack_frequency: 2,
            sack_frequency_max: 2,
            immediate_sacks: false,
            max_burst: 4,
            burst_limit: BurstLimit::Packets,
            pacing: Pacing::Off,
            congestion: CongestionControl::Rfc9260,
            shared_bottleneck: SharedBottleneck::Ignore,
            queue_bound: Duration::ZERO,
            hystart: false,
            ecn: EcnUse::Off,
            multipath: true,
            stream_scheduling: StreamScheduling::RoundRobin,
            stream_mapping: StreamMapping::Any,
            loss_recovery: LossRecovery::Rfc9260,
            nr_sack: NrSack::Case2,
            experiment: Experiment {
                sack_path: SackPath::Standard,
                fill_packets: false,
                initial_window: InitialWindow::Rfc4960,
                slow_start_limit: 1,
                path_scheduling: PathScheduling::LeastRecentlyUsed,
                split_fast_retransmit: SplitFastRetransmit::Tsn,
                missing_reports: 3,
                cwnd_update: CwndUpdate::V2,
                fast_recovery: FastRecoveryScope::Path,
                smart_t3: true,
                delayed_ack_cmt: true,
                fast_retransmission_policy: RetransmissionPolicy::Same,
                timeout_retransmission_policy: RetransmissionPolicy::Next,
                buffer_split: BufferSplit {
                    sides: SplitSides::Both,
                    measure: SplitMeasure::Queued,
                    shares: SplitShares::Equal,
                },
                ..Experiment::default()
            },
            ..Self::default()
        }
    }
}
