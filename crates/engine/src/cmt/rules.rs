//! The choices of concurrent multipath transfer that an association has made.

use super::{FastRecoveryScope, LossRecovery, PathSuspicion, Policies, SplitFastRetransmit};
use crate::cmt::CwndUpdate;
use crate::config::Config;
use crate::time::Duration;

/// See the fields of the same names in [`Config`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) split_fast_retransmit: SplitFastRetransmit,
    pub(crate) cwnd_update: CwndUpdate,
    pub(crate) delayed_ack_cmt: bool,
    pub(crate) fast_recovery: FastRecoveryScope,
    pub(crate) smart_t3: bool,
    pub(crate) missing_reports: u8,
    pub(crate) policies: Policies,
    pub(crate) immediate_sacks: bool,
    pub(crate) rescheduling_percent: u32,
    pub(crate) loss_recovery: LossRecovery,
    pub(crate) path_suspicion: PathSuspicion,
    /// What the peer is taken to have for SACK.Delay.
    pub(crate) sack_delay: Duration,
}

impl Rules {
    /// What `config` says.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            split_fast_retransmit: config.split_fast_retransmit,
            cwnd_update: config.cwnd_update,
            delayed_ack_cmt: config.delayed_ack_cmt,
            fast_recovery: config.fast_recovery,
            smart_t3: config.smart_t3,
            missing_reports: config.missing_reports.max(1),
            policies: Policies {
                fast: config.fast_retransmission_policy,
                timeout: config.timeout_retransmission_policy,
            },
            rescheduling_percent: config.rescheduling_percent,
            immediate_sacks: config.immediate_sacks,
            loss_recovery: config.loss_recovery,
            path_suspicion: config.path_suspicion,
            sack_delay: config.sack_delay,
        }
    }
}
