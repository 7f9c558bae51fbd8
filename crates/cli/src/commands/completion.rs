//! `manypath completion`: what shells complete, from the same definition as the help.

use crate::args::Cli;
use crate::failure::Failure;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

/// Print the completion script for a shell.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath completion bash > ~/.local/share/bash-completion/completions/manypath\n  manypath completion zsh > \"${fpath[1]}/_manypath\"\n  manypath completion fish > ~/.config/fish/completions/manypath.fish"
)]
pub(crate) struct CompletionArgs {
    /// Shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// The command without what only it itself calls.
fn visible(command: &Command) -> Command {
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    Command::new("manypath").version(env!("CARGO_PKG_VERSION")).subcommands(subcommands)
}

/// Prints the script.
pub(crate) fn completion(args: &CompletionArgs) -> Result<u8, Failure> {
    let mut command = visible(&Cli::command());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "manypath", &mut script);
    super::print(&script)
}
