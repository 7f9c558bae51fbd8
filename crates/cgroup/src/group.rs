//! Control groups: finding them, watching them come and go.

use crate::kernel::{Links, Programs, Purpose};
use crate::rival::{NotAttached, Rival};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `CGROUP2_SUPER_MAGIC`.
const CGROUP2: libc::c_long = 0x6367_7270;

pub use manypath_gate::group::mount;

/// Where systemd puts a unit: its slice is known by name, all else is in `system.slice` unless `slice` says
/// otherwise; scopes of podman and systemd-nspawn are in `machine.slice`.
#[must_use]
pub fn of_unit(unit: &str, slice: Option<&str>) -> PathBuf {
    if unit.ends_with(".slice") {
        return slice_path(unit);
    }
    let own = unit.split_once('@').map(|(template, _)| format!("system-{template}.slice"));
    let machine = unit.ends_with(".scope") && !unit.starts_with("docker-");
    let usual = if machine { "machine.slice" } else { "system.slice" };
    let slice = slice.map(str::to_owned).or(own).unwrap_or_else(|| usual.to_owned());
    slice_path(&slice).join(unit)
}

/// `a-b.slice` is inside `a.slice` (systemd.slice(5)).
fn slice_path(slice: &str) -> PathBuf {
    let name = slice.trim_end_matches(".slice");
    if name == "-" {
        return PathBuf::new();
    }
    let ends = name.match_indices('-').map(|(at, _)| at).chain([name.len()]);
    ends.filter_map(|end| name.get(..end)).map(|name| format!("{name}.slice")).collect()
}

/// A cgroup with the programs at work on it, whenever it is there.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    /// Whether it is made when it is missing, before the programs that are going to be in it.
    make: bool,
    /// Whether another process that carries its programs is asked to let this one take over.
    replace: bool,
    /// Another process has taken over: nothing is attached any more.
    handed_over: bool,
    /// Folders of ours, those further down first.
    made: Vec<PathBuf>,
    /// Identity of the folder that the links are of.
    inode: u64,
    links: Option<Links>,
    /// Those of the programs for datagrams.
    datagrams: Option<Links>,
    wants_datagrams: bool,
    watch: OwnedFd,
}

impl Group {
    /// Looks at the place; nothing is attached yet.
    ///
    /// # Errors
    /// When it is not in a cgroup2 file system, is missing and not to be made, or holds this very process,
    /// whose own connections would come back to it.
    pub(crate) fn new(path: &Path, make: bool, replace: bool) -> io::Result<Self> {
        let made = if make { create(path)? } else { Vec::new() };
        let path = fs::canonicalize(path)?;
        check_kind(&path)?;
        let own = manypath_gate::group::of("self").unwrap_or_default();
        if mount().is_ok_and(|root| root.join(own).starts_with(&path)) || lists_us(&path) {
            let text = format!(
                "{} holds manypath itself, whose own connections would come back to it",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        let parent = path.parent().unwrap_or(&path);
        let watch = watch(parent)?;
        Ok(Self {
            path,
            make,
            replace,
            handed_over: false,
            made,
            inode: 0,
            links: None,
            datagrams: None,
            wants_datagrams: false,
            watch,
        })
    }

    /// Puts the programs to work, if they are not.
    ///
    /// # Errors
    /// As the kernel says; and when somebody else has put the same to work there.
    pub(crate) fn attach(&mut self, programs: &Programs) -> Result<(), NotAttached> {
        if self.handed_over {
            return Ok(());
        }
        if self.make {
            let new = create(&self.path)?;
            self.made.retain(|old| !new.contains(old));
            self.made.splice(0..0, new);
        }
        let folder = match File::open(&self.path) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (self.links, self.datagrams) = (None, None);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let inode = folder.metadata()?.ino();
        if self.links.is_none() || self.inode != inode {
            // The old links, if any, are of a group that is gone.
            (self.links, self.datagrams) = (None, None);
            self.refuse_rivals()?;
            let links = programs.attach(Purpose::Connections, &folder)?;
            // Again: of two that begin at once each could have looked before the other was there.
            self.take_over()?;
            (self.links, self.inode) = (Some(links), inode);
        }
        if self.wants_datagrams && self.datagrams.is_none() {
            self.datagrams = Some(programs.attach(Purpose::Datagrams, &folder)?);
        }
        Ok(())
    }

    /// Whether programs for datagrams are to be at work too: from the next [`attach`](Self::attach) on, or
    /// no more at once.
    pub(crate) fn want_datagrams(&mut self, wanted: bool) {
        self.wants_datagrams = wanted;
        if !wanted {
            self.datagrams = None;
        }
    }

    /// Whether programs are at work on it, as far as is known.
    pub(crate) const fn is_attached(&self) -> bool {
        self.links.is_some()
    }

    /// # Errors
    /// When somebody else carries its programs, whom this process is not to replace, or cannot.
    pub(crate) fn refuse_rivals(&self) -> Result<(), NotAttached> {
        match Rival::of(&self.path) {
            Some(rival) if !(self.replace && rival.yields_to_us(&self.path)) => {
                Err(NotAttached::Rival(rival))
            }
            _ => Ok(()),
        }
    }

    /// Has the process before this one leave everything new to this one, whose programs are at work beside its own.
    fn take_over(&mut self) -> Result<(), NotAttached> {
        self.refuse_rivals()?;
        let Some(rival) = Rival::of(&self.path) else { return Ok(()) };
        if !rival.hand_over() {
            return Err(NotAttached::Rival(rival));
        }
        // It has made the folder for us both.
        if self.make && self.made.is_empty() {
            self.made.push(self.path.clone());
        }
        Ok(())
    }

    /// Takes no connect any more, as another process does.
    pub(crate) fn hand_over(&mut self) {
        self.handed_over = true;
        self.made.clear();
        if let Some(links) = &mut self.links {
            links.drop_connects();
        }
    }

    /// Takes connects once more: the links of before go when the new ones are there, so that names stay known.
    ///
    /// # Errors
    /// As [`attach`](Self::attach); then it is handed over as before.
    pub(crate) fn take_back(&mut self, programs: &Programs) -> Result<(), NotAttached> {
        self.refuse_rivals()?;
        let old = self.links.take();
        self.handed_over = false;
        if let Err(error) = self.attach(programs) {
            (self.links, self.handed_over) = (old, true);
            return Err(error);
        }
        if self.make {
            self.made.push(self.path.clone());
        }
        Ok(())
    }

    /// Forgets what was told of groups that come and go.
    pub(crate) fn drain(&self) -> bool {
        manypath_gate::poll::drain(self.watch.as_fd())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the group, and of those below it.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        self.each(|folder, _| {
            folders.push(folder.to_owned());
            true
        });
        folders
    }

    /// The group as people name it.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Identities of the group and of those below it, as the kernel tells them of sockets.
    pub(crate) fn ids(&self) -> BTreeSet<u64> {
        let mut ids = BTreeSet::new();
        self.each(|_, id| {
            ids.insert(id);
            true
        });
        ids
    }

    /// The folder of the group, or of one below it, with this identity.
    pub(crate) fn folder(&self, wanted: u64) -> Option<PathBuf> {
        let mut found = None;
        self.each(|folder, id| {
            found = (id == wanted).then(|| folder.to_owned());
            found.is_none()
        });
        found
    }

    /// Goes through the group and those below it, for as long as `take` wants to see more.
    fn each(&self, take: impl FnMut(&Path, u64) -> bool) {
        each(&self.path, take);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        (self.links, self.datagrams) = (None, None);
        for folder in &self.made {
            // It stays if somebody is in it.
            let _ = fs::remove_dir(folder);
        }
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// Whether this process is in a cgroup, or in one below it, also where a cgroup namespace hides in which one.
fn lists_us(group: &Path) -> bool {
    let own = std::process::id().to_string();
    let mut found = false;
    each(group, |folder, _| {
        let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        found = processes.lines().any(|pid| pid == own);
        !found
    });
    found
}

/// Goes through a group and those below it, for as long as `take` wants to see more.
fn each(group: &Path, mut take: impl FnMut(&Path, u64) -> bool) {
    let mut folders = vec![group.to_owned()];
    while let Some(folder) = folders.pop() {
        if fs::metadata(&folder).is_ok_and(|meta| !take(&folder, meta.ino())) {
            return;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|one| one.path()));
    }
}

/// Makes a folder; returns those that were missing, those further down first.
fn create(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing = path.ancestors().take_while(|one| !one.exists()).map(Path::to_owned).collect();
    fs::create_dir_all(path)?;
    Ok(missing)
}

fn check_kind(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeroes is a valid statfs, and the kernel fills it.
    let (result, kind) = unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        (libc::statfs(name.as_ptr(), &raw mut about), about.f_type as libc::c_long)
    };
    if result == 0 && kind == CGROUP2 {
        return Ok(());
    }
    let text = format!("{} is not in a cgroup2 file system", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

fn watch(folder: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: plain numbers and a string that outlives the call; then the kernel has just made it.
    unsafe {
        let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let watch = OwnedFd::from_raw_fd(fd);
        let events = libc::IN_CREATE | libc::IN_DELETE;
        if libc::inotify_add_watch(fd, name.as_ptr(), events) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(watch)
    }
}

#[cfg(test)]
mod tests {
    use super::of_unit;
    use std::path::Path;

    #[test]
    fn units_are_where_systemd_puts_them() {
        let path = |unit, slice| of_unit(unit, slice);
        assert_eq!(path("nginx.service", None), Path::new("system.slice/nginx.service"));
        assert_eq!(
            path("getty@tty1.service", None),
            Path::new("system.slice/system-getty.slice/getty@tty1.service")
        );
        assert_eq!(path("docker-1a.scope", None), Path::new("system.slice/docker-1a.scope"));
        assert_eq!(path("libpod-1a.scope", None), Path::new("machine.slice/libpod-1a.scope"));
        assert_eq!(path("a.service", Some("b-c.slice")), Path::new("b.slice/b-c.slice/a.service"));
        assert_eq!(path("user.slice", None), Path::new("user.slice"));
        assert_eq!(path("a-b.slice", None), Path::new("a.slice/a-b.slice"));
    }
}
