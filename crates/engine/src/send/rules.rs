//! The choices of concurrent multipath transfer that an association has made.

use super::rtx_policy::Policies;
use crate::config::{
    Config, CwndUpdate, FastRecoveryScope, LossRecovery, PathSuspicion, SplitFastRetransmit,
};
use crate::time::Duration;

/// See the fields of the same names in [`Config`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) split_fast_retransmit: SplitFastRetransmit,
    pub(super) cwnd_update: CwndUpdate,
    pub(super) delayed_ack_cmt: bool,
    pub(super) fast_recovery: FastRecoveryScope,
    pub(super) smart_t3: bool,
    pub(super) missing_reports: u8,
    pub(super) policies: Policies,
    pub(super) immediate_sacks: bool,
    pub(super) rescheduling_percent: u32,
    pub(super) loss_recovery: LossRecovery,
    pub(super) path_suspicion: PathSuspicion,
    /// What the peer is taken to have for SACK.Delay.
    pub(super) sack_delay: Duration,
}

impl Rules {
    /// What `config` says.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            split_fast_retransmit: config.experiment.split_fast_retransmit,
            cwnd_update: config.experiment.cwnd_update,
            delayed_ack_cmt: config.experiment.delayed_ack_cmt,
            fast_recovery: config.experiment.fast_recovery,
            smart_t3: config.experiment.smart_t3,
            missing_reports: config.experiment.missing_reports.max(1),
            policies: Policies {
                fast: config.experiment.fast_retransmission_policy,
                timeout: config.experiment.timeout_retransmission_policy,
            },
            rescheduling_percent: config.experiment.rescheduling_percent,
            immediate_sacks: config.immediate_sacks,
            loss_recovery: config.loss_recovery,
            path_suspicion: config.path_suspicion,
            sack_delay: config.sack_delay,
        }
    }
}
