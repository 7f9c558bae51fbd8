//! `manypath reload`: files that were edited by hand take effect.

use super::rules::{print_json, reload_stacks};
use crate::failure::Failure;
use clap::Args;
use manypath_rules::RulesFile;

/// Make running stacks read rules and settings again.
///
/// Only needed after editing the files by hand: `manypath rules` and `manypath sysctl` apply
/// changes immediately. A stack keeps its present rules and settings if a file is wrong, and says
/// why. Existing connections continue.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sudoedit /etc/manypath/rules && sudo manypath reload")]
pub(crate) struct ReloadArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Asks and tells; fails when a stack has not taken the files.
pub(crate) fn reload(args: &ReloadArgs) -> Result<u8, Failure> {
    let applied = reload_stacks();
    if applied.found_nobody() {
        // The next stack would not begin with a wrong one.
        super::stack::check_files(&RulesFile::usual())?;
    }
    if args.json {
        print_json(&applied)?;
    } else {
        println!("{applied}");
    }
    Ok(u8::from(!applied.is_complete()))
}
