//! Where stacks are found: the runtime directory and the sockets in it.
//!
//! A stack listens at `PID.sock` in the first of these that it may write:
//! `$MANYPATH_RUNTIME_DIR`, `/run/manypath`, `$XDG_RUNTIME_DIR/manypath`, `/tmp/manypath-UID`.
//! The last lies in a directory that everybody can write, so it is made with mode 0700 and used
//! only if it is ours, is no symbolic link, and nobody else may write it.

use crate::error::ControlError;
use crate::listener;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A stack's socket file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSocket {
    /// The file.
    pub path: PathBuf,
    /// The process id in its name.
    pub pid: u32,
}

/// The directory in which a stack of this user puts its socket; made if it is missing.
///
/// # Errors
/// When the directory cannot be made, or is not safe to use; the text names it.
pub fn directory() -> io::Result<PathBuf> {
    if let Some(named) = env::var_os("MANYPATH_RUNTIME_DIR").filter(|v| !v.is_empty()) {
        return prepare(PathBuf::from(named));
    }
    let mut last = None;
    for candidate in usual_places() {
        match prepare(candidate) {
            Ok(path) => return Ok(path),
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound)))
}

/// The socket path of the stack `pid` in `directory`.
#[must_use]
pub fn socket_path(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}.sock"))
}

/// The second name of the stack that owns UDP port `port` of a network namespace: there launchers
/// find it to have listeners offered to peers.
#[must_use]
pub fn door_path(directory: &Path, namespace: u64, port: u16) -> PathBuf {
    directory.join(format!("door-{namespace}-{port}.sock"))
}

/// The sockets of all living stacks of this host that the caller can see, oldest name first.
/// Files that no process listens at any more are removed.
#[must_use]
pub fn stacks() -> Vec<StackSocket> {
    let safe = |place: &&PathBuf| check_safe(place, &[user(), 0]).is_ok();
    let mut found: Vec<_> = places().iter().filter(safe).flat_map(|p| sockets_in(p)).collect();
    found.retain(|stack| !remove_if_stale(&stack.path));
    found.sort_by_key(|stack| stack.pid);
    found
}

/// The identity of the caller's network namespace.
///
/// # Errors
/// When `/proc` is not mounted.
pub fn network_namespace() -> Result<u64, ControlError> {
    Ok(fs::metadata("/proc/self/ns/net")?.ino())
}

fn places() -> Vec<PathBuf> {
    match env::var_os("MANYPATH_RUNTIME_DIR").filter(|v| !v.is_empty()) {
        Some(named) => vec![PathBuf::from(named)],
        None => usual_places(),
    }
}

fn usual_places() -> Vec<PathBuf> {
    let session = env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty());
    let mut places = vec![PathBuf::from("/run/manypath")];
    places.extend(session.map(|dir| PathBuf::from(dir).join("manypath")));
    places.push(PathBuf::from(format!("/tmp/manypath-{}", user())));
    places
}

fn prepare(path: PathBuf) -> io::Result<PathBuf> {
    let context = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(context(e)),
        _ => {}
    }
    check_safe(&path, &[user()]).map_err(context)?;
    Ok(path)
}

/// The directory must be a real one, of one of `owners`, and writable by nobody else. Elsewhere
/// anybody could pretend to be a stack, or have the caller remove files.
fn check_safe(path: &Path, owners: &[u32]) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    let fault = if !meta.is_dir() {
        "is not a directory"
    } else if !owners.contains(&meta.uid()) {
        "belongs to another user"
    } else if meta.mode() & 0o022 != 0 {
        "can be written by others"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, fault))
}

fn sockets_in(place: &Path) -> Vec<StackSocket> {
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let pid = path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok()?;
            Some(StackSocket { path, pid })
        })
        .collect()
}

/// A refused connection means that nobody listens; anything else may be a living stack.
fn remove_if_stale(path: &Path) -> bool {
    let refused = matches!(listener::connect(path),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused);
    refused && fs::remove_file(path).is_ok()
}

fn user() -> u32 {
    // SAFETY: takes nothing, always succeeds.
    unsafe { libc::geteuid() }
}
