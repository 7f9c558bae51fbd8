//! The user's own ssh, which logs in and then passes on what we say.

use super::args::LoginArgs;
use super::connections::Rekey;
use crate::FAILED;
use crate::failure::Failure;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How often to look whether the login is done.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long the master may take to end by itself.
const END_LIMIT: Duration = Duration::from_millis(500);

/// A master enlarges the buffer of what waits for us by every packet, and copies it. Without new pages each time, that takes a
/// third of the time. The C library of other systems than GNU's ignores it.
const TUNABLES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.mmap_threshold=268435456:glibc.malloc.trim_threshold=268435456:glibc.malloc.top_pad=33554432",
);

/// A login. Ours ends with this value; that of the user (`-S`) stays.
#[derive(Debug)]
pub(crate) struct Master {
    own: Option<Own>,
    socket: PathBuf,
}

#[derive(Debug)]
struct Own {
    child: Child,
    folder: PathBuf,
}

impl Master {
    /// Logs in to `host`. Questions and errors are ssh's own, at the terminal.
    pub(crate) fn start(login: &LoginArgs, host: &OsStr) -> Result<Self, Failure> {
        match &login.socket {
            Some(socket) => Ok(Self { own: None, socket: socket.clone() }),
            None => Self::run(login, host, &[], Stdio::inherit()),
        }
    }

    /// Logs in once more, with an option of ssh's. Nothing is asked, and nothing is said unless the user wants to know all.
    pub(crate) fn start_another(
        login: &LoginArgs,
        host: &OsStr,
        option: Option<String>,
    ) -> Result<Self, Failure> {
        let first: Vec<String> =
            std::iter::once("BatchMode=yes".to_owned()).chain(option).collect();
        let errors = if login.verbose > 0 { Stdio::inherit() } else { Stdio::null() };
        Self::run(login, host, &first, errors)
    }

    fn run(
        login: &LoginArgs,
        host: &OsStr,
        first: &[String],
        errors: Stdio,
    ) -> Result<Self, Failure> {
        let folder = private_folder()?;
        let socket = folder.join("s");
        let mut command = command(login, &socket, first)?;
        command.arg("--").arg(host).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        manypath_shim::end_with_parent(&mut command);
        let child = command.spawn().map_err(|e| {
            let _ = std::fs::remove_dir_all(&folder);
            Failure::new(format!("cannot run {}: {e}", login.ssh.display())).with_status(FAILED)
        })?;
        Ok(Self { own: Some(Own { child, folder }), socket })
    }

    /// Connects to the master, as soon as it has logged in.
    pub(crate) fn connect(&mut self) -> Result<UnixStream, Failure> {
        loop {
            match self.try_connect()? {
                Some(stream) => return Ok(stream),
                None => std::thread::sleep(LOOK_INTERVAL),
            }
        }
    }

    /// Connects to the master, if it has logged in.
    pub(crate) fn try_connect(&mut self) -> Result<Option<UnixStream>, Failure> {
        match (UnixStream::connect(&self.socket), &mut self.own) {
            (Ok(stream), _) => Ok(Some(stream)),
            (Err(e), None) => {
                let socket = self.socket.display();
                Err(Failure::new(format!("no master listens at {socket}: {e}"))
                    .hint("start one with: ssh -M -N -S PATH HOST")
                    .with_status(FAILED))
            }
            (Err(_), Some(own)) => own.child.try_wait()?.map_or(Ok(None), |s| Err(no_login(s))),
        }
    }

    /// Whether it is the user's.
    pub(crate) fn is_shared(&self) -> bool {
        self.own.is_none()
    }

    /// Why the connection to the master has ended, if the master has told that by its end.
    pub(crate) fn epitaph(&mut self) -> Option<ExitStatus> {
        let own = self.own.as_mut()?;
        wait(&mut own.child)
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        let Some(own) = &mut self.own else { return };
        if let Ok(None) = own.child.try_wait() {
            // Asked so, it tells the server that the connection is over.
            let _ = Command::new("kill").arg(own.child.id().to_string()).status();
            if wait(&mut own.child).is_none() {
                let _ = own.child.kill();
                let _ = own.child.wait();
            }
        }
        let _ = std::fs::remove_dir_all(&own.folder);
    }
}

/// Waits a moment for the child's end.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let tries = END_LIMIT.as_millis() / LOOK_INTERVAL.as_millis();
    (0..tries).find_map(|_| {
        let status = child.try_wait().ok().flatten();
        if status.is_none() {
            std::thread::sleep(LOOK_INTERVAL);
        }
        status
    })
}

fn no_login(status: ExitStatus) -> Failure {
    let failure = match status.code() {
        Some(code) => Failure::new(format!("login failed: ssh exited with status {code}")),
        None => Failure::new("login failed: ssh was killed"),
    };
    failure.with_status(FAILED)
}

/// A folder that only this user can look into, with a short name: those of sockets are limited.
pub(crate) fn private_folder() -> Result<PathBuf, Failure> {
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let parent = parent.filter(|dir| dir.is_dir()).unwrap_or_else(std::env::temp_dir);
    let pid = std::process::id();
    let mut last = None;
    for number in 0..100 {
        let folder = parent.join(format!("mpssh-{pid}-{number}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(e) => last = Some(e),
        }
    }
    let reason = last.map(|e| e.to_string()).unwrap_or_default();
    Err(Failure::new(format!("cannot create a directory in {}: {reason}", parent.display()))
        .with_status(FAILED))
}

/// When ssh exchanges keys with the host.
pub(crate) fn rekey(login: &LoginArgs, host: &OsStr) -> Rekey {
    let mut command = Command::new(&login.ssh);
    command.arg("-G").args(options(login)).arg("--").arg(host).stdin(Stdio::null());
    let output = command.stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    Rekey::parse(&text.unwrap_or_default())
}

/// ssh as a master that only logs in and passes messages on. The user's options come first, but for those in `first`: of
/// ssh's options the first counts.
fn command(login: &LoginArgs, socket: &Path, first: &[String]) -> Result<Command, Failure> {
    let mut command = if login.manypath {
        let mut command = Command::new(manypath_cli::programs::find("manypath")?);
        command.args(["run", "--client-only", "--"]).arg(&login.ssh);
        command
    } else {
        Command::new(&login.ssh)
    };
    if std::env::var_os(TUNABLES.0).is_none() {
        command.env(TUNABLES.0, TUNABLES.1);
    }
    command.args(["-M", "-N", "-T", "-x", "-S"]).arg(socket);
    command.args(first.iter().flat_map(|option| ["-o", option])).args(options(login));
    let ours = [
        // The master is ours alone, stays our child and ends with us.
        "ControlMaster=yes",
        "ControlPersist=no",
        "ForkAfterAuthentication=no",
        // Forwards of the user's configuration are for his sessions.
        "ClearAllForwardings=yes",
        "RemoteCommand=none",
        // A path that is gone is noticed within a minute.
        "ServerAliveInterval=20",
        "ServerAliveCountMax=3",
    ];
    command.args(ours.into_iter().flat_map(|option| ["-o", option]));
    Ok(command)
}

/// The user's options, as ssh has them.
fn options(login: &LoginArgs) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    let mut option = |name: &str, value: &OsStr| args.extend([name.into(), value.to_owned()]);
    if let Some(port) = login.port {
        option("-p", port.to_string().as_ref());
    }
    if let Some(name) = &login.login {
        option("-l", name);
    }
    if let Some(jump) = &login.jump {
        option("-J", jump);
    }
    if let Some(config) = &login.config {
        option("-F", config.as_ref());
    }
    for identity in &login.identity {
        option("-i", identity.as_ref());
    }
    for one in &login.option {
        option("-o", one);
    }
    let flags = [(login.ipv4, "-4"), (login.ipv6, "-6"), (login.quiet, "-q")];
    args.extend(flags.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag.into()));
    args.extend((0..login.verbose).map(|_| "-v".into()));
    args
}
