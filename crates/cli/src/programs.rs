//! The other programs of manypath: beside this one, or on the PATH.

use crate::failure::Failure;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Commands of `manypath` that are programs of their own: the command, the program, and its first argument.
const ELSEWHERE: [(&str, &str, Option<&str>); 5] = [
    ("ssh", "manypath-ssh", None),
    ("lab", "manypath-lab", None),
    ("demo", "manypath-lab", Some("demo")),
    ("sim", "manypath-lab", Some("sim")),
    ("bench", "manypath-lab", Some("bench")),
];

/// The program of this name that was installed together with this one, else the one of the PATH.
///
/// # Errors
/// There is none.
pub fn find(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(name)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    beside.into_iter().chain(on_path).find(|file| file.is_file()).ok_or_else(|| {
        Failure::new(format!("{name} is not installed: no such file beside this program, nor in PATH"))
            .hint(format!("install it from the same release, or build it: cargo build --release -p manypath-cli --bin {name}"))
            .with_status(127)
    })
}

/// Replaces this process by the program that has the command, if it is one of another program. Returns only if that fails.
#[must_use]
pub fn elsewhere(arguments: &[OsString]) -> Option<Failure> {
    let (_, program, first) =
        ELSEWHERE.iter().find(|(command, ..)| arguments.get(1).is_some_and(|it| it == command))?;
    let file = match find(program) {
        Ok(file) => file,
        Err(failure) => return Some(failure),
    };
    let error = Command::new(&file).args(*first).args(arguments.iter().skip(2)).exec();
    Some(Failure::new(format!("cannot start {}: {error}", file.display())).with_status(126))
}
