//! The option `--mode`: over how many paths something is sent.

use clap::ValueEnum;
use manypath_engine::Redundancy;

/// Over how many paths something is sent.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// One path for each packet.
    Normal,
    /// Every path.
    Redundant,
}

impl Mode {
    /// As it is written.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Redundant => "redundant",
        }
    }
}

impl From<Mode> for Redundancy {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Normal => Self::Off,
            Mode::Redundant => Self::All,
        }
    }
}
