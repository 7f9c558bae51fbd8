//! Where stacks are found: the runtime directory and the sockets in it.
//!
//! A stack listens at `PID.sock` (its other engine loops, if it has several, at `PID-1.sock` and so on), one that
//! launchers share at `shared-KEY.sock` as well, and a server that carries programs at
//! `programs-NAMESPACE.sock`, in the first of these that it may write:
//! `$MANYPATH_RUNTIME_DIR`, `/run/manypath`, `$XDG_RUNTIME_DIR/manypath`, `/tmp/manypath-UID`.
//! `/run/manypathd` is that of the system's service, which has a user of its own; root finds it.
//! The last of the others lies in a directory that everybody can write, so it is made with mode 0700 and used
//! only if it is ours, is no symbolic link, and nobody else may write it.

use crate::error::ControlError;
use crate::socket::ControlSocket;
use crate::user::user;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where the stack of the system's service puts its socket (`$MANYPATH_RUNTIME_DIR` in its unit).
const SERVICE: &str = "/run/manypathd";

/// A stack's socket file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSocket {
    /// The file.
    pub path: PathBuf,
    /// The process id in its name.
    pub pid: u32,
    /// Which of the engine loops of the process it is: 0 for the first.
    pub loop_index: u32,
}

impl StackSocket {
    /// How it is named: `PID`, or `PID-LOOP` for another engine loop than the first.
    #[must_use]
    pub fn name(&self) -> String {
        match self.loop_index {
            0 => self.pid.to_string(),
            index => format!("{}-{index}", self.pid),
        }
    }
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

/// The socket path of an engine loop of the stack `pid`; that of the first, 0, is the stack's.
#[must_use]
pub fn loop_path(directory: &Path, pid: u32, index: usize) -> PathBuf {
    match index {
        0 => socket_path(directory, pid),
        _ => directory.join(format!("{pid}-{index}.sock")),
    }
}

/// The second name of an engine loop of the stack that owns a UDP port; that of the first, 0, is the [stack's](door_path).
#[must_use]
pub fn loop_door_path(directory: &Path, namespace: u64, port: u16, index: usize) -> PathBuf {
    match index {
        0 => door_path(directory, namespace, port),
        _ => directory.join(format!("door-{namespace}-{port}-{index}.sock")),
    }
}

/// The second name of the stack that owns UDP port `port` of a network namespace: there launchers
/// find it to have listeners offered to peers.
#[must_use]
pub fn door_path(directory: &Path, namespace: u64, port: u16) -> PathBuf {
    directory.join(format!("door-{namespace}-{port}.sock"))
}

/// The second name of a stack that all launchers of a user share, as long as `key` tells them that it is the one that each of
/// them would start.
#[must_use]
pub fn shared_path(directory: &Path, key: u64) -> PathBuf {
    directory.join(format!("shared-{key:016x}.sock"))
}

/// The name of a server's stack that also carries programs of a network namespace.
#[must_use]
pub fn programs_path(directory: &Path, namespace: u64) -> PathBuf {
    directory.join(format!("programs-{namespace}.sock"))
}

/// A server's stack that answers under its [`programs_path`]: the service's if the caller may use it, else one of the caller's
/// own in `directory`.
#[must_use]
pub fn find_programs(directory: &Path, namespace: u64) -> Option<PathBuf> {
    let places = [Path::new(SERVICE), directory];
    let trusted = places.into_iter().filter(|place| is_trusted(place));
    let mut names = trusted.map(|place| programs_path(place, namespace));
    names.find(|name| ControlSocket::connect(name).is_ok())
}

/// Where a launcher finds the stack that owns the UDP port: the service's if the caller may use it,
/// else one of the caller's own in `directory`, which may have to be started.
#[must_use]
pub fn find_door(directory: &Path, namespace: u64, port: u16) -> PathBuf {
    let service = Path::new(SERVICE);
    let named = door_path(service, namespace, port);
    if is_trusted(service) && named.exists() {
        named
    } else {
        door_path(directory, namespace, port)
    }
}

/// The sockets of all living stacks of this host that the caller can see, oldest process first.
/// Files that no process listens at any more are removed.
#[must_use]
pub fn stacks() -> Vec<StackSocket> {
    let places = places();
    let trusted = places.iter().filter(|place| is_trusted(place));
    let mut found: Vec<_> = trusted.flat_map(|place| sockets_in(place)).collect();
    found.retain(|stack| !remove_if_stale(&stack.path));
    sort_by_age(&mut found);
    found
}

/// Oldest process first. Its id does not tell: ids begin anew after the largest.
fn sort_by_age(found: &mut [StackSocket]) {
    let mut began = BTreeMap::new();
    for stack in found.iter() {
        let made = fs::metadata(&stack.path).and_then(|file| file.modified()).ok();
        let first = began.entry(stack.pid).or_insert(made);
        *first = made.min(*first);
    }
    found.sort_by_key(|stack| (began[&stack.pid], stack.pid, stack.loop_index));
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
        None => [PathBuf::from(SERVICE)].into_iter().chain(usual_places()).collect(),
    }
}

/// Whether what lies in `place` is the caller's, root's, or for root the service's: only root makes
/// folders in /run.
fn is_trusted(place: &Path) -> bool {
    let service = place == Path::new(SERVICE) && user() == 0;
    check_safe(place, |owner| service || [user(), 0].contains(&owner)).is_ok()
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
    check_safe(&path, |owner| owner == user()).map_err(context)?;
    Ok(path)
}

/// The directory must be a real one, of an owner who `may` be it, and writable by nobody else. Elsewhere
/// anybody could pretend to be a stack, or have the caller remove files.
fn check_safe(path: &Path, may: impl Fn(u32) -> bool) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    let fault = if !meta.is_dir() {
        "is not a directory"
    } else if !may(meta.uid()) {
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
            let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
            let (pid, index) = name.split_once('-').unwrap_or((name, "0"));
            let (pid, loop_index) = (pid.parse().ok()?, index.parse().ok()?);
            Some(StackSocket { path, pid, loop_index })
        })
        .collect()
}

/// A refused connection means that nobody listens; anything else may be a living stack.
fn remove_if_stale(path: &Path) -> bool {
    let refused = matches!(ControlSocket::connect(path),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused);
    refused && fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_oldest_process_comes_first_even_if_ids_have_begun_anew() {
        let dir = env::temp_dir().join(format!("manypath-ages-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        for (second, name) in ["32760", "32760-1", "9", "9-1", "32760-2"].iter().enumerate() {
            let file = fs::File::create(dir.join(format!("{name}.sock"))).expect("a file");
            let made = SystemTime::UNIX_EPOCH + Duration::from_secs(second as u64);
            file.set_modified(made).expect("its time");
        }
        let mut found = sockets_in(&dir);
        sort_by_age(&mut found);
        fs::remove_dir_all(&dir).expect("removed");
        let names: Vec<_> = found.iter().map(StackSocket::name).collect();
        assert_eq!(names, ["32760", "32760-1", "32760-2", "9", "9-1"]);
    }
}
