//! Parameters of papers.

use super::{
    BufferSplit, CongestionControllers, CwndUpdate, FastRecoveryScope, InitialWindow,
    PathSchedulers, PathScheduling, RetransmissionPolicy, SackPath, SplitFastRetransmit,
    WindowProbing,
};
use alloc::sync::Arc;

/// What published experiments compare: alternatives to what products use, which are the defaults. Outside of the
/// engine the simulator alone sets them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Experiment {
    /// Over which path a SACK goes back. `smallest-srtt` by default.
    pub sack_path: SackPath,
    /// The window of a path before the first acknowledgement.
    pub initial_window: InitialWindow,
    /// L of RFC 9260 section 7.2.1: by how many PMDCS one SACK may widen the window in slow start.
    /// A receiver that gets its packets in batches acknowledges them in batches; with 1, as RFC
    /// 4960 has it, that would slow the start down. Bursts are bounded elsewhere, by Max.Burst.
    pub slow_start_limit: u32,
    /// When a closed window of the peer is probed.
    pub window_probing: WindowProbing,
    /// Whether a message that needs several packets begins in what the message before it has left of one.
    /// So bulk data goes in packets of one size, many of which the kernel takes and gives at once.
    pub fill_packets: bool,
    /// Which path takes data first. `earliest-completion` by default.
    pub path_scheduling: PathScheduling,
    /// A path scheduler that the engine does not have, in place of `path_scheduling`. None by default.
    pub path_scheduler: Option<Arc<dyn PathSchedulers>>,
    /// A congestion control that the engine does not have. Should one of its fail, its path goes on with
    /// [`Config::congestion`](super::Config::congestion). None by default.
    pub congestion_controller: Option<Arc<dyn CongestionControllers>>,
    /// What makes a chunk count as missing. `txseq`: what was sent later on the same path.
    pub split_fast_retransmit: SplitFastRetransmit,
    /// Missing reports that make a chunk lost. RFC 9260 section 7.2.4: 3; RFC 2960 and the LSFR
    /// paper: 4.
    pub missing_reports: u8,
    /// Whose acknowledgement lets the window of a path grow (CUC). Version 2 by default.
    pub cwnd_update: CwndUpdate,
    /// What is in fast recovery after a loss. The path by default.
    pub fast_recovery: FastRecoveryScope,
    /// Whether T3-rtx of a path starts again when its earliest chunk is acknowledged, although the
    /// cumulative TSN stands still. Otherwise paths time out behind the loss of another one.
    pub smart_t3: bool,
    /// Which path repeats what missing reports have found lost. `same` by default, as long as the
    /// path is usable.
    pub fast_retransmission_policy: RetransmissionPolicy,
    /// Which path repeats what was lost by T3-rtx. `asap` by default.
    pub timeout_retransmission_policy: RetransmissionPolicy,
    /// Delayed acknowledgement for CMT (DAC): with several paths gaps do not hurry a SACK, and what
    /// a SACK counts for as missing reports is told in its flags. On by default.
    pub delayed_ack_cmt: bool,
    /// How much of the buffers on both sides one path may occupy (Dreibholz et al. 2010). Not
    /// limited by default.
    pub buffer_split: BufferSplit,
    /// Percentage of a path's buffer share blocked behind the cumulative TSN that triggers rescheduling. 50 is
    /// the published value; 0, the default: never.
    pub rescheduling_percent: u32,
}

impl Experiment {
    /// The built-in path scheduler in effect. A custom one replaces its order and its other rules.
    pub(crate) fn scheduling(&self) -> PathScheduling {
        match self.path_scheduler {
            Some(_) => PathScheduling::SmallestSrtt,
            None => self.path_scheduling,
        }
    }
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            sack_path: SackPath::SmallestSrtt,
            initial_window: InitialWindow::Rfc9260,
            slow_start_limit: 64,
            window_probing: WindowProbing::Rfc9260,
            fill_packets: true,
            path_scheduling: PathScheduling::EarliestCompletion,
            path_scheduler: None,
            congestion_controller: None,
            split_fast_retransmit: SplitFastRetransmit::TxSeq,
            missing_reports: 3,
            cwnd_update: CwndUpdate::V2,
            fast_recovery: FastRecoveryScope::Path,
            smart_t3: true,
            fast_retransmission_policy: RetransmissionPolicy::Same,
            timeout_retransmission_policy: RetransmissionPolicy::Asap,
            delayed_ack_cmt: true,
            buffer_split: BufferSplit::NONE,
            rescheduling_percent: 0,
        }
    }
}
