//! The manypath command.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod mode;
mod overview;
mod step_aside;

use args::{Cli, Command};
use clap::CommandFactory;
use manypath_cli::{failure, say, shell};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = arguments();
    if let Some(failure) = manypath_cli::programs::elsewhere(&arguments) {
        return manypath_cli::finish(Err(failure));
    }
    let runs = arguments.get(1).is_some_and(|command| command == "run");
    let wrong = if runs { commands::run::FAILED } else { 2 };
    let cli: Cli = match manypath_cli::parse(overview::command(), arguments, wrong) {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let result = match &cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Attach(args) => commands::attach::attach(args),
        Command::Enable(args) => commands::enable::enable(args),
        Command::Disable(args) => commands::enable::disable(args),
        Command::Preload(args) => commands::preload::preload(args),
        Command::Serve(args) => commands::serve::serve(args),
        Command::Gateway(args) => commands::gateway::gateway(args),
        Command::Rules(args) => commands::rules::rules(args),
        Command::Shimrules(args) => commands::rules::shimrules(args),
        Command::Path(args) => commands::path::path(args),
        Command::Config(args) => commands::config::config(args),
        Command::Sysctl(args) => commands::config::sysctl(args),
        Command::Reload(args) => commands::config::reload(args),
        Command::Cache(args) => commands::cache::cache(args),
        Command::Key(args) => commands::key::key(args),
        Command::Status(args) => commands::status::status(args),
        Command::Doctor(args) => commands::doctor::doctor(args),
        Command::Top(args) => commands::status::watch::top(args),
        Command::Metrics(args) => commands::metrics::metrics(args),
        Command::Texts(texts) => {
            let written = texts.write(Cli::command(), "manypath");
            let page = || texts.manual().map_or(Ok(()), commands::config::write_page);
            written.and_then(|status| page().map(|()| status))
        }
        Command::Stack(args) => commands::stack::stack(args),
        Command::Keeper(args) => commands::stack::keeper(args),
        Command::LanRules(args) => commands::gateway::lan_rules(args),
    };
    manypath_cli::finish(result)
}

/// The command line. Called by the name of a tool that it stands in for (a link to it), the command
/// of that name is meant.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == "shimrules") {
        arguments.insert(1, "shimrules".into());
    }
    arguments
}
