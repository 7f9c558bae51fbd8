//! The stack's door: a listening control socket in the file system.

use crate::socket::{ControlSocket, new_socket, unix_address};
use rustix::net::{self, SocketFlags};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A listening control socket. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct ControlListener {
    fd: OwnedFd,
    path: PathBuf,
}

impl ControlListener {
    /// Listens at `path` with the file mode `mode`; a stale file there is replaced.
    ///
    /// # Errors
    /// `AddrInUse` when a living stack listens there; others as the file system says.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        Self::clear(path)?;
        let fd = new_socket()?;
        // It has its name once it listens: until then others would take it for that of a dead stack.
        let draft = Self { fd, path: draft_of(path) };
        draft.hide();
        net::bind(&draft, &unix_address(&draft.path)?)?;
        fs::set_permissions(&draft.path, fs::Permissions::from_mode(mode))?;
        net::listen(&draft, 64)?;
        match fs::hard_link(&draft.path, path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                Err(io::ErrorKind::AddrInUse.into())
            }
            linked => linked.map(|()| draft.renamed(path)),
        }
    }

    /// The same socket, found at `path` alone.
    fn renamed(mut self, path: &Path) -> Self {
        self.hide();
        path.clone_into(&mut self.path);
        self
    }

    /// Removes a file at which nobody listens, if there is one.
    ///
    /// # Errors
    /// `AddrInUse` when a living stack listens there; others as the file system says.
    pub fn clear(path: &Path) -> io::Result<()> {
        match ControlSocket::connect(path) {
            Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => match fs::remove_file(path) {
                // Somebody else has cleared it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            },
            Err(e) => Err(e),
        }
    }

    /// A copy of the socket for another process, and the file stays with it.
    ///
    /// # Errors
    /// No descriptor is left; the file is removed.
    pub fn give_away(mut self) -> io::Result<OwnedFd> {
        let copy = self.fd.try_clone()?;
        // Nothing to remove when this end is dropped.
        self.path.clear();
        Ok(copy)
    }

    /// Takes over a socket that another process has bound to `path` for this one.
    #[must_use]
    pub fn adopt(fd: OwnedFd, path: &Path) -> Self {
        Self { fd, path: path.to_owned() }
    }

    /// Takes the next caller. The new socket is blocking.
    ///
    /// # Errors
    /// `WouldBlock` when non-blocking and nobody waits.
    pub fn accept(&self) -> io::Result<ControlSocket> {
        ControlSocket::adopt(net::accept_with(self, SocketFlags::CLOEXEC)?)
    }

    /// Makes [`ControlListener::accept`] return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// Never for a valid descriptor.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self, on)?)
    }

    /// Removes its file: nobody new finds it. Who has found it before is still accepted.
    pub fn hide(&self) {
        // Another process may have cleaned up before us.
        let _ = fs::remove_file(&self.path);
    }

    /// Whether its file is there.
    #[must_use]
    pub fn is_found(&self) -> bool {
        !fs::symlink_metadata(&self.path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A name beside `path` that nobody looks for, of this process and moment alone.
fn draft_of(path: &Path) -> PathBuf {
    static LAST: AtomicU32 = AtomicU32::new(0);
    path.with_file_name(format!(".{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed)))
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        self.hide();
    }
}

impl AsFd for ControlListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for ControlListener {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
