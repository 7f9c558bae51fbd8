//! `manypath lab`: emulated hosts and paths from the command line.

use crate::args::{LabAction, LabArgs};
use crate::failure::Failure;
use manypath_lab::{Host, LabError, LabSpec, PathSpec, cli};
use std::path::Path;

/// Does what was asked of the lab.
pub(crate) fn lab(args: &LabArgs) -> Result<u8, Failure> {
    let name = &args.name;
    let text = match &args.action {
        LabAction::Up { paths, foreground } => up(name, paths, *foreground),
        LabAction::Exec { host, command } => Err(exec(name, host, command)),
        LabAction::Path { path, change, towards } => {
            change_path(name, path, towards.as_deref(), change)
        }
        LabAction::Status { json } => cli::status(name, *json),
        LabAction::Capture { file } => {
            cli::capture(name, (file != Path::new("-")).then_some(file.as_path()))
        }
        LabAction::Down => cli::down(name),
    };
    let text = text.map_err(|e| Failure::new(e.to_string()))?;
    println!("{}", text.trim_end());
    Ok(0)
}

fn up(name: &str, paths: &[String], foreground: bool) -> Result<String, LabError> {
    let paths = paths.iter().map(|p| p.parse()).collect::<Result<Vec<PathSpec>, _>>()?;
    let spec = LabSpec::new(paths).named(name);
    if foreground { cli::run(spec).map(|()| String::new()) } else { cli::up(spec) }
}

fn exec(name: &str, host: &str, command: &[std::ffi::OsString]) -> LabError {
    match host.parse::<Host>() {
        Ok(host) => cli::exec(name, host, command),
        Err(error) => error,
    }
}

fn change_path(
    name: &str,
    path: &str,
    towards: Option<&str>,
    change: &[String],
) -> Result<String, LabError> {
    let towards = towards.map(str::parse::<Host>).transpose()?;
    cli::path(name, path, towards, change)
}
