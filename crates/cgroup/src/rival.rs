//! Who else carries the programs of a cgroup: two of them take each other's connections for the programs' own.

use crate::kernel::{CONNECT4, GETPEERNAME4, attached};
use crate::networks::Network;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Asks a process to hand over (`redirector/succession.rs`).
const SIGUSR1: i32 = libc::SIGUSR1;
/// Tells one that has handed over that its successor ends on purpose, so that it is not to serve again.
const SIGUSR2: i32 = libc::SIGUSR2;
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Another `manypath attach` on a cgroup, or on one above or below it, in the same network.
///
/// One in another network (a container's) is none: neither touches sockets of the other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// Its process.
    pub pid: u32,
    /// The folder of the cgroup that it serves.
    pub group: PathBuf,
    /// The unit of systemd that it is, if `manypath enable` has made it one.
    pub unit: Option<String>,
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, group, unit } = self;
        let unit = unit.as_ref().map_or(String::new(), |unit| format!(" ({unit})"));
        write!(f, "manypath {pid}{unit} carries the programs of {} already", group.display())
    }
}

impl Rival {
    /// The first one found. Needs root; a process of another PID namespace is not seen.
    #[must_use]
    pub fn of(group: &Path) -> Option<Self> {
        Self::within(group, network("self")?)
    }

    /// The same in another network.
    pub(crate) fn within(group: &Path, network: Network) -> Option<Self> {
        folders(group).into_iter().find_map(|folder| {
            let programs =
                programs_at(&folder, CONNECT4).filter(|programs| !programs.is_empty())?;
            let pid = neighbours(network).into_iter().find(|pid| holds(*pid, &programs))?;
            Some(Self { pid, group: folder, unit: unit_of(pid) })
        })
    }
}

/// Tells all that have handed over this cgroup, and still tell names there, not to serve again.
pub(crate) fn dismiss_predecessors(group: &Path) {
    let programs = programs_at(group, GETPEERNAME4).unwrap_or_default();
    let neighbours = network("self").map(neighbours).unwrap_or_default();
    for pid in neighbours.into_iter().filter(|pid| holds(*pid, &programs)) {
        if catches(pid, SIGUSR2) {
            // SAFETY: plain numbers.
            unsafe { libc::kill(pid.cast_signed(), SIGUSR2) };
        }
    }
}

fn programs_at(folder: &Path, place: u32) -> Option<BTreeSet<u32>> {
    File::open(folder).and_then(|folder| attached(&folder, place)).ok()
}

impl Rival {
    /// Whether it leaves a cgroup to us when it is asked: it serves just that one, knows the signal, and was there first,
    /// so that of two that begin at once one stays.
    pub(crate) fn yields_to_us(&self, group: &Path) -> bool {
        let is_first = begun(self.pid).zip(begun(std::process::id())).is_some_and(|(a, b)| a < b);
        self.group == group && is_first && catches(self.pid, SIGUSR1)
    }

    /// Asks it, and waits until it has; false when it does not.
    pub(crate) fn hand_over(&self) -> bool {
        // SAFETY: plain numbers.
        if unsafe { libc::kill(self.pid.cast_signed(), SIGUSR1) } != 0 {
            return false;
        }
        let limit = Instant::now() + PATIENCE;
        let is_there = || Self::of(&self.group).is_some_and(|one| one.pid == self.pid);
        while is_there() {
            if Instant::now() >= limit {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

/// When a process began, in ticks of the kernel, and its number (proc_pid_stat(5)).
fn begun(pid: u32) -> Option<(u64, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    Some((after_name.split_ascii_whitespace().nth(19)?.parse().ok()?, pid))
}

/// Whether a process has a handler for a signal.
fn catches(pid: u32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

/// The folder itself, those above it and those below it.
fn folders(group: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = group.ancestors().map(Path::to_owned).collect();
    let mut below = vec![group.to_owned()];
    while let Some(folder) = below.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let inner = entries.filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir()));
        let inner: Vec<PathBuf> = inner.map(|one| one.path()).collect();
        all.extend_from_slice(&inner);
        below.extend(inner);
    }
    all
}

/// Other processes of ours in a network.
fn neighbours(here: Network) -> Vec<u32> {
    let own = std::process::id();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|one| one.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        *pid != own && name.is_ok_and(|name| name.starts_with("manypath"))
    };
    let is_here = |pid: &u32| network(&pid.to_string()) == Some(here);
    numbers.filter(is_ours).filter(is_here).collect()
}

/// Identity of the network that a process is in.
fn network(process: &str) -> Option<Network> {
    let namespace = fs::metadata(format!("/proc/{process}/ns/net")).ok()?;
    Some((namespace.dev(), namespace.ino()))
}

/// Whether a process has one of these programs; links tell theirs, too.
fn holds(pid: u32, programs: &BTreeSet<u32>) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let told = entries.filter_map(|one| fs::read_to_string(one.path()).ok());
    told.into_iter().any(|text| program_in(&text).is_some_and(|id| programs.contains(&id)))
}

fn program_in(descriptor: &str) -> Option<u32> {
    let number = descriptor.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
    number.trim().parse().ok()
}

fn unit_of(pid: u32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    attaching_unit(&groups)
}

/// The unit that `manypath enable` has made, in `/proc/PID/cgroup`.
fn attaching_unit(groups: &str) -> Option<String> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let unit = path.strip_prefix("/manypath.slice/")?.split('/').next()?;
    unit.ends_with(".service").then(|| unit.to_owned())
}

/// Why programs were not put to work on a cgroup.
#[derive(Debug)]
pub(crate) enum NotAttached {
    Rival(Rival),
    Kernel(io::Error),
}

impl From<io::Error> for NotAttached {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

impl fmt::Display for NotAttached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rival(rival) => rival.fmt(f),
            Self::Kernel(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{attaching_unit, program_in};

    #[test]
    fn programs_of_descriptors_are_read() {
        let link = "pos:\t0\nlink_type:\tcgroup\nlink_id:\t7\nprog_tag:\tabc\nprog_id:\t31\n";
        assert_eq!(program_in(link), Some(31));
        assert_eq!(program_in("pos:\t0\nmap_id:\t31\n"), None);
    }

    #[test]
    fn units_of_enable_are_known_by_their_slice() {
        let of = attaching_unit;
        let enabled = "1:name=systemd:/\n0::/manypath.slice/manypath-nginx.service\n";
        assert_eq!(of(enabled).as_deref(), Some("manypath-nginx.service"));
        assert_eq!(of("0::/user.slice/user-0.slice/session-1.scope\n"), None);
        assert_eq!(of("0::/system.slice/manypathd.service\n"), None);
    }
}
