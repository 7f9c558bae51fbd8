//! Children that must not outlive us.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the kernel end the command's program (SIGTERM) when the thread that starts it ends, however
/// that comes about.
pub fn end_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        // SAFETY: takes nothing.
        let is_orphan = unsafe { libc::getppid() }.cast_unsigned() != parent;
        if is_orphan { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    };
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
    unsafe { command.pre_exec(prepare) };
}
