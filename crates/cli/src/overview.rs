//! `manypath --help`: all commands on one screen, in groups.

use crate::args::Cli;
use clap::{Command, CommandFactory};
use std::fmt::Write;

/// Commands with a line each, by what people want to do.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Carry connections", &["run", "serve", "enable", "disable", "gateway"]),
    ("See what happens", &["status", "doctor", "metrics"]),
    ("Configure", &["path", "rules", "config", "cache", "key"]),
];

/// The command line, with its commands in groups.
pub(crate) fn command() -> Command {
    let cli = Cli::command();
    let overview = overview(&cli);
    cli.help_template(overview)
}

fn overview(cli: &Command) -> String {
    let mut text = format!("{}\nUsage: manypath COMMAND\n\n", about(cli));
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in names {
            let line = cli.find_subcommand(name).map(about).unwrap_or_default();
            let _ = writeln!(text, "  {name:<9}{line}");
        }
    }
    text += "Measure and copy (programs of their own): demo, lab, ssh\n";
    text + "`manypath COMMAND --help` explains a command; -V prints the version."
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, command};

    #[test]
    fn every_command_is_named_once() {
        let mut named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let cli = command();
        let mut visible: Vec<&str> = cli
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        named.sort_unstable();
        visible.sort_unstable();
        assert_eq!(named, visible);
    }

    /// A prompt is the 24th line.
    #[test]
    fn the_overview_fits_a_terminal_of_80_columns_and_24_lines() {
        for help in [command().render_help(), command().render_long_help()] {
            let text = help.to_string();
            assert!(text.lines().count() <= 23, "{} lines:\n{text}", text.lines().count());
            for line in text.lines() {
                assert!(line.len() <= 80, "{} columns: {line}", line.len());
            }
        }
    }

    #[test]
    fn commands_keep_the_conventions() {
        let broken = manypath_cli::conventions::broken(command(), &["serve"]);
        assert!(broken.is_empty(), "{broken:#?}");
    }
}
