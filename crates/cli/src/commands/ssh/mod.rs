//! `manypath ssh`: programs and files on other hosts, as fast as the path.
//!
//! [`master`] has the user's own `ssh` log in; [`link`] speaks the connection protocol through it and
//! has the one loop that everything runs in. On top are [`exec`] and what is to come of files.

pub(crate) mod args;
mod environment;
mod exec;
mod get;
mod link;
mod master;
mod pipes;
mod place;
mod progress;
mod put;
mod remote;

use crate::failure::Failure;
use args::{SshArgs, SshCommand};

/// The exit status of a connection that fails, as that of ssh.
const FAILED: u8 = 255;

/// Runs the command.
pub(crate) fn ssh(args: &SshArgs) -> Result<u8, Failure> {
    match &args.command {
        SshCommand::Exec(args) => exec::exec(args),
        SshCommand::Get(args) => get::get(args),
        SshCommand::Put(args) => put::put(args),
    }
}
