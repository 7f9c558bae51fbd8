use std::fmt;
use std::io;

/// Why a lab could not do what was asked. The text says what is missing and what to do about it.
#[derive(Debug)]
pub enum LabError {
    /// A description of paths, a change or a name that makes no sense.
    Invalid(String),
    /// The system does not let us make hosts: namespaces, TUN devices or their set-up failed.
    Hosts {
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A lab of this name is up already.
    NameInUse(String),
    /// No lab of this name is up.
    NotRunning(String),
    /// The lab has no path of this name.
    NoSuchPath(String),
    /// A file, socket or process operation failed.
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The process that holds the lab refused; its reason.
    Refused(String),
    /// Something that the wish needs is not there.
    Missing(String),
}

impl LabError {
    /// An adapter for `map_err`: `what` was being done.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { what: what.into(), source }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) | Self::Refused(text) | Self::Missing(text) => f.write_str(text),
            Self::Hosts { step, source } => {
                write!(f, "cannot make the lab's hosts: {step}: {source}{}", advice(step, source))
            }
            Self::NameInUse(name) => write!(
                f,
                "a lab named '{name}' is up already: end it with `manypath-lab down --name {name}`, \
                 or choose another --name"
            ),
            Self::NotRunning(name) => write!(
                f,
                "no lab named '{name}' is up (for this user): start one with `manypath-lab up`"
            ),
            Self::NoSuchPath(name) => write!(f, "the lab has no path '{name}'"),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Hosts { source, .. } | Self::Io { source, .. } => Some(source),
            Self::Invalid(_)
            | Self::NameInUse(_)
            | Self::NotRunning(_)
            | Self::NoSuchPath(_)
            | Self::Refused(_)
            | Self::Missing(_) => None,
        }
    }
}

fn advice(step: &str, source: &io::Error) -> &'static str {
    let code = source.raw_os_error();
    if step.contains("/dev/net/tun") {
        return match code {
            Some(libc::ENOENT) => {
                "\n  TUN devices are missing. As root: mkdir -p /dev/net; mknod /dev/net/tun c 10 200; \
                 modprobe tun. In a container: give it --device /dev/net/tun"
            }
            Some(libc::ENODEV | libc::ENXIO) => {
                "\n  The kernel has no TUN driver loaded. As root: modprobe tun"
            }
            Some(libc::EACCES | libc::EPERM) => {
                "\n  Run as root, or let users open it, as most systems do: \
                 sudo chmod 0666 /dev/net/tun"
            }
            _ => "",
        };
    }
    match code {
        Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS) => {
            "\n  Neither root nor user namespaces can be used here. Run as root, or allow user \
             namespaces: sudo sysctl user.max_user_namespaces=10000, and where they exist \
             kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0. \
             In a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN --device /dev/net/tun"
        }
        _ => "",
    }
}
