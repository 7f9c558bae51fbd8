//! `manypath man`: the man pages, from the same definition as the help.

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;
use clap::CommandFactory;
use std::path::Path;

/// Writes one page per command to the folder.
pub(crate) fn man(args: &ManArgs) -> Result<u8, Failure> {
    std::fs::create_dir_all(&args.dir)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", args.dir.display())))?;
    let mut command = Cli::command();
    command.build();
    let pages = write_pages(&command, &args.dir)?;
    println!("{pages} man pages in {}", args.dir.display());
    Ok(0)
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
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        pages += write_pages(sub, dir)?;
    }
    Ok(pages)
}
