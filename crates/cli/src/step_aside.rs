//! The option `--step-aside`: whether connections are plain TCP where SCTP cannot help.

use clap::ValueEnum;
use manypath_rules::StepAside;

/// Whether connections are plain TCP where SCTP cannot help.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepAsideArg {
    /// To peers reached over a single short path.
    Auto,
    /// Never.
    Never,
}

impl From<StepAsideArg> for StepAside {
    fn from(arg: StepAsideArg) -> Self {
        match arg {
            StepAsideArg::Auto => Self::Auto,
            StepAsideArg::Never => Self::Never,
        }
    }
}
