//! Where a kept file lies: its directory, opened so that no other user can lead a reader or writer elsewhere.
//!
//! A process of root keeps files, and so do services that are not root. Whoever may write to a directory on
//! the way could put a link there that makes root replace any file of the host. So a path is opened
//! component by component, no link is followed but those of root and of the caller, and a file is written
//! only in a directory where nobody else can exchange it. All calls after that are relative to the opened
//! directory: exchanging parts of the path later changes nothing.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A larger file was not written by people.
const MAX_SIZE: u64 = 1 << 20;
/// As many symbolic links as the kernel follows in one path (path_resolution(7)).
const MAX_LINKS: u32 = 40;
/// The pause between two looks at a lock.
const LOCK_STEP: Duration = Duration::from_millis(2);

/// A name in an opened directory.
#[derive(Debug)]
pub(crate) struct Location {
    folder: OwnedFd,
    name: OsString,
    /// It stands for an open file of the process, as `/dev/stdin` and what shells write for `<(...)` do.
    is_open_file: bool,
}

impl Location {
    /// The place of a file that is there.
    ///
    /// # Errors
    /// When a directory is missing; when a symbolic link belongs to neither root nor the caller.
    pub(crate) fn for_reading(path: &Path) -> io::Result<Self> {
        Walk::new(path, false)?.finish()
    }

    /// The place of a file that is to be written. Makes missing directories.
    ///
    /// # Errors
    /// As [`Location::for_reading`]; when somebody else may exchange files in its directory.
    pub(crate) fn for_writing(path: &Path) -> io::Result<Self> {
        let location = Walk::new(path, true)?.finish()?;
        check_folder(&rustix::fs::fstat(&location.folder)?)?;
        Ok(location)
    }

    /// Opens the file.
    ///
    /// # Errors
    /// When it cannot be opened, or is no regular file.
    pub(crate) fn open_to_read(&self) -> io::Result<File> {
        if self.is_open_file {
            let (name, how) = (&self.name, OFlags::CLOEXEC);
            return Ok(rustix::fs::openat(&self.folder, name, how, Mode::empty())?.into());
        }
        // Opening a FIFO would wait for a writer.
        let file = self.open(&self.name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
        let kind = FileType::from_raw_mode(file.metadata()?.mode());
        // Such as /dev/null.
        let is_device = kind == FileType::CharacterDevice;
        if is_device || kind == FileType::RegularFile { Ok(file) } else { Err(not_a_file()) }
    }

    /// Opens the file to write at its end. One that is not there is made with this mode.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn open_to_append(&self, mode: u32) -> io::Result<File> {
        let how = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY;
        if self.is_open_file {
            let how = how | OFlags::CLOEXEC | OFlags::NOCTTY;
            return Ok(rustix::fs::openat(&self.folder, &self.name, how, Mode::empty())?.into());
        }
        self.open(&self.name, how, Mode::from_raw_mode(mode))
    }

    /// Keeps other writers out until the result is dropped.
    ///
    /// # Errors
    /// When the lock file belongs to somebody else, who could keep us out for ever.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let file = self.lock_file()?;
        file.lock()?;
        Ok(file)
    }

    /// As [`Location::lock`], but waits for another writer no longer than `most`, who may be suspended.
    ///
    /// # Errors
    /// As [`Location::lock`]; `WouldBlock` when another writer holds the lock.
    pub(crate) fn lock_within(&self, most: Duration) -> io::Result<File> {
        let (file, until) = (self.lock_file()?, Instant::now() + most);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_STEP),
                Err(TryLockError::WouldBlock) => {
                    let text = "another process holds its lock";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
                }
            }
        }
    }

    fn lock_file(&self) -> io::Result<File> {
        let owner = Mode::RUSR | Mode::WUSR;
        let file = self.open(&self.beside("lock"), OFlags::CREATE | OFlags::RDWR, owner)?;
        let about = file.metadata()?;
        if !is_trusted(about.uid()) {
            return Err(foreign("the lock file", about.uid(), "it is not waited for"));
        }
        if about.uid() == geteuid().as_raw() && about.mode() & 0o077 != 0 {
            // Whoever may open it may hold it.
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }

    /// Replaces the file, which a reader finds as it was or as it is now. Its mode stays.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn replace(&self, text: &str, synced: bool) -> io::Result<()> {
        self.replace_with_mode(text, synced, 0o644)
    }

    /// As [`Location::replace`], with the mode that a file gets which is not there yet.
    pub(crate) fn replace_with_mode(&self, text: &str, synced: bool, mode: u32) -> io::Result<()> {
        let old = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let mode = match old {
            Ok(old) if FileType::from_raw_mode(old.st_mode) != FileType::RegularFile => {
                return Err(not_a_file());
            }
            Ok(old) => old.st_mode & 0o777,
            Err(_) => mode,
        };
        let new = self.beside("new");
        match rustix::fs::unlinkat(&self.folder, &new, AtFlags::empty()) {
            // Left by a writer that was killed.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let mut file = self.open(&new, how, Mode::from_raw_mode(mode))?;
        file.write_all(text.as_bytes())?;
        if synced {
            file.sync_all()?;
        }
        Ok(rustix::fs::renameat(&self.folder, &new, &self.folder, &self.name)?)
    }

    fn open(&self, name: &OsStr, how: OFlags, mode: Mode) -> io::Result<File> {
        let how = how | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::openat(&self.folder, name, how, mode) {
            Ok(file) => Ok(file.into()),
            Err(Errno::LOOP) => {
                let text = format!("{} is a symbolic link, which is not followed", name.display());
                Err(io::Error::other(text))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn beside(&self, suffix: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(".");
        name.push(suffix);
        name
    }
}

/// A path on the way to its end.
struct Walk {
    folder: OwnedFd,
    /// Components that are still to come, the next one last.
    left: Vec<OsString>,
    links: u32,
    /// Whether missing directories are made.
    make: bool,
}

/// What a component is.
enum Step {
    Folder(OwnedFd),
    /// A symbolic link that may be followed.
    Link(PathBuf),
    /// A link to an open file of a process.
    OpenFile,
    /// Anything else, or nothing at the end of the path.
    File,
}

impl Walk {
    fn new(path: &Path, make: bool) -> io::Result<Self> {
        let begin = if path.is_absolute() { "/" } else { "." };
        let mut walk = Self { folder: open_folder(begin)?, left: Vec::new(), links: 0, make };
        walk.go_to(path)?;
        Ok(walk)
    }

    /// Puts a path before what is left.
    fn go_to(&mut self, path: &Path) -> io::Result<()> {
        for component in path.components().rev() {
            match component {
                Component::RootDir => self.folder = open_folder("/")?,
                Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir => self.left.push("..".into()),
                Component::Normal(name) => self.left.push(name.to_owned()),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<Location> {
        let nothing = || io::Error::from(io::ErrorKind::NotFound);
        loop {
            let name = self.left.pop().ok_or_else(nothing)?;
            match self.step(&name)? {
                Step::Link(target) => self.go_to(&target)?,
                Step::Folder(folder) if !self.left.is_empty() => self.folder = folder,
                Step::Folder(_) | Step::File => return Ok(self.found(name, false)),
                Step::OpenFile => return Ok(self.found(name, true)),
            }
        }
    }

    fn found(self, name: OsString, is_open_file: bool) -> Location {
        Location { folder: self.folder, name, is_open_file }
    }

    fn step(&mut self, name: &OsStr) -> io::Result<Step> {
        let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = match rustix::fs::openat(&self.folder, name, how, Mode::empty()) {
            Err(Errno::NOENT) if self.left.is_empty() => return Ok(Step::File),
            Err(Errno::NOENT) if self.make => {
                match rustix::fs::mkdirat(&self.folder, name, Mode::from_raw_mode(0o777)) {
                    // Somebody else may have been faster.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                rustix::fs::openat(&self.folder, name, how, Mode::empty())?
            }
            other => other?,
        };
        let about = rustix::fs::fstat(&entry)?;
        let (kind, last) = (FileType::from_raw_mode(about.st_mode), self.left.is_empty());
        if kind == FileType::Directory {
            Ok(Step::Folder(entry))
        } else if kind == FileType::Symlink && last && self.is_in_proc()? {
            Ok(Step::OpenFile)
        } else if kind == FileType::Symlink {
            self.follow(&entry, name, about.st_uid).map(Step::Link)
        } else if last {
            Ok(Step::File)
        } else {
            Err(Errno::NOTDIR.into())
        }
    }

    /// Links there lead to what processes have open, whatever their text says.
    fn is_in_proc(&self) -> io::Result<bool> {
        Ok(rustix::fs::fstatfs(&self.folder)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
    }

    fn follow(&mut self, link: &OwnedFd, name: &OsStr, owner: u32) -> io::Result<PathBuf> {
        if !is_trusted(owner) {
            let what = format!("the symbolic link {}", name.display());
            return Err(foreign(&what, owner, "it is not followed"));
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }
}

/// Whether nobody but root and the caller can have written or read a file.
pub(crate) fn check_secret(file: &File) -> io::Result<()> {
    let about = file.metadata()?;
    if !is_trusted(about.uid()) {
        return Err(foreign("the file", about.uid(), "a secret that others know is not used"));
    }
    if about.mode() & 0o077 != 0 {
        let text = "others may open this secret: `chmod 600` it if nobody has, else remove it";
        return Err(io::Error::other(text));
    }
    Ok(())
}

pub(crate) fn read_all(file: File) -> io::Result<String> {
    String::from_utf8(read_bytes(file)?).map_err(|_| io::Error::other("not a text in UTF-8"))
}

pub(crate) fn read_bytes(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = file.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    match size as u64 > MAX_SIZE {
        true => Err(io::Error::other("larger than 1 MiB: people did not write this")),
        false => Ok(bytes),
    }
}

fn not_a_file() -> io::Error {
    io::Error::other("not a regular file")
}

fn open_folder(path: &str) -> io::Result<OwnedFd> {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, how, Mode::empty())?)
}

/// Whether nobody but root and the caller can exchange files in a directory. Its group may write there if it is
/// the caller's: many systems give each user a group of their own.
fn check_folder(about: &Stat) -> io::Result<()> {
    let mode = Mode::from_raw_mode(about.st_mode);
    let own_group = about.st_gid == getegid().as_raw();
    let shared = mode.contains(Mode::WOTH) || mode.contains(Mode::WGRP) && !own_group;
    if !is_trusted(about.st_uid) {
        return Err(foreign("the directory", about.st_uid, "nothing is written there"));
    }
    if shared && !mode.contains(Mode::SVTX) {
        return Err(io::Error::other("others may write to the directory: `chmod go-w` it"));
    }
    Ok(())
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

fn foreign(what: &str, owner: u32, so: &str) -> io::Error {
    io::Error::other(format!("{what} belongs to another user (uid {owner}): {so}"))
}

#[cfg(test)]
mod tests;
