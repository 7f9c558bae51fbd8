//! Sockets that belong to others: the kernel notes cgroup, user and group of a socket when it is made.

use manypath_control::ControlSocket;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a process in another cgroup may take. It is much less than a millisecond, unless the cgroup is frozen
/// or has no processor time left.
const LIMIT: Duration = Duration::from_millis(200);

/// Whom a socket belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    user: u32,
    group: u32,
    /// The folder of the cgroup, and its inode; none: that of this process.
    cgroup: Option<(PathBuf, u64)>,
}

impl Identity {
    /// A user and a group, in the cgroup of this process.
    #[must_use]
    pub const fn new(user: u32, group: u32) -> Self {
        Self { user, group, cgroup: None }
    }

    /// This process.
    #[must_use]
    pub fn own() -> Self {
        // SAFETY: takes nothing.
        unsafe { Self::new(libc::geteuid(), libc::getegid()) }
    }

    /// The user.
    pub(crate) const fn user(&self) -> u32 {
        self.user
    }

    /// The same in another cgroup: another one in the same place has another inode.
    #[must_use]
    pub fn in_group(self, folder: PathBuf, inode: u64) -> Self {
        Self { cgroup: Some((folder, inode)), ..self }
    }

    /// Makes a socket that neither blocks nor is inherited.
    ///
    /// # Errors
    /// As the kernel says; `WouldBlock` when the process that is to make it does not come to that.
    pub fn socket(&self, family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
        if *self == Self::own() {
            return open(family, kind, protocol);
        }
        let door = self.door()?;
        let (ours, theirs) = ControlSocket::pair()?;
        ours.set_receive_timeout(Some(LIMIT))?;
        // SAFETY: the child neither allocates nor locks, and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            leave_all_but(theirs.as_fd().as_raw_fd());
            let made = self.become_and_open(door.as_deref(), family, kind, protocol);
            let errno = made.as_ref().err().and_then(io::Error::raw_os_error).unwrap_or(0);
            let _ = theirs
                .send_bytes(&errno.to_ne_bytes(), made.as_ref().ok().map(|made| made.as_fd()));
            // SAFETY: takes a number; no destructor of the parent's is to run here.
            unsafe { libc::_exit(0) };
        }
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        drop(theirs);
        let mut errno = [0; 4];
        let received = ours.receive_bytes(&mut errno);
        end(child);
        match received? {
            (4, Some(socket)) => Ok(socket),
            (4, None) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }

    /// The file by which a process enters the cgroup.
    fn door(&self) -> io::Result<Option<CString>> {
        let name = |(folder, _): &(PathBuf, u64)| {
            CString::new(folder.join("cgroup.procs").as_os_str().as_bytes())
        };
        Ok(self.cgroup.as_ref().map(name).transpose()?)
    }

    /// In the child. The cgroup first: a user's rights do not suffice to enter it.
    fn become_and_open(
        &self,
        door: Option<&CStr>,
        family: i32,
        kind: i32,
        protocol: i32,
    ) -> io::Result<OwnedFd> {
        door.map_or(Ok(()), enter)?;
        // SAFETY: plain numbers. What cannot be had is told by the second call alone.
        let is_taken = unsafe {
            libc::setfsgid(self.group);
            libc::setfsuid(self.user);
            libc::setfsgid(u32::MAX) == self.group.cast_signed()
                && libc::setfsuid(u32::MAX) == self.user.cast_signed()
        };
        if !is_taken {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        open(family, kind, protocol)
    }
}

fn open(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain numbers.
    own(unsafe { libc::socket(family, kind, protocol) })
}

fn enter(door: &CStr) -> io::Result<()> {
    // SAFETY: the string ends and outlives the call.
    let file = own(unsafe { libc::open(door.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) })?;
    let itself = b"0";
    // SAFETY: the buffer is valid for its length.
    let written = unsafe { libc::write(file.as_raw_fd(), itself.as_ptr().cast(), itself.len()) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn own(result: RawFd) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// In the child, which may be frozen before it ends: it lives no longer than its parent, and holds nothing that the
/// parent closes.
fn leave_all_but(kept: RawFd) {
    const FIRST: libc::c_uint = 3;
    let kept = kept.cast_unsigned();
    // SAFETY: plain numbers; the child uses no other descriptor.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::syscall(libc::SYS_close_range, FIRST, kept - 1, 0);
        libc::syscall(libc::SYS_close_range, kept + 1, libc::c_uint::MAX, 0);
    }
}

/// Children that had no time even to end.
static LATE: Mutex<Vec<libc::pid_t>> = Mutex::new(Vec::new());

/// Ends the child and waits for it a while; those that ended late are waited for with the next one.
fn end(child: libc::pid_t) {
    const TURNS: u32 = 20;
    // SAFETY: plain numbers, of a child of ours that nobody else waits for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
    late.push(child);
    for _ in 0..TURNS {
        // SAFETY: as above; no status is asked for.
        late.retain(|&child| unsafe {
            libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) == 0
        });
        if !late.contains(&child) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
