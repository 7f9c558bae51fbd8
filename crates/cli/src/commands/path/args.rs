//! The command line of `manypath path`.

use clap::{Args, Subcommand};

/// Show and set path policies, such as backup, metered, budget and hours.
///
/// Select paths by ADDRESS (of this host), dev INTERFACE, peer ADDRESS, or a combination, all of
/// which must match. Then give the policy: normal (or enable), backup, disable, cost N, metered
/// RATE (such as 5mbit), metered (no allowance: carries only what no other path can), metered off,
/// budget SIZE/PERIOD (such as 10GB/month or 500MB/day, of dev INTERFACE: afterwards as metered; with
/// hard: as disable), budget off, hours FROM-UNTIL (such as 22:00-06:00: the line holds only then),
/// hours off, primary, primary off.
///
/// A line with a peer takes precedence over lines without one; among those, the first match wins.
/// `change` and `remove` address the line that selects its paths by the same words. A policy
/// applies in both directions and to existing connections, immediately. Policies are kept in
/// `paths` of ~/.config/manypath/config.toml, then /etc/manypath/config.toml.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath path\n  manypath path add dev wwan0 backup\n  manypath path change dev wwan0 metered 5mbit\n  manypath path change dev wwan0 budget 10GB/month\n  manypath path change dev eth1 disable hours 08:00-18:00\n  manypath path monitor"
)]
pub(crate) struct PathArgs {
    /// Print JSON: one object, or one line for each event of `monitor`.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) action: Option<PathAction>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PathAction {
    /// Add a policy for paths that have none yet.
    #[command(
        after_help = "Example:\n  manypath path add dev wwan0 backup\n  manypath path add 10.0.0.2 peer 192.0.2.1 cost 10"
    )]
    Add {
        /// Paths and policy.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// Apply it even if it can never match, or leaves an association without a path for data.
        #[arg(long)]
        force: bool,
    },
    /// Change the policy of paths, or add one. What you do not name stays.
    #[command(
        after_help = "Example:\n  manypath path change dev wwan0 backup\n  manypath path change dev wwan0 metered off cost 10\n  manypath path change dev eth0 primary\n  manypath path change 10.0.0.2 disable"
    )]
    Change {
        /// Paths and policy.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// Apply it even if it can never match, or leaves an association without a path for data.
        #[arg(long)]
        force: bool,
    },
    /// Remove a policy: the paths are normal again.
    #[command(after_help = "Example:\n  manypath path remove dev wwan0")]
    Remove {
        /// Paths, in the words of the policy.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Show policies, the scope of each local address, and paths (the default).
    #[command(after_help = "Example:\n  manypath path show --json")]
    Show,
    /// Print path events until interrupted: added, confirmed, suspended, inactive, policy, removed.
    #[command(after_help = "Example:\n  manypath path monitor\n  manypath path monitor --json")]
    Monitor {
        /// Include stacks in other network namespaces.
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
