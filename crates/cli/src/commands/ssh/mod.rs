//! `manypath ssh`: programs and files on other hosts, as fast as the path.
//!
//! [`master`] has the user's own `ssh` log in; [`link`] speaks the connection protocol through it and
//! has the one loop that everything runs in. On top are [`exec`] and [`forward`], and, with SFTP by [`remote`], [`get`] and [`put`], over
//! several [`connections`] where one is not enough. [`serve`] is
//! the other end.

pub(crate) mod args;
mod connections;
mod environment;
mod exec;
mod forward;
mod get;
mod link;
mod listing;
mod master;
mod pipes;
mod place;
mod progress;
mod put;
mod remote;
mod serve;
mod sync;
mod verify;

use crate::failure::Failure;
use args::{SshArgs, SshCommand};

/// The exit status of a connection that fails, as that of ssh.
const FAILED: u8 = 255;

/// Runs the command.
pub(crate) fn ssh(args: &SshArgs) -> Result<u8, Failure> {
    match &args.command {
        SshCommand::Exec(args) => exec::exec(args),
        SshCommand::Forward(args) => forward::forward(args),
        SshCommand::Pipe(args) => exec::pipe(args),
        SshCommand::Get(args) => get::get(args),
        SshCommand::Put(args) => put::put(args),
        SshCommand::Sync(args) => sync::sync(args),
        SshCommand::Serve(args) => serve::serve(args),
    }
}
