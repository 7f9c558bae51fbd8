//! `manypath man`: the man pages, from the same definition as the help.

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;
use clap::CommandFactory;
use std::path::Path;

/// Writes one page per command to the folder.
pub(crate) fn man(args: &ManArgs) -> Result<u8, Failure> {
    std::fs::create_dir_all(&args.dir)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", args.dir.display())))?;
    let pages = write_pages(&described(), &args.dir)?;
    println!("{pages} man pages in {}", args.dir.display());
    Ok(0)
}

/// The command without its `help` subcommands, which have no pages.
fn described() -> clap::Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

/// Writes the page of `command` and those of its subcommands; returns how many.
fn write_pages(command: &clap::Command, dir: &Path) -> Result<usize, Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let page = clap_mangen::Man::new(command.clone()).title(name.to_uppercase());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let file = dir.join(format!("{name}.1"));
    std::fs::write(&file, text)
        .map_err(|e| Failure::new(format!("cannot write {}: {e}", file.display())))?;
    let mut pages = 1;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        pages += write_pages(sub, dir)?;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::{described, write_pages};

    #[test]
    fn every_page_that_is_named_is_there() {
        let dir = std::env::temp_dir().join(format!("manypath-pages-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let pages = write_pages(&described(), &dir).expect("pages");
        assert!(pages > 50, "{pages}");
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
