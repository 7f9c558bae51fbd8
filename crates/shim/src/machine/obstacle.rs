//! What keeps a program's calls from being translated, and what to do about it.

use std::fmt;
use std::io;

/// What keeps a program's calls from being translated. Its text is one line: the cause, then the cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The calls of this machine are not known.
    Architecture,
    /// The kernel is too old.
    OldKernel {
        /// The first one that will do.
        needed: (u32, u32),
        /// This one.
        kernel: (u32, u32),
    },
    /// The kernel was built without seccomp's user notification, or hides it (gVisor).
    WithoutSeccomp,
    /// A system call filter refuses a call.
    Forbidden {
        /// The call.
        call: &'static str,
        /// With this error number.
        errno: i32,
    },
    /// A system call filter kills whoever makes the call.
    Fatal {
        /// The call.
        call: &'static str,
    },
    /// A call did not return in time.
    Unanswered {
        /// The call.
        call: &'static str,
    },
    /// `kernel.yama.ptrace_scope` forbids it.
    Yama {
        /// Its value.
        scope: u8,
    },
    /// Processes below this one may not be looked into, for another reason.
    OutOfReach {
        /// The error number.
        errno: i32,
    },
    /// Another program's filter has a listener, and the kernel allows one.
    OtherListener,
    /// `/proc` is not mounted.
    WithoutProc,
    /// The filter was refused when the program was started.
    Refused {
        /// The error number.
        errno: i32,
    },
}

impl Obstacle {
    /// Its name, which does not change between versions.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Architecture => "architecture",
            Self::OldKernel { .. } => "old-kernel",
            Self::WithoutSeccomp => "no-seccomp",
            Self::Forbidden { .. } => "call-forbidden",
            Self::Fatal { .. } => "call-fatal",
            Self::Unanswered { .. } => "call-unanswered",
            Self::Yama { .. } => "yama",
            Self::OutOfReach { .. } => "out-of-reach",
            Self::OtherListener => "other-listener",
            Self::WithoutProc => "no-proc",
            Self::Refused { .. } => "filter-refused",
        }
    }

    /// The command that fixes it, if there is one.
    #[must_use]
    pub const fn command(&self) -> Option<&'static str> {
        if matches!(self, Self::Yama { scope: 2 }) {
            Some("sysctl -w kernel.yama.ptrace_scope=1")
        } else if matches!(self, Self::WithoutProc) {
            Some("mount -t proc proc /proc")
        } else {
            None
        }
    }

    fn cause(&self) -> String {
        let said = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::Architecture => "programs of this processor are not supported".to_owned(),
            Self::OldKernel { needed, kernel } => {
                let ((major, minor), (here, now)) = (needed, kernel);
                format!("Linux {major}.{minor} or newer is needed, and this is {here}.{now}")
            }
            Self::WithoutSeccomp => "this kernel has no seccomp notifications".to_owned(),
            Self::Forbidden { call, errno } => {
                format!("a system call filter forbids {call} ({})", said(errno))
            }
            Self::Fatal { call } => format!("a system call filter kills programs that call {call}"),
            Self::Unanswered { call } => format!("{call} did not return within ten seconds"),
            Self::Yama { scope } => {
                format!("kernel.yama.ptrace_scope is {scope}: no program may look into another one")
            }
            Self::OutOfReach { errno } => {
                format!("this machine lets no program look into another one ({})", said(errno))
            }
            Self::OtherListener => {
                "another program (a sandbox or container manager) traps system calls here"
                    .to_owned()
            }
            Self::WithoutProc => "/proc is not mounted".to_owned(),
            Self::Refused { errno } => {
                format!("the kernel has refused the system call filter ({})", said(errno))
            }
        }
    }

    fn cure(&self) -> String {
        match self {
            Self::Architecture => "use x86-64 or aarch64".to_owned(),
            Self::OldKernel { .. } => "boot a newer kernel".to_owned(),
            Self::WithoutSeccomp => "use a kernel with CONFIG_SECCOMP_FILTER".to_owned(),
            Self::Forbidden { call, .. } | Self::Fatal { call } => {
                // What container managers let programs with this capability call.
                let option = match *call {
                    "seccomp" => "--security-opt seccomp=unconfined",
                    _ => "--cap-add SYS_PTRACE",
                };
                format!(
                    "start the container with {option}, or set SystemCallFilter={call} in the systemd unit"
                )
            }
            Self::Unanswered { .. } => {
                "try again when the machine is less busy, or outside of what traces programs here"
                    .to_owned()
            }
            Self::Yama { scope: 2 } => {
                "run as root, or set kernel.yama.ptrace_scope to 1".to_owned()
            }
            Self::Yama { .. } => {
                "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot".to_owned()
            }
            Self::OutOfReach { .. } => {
                "run as root, or start the container with --cap-add SYS_PTRACE".to_owned()
            }
            Self::OtherListener => "start `manypath run` outside of it".to_owned(),
            Self::WithoutProc => "mount it: mount -t proc proc /proc".to_owned(),
            Self::Refused { .. } => "run `manypath doctor` for the cause".to_owned(),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause(), self.cure())
    }
}
