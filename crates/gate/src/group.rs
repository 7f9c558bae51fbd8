//! Control groups (version 2): where they are, and who is in which.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const PAGE: usize = 4096;
/// Bytes that the groups of a process may take: one line for each of a few hierarchies.
const MAX_LIST: usize = 1 << 20;

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
    Member::open(thread).ok()?.group().ok()?
}

/// A process or thread that is asked again and again for its cgroup: a look costs one system call.
#[derive(Debug)]
pub struct Member(File);

impl Member {
    /// By its number, or `self`.
    ///
    /// # Errors
    /// When there is no such thread.
    pub fn open(thread: &str) -> io::Result<Self> {
        File::open(format!("/proc/{thread}/cgroup")).map(Self)
    }

    /// Its cgroup now, below the mount; none where there is no cgroup2.
    ///
    /// # Errors
    /// `ESRCH` when it has gone, also if its number was given again.
    pub fn group(&self) -> io::Result<Option<String>> {
        let mut list = vec![0; PAGE];
        let mut length = self.0.read_at(&mut list, 0)?;
        while length == list.len() && length < MAX_LIST {
            list.resize(length * 2, 0);
            length = self.0.read_at(&mut list, 0)?;
        }
        let list = String::from_utf8_lossy(list.get(..length).unwrap_or_default());
        Ok(list.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned))
    }
}
