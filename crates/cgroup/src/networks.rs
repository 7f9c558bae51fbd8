//! Programs of a cgroup that live in network namespaces of their own, as those of containers do.
//!
//! Each such network gets a `manypath attach` of its own, which enters the namespace before it does anything
//! else: addresses, routes and packet filters of the container hold for its stack as they do for its programs.

use crate::routes::Routes;
use manypath_gate::socket;
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How programs in network namespaces of their own are served.
#[derive(Debug, Clone)]
pub struct Containers {
    /// The program that serves one network, this one.
    pub exe: PathBuf,
    /// Its arguments, to which the folder of the cgroup is added. It prints a line when it is ready, and its
    /// report as JSON at the end.
    pub args: Vec<OsString>,
}

/// Identity of a network namespace, while anybody is in it.
pub(crate) type Network = (u64, u64);

/// Programs of one network, and the cgroup by which they can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) network: Network,
    pub(crate) folder: PathBuf,
    /// One of its processes.
    pub(crate) pid: u32,
}

/// What lives where in a cgroup: for each folder the networks of its processes, and one process of each.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    folders: BTreeMap<PathBuf, BTreeMap<Network, u32>>,
    /// Whether this process may not look at some of them.
    pub(crate) denied: bool,
}

impl Survey {
    /// Looks at the processes in these folders.
    pub(crate) fn of(folders: Vec<PathBuf>) -> Self {
        let mut survey = Self::default();
        for folder in folders {
            let networks = survey.networks_in(&folder);
            survey.folders.insert(folder, networks);
        }
        survey
    }

    fn networks_in(&mut self, folder: &Path) -> BTreeMap<Network, u32> {
        let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        let mut networks = BTreeMap::new();
        // Zero stands for those of another PID namespace.
        for pid in processes.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0) {
            match network_of(pid) {
                Ok(network) => drop(networks.insert(network, pid)),
                Err(error) => self.denied |= error.kind() == io::ErrorKind::PermissionDenied,
            }
        }
        networks
    }

    /// Whether programs of a network are left.
    pub(crate) fn contains(&self, network: Network) -> bool {
        self.folders.values().any(|networks| networks.contains_key(&network))
    }

    /// The places of networks other than `own` that nobody serves. A place is the highest folder, up to `top`, that
    /// holds programs of one network only, so that those which join it later are served, too.
    pub(crate) fn unserved(
        &self,
        top: &Path,
        own: Network,
        mut served: Vec<(Network, PathBuf)>,
    ) -> Vec<Place> {
        let mut places = Vec::new();
        for (folder, networks) in &self.folders {
            for (network, pid) in networks.iter().filter(|(network, _)| **network != own) {
                let is_served = |(known, place): &(Network, PathBuf)| {
                    known == network && folder.starts_with(place)
                };
                if !served.iter().any(is_served) {
                    let folder = self.highest(folder, top, *network, &served);
                    served.push((*network, folder.clone()));
                    places.push(Place { network: *network, folder, pid: *pid });
                }
            }
        }
        places
    }

    fn highest(
        &self,
        folder: &Path,
        top: &Path,
        network: Network,
        served: &[(Network, PathBuf)],
    ) -> PathBuf {
        let fits = |place: &&Path| {
            let mut inside = self.folders.iter().filter(|(one, _)| one.starts_with(place));
            let alone = inside.all(|(_, all)| all.keys().all(|one| *one == network));
            // One above another is refused.
            let above =
                served.iter().any(|(one, below)| *one == network && below.starts_with(place));
            place.starts_with(top) && alone && !above
        };
        folder.ancestors().take_while(fits).last().unwrap_or(folder).to_owned()
    }
}

/// The network of a process.
///
/// # Errors
/// `EACCES` without CAP_SYS_PTRACE; others when it is gone.
pub(crate) fn network_of(pid: u32) -> io::Result<Network> {
    let namespace = fs::metadata(format!("/proc/{pid}/ns/net"))?;
    Ok((namespace.dev(), namespace.ino()))
}

/// A network namespace from inside.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) namespace: File,
    /// Its identity for the kernel's programs.
    pub(crate) cookie: u64,
}

impl Inside {
    /// Opens the namespace of a place; none if it is empty: no interface but loopback is up, so that nothing leads
    /// out of it.
    ///
    /// # Errors
    /// `EPERM` without CAP_SYS_ADMIN; `NotFound` when the process has gone.
    pub(crate) fn of(place: &Place) -> io::Result<Option<Self>> {
        let namespace = File::open(format!("/proc/{}/ns/net", place.pid))?;
        let meta = namespace.metadata()?;
        if (meta.dev(), meta.ino()) != place.network {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        let look = || {
            enter(namespace.as_raw_fd())?;
            let probe = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            let cookie = socket::namespace(probe.as_fd())?;
            Ok(Routes::lead_out()?.then_some(cookie))
        };
        // A thread can be in another network than its process, and this one ends there.
        let looked = std::thread::scope(|scope| scope.spawn(look).join());
        let cookie: io::Result<Option<u64>> =
            looked.unwrap_or_else(|_| Err(io::Error::from_raw_os_error(libc::EIO)));
        Ok(cookie?.map(|cookie| Self { namespace, cookie }))
    }

    /// Starts what serves a place in this network.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn start(&self, containers: &Containers, place: &Place) -> io::Result<Child> {
        let mut command = Command::new(&containers.exe);
        command.args(&containers.args).arg("--cgroup").arg(&place.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // It is no service of its own.
        command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        let (namespace, parent) = (self.namespace.as_raw_fd(), std::process::id());
        // SAFETY: the closure makes only system calls.
        unsafe { command.pre_exec(move || end_with(parent).and_then(|()| enter(namespace))) };
        command.spawn()
    }
}

fn enter(namespace: RawFd) -> io::Result<()> {
    // SAFETY: plain numbers.
    match unsafe { libc::setns(namespace, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Nothing may stay in the networks of containers when this process is killed.
fn end_with(parent: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::getppid().cast_unsigned() != parent {
            return Err(io::Error::from_raw_os_error(libc::ECHILD));
        }
    }
    Ok(())
}

/// Tells of cgroups that are made in folders.
#[derive(Debug)]
pub(crate) struct Watch {
    fd: OwnedFd,
    known: BTreeSet<PathBuf>,
}

impl Watch {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// As the kernel says.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: plain numbers; then the kernel has just made the descriptor.
        unsafe {
            let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { fd: OwnedFd::from_raw_fd(fd), known: BTreeSet::new() })
        }
    }

    /// Watches these folders; those that are not among them have gone.
    pub(crate) fn set(&mut self, folders: &[PathBuf]) {
        for folder in folders.iter().filter(|folder| !self.known.contains(*folder)) {
            let Ok(name) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { continue };
            // SAFETY: a string that outlives the call. What is not watched is found by the next look.
            unsafe { libc::inotify_add_watch(self.fd.as_raw_fd(), name.as_ptr(), libc::IN_CREATE) };
        }
        self.known = folders.iter().cloned().collect();
    }

    /// What to poll for.
    pub(crate) fn interest(&self) -> libc::pollfd {
        manypath_gate::poll::interest(self.fd.as_raw_fd())
    }

    /// Whether any was made since the last time.
    pub(crate) fn drain(&self) -> bool {
        manypath_gate::poll::drain(self.fd.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::{Network, Place, Survey};
    use std::path::{Path, PathBuf};

    const HOST: Network = (4, 1);
    const POD: Network = (4, 2);
    const OTHER: Network = (4, 3);

    fn survey(folders: &[(&str, &[(Network, u32)])]) -> Survey {
        let folders = folders
            .iter()
            .map(|(folder, all)| (PathBuf::from(folder), all.iter().copied().collect()));
        Survey { folders: folders.collect(), denied: false }
    }

    fn unserved(survey: &Survey, served: &[(Network, &str)]) -> Vec<(Network, String)> {
        let served =
            served.iter().map(|(network, folder)| (*network, PathBuf::from(folder))).collect();
        let places = survey.unserved(Path::new("/s"), HOST, served);
        places
            .into_iter()
            .map(|Place { network, folder, .. }| (network, folder.display().to_string()))
            .collect()
    }

    #[test]
    fn a_network_is_served_at_the_highest_cgroup_that_is_its_own() {
        let pods = survey(&[
            ("/s", &[]),
            ("/s/pod1", &[]),
            ("/s/pod1/pause", &[(POD, 10)]),
            ("/s/pod1/app", &[(POD, 11)]),
            ("/s/pod2/app", &[(OTHER, 12)]),
            ("/s/host", &[(HOST, 13)]),
        ]);
        let both = [(POD, "/s/pod1".to_owned()), (OTHER, "/s/pod2".to_owned())];
        assert_eq!(unserved(&pods, &[]), both);
        assert_eq!(unserved(&pods, &[(POD, "/s/pod1")]), both[1..]);
        // The only one takes the whole slice, and the next ones their own.
        let one = survey(&[("/s", &[]), ("/s/pod1", &[]), ("/s/pod1/app", &[(POD, 11)])]);
        assert_eq!(unserved(&one, &[]), [(POD, "/s".to_owned())]);
        assert_eq!(unserved(&pods, &[(POD, "/s")]), both[1..]);
    }

    #[test]
    fn no_place_is_above_another_one_of_its_network() {
        let later = survey(&[("/s/a/x", &[(POD, 1)]), ("/s/a/y", &[(POD, 2)])]);
        assert_eq!(unserved(&later, &[(POD, "/s/a/x")]), [(POD, "/s/a/y".to_owned())]);
        let mixed = survey(&[("/s/a", &[(HOST, 1), (POD, 2)])]);
        assert_eq!(unserved(&mixed, &[]), [(POD, "/s/a".to_owned())]);
    }
}
