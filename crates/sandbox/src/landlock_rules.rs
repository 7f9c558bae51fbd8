//! Files that a process may reach, where the kernel has Landlock (Linux 5.13).

use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};
use std::io;
use std::path::Path;

/// The version of Linux 6.12. Later ones limit connecting to sockets by their files, too, which would take
/// the journal from the process.
const VERSION: ABI = ABI::V6;

/// Lets the process read files below these directories, and nothing else; nor signal processes that are
/// not limited so. What is open already is not concerned.
pub(crate) fn limit(readable: &[&Path]) -> io::Result<()> {
    let status = restrict(readable).map_err(io::Error::other)?;
    if status == RulesetStatus::NotEnforced {
        return Err(io::Error::other("this kernel has no Landlock"));
    }
    Ok(())
}

fn restrict(readable: &[&Path]) -> Result<RulesetStatus, landlock::RulesetError> {
    let all = Ruleset::default().handle_access(AccessFs::from_all(VERSION))?;
    let mut rules = all.scope(Scope::from_all(VERSION))?.create()?;
    for directory in readable {
        // One that this host does not have needs no rule.
        let Ok(directory) = PathFd::new(directory) else { continue };
        let reading = AccessFs::ReadFile | AccessFs::ReadDir;
        rules = rules.add_rule(PathBeneath::new(directory, reading))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}
