//! The choices of concurrent multipath transfer that an association has made.

use crate::config::{Config, Experiment, PathSuspicion};
use crate::time::Duration;

/// See the fields of the same names in [`Config`].
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) experiment: Experiment,
    pub(super) immediate_sacks: bool,
    pub(super) path_suspicion: PathSuspicion,
    /// What the peer is taken to have for SACK.Delay.
    pub(super) sack_delay: Duration,
}

impl Rules {
    /// What `config` says.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            experiment: config.experiment.clone(),
            immediate_sacks: config.immediate_sacks,
            path_suspicion: config.path_suspicion,
            sack_delay: config.sack_delay,
        }
    }
}
