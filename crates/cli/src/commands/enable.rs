//! `manypath enable` and `manypath disable`: a service, a slice or a cgroup that is carried whenever it runs.

use super::attach;
use crate::failure::Failure;
use clap::Args;
use manypath_cgroup::systemd::Target;
use manypath_cgroup::{Rival, group};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the program is on hosts that are not this one.
const INSTALLED: &str = "/usr/bin/manypath";

/// Carry the connections of a service, slice or cgroup from now on.
///
/// Needs root and systemd. Writes a service that runs `manypath attach` and, for UNIT.service, a
/// drop-in that starts it before the service; other files are never changed. For a service that
/// is already running, new connections are carried at once.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath enable nginx.service\n  manypath enable user.slice --client-only\n  manypath enable machine.slice --containers\n  manypath enable nginx --root /mnt/image"
)]
pub(crate) struct EnableArgs {
    /// Service, slice, or directory of a cgroup.
    #[arg(value_name = "UNIT|CGROUP")]
    pub(crate) target: String,
    /// Write the files below this root directory and start nothing.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Do not accept connections over SCTP: listening sockets stay plain TCP.
    #[arg(long)]
    pub(crate) client_only: bool,
    /// Also carry programs in network namespaces of their own, such as those of containers. The service then needs
    /// more capabilities.
    #[arg(long)]
    pub(crate) containers: bool,
    /// Send connections to any destination through a relay (see `manypath run --via`).
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    pub(crate) via: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Undo `manypath enable`.
///
/// New connections are plain TCP, and all files that `manypath enable` wrote are removed.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  manypath disable nginx.service")]
pub(crate) struct DisableArgs {
    /// Service, slice, or directory of a cgroup, as given to `manypath enable`.
    #[arg(value_name = "UNIT|CGROUP")]
    pub(crate) target: String,
    /// Remove the files below this root directory and stop nothing.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct DoneJson {
    target: String,
    unit: String,
    files: Vec<PathBuf>,
    /// Whether connections are carried, or left alone, from now on.
    at_once: bool,
}

/// Writes the files, and lets systemd know.
pub(crate) fn enable(args: &EnableArgs) -> Result<u8, Failure> {
    let target = parse(&args.target)?;
    let asked = [("--client-only", args.client_only), ("--containers", args.containers)];
    let options = asked.into_iter().filter_map(|(option, asked)| asked.then_some(option));
    let via = super::stack_options::parse_via(&args.via)?.map(|via| format!("--via={via}"));
    let options: Vec<&str> = options.chain(via.as_deref()).collect();
    let (root, program) = match &args.root {
        Some(root) => (root.as_path(), PathBuf::from(INSTALLED)),
        None => (Path::new("/"), this_program(&target)?),
    };
    let files = target.install(root, &program, &options).map_err(|e| cannot(&e))?;
    let at_once = args.root.is_none() && start(&target)?;
    let when = if at_once { "from now on" } else { "when it is started" };
    done(args.json, &target, files, at_once, &format!("{target} is carried {when}"))
}

/// Removes them, and lets systemd know.
pub(crate) fn disable(args: &DisableArgs) -> Result<u8, Failure> {
    let target = parse(&args.target)?;
    let root = args.root.as_deref();
    let at_once = root.is_none() && is_systemd_here();
    if at_once {
        // It may not run.
        let _ = systemctl(&["stop", &target.attaching_unit()]);
    }
    let files = target.remove(root.unwrap_or(Path::new("/"))).map_err(|e| cannot(&e))?;
    if files.is_empty() {
        return Err(Failure::new(format!("{target} is not enabled")));
    }
    if at_once {
        systemctl(&["daemon-reload"])?;
    }
    done(args.json, &target, files, at_once, &format!("{target} is not carried any more"))
}

fn parse(text: &str) -> Result<Target, Failure> {
    text.parse().map_err(|e: manypath_cgroup::systemd::BadName| Failure::usage(e.to_string()))
}

fn done(
    json: bool,
    target: &Target,
    files: Vec<PathBuf>,
    at_once: bool,
    words: &str,
) -> Result<u8, Failure> {
    if json {
        let (target, unit) = (target.to_string(), target.attaching_unit());
        let text = serde_json::to_string(&DoneJson { target, unit, files, at_once });
        println!("{}", text.map_err(|e| Failure::new(e.to_string()))?);
    } else {
        println!("{words}");
        files.iter().for_each(|file| println!("  {}", file.display()));
    }
    Ok(0)
}

/// Whether this host can do it at all, before anything is written; then, what is to be started.
fn this_program(target: &Target) -> Result<PathBuf, Failure> {
    if !is_systemd_here() {
        return Err(Failure::new("systemd is not running").hint(format!(
            "manypath attach --unit {target} does it in the foreground; --root DIR only writes the files"
        )));
    }
    group::mount().map_err(|_| attach::no_cgroup2())?;
    // A slice is there as soon as anything is put into it.
    if let Target::Service(unit) = target {
        systemctl(&["cat", unit]).map_err(|_| Failure::new(format!("there is no unit {unit}")))?;
    }
    refuse_rival(target)?;
    std::env::current_exe()
        .map_err(|e| Failure::new(format!("cannot find the manypath program: {e}")))
}

/// Nobody else carries its programs: the unit would fail. Who enables again may do so.
fn refuse_rival(target: &Target) -> Result<(), Failure> {
    let group = match target {
        Target::Service(unit) | Target::Slice(unit) => attach::of_unit(unit)?,
        Target::Group(path) => path.clone(),
    };
    let own = Some(target.attaching_unit());
    match Rival::of(&group).filter(|rival| rival.unit != own) {
        Some(rival) => Err(attach::rival_failure(&rival)),
        None => Ok(()),
    }
}

fn is_systemd_here() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Whether it is at work now: a service that does not run brings it along when it is started.
fn start(target: &Target) -> Result<bool, Failure> {
    systemctl(&["daemon-reload"])?;
    let waits = matches!(target, Target::Service(unit) if systemctl(&["is-active", unit]).is_err());
    if !waits {
        systemctl(&["start", &target.attaching_unit()])?;
    }
    Ok(!waits)
}

fn systemctl(args: &[&str]) -> Result<(), Failure> {
    let output = Command::new("systemctl").args(args).output();
    let output = output.map_err(|e| Failure::new(format!("systemctl: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::new(format!("systemctl {}: {said}", args.join(" "))))
}

fn cannot(error: &io::Error) -> Failure {
    let failure = Failure::new(error.to_string());
    if error.kind() == io::ErrorKind::PermissionDenied { failure.hint("as root") } else { failure }
}
