//! The manypath command.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod demo;
mod failure;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Serve(args) => commands::serve::serve(args),
        Command::Status(args) => commands::status::status(args),
        Command::Lab(args) => commands::lab::lab(args),
        Command::Sim(args) => commands::sim::sim(args),
        Command::Demo(args) => demo::demo(args),
        Command::Man(args) => commands::man::man(args),
        Command::Stack(args) => commands::stack::stack(args),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.status)
        }
    }
}
