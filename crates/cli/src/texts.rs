//! Man pages and completions, from the same definition as the help.

use crate::failure::Failure;
use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// Commands that packages use.
#[derive(Subcommand, Debug)]
pub enum Texts {
    /// Write the man pages to a directory.
    #[command(
        hide = true,
        after_help = "Example:\n  manypath man target/man && man target/man/manypath-run.1"
    )]
    Man(ManArgs),
    /// Print the completion script for a shell.
    #[command(
        hide = true,
        after_help = "Example:\n  manypath completion bash > ~/.local/share/bash-completion/completions/manypath\n  manypath completion zsh > \"${fpath[1]}/_manypath\"\n  manypath completion fish > ~/.config/fish/completions/manypath.fish"
    )]
    Completion(CompletionArgs),
}

/// Where man pages go.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Output directory; created if missing.
    dir: PathBuf,
}

/// Which shell completes.
#[derive(Args, Debug)]
pub struct CompletionArgs {
    /// Shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Texts {
    /// Where man pages are to go, if they are what was asked for.
    #[must_use]
    pub fn manual(&self) -> Option<&Path> {
        match self {
            Self::Man(args) => Some(&args.dir),
            Self::Completion(_) => None,
        }
    }

    /// Writes what was asked for about `program`, which is called `name`.
    ///
    /// # Errors
    /// The directory or standard output cannot be written to.
    pub fn write(&self, program: Command, name: &'static str) -> Result<u8, Failure> {
        match self {
            Self::Man(args) => man(program, &args.dir),
            Self::Completion(args) => completion(&program, name, args.shell),
        }
    }
}

fn man(program: Command, dir: &Path) -> Result<u8, Failure> {
    std::fs::create_dir_all(dir)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", dir.display())))?;
    let pages = write_pages(&described(program), dir)?;
    println!("{pages} man pages in {}", dir.display());
    Ok(0)
}

/// The command without its `help` subcommands, which have no pages.
fn described(program: Command) -> Command {
    let mut command = program.disable_help_subcommand(true);
    command.build();
    command
}

/// Writes the page of `command` and those of its subcommands; returns how many.
fn write_pages(command: &Command, dir: &Path) -> Result<usize, Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let page = clap_mangen::Man::new(command.clone()).title(name.to_uppercase());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let file = dir.join(format!("{name}.1"));
    std::fs::write(&file, text)
        .map_err(|e| Failure::new(format!("cannot write {}: {e}", file.display())))?;
    let mut pages = 1;
    for sub in command.get_subcommands().filter(|c| is_for_people(c)) {
        pages += write_pages(sub, dir)?;
    }
    Ok(pages)
}

/// Commands with an example; those that the overview leaves out, too.
fn is_for_people(command: &Command) -> bool {
    !command.is_hide_set() || command.get_after_help().is_some()
}

fn completion(program: &Command, name: &'static str, shell: Shell) -> Result<u8, Failure> {
    let shown = program.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut shown = Command::new(name).version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, name, &mut script);
    crate::print(&script)
}

#[cfg(test)]
mod tests {
    use super::{described, write_pages};
    use clap::Command;

    #[test]
    fn every_page_that_is_named_is_there() {
        let dir = std::env::temp_dir().join(format!("manypath-pages-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let below = [Command::new("show"), Command::new("own").hide(true)];
        let unlisted = Command::new("attach").hide(true).after_help("Example:\n  it");
        let program = Command::new("it").subcommand(Command::new("path").subcommands(below));
        let pages = write_pages(&described(program.subcommand(unlisted)), &dir).expect("pages");
        assert_eq!(pages, 4, "it, it-path, it-path-show, it-attach");
        for page in std::fs::read_dir(&dir).expect("the folder") {
            let text = std::fs::read_to_string(page.expect("a page").path()).expect("text");
            let named = text.lines().filter_map(|line| line.strip_suffix("(1)"));
            for name in named.map(|name| name.replace("\\-", "-")) {
                assert!(dir.join(format!("{name}.1")).exists(), "no page {name}(1)");
            }
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
