//! The command line of `manypath path`.

use clap::{Args, Subcommand};

/// Say what each path is there for: backup, cost, metered, primary.
///
/// Which paths: ADDRESS (of this host), dev INTERFACE, peer ADDRESS, or several of them, all of which must
/// fit. What of them: normal (or enable), backup, disable, cost N, metered RATE (such as 5mbit),
/// metered (no allowance: only what nothing else carries), metered off, primary, primary off.
///
/// Lines about single peers hold before others; of those the first that fits. `change` and `remove` mean the
/// line that names its paths by the same words. It holds in both directions, for connections that exist, too. Kept in $MANYPATH_PATHS, ~/.config/manypath/paths or
/// /etc/manypath/paths; stacks that run go by a change at once.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath path\n  manypath path add dev wwan0 backup\n  manypath path change dev wwan0 metered 5mbit\n  manypath path monitor"
)]
pub(crate) struct PathArgs {
    /// Print JSON: one object; a line for each event of `monitor`.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) action: Option<PathAction>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PathAction {
    /// Say something about paths of which nothing is said yet.
    #[command(
        after_help = "Example:\n  manypath path add dev wwan0 backup\n  manypath path add 10.0.0.2 peer 192.0.2.1 cost 10"
    )]
    Add {
        /// Which paths, and what of them.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// Even if an association has no path left then that may carry data.
        #[arg(long)]
        force: bool,
    },
    /// Change what is said about paths, or say it for the first time. What is not named stays.
    #[command(
        after_help = "Example:\n  manypath path change dev wwan0 backup\n  manypath path change dev wwan0 metered off cost 10\n  manypath path change dev eth0 primary\n  manypath path change 10.0.0.2 disable"
    )]
    Change {
        /// Which paths, and what of them.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// Even if an association has no path left then that may carry data.
        #[arg(long)]
        force: bool,
    },
    /// Take back what is said about paths: they are normal again.
    #[command(after_help = "Example:\n  manypath path remove dev wwan0")]
    Remove {
        /// Which paths, as they were named.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Show what is kept, for which peers each address is there, and the paths (what `manypath path` does, too).
    #[command(after_help = "Example:\n  manypath path show --json")]
    Show,
    /// Tell what happens to paths until interrupted: added, confirmed, suspended, inactive, policy, removed.
    #[command(after_help = "Example:\n  manypath path monitor\n  manypath path monitor --json")]
    Monitor {
        /// Also paths of stacks in other network namespaces.
        #[arg(long)]
        all: bool,
    },
}

impl PathAction {
    /// What was said of which paths.
    pub(super) fn words(&self) -> &[String] {
        match self {
            Self::Add { words, .. } | Self::Change { words, .. } | Self::Remove { words } => words,
            Self::Show | Self::Monitor { .. } => &[],
        }
    }

    /// Whether associations may be left without any path.
    pub(super) const fn is_forced(&self) -> bool {
        match self {
            Self::Add { force, .. } | Self::Change { force, .. } => *force,
            Self::Remove { .. } | Self::Show | Self::Monitor { .. } => true,
        }
    }

    /// Whether only paths are to be named.
    pub(super) const fn is_removal(&self) -> bool {
        match self {
            Self::Remove { .. } => true,
            Self::Add { .. } | Self::Change { .. } | Self::Show | Self::Monitor { .. } => false,
        }
    }
}
