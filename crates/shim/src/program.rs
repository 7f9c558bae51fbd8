//! Reaching into the program: its descriptors. Its memory is the business of [`crate::memory`].
//!
//! All of it is addressed by thread number, which may be reused once the thread has died: a caller
//! holds the result against [`crate::seccomp::Listener::is_waiting`] before it acts.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::str::FromStr;

/// `PIDFD_THREAD`: the descriptor means one thread, not its process (Linux 6.9).
const PIDFD_THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;

/// The thread whose descriptor was copied last: one thread makes most calls of a program.
///
/// It is kept only as a descriptor of that very thread, which stands for no other one when its number is given again.
#[derive(Debug, Default)]
pub(crate) struct LastThread {
    last: RefCell<Option<(libc::pid_t, OwnedFd)>>,
    /// The kernel does not tell of threads.
    tells_nothing: Cell<bool>,
}

/// Whose a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct About {
    /// Its effective user.
    pub(crate) user: u32,
    /// The group with which it makes files and sockets.
    pub(crate) group: u32,
    /// The number of its cgroup (version 2).
    pub(crate) cgroup: u64,
}

impl LastThread {
    /// Whose a thread is, by one system call. None where it has gone, and before Linux 6.13.
    pub(crate) fn about(&self, thread: libc::pid_t) -> Option<About> {
        if self.tells_nothing.get() {
            return None;
        }
        let mut last = self.last.borrow_mut();
        if let Some((_, process)) = last.as_ref().filter(|(known, _)| *known == thread)
            && let Ok(about) = about(process)
        {
            return Some(about);
        }
        let process = pidfd_open(thread, PIDFD_THREAD);
        let answer = process.and_then(|process| about(&last.insert((thread, process)).1));
        let unknown = [Some(libc::ENOTTY), Some(libc::EINVAL)];
        let is_unknown = |error: &io::Error| thread > 0 && unknown.contains(&error.raw_os_error());
        self.tells_nothing.set(answer.as_ref().is_err_and(is_unknown));
        answer.ok()
    }

    /// A copy of the descriptor `fd` of the thread; it shares the open file with the program.
    ///
    /// # Errors
    /// `EBADF` when the program has no such descriptor, `EPERM` when the program is out of reach
    /// (another user's, or not dumpable), `ESRCH` when it has gone.
    pub(crate) fn descriptor(&self, thread: libc::pid_t, fd: RawFd) -> io::Result<OwnedFd> {
        let mut last = self.last.borrow_mut();
        if let Some((_, process)) = last.as_ref().filter(|(known, _)| *known == thread) {
            match copy(process, fd) {
                // It has died: another thread may have its number.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                copied => return copied,
            }
        }
        match pidfd_open(thread, PIDFD_THREAD) {
            // An older kernel: threads of one process share their descriptors, with rare exceptions.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                copy(&pidfd_open(process_of(thread)?, 0)?, fd)
            }
            process => copy(&last.insert((thread, process?)).1, fd),
        }
    }
}

/// # Errors
/// `ESRCH` when the thread has gone; `ENOTTY` or `EINVAL` when the kernel does not tell.
fn about(thread: &OwnedFd) -> io::Result<About> {
    let wanted = u64::from(libc::PIDFD_INFO_CREDS | libc::PIDFD_INFO_CGROUPID);
    // SAFETY: all zeroes is a valid request.
    let mut info: libc::pidfd_info = unsafe { mem::zeroed() };
    info.mask = wanted;
    // SAFETY: the kernel reads and fills one record of the size that the request names.
    let result = unsafe { libc::ioctl(thread.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    if info.mask & wanted != wanted {
        return Err(io::Error::from_raw_os_error(libc::ENOTTY));
    }
    Ok(About { user: info.euid, group: info.fsgid, cgroup: info.cgroupid })
}

fn copy(process: &OwnedFd, fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// Whether a thread has this socket under the number; it is looked at, not copied.
pub(crate) fn has(thread: libc::pid_t, fd: RawFd, socket: &OwnedFd) -> bool {
    let own = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd()));
    let its = fs::read_link(format!("/proc/{thread}/fd/{fd}"));
    own.is_ok_and(|own| its.is_ok_and(|its| its == own))
}

fn pidfd_open(thread: libc::pid_t, flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    own(unsafe { libc::syscall(libc::SYS_pidfd_open, thread, flags) })
}

/// The process that a thread belongs to.
///
/// # Errors
/// When it has gone.
pub(crate) fn process_of(thread: libc::pid_t) -> io::Result<libc::pid_t> {
    last_of(thread, "Tgid:")
}

/// The group with which a thread makes files and sockets, on every kernel.
///
/// # Errors
/// When it has gone.
pub(crate) fn gid_of(thread: libc::pid_t) -> io::Result<u32> {
    last_of(thread, "Gid:")
}

/// The last word of a line of what /proc says of a thread.
fn last_of<T: FromStr>(thread: libc::pid_t, name: &str) -> io::Result<T> {
    let status = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|text| text.split_whitespace().last()?.parse().ok())
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// Whether a thread can get no further descriptor, as far as /proc says.
pub(crate) fn is_at_descriptor_limit(thread: libc::pid_t) -> bool {
    let limits = fs::read_to_string(format!("/proc/{thread}/limits")).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    // Without a number there is no limit.
    let limit = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    let Some(limit) = limit else { return false };
    let open = fs::read_dir(format!("/proc/{thread}/fd")).into_iter().flatten().flatten();
    // A limit that was lowered leaves descriptors above it.
    let below = |name: &str| name.parse::<usize>().is_ok_and(|number| number < limit);
    open.filter(|entry| entry.file_name().to_str().is_some_and(below)).count() >= limit
}

fn own(result: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just made it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    #[test]
    fn descriptors_are_those_of_the_thread_that_is_asked_for() {
        let cat = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let inode = |fd: OwnedFd| std::fs::File::from(fd).metadata().unwrap().ino();
        let own = |child: &std::process::Child| {
            inode(child.stdin.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap())
        };
        let [mut one, mut two] = [cat(), cat()];
        let last = LastThread::default();
        for child in [&one, &one, &two, &one] {
            let copied = last.descriptor(child.id().cast_signed(), 0).unwrap();
            assert_eq!(inode(copied), own(child));
        }
        one.kill().unwrap();
        one.wait().unwrap();
        let gone = last.descriptor(one.id().cast_signed(), 0).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
        let copied = last.descriptor(two.id().cast_signed(), 0).unwrap();
        assert_eq!(inode(copied), own(&two));
        drop(two.stdin.take());
        two.wait().unwrap();
    }

    #[test]
    fn the_kernel_tells_of_the_thread_that_is_asked_for_as_long_as_it_is_there() {
        let cat = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let [mut one, mut two] = [cat(), cat()];
        let last = LastThread::default();
        // SAFETY: takes nothing.
        let user = unsafe { libc::geteuid() };
        let number = |child: &std::process::Child| child.id().cast_signed();
        let Some(own) = last.about(std::process::id().cast_signed()) else {
            return eprintln!("SKIPPED: Linux before 6.13 does not tell");
        };
        assert_eq!(own.user, user);
        assert_eq!(own.group, gid_of(std::process::id().cast_signed()).unwrap());
        for child in [&one, &one, &two] {
            assert_eq!(last.about(number(child)), Some(own));
        }
        two.kill().unwrap();
        two.wait().unwrap();
        assert_eq!(last.about(number(&two)), None);
        assert_eq!(last.about(number(&one)), Some(own), "it goes on asking");
        one.kill().unwrap();
        one.wait().unwrap();
    }

    #[test]
    fn a_program_without_a_free_descriptor_is_at_its_limit() {
        // SAFETY: takes nothing.
        assert!(!is_at_descriptor_limit(unsafe { libc::gettid() }));
        let fill = "import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
try:
    while True: os.dup(0)
except OSError: os.write(1, b'full')
os.read(0, 1)";
        let mut python = Command::new("python3");
        python.args(["-c", fill]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut said = [0; 4];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let full = is_at_descriptor_limit(child.id().cast_signed());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(full);
    }
}
