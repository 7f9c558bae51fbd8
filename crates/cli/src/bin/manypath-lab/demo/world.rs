//! Where the demo takes place: two hosts of a lab, or emulated paths on loopback.

use super::loopback::LoopbackPaths;
use super::measure::{Ceilings, Series};
use super::ports::{HTTP_PORT, Listen, SSH_PORT};
use super::programs::need_program;
use crate::failure::Failure;
use manypath_lab::{Change, Host, Lab, LabSpec, PathSpec};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The files of the user that a stack would read, and what they are called in the demo's folder.
const FILES: [(&str, &str); 4] = [
    ("MANYPATH_KEYS", "keys"),
    ("MANYPATH_PEERS", "peers"),
    ("MANYPATH_RULES", "rules"),
    ("MANYPATH_SYSCTL", "sysctl.conf"),
];

/// The two paths: rate in bit/s and the rest of their specification.
const PATHS: [(&str, u64, &str); 2] =
    [("A", 20_000_000, "20mbit,10ms,queue=100"), ("B", 10_000_000, "10mbit,40ms,queue=100")];

/// The hosts and paths of a demo.
#[derive(Debug)]
pub(crate) struct World {
    work: tempdir::WorkDir,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Lab(Box<Lab>),
    Loopback(LoopbackPaths),
}

impl World {
    /// Two hosts in namespaces, or why that is not possible here.
    pub(crate) fn lab() -> Result<Self, String> {
        let paths = path_specs().map_err(|e| e.to_string())?;
        let lab = Lab::start(LabSpec::new(paths)).map_err(|e| e.to_string())?;
        let work = tempdir::WorkDir::new()?;
        Ok(Self { work, kind: Kind::Lab(Box::new(lab)) })
    }

    /// Paths emulated on loopback addresses.
    pub(crate) fn loopback() -> Result<Self, Failure> {
        let specs = path_specs().map_err(|e| Failure::new(e.to_string()))?;
        let links =
            specs.into_iter().zip(PATHS).map(|(s, (name, ..))| (name.to_owned(), s)).collect();
        Ok(Self {
            work: tempdir::WorkDir::new().map_err(Failure::new)?,
            kind: Kind::Loopback(LoopbackPaths::start(links)?),
        })
    }

    /// Whether the hosts are real ones, with a TCP of their own on every path.
    pub(crate) fn has_hosts(&self) -> bool {
        matches!(self.kind, Kind::Lab(_))
    }

    /// A folder for keys, configuration and files; removed at the end.
    pub(crate) fn work_dir(&self) -> &Path {
        self.work.path()
    }

    /// Rates of the paths.
    pub(crate) fn ceilings(&self) -> Ceilings {
        let rates = PATHS.iter().map(|(name, rate, _)| ((*name).to_owned(), *rate)).collect();
        Ceilings { rates }
    }

    /// One line about each path.
    pub(crate) fn describe(&self) -> String {
        let paths = PATHS.map(|(name, _, spec)| format!("{name} {}", spec.replace(',', " ")));
        let place = if self.has_hosts() { "two hosts in namespaces" } else { "loopback" };
        format!("{place}, paths {}", paths.join(", "))
    }

    /// The server's address on the better path.
    pub(crate) fn server_address(&self) -> String {
        match &self.kind {
            Kind::Lab(lab) => lab.address(Host::Right, 0).to_string(),
            Kind::Loopback(paths) => paths.server_address().to_string(),
        }
    }

    /// The address that the services listen on.
    pub(crate) fn listen_address(&self) -> String {
        if self.has_hosts() { "0.0.0.0".to_owned() } else { self.server_address() }
    }

    /// What `manypath serve` lets through.
    pub(crate) fn allow_list(&self) -> String {
        if self.has_hosts() {
            return format!("{HTTP_PORT},{SSH_PORT}");
        }
        let address = self.server_address();
        format!("{address}:{HTTP_PORT},{address}:{SSH_PORT}")
    }

    /// Options of `manypath serve` that this world needs.
    pub(crate) fn serve_options(&self) -> Vec<String> {
        match &self.kind {
            Kind::Lab(_) => Vec::new(),
            Kind::Loopback(paths) => stack_options(&paths.server_locals()),
        }
    }

    /// Options of `manypath run` that this world needs. What is shown is SCTP, whatever the paths.
    pub(crate) fn run_options(&self) -> Vec<String> {
        let mut options = vec!["--step-aside".into(), "never".into()];
        match &self.kind {
            Kind::Lab(_) => {}
            Kind::Loopback(paths) => {
                options.extend(stack_options(&paths.client_locals()));
                options.extend(["--peer-port".into(), paths.client_port().to_string()]);
            }
        }
        options
    }

    /// A command on the server's host, listening with the given kind of socket.
    pub(crate) fn server_command(&self, program: &Path, listen: Listen) -> Result<Command, String> {
        self.command(Host::Right, program, listen)
    }

    /// A command on the client's host.
    pub(crate) fn client_command(&self, program: &Path, socket: Listen) -> Result<Command, String> {
        self.command(Host::Left, program, socket)
    }

    fn command(&self, host: Host, program: &Path, socket: Listen) -> Result<Command, String> {
        let wrapper = match socket {
            Listen::Tcp => None,
            Listen::Mptcp => Some(need_program("mptcpize", "mptcpize")?),
        };
        let first = wrapper.as_deref().unwrap_or(program);
        let mut command = match &self.kind {
            Kind::Lab(lab) => lab.command(host, first),
            Kind::Loopback(_) => Command::new(first),
        };
        if wrapper.is_some() {
            command.arg("run").arg(program);
        }
        command.env("MANYPATH_RUNTIME_DIR", self.work_dir().join("run"));
        command.env("MANYPATH_OWN_STACK", "1");
        // The demo goes by nobody's rules and leaves nothing behind.
        for (variable, file) in FILES {
            command.env(variable, self.work_dir().join(file));
        }
        Ok(command)
    }

    /// Makes kernel MPTCP use both paths, or says why it cannot.
    pub(crate) fn enable_mptcp(&self) -> Result<(), String> {
        match &self.kind {
            Kind::Lab(lab) => lab.enable_mptcp().map_err(|e| e.to_string()),
            Kind::Loopback(_) => Err("needs real hosts: run as root".to_owned()),
        }
    }

    /// Takes path A down or up.
    pub(crate) fn set_path_a(&self, up: bool) -> Result<(), String> {
        match &self.kind {
            Kind::Lab(lab) => {
                let change = [if up { Change::Up } else { Change::Down }];
                let path = lab.path("A").map_err(|e| e.to_string())?;
                path.set(&change).map_err(|e| e.to_string())
            }
            Kind::Loopback(paths) => {
                paths.set_up("A", up);
                Ok(())
            }
        }
    }

    /// Time on the clock of the samples.
    pub(crate) fn elapsed(&self) -> Duration {
        match &self.kind {
            Kind::Lab(lab) => lab.elapsed().unwrap_or_default(),
            Kind::Loopback(paths) => paths.elapsed(),
        }
    }

    /// What the paths delivered since `from`.
    pub(crate) fn series(&self, from: Duration) -> Series {
        match &self.kind {
            Kind::Lab(lab) => lab_series(lab, from),
            Kind::Loopback(paths) => paths.series(from),
        }
    }

    /// Starts writing every packet to `file`; loopback packets are not captured.
    pub(crate) fn start_capture(&self, file: &Path) -> Result<(), String> {
        match &self.kind {
            Kind::Lab(lab) => lab.capture(file).map_err(|e| e.to_string()),
            Kind::Loopback(paths) => paths.capture(file).map_err(|e| e.to_string()),
        }
    }

    /// Ends the capture.
    pub(crate) fn stop_capture(&self) {
        match &self.kind {
            // A capture that failed has been reported when it was started.
            Kind::Lab(lab) => drop(lab.stop_capture()),
            Kind::Loopback(paths) => paths.stop_capture(),
        }
    }
}

fn path_specs() -> Result<Vec<PathSpec>, manypath_lab::LabError> {
    PATHS.iter().map(|(_, _, spec)| spec.parse()).collect()
}

fn stack_options(locals: &[String]) -> Vec<String> {
    vec!["--loopback-paths".into(), "--local".into(), locals.join(",")]
}

fn lab_series(lab: &Lab, from: Duration) -> Series {
    let Ok(samples) = lab.samples(0) else {
        return Series { bucket: Duration::from_millis(50), paths: Vec::new() };
    };
    let first = (from.as_nanos() / samples.bucket.as_nanos().max(1)) as u64;
    let skip = first.saturating_sub(samples.first) as usize;
    let paths = samples.paths.into_iter().map(|path| {
        let sum = |v: &[u64]| v.iter().skip(skip).sum::<u64>();
        let rightwards = sum(&path.towards_right) > sum(&path.towards_left);
        let busier = if rightwards { path.towards_right } else { path.towards_left };
        (path.name, busier.into_iter().skip(skip).collect())
    });
    Series { bucket: samples.bucket, paths: paths.collect() }
}

/// The folder of a demo.
mod tempdir {
    use super::{Path, PathBuf};

    /// A folder under the system's temporary folder, removed with everything in it when dropped.
    #[derive(Debug)]
    pub(super) struct WorkDir(PathBuf);

    impl WorkDir {
        /// # Errors
        /// Where it was to be, and why it is not.
        pub(super) fn new() -> Result<Self, String> {
            use std::os::unix::fs::DirBuilderExt;
            let name = format!("manypath-demo-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            let made = std::fs::DirBuilder::new().mode(0o755).create(&dir);
            made.map_err(|e| format!("cannot make {} ($TMPDIR): {e}", dir.display()))?;
            Ok(Self(dir))
        }

        pub(super) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for WorkDir {
        fn drop(&mut self) {
            // What cannot be removed from a temporary folder is the system's to clean.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
