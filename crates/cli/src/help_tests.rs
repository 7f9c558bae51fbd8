//! What every command has: help with an example, and JSON where there is something to read.

use crate::args::Cli;
use clap::{Command, CommandFactory};

/// Commands that print nothing which a program would read: streams of other programs, files, or what the
/// exit status tells; and those that only have others below them. `shimrules` has the flags of its publication; `rules` does the same with `--json`.
const WITHOUT_JSON: [&str; 14] = [
    "serve",
    "shimrules",
    "lab exec",
    "lab capture",
    "lab down",
    "ssh exec",
    "ssh forward",
    "ssh pipe",
    "ssh serve",
    "man",
    "completion",
    "lab",
    "sim",
    "ssh",
];

/// All commands that people see, with their names behind `manypath`.
fn visible(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("{name} {}", sub.get_name()).trim_start().to_owned();
        visible(sub, &name, found);
        found.push((name, sub.clone()));
    }
}

fn commands() -> Vec<(String, Command)> {
    let mut cli = Cli::command();
    cli.build();
    let mut found = Vec::new();
    visible(&cli, "", &mut found);
    found.retain(|(name, _)| !name.split(' ').any(|word| word == "help"));
    assert!(found.len() > 50, "{}", found.len());
    found
}

#[test]
fn every_command_has_an_example() {
    for (name, command) in commands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.starts_with("Example:\n"), "manypath {name} --help has no example");
    }
}

#[test]
fn every_command_that_tells_something_tells_it_as_json() {
    for (name, command) in commands() {
        let has = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
        let without = WITHOUT_JSON.contains(&name.as_str());
        assert_eq!(has, !without, "manypath {name} --json");
    }
}

#[test]
fn hidden_commands_are_not_completed() {
    let below = |command: &Command| command.get_subcommands().any(Command::is_hide_set);
    for (name, command) in commands() {
        assert!(!below(&command), "manypath {name} has a hidden command, which shells would offer");
    }
}
