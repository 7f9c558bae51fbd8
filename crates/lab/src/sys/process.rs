//! Processes: fork, signals, and finding those that live in a network namespace.

use super::{check, check_size, open};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// What `fork` gives to each of the two.
pub(crate) enum Fork {
    Child,
    Parent(libc::pid_t),
}

/// Forks.
///
/// # Safety
/// When other threads exist, the child must only make system calls (signal-safety(7)): no
/// allocation, no lock, no panic.
pub(crate) unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: the caller promises what is needed.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Ends the calling process without running anything.
pub(crate) fn exit_now(status: libc::c_int) -> ! {
    // SAFETY: _exit() does not return.
    unsafe { libc::_exit(status) }
}

/// Waits until the child `pid` has ended.
pub(crate) fn wait_for(pid: libc::pid_t) {
    // SAFETY: a null status is allowed.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Leaves terminal, process group and standard streams, and blocks every signal that can be.
pub(crate) fn detach() -> io::Result<()> {
    new_session();
    block_all_signals();
    leave_streams()
}

/// Puts /dev/null in the place of the standard streams.
pub(crate) fn leave_streams() -> io::Result<()> {
    let null = open(c"/dev/null", libc::O_RDWR)?;
    for stream in 0..3 {
        // SAFETY: dup2() touches no memory of ours.
        check(unsafe { libc::dup2(null.as_raw_fd(), stream) })?;
    }
    Ok(())
}

/// Starts a session of its own, away from the terminal's signals.
pub(crate) fn new_session() {
    // SAFETY: setsid() touches no memory; it fails only for group leaders, which do not matter.
    unsafe { libc::setsid() };
}

fn block_all_signals() {
    // SAFETY: the set is plain data, filled before it is used.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// The signals by which people end a program.
pub(crate) struct EndSignals(libc::sigset_t);

impl EndSignals {
    /// Blocks SIGINT, SIGTERM and SIGHUP in this thread and in those that it starts from now on.
    /// SIGINT and SIGTERM count even if the parent had them ignored, as shells do for background
    /// commands: a lab must not outlive the script that it belongs to.
    pub(crate) fn block() -> Self {
        // SAFETY: the set is plain data, filled before it is used.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Self(set)
        }
    }

    /// Waits until one of them comes.
    pub(crate) fn wait(&self) {
        let mut signal = 0;
        // SAFETY: set and result live until the call ends.
        unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
    }
}

/// Closes every descriptor above the standard streams but `kept`.
pub(crate) fn close_all_but(kept: BorrowedFd<'_>) {
    let kept = kept.as_raw_fd() as libc::c_uint;
    // SAFETY: the caller's process is a fresh fork that uses none of the others. Kernels without
    // close_range (before 5.9) leave them open, which costs nothing but descriptors.
    unsafe {
        if kept > 3 {
            libc::syscall(libc::SYS_close_range, 3, kept - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, libc::c_uint::MAX, 0);
    }
}

/// Identity of a network namespace: the text of a /proc/PID/ns/net link.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NetworkId([u8; 32]);

fn network_of(proc: &OwnedFd, pid: &[u8]) -> io::Result<NetworkId> {
    let mut path = [0; 32];
    let tail = b"/ns/net\0";
    let (head, rest) = path.split_at_mut(pid.len().min(20));
    head.copy_from_slice(&pid[..head.len()]);
    rest[..tail.len()].copy_from_slice(tail);
    let mut link = [0; 32];
    // SAFETY: the path ends with a zero, the buffer is valid for its length.
    let len = unsafe {
        libc::readlinkat(
            proc.as_raw_fd(),
            path.as_ptr().cast(),
            link.as_mut_ptr().cast(),
            link.len(),
        )
    };
    check_size(len)?;
    Ok(NetworkId(link))
}

/// Sends `signal` to every other process in the caller's network namespace; returns their number.
/// Allocates nothing.
pub(crate) fn signal_network(signal: libc::c_int) -> io::Result<usize> {
    let proc = open(c"/proc", libc::O_RDONLY | libc::O_DIRECTORY)?;
    let own_network = network_of(&proc, b"self")?;
    // SAFETY: getpid() cannot fail.
    let own_pid = unsafe { libc::getpid() };
    let mut found = 0;
    let mut entries = [0u8; 4096];
    loop {
        let len = directory_entries(&proc, &mut entries)?;
        if len == 0 {
            return Ok(found);
        }
        for name in EntryNames(&entries[..len]) {
            let Some(pid) = number(name) else { continue };
            if pid == own_pid || network_of(&proc, name).ok() != Some(own_network) {
                continue;
            }
            // SAFETY: kill() touches no memory of ours.
            unsafe { libc::kill(pid, signal) };
            found += 1;
        }
    }
}

fn directory_entries(directory: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let len = unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            directory.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
    check_size(len as isize)
}

/// Names in the records of getdents64(2).
struct EntryNames<'a>(&'a [u8]);

impl<'a> Iterator for EntryNames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // struct linux_dirent64: ino 8, off 8, reclen 2, type 1, then the name.
        let length = usize::from(u16::from_ne_bytes([*self.0.get(16)?, *self.0.get(17)?]));
        let (entry, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(CStr::from_bytes_until_nul(entry.get(19..)?).ok()?.to_bytes())
    }
}

fn number(digits: &[u8]) -> Option<libc::pid_t> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Sleeps without regard to signals.
pub(crate) fn pause(millis: i32) {
    // SAFETY: no descriptors are passed.
    unsafe { libc::poll(std::ptr::null_mut(), 0, millis) };
}

/// Removes the file `path` if it is still the one with this device and inode number.
pub(crate) fn unlink_same(path: &CStr, device: u64, inode: u64) {
    // SAFETY: the path is a valid C string; stat is plain data that the call fills.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::lstat(path.as_ptr(), &raw mut stat) == 0
            && (stat.st_dev, stat.st_ino) == (device, inode)
        {
            libc::unlink(path.as_ptr());
        }
    }
}
