//! What this machine lets a launcher do, asked before a program is put under the filter: a filter cannot be taken
//! off, and a call that nobody can answer hangs.
//!
//! The questions are asked in a child ([`steps`]), because a system call filter of a container or a service may kill
//! whoever asks. What follows from the answers is a pure function ([`Plan::choose`]).

mod obstacle;
mod plan;
mod steps;

pub use obstacle::Obstacle;
pub use plan::Plan;
pub(crate) use steps::{SIGNATURE, is_question};

use crate::filter::NATIVE;
use manypath_gate::poll::{interest, poll};
use std::fs;
use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use steps::{RECORD, Step};

/// How long the child may take. It makes a dozen system calls; only a listener that does not answer keeps it, or a
/// machine that has no time for it.
const LIMIT: Duration = Duration::from_secs(10);

/// `CAP_SYS_PTRACE`.
const MAY_TRACE: u64 = 1 << 19;

/// What came of a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tried {
    /// It was not asked: no process could be made, or an earlier question ended the child.
    #[default]
    Unknown,
    Works,
    /// The kernel, or a filter, has refused it with this error number.
    Refused(i32),
    /// Whoever asks is killed.
    Fatal,
    /// There was no answer in time.
    Unanswered,
}

/// The answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found([Tried; Step::ALL.len()]);

/// What else is known of the machine; it names the cause when something does not work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct System {
    /// Whether /proc is mounted.
    pub(crate) proc: bool,
    /// The kernel's version, if it has the usual form.
    pub(crate) kernel: Option<(u32, u32)>,
    /// `kernel.yama.ptrace_scope`, where there is one.
    pub(crate) yama: Option<u8>,
    /// Whether this process has `CAP_SYS_PTRACE`.
    pub(crate) may_trace: bool,
}

/// Asks what this machine lets a launcher do, and chooses what to do.
///
/// Must be called in a process without other threads. It takes about a millisecond.
#[must_use]
pub fn look() -> Plan {
    let found = ask();
    let system = if found.is_complete() { System::default() } else { System::read() };
    Plan::choose(NATIVE.is_some(), &found, &system)
}

impl Found {
    pub(crate) const fn of(&self, step: Step) -> Tried {
        self.0[step as usize]
    }

    fn is_complete(&self) -> bool {
        let asked = Step::ALL.iter().filter(|step| **step != Step::Outer);
        asked.map(|step| self.of(*step)).all(|tried| tried == Tried::Works)
    }

    /// Takes records: the last one of a step counts. A step that has begun and not ended is what the child's end says.
    fn read(bytes: &[u8], unfinished: Tried) -> Self {
        let mut found = Self::default();
        for record in bytes.chunks_exact(RECORD) {
            let (Some(number), Some(value)) = (record.first(), record.last_chunk()) else { break };
            if let Some(tried) = found.0.get_mut(usize::from(*number)) {
                *tried = match i32::from_ne_bytes(*value) {
                    0 => Tried::Works,
                    steps::BEGUN => unfinished,
                    errno => Tried::Refused(errno),
                };
            }
        }
        found
    }
}

/// Lets a child ask. Without one nothing is known.
fn ask() -> Found {
    let Some(arch) = NATIVE else { return Found::default() };
    let Ok((from, to)) = pipe() else { return Found::default() };
    // SAFETY: there is no other thread, and the child makes system calls only.
    match unsafe { libc::fork() } {
        0 => {
            drop(from);
            steps::run(&arch, to.as_raw_fd())
        }
        -1 => Found::default(),
        child => {
            drop(to);
            let (said, is_over) = read_to_end(from);
            Found::read(&said, end(child, is_over))
        }
    }
}

/// Ends and reaps the child; what its end says of a question that it has not finished. One that is over has closed its
/// descriptors, and ends by itself.
fn end(child: libc::pid_t, is_over: bool) -> Tried {
    let mut status = 0;
    // SAFETY: the child is ours and not reaped yet; the kernel writes one int.
    unsafe {
        let option = if is_over { 0 } else { libc::WNOHANG };
        if libc::waitpid(child, &raw mut status, option) != child {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
            return Tried::Unanswered;
        }
    }
    if libc::WIFSIGNALED(status) { Tried::Fatal } else { Tried::Unanswered }
}

/// What the child says until it ends, or until its time is over; and whether it has ended.
fn read_to_end(from: OwnedFd) -> (Vec<u8>, bool) {
    let (mut from, until) = (File::from(from), Instant::now() + LIMIT);
    let (mut said, mut buffer) = (Vec::new(), [0; 256]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if poll(&mut [interest(from.as_raw_fd())], Some(left)) == 0 {
            return (said, false);
        }
        match from.read(&mut buffer) {
            Ok(0) => return (said, true),
            Err(_) => return (said, false),
            Ok(count) => said.extend(buffer.iter().take(count)),
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

impl System {
    fn read() -> Self {
        let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
        Self {
            proc: fs::metadata("/proc/self/mem").is_ok(),
            kernel: kernel(),
            yama: yama.and_then(|text| text.trim().parse().ok()),
            may_trace: may_trace(),
        }
    }
}

/// Whether this process has `CAP_SYS_PTRACE`.
pub(crate) fn may_trace() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    set.unwrap_or(0) & MAY_TRACE != 0
}

fn kernel() -> Option<(u32, u32)> {
    // SAFETY: all zeroes is a valid record, which the kernel fills with strings.
    let release = unsafe {
        let mut about: libc::utsname = mem::zeroed();
        libc::uname(&raw mut about);
        about.release.map(|character| character as u8)
    };
    version(&String::from_utf8_lossy(&release))
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests;
