//! Finding the stock programs that the demo runs.

use std::path::PathBuf;

/// First of the paths that exists.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|dir| dir.join(name)).find(|p| p.is_file())
}

/// The program's path, or what to install.
pub(crate) fn need_program(name: &str, package: &str) -> Result<PathBuf, String> {
    let hint = format!("{name} is missing (in Debian's package {package})");
    find_program(name).ok_or(hint)
}
