//! The way into a host.

use crate::error::LabError;
use crate::sys::{check, namespace};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// A host's namespaces. They live as long as this or a process in them.
#[derive(Clone, Debug)]
pub(crate) struct Namespaces {
    /// In the order in which they are entered; the user namespace, if there is one, is first.
    fds: Arc<[OwnedFd]>,
    with_user: bool,
}

/// Kinds of the descriptors, without the user namespace.
const KINDS: [libc::c_int; 3] = [libc::CLONE_NEWNS, libc::CLONE_NEWUTS, libc::CLONE_NEWNET];

impl Namespaces {
    /// From the descriptors that an anchor or a holder has sent.
    pub(crate) fn from_fds(fds: Vec<OwnedFd>, with_user: bool) -> Result<Self, LabError> {
        if fds.len() != KINDS.len() + usize::from(with_user) {
            return Err(LabError::Refused("the host's namespaces did not arrive".into()));
        }
        Ok(Self { fds: fds.into(), with_user })
    }

    /// Number of descriptors that describe one host.
    pub(crate) fn fd_count(with_user: bool) -> usize {
        KINDS.len() + usize::from(with_user)
    }

    pub(crate) fn with_user(&self) -> bool {
        self.with_user
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.fds.iter().map(AsFd::as_fd)
    }

    /// A command that runs `program` on the host, in the caller's working directory.
    pub(crate) fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        let namespaces = self.clone();
        // SAFETY: `enter` only makes system calls, which is what may be done between fork and exec.
        unsafe { command.pre_exec(move || namespaces.enter()) };
        command
    }

    /// Moves the calling process onto the host.
    fn enter(&self) -> io::Result<()> {
        let mut directory = [0; libc::PATH_MAX as usize];
        // SAFETY: the buffer is valid for its length.
        let known = !unsafe { libc::getcwd(directory.as_mut_ptr(), directory.len()) }.is_null();
        let user = self.with_user.then_some(libc::CLONE_NEWUSER);
        for (fd, kind) in self.fds.iter().zip(user.into_iter().chain(KINDS)) {
            namespace::enter(fd.as_fd(), kind)?;
        }
        // Entering a mount namespace leads to its root directory.
        if known {
            // SAFETY: getcwd has written a C string.
            check(unsafe { libc::chdir(directory.as_ptr()) })?;
        }
        if self.with_user { namespace::keep_capabilities() } else { Ok(()) }
    }
}
