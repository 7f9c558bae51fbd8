//! The manypath command.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod demo;
mod failure;
#[cfg(test)]
mod help_tests;
mod mode;
mod overview;
mod say;
mod shell;
mod step_aside;

use args::{Cli, Command};
use clap::FromArgMatches;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match parse(arguments()) {
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
        Command::Peers(args) => commands::peers::peers(args),
        Command::Sysctl(args) => commands::sysctl::sysctl(args),
        Command::Reload(args) => commands::reload::reload(args),
        Command::Status(args) => commands::status::status(args),
        Command::Doctor(args) => commands::doctor::doctor(args),
        Command::Top(args) => commands::top::top(args),
        Command::Metrics(args) => commands::metrics::metrics(args),
        Command::Lab(args) => commands::lab::lab(args),
        Command::Sim(args) => commands::sim::sim(args),
        Command::Ssh(args) => commands::ssh::ssh(args),
        Command::Demo(args) => demo::demo(args),
        Command::Bench(args) => commands::bench::bench(args),
        Command::BenchWorker(args) => commands::bench::worker(args),
        Command::BenchGuard(args) => Ok(commands::bench::guard(args)),
        Command::SimLiveHost(args) => commands::sim::live::host(args),
        Command::Man(args) => commands::man::man(args),
        Command::Completion(args) => commands::completion::completion(args),
        Command::Stack(args) => commands::stack::stack(args),
        Command::Keeper(args) => commands::stack::keeper(args),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            say::say_line(&failure);
            ExitCode::from(failure.status)
        }
    }
}

/// Reads the command line. What is wrong with it, or its help, has been printed otherwise.
fn parse(arguments: Vec<OsString>) -> Result<Cli, ExitCode> {
    let runs = arguments.get(1).is_some_and(|command| command == "run");
    let matches = overview::command().try_get_matches_from(arguments);
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        // Nobody may be there to read it.
        let _ = error.print();
        match error.exit_code() {
            0 => ExitCode::SUCCESS,
            _ if runs => ExitCode::from(commands::run::FAILED),
            _ => ExitCode::from(2),
        }
    })
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
