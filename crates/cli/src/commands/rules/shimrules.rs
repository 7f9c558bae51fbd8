//! `shimrules`: the same table under the flags of its first publication.

use super::args::ShimrulesArgs;
use super::{add, changed, delete, flush, set_default, show};
use crate::failure::Failure;
use manypath_rules::{RulesFile, SHIMRULES_USAGE, ShimrulesCommand};

/// Does what the flags say.
pub(crate) fn shimrules(args: &ShimrulesArgs) -> Result<u8, Failure> {
    let command = ShimrulesCommand::parse(&args.flags).map_err(|e| {
        Failure::usage(format!("shimrules: {e}")).hint("shimrules -H shows the flags")
    })?;
    let file = RulesFile::usual();
    let done = match command {
        ShimrulesCommand::Add(rule) => add(&file, &[rule.to_string()], None, true)?,
        ShimrulesCommand::Delete(rule) => delete(&file, &[rule.to_string()])?,
        ShimrulesCommand::Flush => flush(&file)?,
        ShimrulesCommand::SetDefault(chain, policy) => set_default(&file, chain, policy)?,
        ShimrulesCommand::GetDefault(chain) => return show::defaults(&file, Some(chain), false),
        ShimrulesCommand::List(chain, policy) => return show::list(&file, chain, policy, false),
        ShimrulesCommand::Help => {
            print!("{SHIMRULES_USAGE}");
            return Ok(0);
        }
    };
    changed(&file, &done, false)
}
