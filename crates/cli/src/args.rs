//! The command line as data: one definition gives parsing, help and the man pages.

use crate::commands::attach::AttachArgs;
use crate::commands::cache::CacheArgs;
use crate::commands::config::{ConfigArgs, ReloadArgs, SysctlArgs};
use crate::commands::doctor::args::DoctorArgs;
use crate::commands::enable::{DisableArgs, EnableArgs};
use crate::commands::gateway::args::{GatewayArgs, LanRulesArgs};
use crate::commands::key::args::KeyArgs;
use crate::commands::metrics::MetricsArgs;
use crate::commands::path::args::PathArgs;
use crate::commands::preload::PreloadArgs;
use crate::commands::rules::args::{RulesArgs, ShimrulesArgs};
use crate::commands::run::RunArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::stack::{KeeperArgs, StackArgs};
use crate::commands::status::StatusArgs;
use crate::commands::status::watch::TopArgs;
use clap::{Parser, Subcommand};
use manypath_cli::texts::Texts;

/// Use every network path between two hosts, with the TCP programs you already have.
///
/// Carries the connections of unmodified programs as streams of one multipath SCTP association, in
/// userland, and falls back to plain TCP where the peer has no manypath. Associations are encrypted,
/// plain TCP is not: keep SSH or TLS inside.
#[derive(Parser, Debug)]
#[command(name = "manypath", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Run(RunArgs),
    #[command(hide = true)]
    Attach(AttachArgs),
    Enable(EnableArgs),
    Disable(DisableArgs),
    #[command(hide = true)]
    Preload(PreloadArgs),
    Serve(ServeArgs),
    Gateway(GatewayArgs),
    Rules(RulesArgs),
    #[command(hide = true)]
    Shimrules(ShimrulesArgs),
    Config(ConfigArgs),
    #[command(hide = true)]
    Sysctl(SysctlArgs),
    Path(PathArgs),
    #[command(hide = true)]
    Reload(ReloadArgs),
    #[command(alias = "peers")]
    Cache(CacheArgs),
    Key(KeyArgs),
    Status(StatusArgs),
    Doctor(DoctorArgs),
    #[command(hide = true)]
    Top(TopArgs),
    Metrics(MetricsArgs),
    #[command(flatten)]
    Texts(Texts),
    #[command(hide = true)]
    Stack(StackArgs),
    #[command(hide = true)]
    Keeper(KeeperArgs),
    #[command(hide = true)]
    LanRules(LanRulesArgs),
}
