//! Sockets in the child of a fork: its parent has them, and does what the child asks for.

use crate::descriptor::set_owned;
use crate::line::{read_answer, write_request};
use crate::request::{Request, split_size};
use crate::system;
use manypath_sockets::{Errno, SocketId};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static INHERITED: AtomicPtr<Inherited> = AtomicPtr::new(std::ptr::null_mut());

/// The sockets that this process has from its parent.
#[derive(Debug)]
pub(crate) struct Inherited {
    line: Mutex<UnixStream>,
    /// Its descriptor, and what the kernel calls it: programs that close all descriptors close it, too, and it may be another
    /// file's then.
    fd: RawFd,
    inode: Option<u64>,
    sockets: Mutex<BTreeMap<RawFd, SocketId>>,
}

/// In the child of a fork: these sockets are asked for over `line`.
pub(crate) fn begin(line: UnixStream, sockets: BTreeMap<RawFd, SocketId>) {
    let fd = line.as_raw_fd();
    let (inode, sockets) = (system::inode(fd), Mutex::new(sockets));
    let new = Box::new(Inherited { line: Mutex::new(line), fd, inode, sockets });
    INHERITED.store(Box::into_raw(new), Ordering::Release);
}

/// In the child of a fork: the line of its parent is the parent's alone.
pub(crate) fn end() {
    let old = INHERITED.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: it is null, or was made by `begin` and is never freed.
    if let Some(old) = unsafe { old.as_ref() } {
        // Other threads of the parent may have had the locks.
        if old.is_open() {
            let _gone = system::close(old.fd);
        }
    }
}

/// The inherited socket that a descriptor stands for.
pub(crate) fn of(fd: RawFd) -> Option<(&'static Inherited, SocketId)> {
    // SAFETY: it is null, or was made by `begin` and is never freed.
    let all = unsafe { INHERITED.load(Ordering::Acquire).as_ref() }?;
    let id = all.sockets().get(&fd).copied()?;
    Some((all, id))
}

/// This process is about to fork: its child is to ask over the other end of `line`. What it can ask for; none if there is
/// nothing.
pub(crate) fn fork(line: &UnixStream) -> Option<BTreeMap<RawFd, SocketId>> {
    // SAFETY: it is null, or was made by `begin` and is never freed.
    let all = unsafe { INHERITED.load(Ordering::Acquire).as_ref() }?;
    let sockets = all.sockets().clone();
    if sockets.is_empty() || !all.is_open() {
        return None;
    }
    let mut own = all.line.lock().unwrap_or_else(PoisonError::into_inner);
    write_request(&mut own, SocketId(0), &Request::Fork).ok()?;
    system::send_descriptor(own.as_raw_fd(), line.as_raw_fd()).ok()?;
    read_answer(&mut own).ok()?.ok()?;
    Some(sockets)
}

impl Inherited {
    fn sockets(&self) -> MutexGuard<'_, BTreeMap<RawFd, SocketId>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open(&self) -> bool {
        self.inode.is_some() && system::inode(self.fd) == self.inode
    }

    /// Lets the parent do it.
    ///
    /// # Errors
    /// What it fails with there; `ECONNRESET` if the parent has ended.
    pub(crate) fn ask(&self, id: SocketId, request: &Request) -> Result<Vec<u8>, Errno> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask_over(&mut line, id, request)
    }

    fn ask_over(
        &self,
        line: &mut UnixStream,
        id: SocketId,
        request: &Request,
    ) -> Result<Vec<u8>, Errno> {
        if !self.is_open() {
            return Err(Errno::BADF);
        }
        let answer = write_request(line, id, request).and_then(|()| read_answer(line));
        answer.unwrap_or(Err(Errno::CONNECTION_RESET))
    }

    /// The next association of a listening socket: a descriptor, and the address of its peer as it stands in memory.
    ///
    /// # Errors
    /// As with [`ask`](Self::ask).
    pub(crate) fn accept(&self, id: SocketId, flags: i32) -> Result<(RawFd, Vec<u8>), Errno> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.ask_over(&mut line, id, &Request::Accept(flags))?;
        let fd = system::receive_descriptor(line.as_raw_fd())?.into_raw_fd();
        drop(line);
        let (new, peer) = split_size(&answer).ok_or(Errno::BADF)?;
        if flags & libc::SOCK_CLOEXEC == 0 {
            system::control(fd, libc::F_SETFD, 0)?;
        }
        self.duplicate(fd, SocketId(new as u64)).map(|fd| (fd, peer.to_vec()))
    }

    /// A descriptor is closed. If it was the last one of its socket here, the parent is told.
    pub(crate) fn close(&self, fd: RawFd, id: SocketId) {
        let mut sockets = self.sockets();
        sockets.remove(&fd);
        let last = !sockets.values().any(|other| *other == id);
        drop(sockets);
        if last {
            let _told = self.ask(id, &Request::Close);
        }
    }

    /// A duplicate stands for the same socket.
    pub(crate) fn duplicate(&self, new: RawFd, id: SocketId) -> Result<RawFd, Errno> {
        set_owned(new, true)?;
        self.sockets().insert(new, id);
        Ok(new)
    }
}
