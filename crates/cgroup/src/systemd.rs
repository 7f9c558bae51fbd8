//! Units of systemd that have manypath attached whenever they run.
//!
//! `enable` writes files of its own and edits none: a service that runs `manypath attach`, and what has it started. For
//! a service that is a drop-in, which starts it before the service's own programs; slices and
//! cgroups without a unit have it with the host.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const FOLDER: &str = "etc/systemd/system";
const DROP_IN: &str = "50-manypath.conf";
const WITH_THE_HOST: &str = "multi-user.target.wants";

/// What `manypath attach` may do: as little as eBPF, raw packets on loopback and reading the host's sockets
/// allow. Its stack, which reads packets of peers, gives up the rest by itself; CAP_SETUID, CAP_SETGID and
/// CAP_SETPCAP are for that. So are the first two for sockets of the programs' identities, by which the egress policy is
/// asked, and CAP_DAC_OVERRIDE for those in cgroups that belong to users. Before Linux 5.11 maps of eBPF count as
/// locked memory.
const HARDENING: &str = "\
LimitMEMLOCK=infinity
NoNewPrivileges=yes
RuntimeDirectory=manypath
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
CacheDirectory=manypath-root
CacheDirectoryMode=0700
StateDirectory=manypath-root
StateDirectoryMode=0700
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service bpf seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
SystemCallErrorNumber=EPERM
";
/// A restart ends no connection: `manypath attach` is a child of the main process, goes on with its connections beside
/// the new one, and ends when systemd drops the line that it keeps, which it does when the service is stopped.
const TAKEOVER: &str = "\
KillMode=process
NotifyAccess=all
FileDescriptorStoreMax=8
TimeoutStopSec=10
";
const CAPABILITIES: &str = "CAP_BPF CAP_PERFMON CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_SETUID CAP_SETGID \
                            CAP_SETPCAP CAP_DAC_OVERRIDE";
/// Besides, to enter the network namespaces of containers, and to learn in which one a process is.
const FOR_CONTAINERS: &str = " CAP_SYS_ADMIN CAP_SYS_PTRACE";
/// The option of `manypath attach` that asks for it.
const CONTAINERS: &str = "--containers";

/// The directives that depend on what manypath is to do.
fn rights(containers: bool) -> String {
    let (more, namespaces) = if containers { (FOR_CONTAINERS, "net") } else { ("", "yes") };
    format!("CapabilityBoundingSet={CAPABILITIES}{more}\nRestrictNamespaces={namespaces}\n")
}

/// What is to have manypath attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A service, by the name of its unit.
    Service(String),
    /// A slice: everything that runs in it.
    Slice(String),
    /// The folder of a cgroup.
    Group(PathBuf),
}

/// Why a name is none of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadName(String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadName {}

/// A file that is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Text(String),
    Link(PathBuf),
}

impl std::str::FromStr for Target {
    type Err = BadName;

    /// A path is a cgroup, all else a unit; without a suffix a service, as systemctl has it.
    fn from_str(text: &str) -> Result<Self, BadName> {
        if text.starts_with('/') {
            let plain = text.chars().all(|c| !c.is_control() && !c.is_whitespace());
            return match plain && !text.contains(['%', '"', '\'']) {
                true => Ok(Self::Group(text.into())),
                false => Err(BadName(format!("{text:?}: no path that a unit can name"))),
            };
        }
        let known = |c: char| c.is_ascii_alphanumeric() || ":_.-@\\".contains(c);
        if text.is_empty() || !text.chars().all(known) || text.starts_with('.') {
            return Err(BadName(format!("{text:?} is no name of a unit")));
        }
        match text.rsplit_once('.') {
            Some((_, "slice")) if text == "-.slice" => Err(BadName(
                "-.slice holds everything, manypath too; enable system.slice and user.slice".into(),
            )),
            Some((name, "slice")) if !name.is_empty() => Ok(Self::Slice(text.to_owned())),
            Some((_, "scope")) => Err(BadName(format!(
                "a scope ends with its container: enable the slice above it, or for now: manypath attach --containers --unit {text}"
            ))),
            Some((_, "service")) => Ok(Self::Service(text.to_owned())),
            Some((_, kind @ ("socket" | "target" | "timer" | "mount" | "path" | "device"))) => Err(
                BadName(format!("a {kind} runs no programs of its own: name a service or a slice")),
            ),
            _ => Ok(Self::Service(format!("{text}.service"))),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(unit) | Self::Slice(unit) => f.write_str(unit),
            Self::Group(path) => path.display().fmt(f),
        }
    }
}

impl Target {
    /// The unit that runs `manypath attach` for it.
    #[must_use]
    pub fn attaching_unit(&self) -> String {
        let name = self.to_string();
        let name = name.trim_end_matches(".service").trim_matches('/').replace('/', "-");
        format!("manypath-{name}.service")
    }

    /// Writes the files below `root`; `options` are those of `manypath attach`. Returns the paths.
    ///
    /// # Errors
    /// As the file system says; then nothing is left.
    pub fn install(
        &self,
        root: &Path,
        program: &Path,
        options: &[&str],
    ) -> io::Result<Vec<PathBuf>> {
        let folder = root.join(FOLDER);
        let mut written = Vec::new();
        for (name, content) in self.files(program, options) {
            let path = folder.join(name);
            if let Err(error) = write(&path, &content) {
                self.remove(root)?;
                return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
            }
            written.push(path);
        }
        Ok(written)
    }

    /// Removes the files, and folders that are empty then. Returns the paths of the files that were there.
    ///
    /// # Errors
    /// As the file system says.
    pub fn remove(&self, root: &Path) -> io::Result<Vec<PathBuf>> {
        let folder = root.join(FOLDER);
        let mut removed = Vec::new();
        for (name, _) in self.files(Path::new(""), &[]) {
            let path = folder.join(name);
            match fs::remove_file(&path) {
                Ok(()) => removed.push(path.clone()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            if let Some(parent) = path.parent().filter(|parent| *parent != folder) {
                // It stays if anything else is in it.
                let _ = fs::remove_dir(parent);
            }
        }
        Ok(removed)
    }

    /// Names below the folder of units.
    fn files(&self, program: &Path, options: &[&str]) -> Vec<(PathBuf, Content)> {
        let attaching = self.attaching_unit();
        let starter = match self {
            Self::Service(unit) => {
                (PathBuf::from(format!("{unit}.d")).join(DROP_IN), Content::Text(self.drop_in()))
            }
            Self::Slice(_) | Self::Group(_) => (
                Path::new(WITH_THE_HOST).join(&attaching),
                Content::Link(Path::new("..").join(&attaching)),
            ),
        };
        let service = Content::Text(self.service(program, options));
        vec![(attaching.into(), service), starter]
    }

    fn drop_in(&self) -> String {
        let attaching = self.attaching_unit();
        format!("{}[Unit]\nWants={attaching}\nAfter={attaching}\n", self.origin())
    }

    fn service(&self, program: &Path, options: &[&str]) -> String {
        let place = match self {
            Self::Service(unit) | Self::Slice(unit) => {
                format!("--unit {}", unit.replace('\\', "\\\\"))
            }
            Self::Group(path) => format!("--cgroup {}", path.display()),
        };
        let rights = rights(options.contains(&CONTAINERS));
        let options: String = options.iter().map(|option| format!(" {option}")).collect();
        // A slice of its own: connections of manypath itself must not come back to it.
        format!(
            "{}[Unit]\nDescription=manypath for {self}\nStartLimitIntervalSec=0\n\
             After=manypathd.service\n\n\
             [Service]\nType=notify\nExecStart={} attach {place}{options} --replace\n\
             Slice=manypath.slice\nRestart=on-failure\nRestartSec=1\n{TAKEOVER}\n{rights}{HARDENING}",
            self.origin(),
            program.display()
        )
    }

    fn origin(&self) -> String {
        format!("# Made by `manypath enable {self}`; `manypath disable {self}` removes it.\n")
    }
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match content {
        Content::Text(text) => fs::write(path, text),
        Content::Link(to) => match symlink(to, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_units_or_paths() {
        assert_eq!(target("nginx"), Target::Service("nginx.service".into()));
        assert_eq!(target("a@b.service").attaching_unit(), "manypath-a@b.service");
        assert_eq!(target("user.slice").attaching_unit(), "manypath-user.slice.service");
        assert_eq!(target("/sys/fs/cgroup/x").attaching_unit(), "manypath-sys-fs-cgroup-x.service");
        for bad in ["", "../x", "a b", ".service", "-.slice", "x.socket", "/a b", "/a%b"] {
            assert!(bad.parse::<Target>().is_err(), "{bad:?}");
        }
    }
}
