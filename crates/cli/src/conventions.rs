//! What every command has: help with an example, and JSON where there is something to read. For tests.

use clap::Command;

/// All commands that people see, with their names behind that of the program.
fn visible(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = format!("{name} {}", sub.get_name());
        visible(sub, &name, found);
        found.push((name, sub.clone()));
    }
}

/// Where a program does not keep the conventions. `without_json` names the commands that print nothing which a program
/// would read: streams of other programs, files, or what the exit status tells.
#[must_use]
pub fn broken(mut program: Command, without_json: &[&str]) -> Vec<String> {
    program = program.disable_help_subcommand(true);
    program.build();
    let mut found = Vec::new();
    visible(&program, "", &mut found);
    found.iter().flat_map(|(name, command)| of(name.trim(), command, without_json)).collect()
}

fn of(name: &str, command: &Command, without_json: &[&str]) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let json = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
    let expected = !command.has_subcommands() && !without_json.contains(&name);
    let checks = [
        (!help.starts_with("Example:\n"), "has no example in its help"),
        (expected && !json, "has no --json"),
        (!expected && json && without_json.contains(&name), "has --json after all"),
        (
            command.get_subcommands().any(Command::is_hide_set),
            "has a hidden command, which shells would offer",
        ),
    ];
    let broken = checks.into_iter().filter(|(broken, _)| *broken);
    broken.map(|(_, what)| format!("{name} {what}")).collect()
}
