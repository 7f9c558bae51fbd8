//! Control groups (version 2): where they are, and who is in which.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

const PAGE: usize = 4096;
/// Bytes that the groups of a process may take: one line for each of a few hierarchies.
const MAX_LIST: u64 = 1 << 20;

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
    // One read takes a page of it, and asks for no size, which is not known before.
    let mut all = String::with_capacity(PAGE);
    File::open(format!("/proc/{thread}/cgroup"))
        .ok()?
        .take(MAX_LIST)
        .read_to_string(&mut all)
        .ok()?;
    all.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned)
}
