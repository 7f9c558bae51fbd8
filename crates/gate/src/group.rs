//! Control groups (version 2): where they are, and who is in which.

use std::fs;
use std::io;
use std::path::PathBuf;

/// Where cgroup2 is mounted on this host.
///
/// # Errors
/// `NotFound` when it is nowhere.
pub fn mount() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let place = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    };
    mounts.lines().find_map(place).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// The cgroup of a process or thread, below the mount; none where it has gone, or there is no cgroup2.
#[must_use]
pub fn of(thread: &str) -> Option<String> {
    let all = fs::read_to_string(format!("/proc/{thread}/cgroup")).ok()?;
    all.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned)
}
