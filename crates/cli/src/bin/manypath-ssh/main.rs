//! `manypath ssh`: programs and files on other hosts, as fast as the path.
//!
//! [`master`] has the user's own `ssh` log in; [`link`] speaks the connection protocol through it and
//! has the one loop that everything runs in. On top are [`exec`] and [`forward`], and, with SFTP by [`remote`], [`get`] and [`put`], over
//! several [`connections`] where one is not enough. [`serve`] is
//! the other end.
#![forbid(unsafe_code)]

mod args;
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

use args::{Cli, SshCommand};
use clap::CommandFactory;
use manypath_cli::{failure, shell};
use std::process::ExitCode;

/// The exit status of a connection that fails, as that of ssh.
const FAILED: u8 = 255;

fn main() -> ExitCode {
    let cli: Cli = match manypath_cli::parse(Cli::command(), std::env::args_os().collect(), 2) {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    manypath_cli::finish(match &cli.command {
        SshCommand::Exec(args) => exec::exec(args),
        SshCommand::Forward(args) => forward::forward(args),
        SshCommand::Pipe(args) => exec::pipe(args),
        SshCommand::Get(args) => get::get(args),
        SshCommand::Put(args) => put::put(args),
        SshCommand::Sync(args) => sync::sync(args),
        SshCommand::Serve(args) => serve::serve(args),
        SshCommand::Texts(texts) => texts.write(Cli::command(), "manypath-ssh"),
    })
}

#[test]
fn commands_keep_the_conventions() {
    let broken =
        manypath_cli::conventions::broken(Cli::command(), &["exec", "forward", "pipe", "serve"]);
    assert!(broken.is_empty(), "{broken:#?}");
}
