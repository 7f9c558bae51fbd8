//! Descriptors of the kernel that stand for SCTP sockets.
//!
//! Each is one end of a pair of connected sockets. It is readable while a byte from the other end lies in
//! it, and not writable while it has filled the other end's buffer; so every way to wait for descriptors
//! works, also in threads and libraries that know nothing of SCTP.

use crate::system;
use manypath_sockets::{Errno, Readiness};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Descriptors with a larger number cannot stand for SCTP sockets.
const MOST: usize = 1 << 16;
/// Bytes that lie in a readable descriptor at most. Each is an edge for those who wait for edges.
const MOST_EDGES: u8 = 8;

/// Which descriptors are ours. It is asked for each call of a program under preload, so without a lock.
static OWNED: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];
/// This process was forked from one that had sockets, and has not been told what that means.
static FORKED: AtomicBool = AtomicBool::new(false);

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((OWNED.get(fd / 64)?, 1 << (fd % 64)))
}

/// Whether a descriptor stands for an SCTP socket of this process.
pub fn owns(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
}

pub(crate) fn set_owned(fd: RawFd, owned: bool) -> Result<(), Errno> {
    let (word, bit) = place(fd).ok_or(Errno(libc::EMFILE))?;
    if owned {
        word.fetch_or(bit, Ordering::AcqRel);
    } else {
        word.fetch_and(!bit, Ordering::AcqRel);
    }
    Ok(())
}

/// This process is the child of a fork.
pub(crate) fn note_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

/// The error for a descriptor that is none of this process's stack: that of Linux. Where it may be one of the parent's,
/// that is said once.
pub(crate) fn stranger(fd: RawFd) -> Errno {
    if FORKED.swap(false, Ordering::Relaxed) {
        eprintln!(
            "manypath: a child of a fork can use SCTP sockets of its parent, but not bind, connect or peel off with them"
        );
    }
    match system::domain(fd) {
        // Our descriptors are such sockets.
        Ok(libc::AF_UNIX) => Errno::BADF,
        Ok(_) => Errno::NOT_SUPPORTED,
        Err(error) => error,
    }
}

/// The descriptors of one SCTP socket, and what they show.
#[derive(Debug)]
pub(crate) struct Signal {
    /// What the program has: the first one and its duplicates.
    pub(crate) fds: Vec<RawFd>,
    /// One of our own, where only children of a fork have others.
    kept: Option<RawFd>,
    far: RawFd,
    /// Bytes that make it readable.
    edges: u8,
    filled: bool,
}

impl Signal {
    /// A new descriptor, neither readable nor writable.
    pub(crate) fn new(flags: i32) -> Result<Self, Errno> {
        let (fd, far) = system::pair(flags)?;
        // The least there is: what fills it is written each time that it is to be full.
        let _smallest = system::set_option(fd, libc::SO_SNDBUF, &1i32.to_ne_bytes());
        if let Err(error) = set_owned(fd, true) {
            let _gone = (system::close(fd), system::close(far));
            return Err(error);
        }
        let mut new = Self { fds: vec![fd], kept: None, far, edges: 0, filled: false };
        new.fill();
        Ok(new)
    }

    pub(crate) fn first(&self) -> RawFd {
        self.fds.first().copied().or(self.kept).unwrap_or(-1)
    }

    /// Those that the program does not have.
    pub(crate) fn own(&self) -> impl Iterator<Item = RawFd> {
        self.kept.into_iter().chain([self.far])
    }

    /// Its descriptor is passed on to a child: here nobody knows of it.
    pub(crate) fn give_away(&mut self) {
        self.kept = self.fds.pop();
        let kept = self.kept.map(|fd| system::control(fd, libc::F_SETFD, libc::FD_CLOEXEC));
        debug_assert!(kept.is_some_and(|kept| kept.is_ok()), "it was just made");
    }

    /// The program closes its last descriptor `fd`, and children have theirs.
    pub(crate) fn keep(&mut self, fd: RawFd) {
        self.kept = system::control(fd, libc::F_DUPFD_CLOEXEC, 0).ok();
    }

    /// Shows what the SCTP socket is ready for. `news` makes a readable one readable anew.
    pub(crate) fn show(&mut self, readiness: Readiness, news: bool) {
        let edge = self.edges == 0 || news && self.edges < MOST_EDGES;
        if readiness.readable && edge && system::send_byte(self.far) {
            self.edges += 1;
        } else if !readiness.readable && self.edges > 0 {
            system::drain(self.first());
            self.edges = 0;
        }
        if readiness.writable && self.filled {
            system::drain(self.far);
            self.filled = false;
        } else if !readiness.writable && !self.filled {
            self.fill();
        }
    }

    fn fill(&mut self) {
        while system::send_byte(self.first()) {}
        self.filled = true;
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        let _gone = (system::close(self.far), self.kept.map(system::close));
    }
}
