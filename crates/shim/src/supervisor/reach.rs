//! Programs that cannot be looked into: of other users, or such as hide their memory. They are counted, and the user is
//! told of the first one.

use super::Supervisor;
use crate::machine;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;

/// What the user is told once.
#[derive(Debug, Default)]
pub(super) struct Reach {
    notice: Option<String>,
    is_told: bool,
    /// Whether the user was told that peers do not reach listening sockets.
    told_of_servers: bool,
}

impl Supervisor {
    /// A call was left to the kernel, because what it names is out of reach.
    pub(crate) fn note_out_of_reach(&mut self, thread: libc::pid_t) {
        if !self.reach.is_told && is_forbidden(thread) {
            self.reach.is_told = true;
            self.reach.notice = Some(out_of_reach(thread, self.user));
        }
    }

    /// A program's socket could not be had, for this reason.
    pub(crate) fn note_without_socket(&mut self, thread: libc::pid_t, error: &io::Error) {
        let handed_over = self.descriptors.handover().is_some();
        let refused = error.raw_os_error() == Some(libc::EPERM);
        if handed_over && refused && !is_forbidden(thread) {
            if !std::mem::replace(&mut self.reach.is_told, true) {
                self.reach.notice = Some(not_preloaded(thread));
            }
        } else {
            self.note_out_of_reach(thread);
        }
    }

    /// A program listens that cannot be given connections.
    pub(crate) fn note_server(&mut self) {
        if !std::mem::replace(&mut self.reach.told_of_servers, true) {
            let text = "peers reach this server by plain TCP only: Linux 5.9 or newer is needed to \
                        give it connections; boot a newer kernel";
            self.reach.notice = Some(text.to_owned());
        }
    }

    /// What the user is to be told.
    pub(crate) const fn take_notice(&mut self) -> Option<String> {
        self.reach.notice.take()
    }
}

/// Whether the kernel keeps us away, and not a thread that has gone or an address that is none.
fn is_forbidden(thread: libc::pid_t) -> bool {
    let file = OpenOptions::new().read(true).write(true).open(format!("/proc/{thread}/mem"));
    file.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// What a program is called. It chooses the name itself, and people read it in terminals.
pub(super) fn name(thread: libc::pid_t) -> String {
    let program = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
    program.trim_end().replace(char::is_control, "?")
}

/// It is static, makes its calls without the C library, or was started with an environment of its own.
fn not_preloaded(thread: libc::pid_t) -> String {
    let program = name(thread);
    format!(
        "connections of {program} are plain TCP: the launcher may not copy its sockets, and it does not hand them over \
         by the C library; start the container with --cap-add SYS_PTRACE, or set SystemCallFilter=pidfd_getfd"
    )
}

fn out_of_reach(thread: libc::pid_t, own_user: u32) -> String {
    let program = name(thread);
    // A program that hides itself has its files there owned by root.
    let owner = fs::metadata(format!("/proc/{thread}")).map(|about| about.uid()).ok();
    let user = owner.filter(|owner| *owner != own_user && *owner != 0);
    match user {
        Some(user) if !machine::may_trace() => format!(
            "connections of {program} (user {user}) are plain TCP: it runs as another user, and CAP_SYS_PTRACE is \
             missing; start the container with --cap-add SYS_PTRACE, or manypath as root"
        ),
        _ => format!(
            "connections of {program} are plain TCP: it hides its memory from other programs; start manypath as root"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// It is shown to people, root among them.
    #[test]
    fn the_name_of_a_program_cannot_steer_a_terminal() {
        let named = "import sys
open('/proc/self/comm', 'w').write('\\x1b[2J\\nall well')
print('named', flush=True)
sys.stdin.read()";
        let mut python = Command::new("python3");
        python.args(["-c", named]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let shown = name(child.id().cast_signed());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(shown, "?[2J?all well");
    }
}
