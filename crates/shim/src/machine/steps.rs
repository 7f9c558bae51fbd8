//! The questions, asked one after another in a child that may die of them.
//!
//! Each one is told twice, when it begins and when it has ended, so that the parent knows of which one the child has
//! died.

use crate::filter::{Architecture, Filter};
use crate::seccomp;
use libc::{c_int, c_long, pid_t};
use std::io::Write;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    /// May a filter be put on whose traps arrive at a listener (Linux 5.0)?
    Trap,
    /// Where somebody else has a listener: is it a launcher's?
    Outer,
    /// May a trapped call be left to the kernel (5.5)?
    Continue,
    /// May a program be given a descriptor (5.9)?
    AddFd,
    /// And be told of it in the same step (5.14)?
    AddFdSend,
    /// May the memory of a process of our own be read and written?
    Memory,
    /// May a process be opened (5.3)?
    Open,
    /// Is there a call that copies a descriptor of a process (5.6), and does no filter forbid it?
    GetFd,
    /// May a descriptor of a process of our own be copied?
    Copy,
}

impl Step {
    pub(crate) const ALL: [Self; 9] = [
        Self::Trap,
        Self::Outer,
        Self::Continue,
        Self::AddFd,
        Self::AddFdSend,
        Self::Memory,
        Self::Open,
        Self::GetFd,
        Self::Copy,
    ];
}

/// The size of what is told: the number of the step, three bytes of nothing, an error number.
pub(super) const RECORD: usize = 8;
/// In place of the error number: the step begins.
pub(super) const BEGUN: i32 = -1;

/// A notification that there is not: the kernel counts from a random number, and says `ENOENT` if it takes the request.
const NO_CALL: u64 = u64::MAX;

/// What an outer launcher answers to a question that the kernel would answer with an error.
pub(crate) const SIGNATURE: i64 = 0x6d70;
/// Where no program has memory.
const NOWHERE: u64 = 0x6d;

/// Something to be found in the memory of a child.
static MARK: u64 = 0x6d61_6e79_7061_7468;

/// Whether a `getsockopt(SO_ERROR)` asks if a launcher listens.
pub(crate) fn is_question(args: &[u64; 6]) -> bool {
    args[0] as i32 == -1 && args[3] == NOWHERE && args[4] == NOWHERE
}

/// Asks everything. Never returns; makes system calls only.
pub(super) fn run(arch: &Architecture, to: RawFd) -> ! {
    prepare();
    let target = start_target();
    ask_listener(arch, to);
    if let Some(target) = target {
        ask_process(target, to);
        // SAFETY: the process is our child and not reaped yet.
        unsafe {
            libc::kill(target, libc::SIGKILL);
            libc::waitpid(target, std::ptr::null_mut(), 0);
        }
    }
    // SAFETY: takes a number.
    unsafe { libc::_exit(0) }
}

/// A death here is an answer, and worth no core file. Programs may be looked into, even where our own file may not be
/// read; so must be the child that stands for them.
fn prepare() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads the limits.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
}

/// A process below us, as the program will be below the launcher. It waits until it is killed, at the latest when we
/// end.
fn start_target() -> Option<pid_t> {
    // SAFETY: plain numbers; the child makes system calls only.
    unsafe {
        let parent = libc::getpid();
        match libc::fork() {
            -1 => None,
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                while libc::getppid() == parent {
                    libc::pause();
                }
                libc::_exit(0)
            }
            target => Some(target),
        }
    }
}

fn tell(to: RawFd, step: Step, value: i32) {
    let mut record = [0; RECORD];
    record[0] = step as u8;
    if let Some(last) = record.last_chunk_mut() {
        *last = value.to_ne_bytes();
    }
    // SAFETY: the kernel reads the record. A parent that has gone needs no answer.
    unsafe { libc::write(to, record.as_ptr().cast(), RECORD) };
}

/// Asks one question; what it returns is the error number, or 0.
fn ask(to: RawFd, step: Step, question: impl FnOnce() -> i32) -> bool {
    tell(to, step, BEGUN);
    let errno = question();
    tell(to, step, errno);
    errno == 0
}

fn ask_listener(arch: &Architecture, to: RawFd) {
    let (mut listener, mut refused) = (None, 0);
    let trap = || {
        let installed = seccomp::install(&Filter::allow_all());
        refused =
            installed.as_ref().map_or_else(|e| e.raw_os_error().unwrap_or(libc::EINVAL), |_| 0);
        listener = installed.ok();
        refused
    };
    ask(to, Step::Trap, trap);
    if refused == libc::EBUSY {
        ask(to, Step::Outer, || ask_outer(arch));
    }
    let Some(listener) = listener else { return };
    let fd = listener.as_raw_fd();
    ask(to, Step::Continue, || taken(seccomp::reply_continue(fd, NO_CALL)));
    let give = |flags| taken(seccomp::add_descriptor(fd, NO_CALL, fd, flags, false).map(drop));
    ask(to, Step::AddFd, || give(0));
    ask(to, Step::AddFdSend, || give(libc::SECCOMP_ADDFD_FLAG_SEND as u32));
}

/// 0 when the kernel has understood a request that cannot be fulfilled.
fn taken(result: std::io::Result<()>) -> i32 {
    match result.err().and_then(|e| e.raw_os_error()) {
        None | Some(libc::ENOENT) => 0,
        Some(errno) => errno,
    }
}

/// A launcher knows the question; everybody else lets the kernel say that there is no such descriptor.
fn ask_outer(arch: &Architecture) -> i32 {
    let call = c_long::from(arch.getsockopt);
    // SAFETY: the kernel finds no descriptor, and no memory at the addresses.
    let answer =
        unsafe { libc::syscall(call, -1, libc::SOL_SOCKET, libc::SO_ERROR, NOWHERE, NOWHERE) };
    if answer == SIGNATURE { 0 } else { libc::EBADF }
}

fn ask_process(target: pid_t, to: RawFd) {
    ask(to, Step::Memory, || look_into(target));
    let mut process = -1;
    ask(to, Step::Open, || {
        // SAFETY: plain numbers.
        process = unsafe { libc::syscall(libc::SYS_pidfd_open, target, 0) };
        if process < 0 { errno() } else { 0 }
    });
    let no_process = || match copy_descriptor(-1) {
        libc::EBADF => 0,
        errno => errno,
    };
    if process >= 0 && ask(to, Step::GetFd, no_process) {
        ask(to, Step::Copy, || copy_descriptor(process));
    }
}

/// Copies the first descriptor that is open; that there is none is no refusal.
fn copy_descriptor(process: c_long) -> i32 {
    // SAFETY: plain numbers.
    let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, 0, 0) };
    match errno() {
        _ if copy >= 0 => 0,
        libc::EBADF if process >= 0 => 0,
        errno => errno,
    }
}

fn look_into(target: pid_t) -> i32 {
    let mut path = [0; 32];
    if write!(&mut path[..], "/proc/{target}/mem\0").is_err() {
        return libc::ENAMETOOLONG;
    }
    // SAFETY: the path ends with a zero.
    let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) };
    if file < 0 {
        return errno();
    }
    let (mut found, size) = (0_u64, mem::size_of::<u64>());
    let at = (&raw const MARK) as libc::off_t;
    // SAFETY: the kernel writes one number.
    let read = unsafe { libc::pread(file, (&raw mut found).cast(), size, at) };
    if read < 0 {
        return errno();
    }
    if found == MARK { 0 } else { libc::EIO }
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}
