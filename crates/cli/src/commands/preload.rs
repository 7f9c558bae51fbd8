//! `manypath run --sctp`: a program made for the kernel's SCTP, served in userland.

use super::run::RunArgs;
use super::stack_options::EncapsulationArg;
use crate::failure::Failure;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Run a program that uses SCTP sockets, without SCTP in the kernel.
///
/// The program's SCTP sockets (IPPROTO_SCTP, one-to-one or one-to-many, with or without libsctp)
/// are served inside its process, over several paths at once; all other sockets are left alone. The
/// program must be linked dynamically and must not be setuid.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  manypath run --sctp -- sctp_test -H 0.0.0.0 -P 5001 -l\n  manypath run --sctp --encapsulation native -- iperf3 --sctp -c server.example"
)]
pub(crate) struct PreloadArgs {
    /// Carry SCTP in UDP (RFC 6951) or directly over IP (protocol 132), which needs root or
    /// CAP_NET_RAW.
    #[arg(long, value_enum, value_name = "HOW", default_value = "udp")]
    pub(crate) encapsulation: EncapsulationArg,
    /// Local UDP port. If it is taken, any other, on which peers cannot find this program.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) port: u16,
    /// UDP port of the peers to which the program connects.
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(crate) peer_port: u16,
    /// Do not run the program: print the library and the environment it would get, as one JSON
    /// object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Program and arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl PreloadArgs {
    /// Those of `manypath run --sctp`.
    pub(super) fn of(args: &RunArgs) -> Self {
        Self {
            encapsulation: args.stack.encapsulation,
            port: args.port,
            peer_port: args.stack.peer_port,
            json: args.json,
            command: args.command.clone(),
        }
    }
}

/// The library that is meant.
const SCTP: Library = Library {
    file: "libmanypath_preload.so",
    package: "manypath-preload",
    place: "MANYPATH_SCTP_LIBRARY",
};
/// By which programs hand over their sockets to the launcher.
const HANDOVER: Library = Library {
    file: "libmanypath_handover.so",
    package: "manypath-handover",
    place: "MANYPATH_HANDOVER_LIBRARY",
};

/// A library that is preloaded.
struct Library {
    file: &'static str,
    /// What builds it.
    package: &'static str,
    /// The variable that says where it is, if it is elsewhere.
    place: &'static str,
}

/// Where it is looked for, as seen from the folder of this program: beside it, and where packages put it.
const PLACES: [&str; 3] = ["", "../lib", "../lib/manypath"];

/// What `--json` prints.
#[derive(Serialize)]
struct Plan<'a> {
    library: String,
    environment: Vec<(&'static str, String)>,
    command: Vec<std::borrow::Cow<'a, str>>,
}

/// Becomes the program. Returns only if that fails, or with `--json`.
pub(crate) fn preload(args: &PreloadArgs) -> Result<u8, Failure> {
    let library = SCTP.find_here()?;
    if args.encapsulation == EncapsulationArg::Native {
        manypath_net::check_native().map_err(|e| {
            Failure::new(e.to_string()).hint("as root, or in UDP: --encapsulation udp")
        })?;
    }
    let environment = vec![
        ("LD_PRELOAD", preloaded(&library, std::env::var_os("LD_PRELOAD"))),
        ("MANYPATH_SCTP_ENCAPSULATION", args.encapsulation.name().to_owned()),
        ("MANYPATH_SCTP_UDP_PORT", args.port.to_string()),
        ("MANYPATH_SCTP_PEER_UDP_PORT", args.peer_port.to_string()),
    ];
    if args.json {
        let command = args.command.iter().map(|word| word.to_string_lossy()).collect();
        let plan = Plan { library: library.display().to_string(), environment, command };
        let text = serde_json::to_string(&plan).map_err(|e| Failure::new(e.to_string()))?;
        println!("{text}");
        return Ok(0);
    }
    Err(become_program(&args.command, environment))
}

fn become_program(command: &[OsString], environment: Vec<(&str, String)>) -> Failure {
    let Some((program, arguments)) = command.split_first() else {
        return Failure::usage("no program given");
    };
    let error = Command::new(program).args(arguments).envs(environment).exec();
    // As shells say it.
    let status = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure::new(format!("cannot run {}: {error}", program.display())).with_status(status)
}

/// What the loader is told: ours first, then what was there.
fn preloaded(library: &Path, before: Option<OsString>) -> String {
    let ours = library.display().to_string();
    match before.filter(|before| !before.is_empty()) {
        Some(before) => format!("{ours}:{}", before.to_string_lossy()),
        None => ours,
    }
}

/// The library by which programs hand over their sockets, if it is there.
pub(super) fn handover() -> Option<PathBuf> {
    HANDOVER.find_here().ok()
}

impl Library {
    fn find_here(&self) -> Result<PathBuf, Failure> {
        self.find(std::env::var_os(self.place), std::env::current_exe().ok().as_deref())
    }

    /// Where the environment says, or in one of the usual places.
    fn find(&self, named: Option<OsString>, program: Option<&Path>) -> Result<PathBuf, Failure> {
        let Self { file, package, place } = self;
        if let Some(named) = named {
            let path = PathBuf::from(named);
            return path.canonicalize().map_err(|error| {
                Failure::new(format!("{place} names {}: {error}", path.display()))
            });
        }
        let folder = program.and_then(Path::parent);
        let places =
            folder.into_iter().flat_map(|folder| PLACES.map(|place| folder.join(place).join(file)));
        let places: Vec<PathBuf> = places.collect();
        // The loader cuts what it is told at spaces and colons.
        let usable =
            |path: &PathBuf| !path.as_os_str().as_encoded_bytes().iter().any(|b| b": ".contains(b));
        let found = places.iter().find_map(|place| place.canonicalize().ok()).filter(usable);
        found.ok_or_else(|| {
            let tried: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
            Failure::new(format!("{file} not found: tried {}", tried.join(", "))).hint(format!(
                "`cargo build --release -p {package}` builds it; {place} may name it"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_before_is_preloaded_after_ours() {
        let ours = Path::new("/lib/ours.so");
        assert_eq!(preloaded(ours, None), "/lib/ours.so");
        assert_eq!(preloaded(ours, Some("".into())), "/lib/ours.so");
        assert_eq!(preloaded(ours, Some("/lib/a.so".into())), "/lib/ours.so:/lib/a.so");
    }

    #[test]
    fn the_library_is_found_beside_the_program_and_in_the_lib_folder() {
        let dir = std::env::temp_dir().join(format!("manypath-preload-{}", std::process::id()));
        let (bin, lib) = (dir.join("bin"), dir.join("lib"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        let program = bin.join("manypath");
        let missing = SCTP.find(None, Some(&program)).unwrap_err().to_string();
        assert!(missing.contains("MANYPATH_SCTP_LIBRARY"), "{missing}");
        std::fs::write(lib.join(SCTP.file), "").unwrap();
        let there = SCTP.find(None, Some(&program)).unwrap();
        assert_eq!(there, lib.canonicalize().unwrap().join(SCTP.file));
        std::fs::write(bin.join(SCTP.file), "").unwrap();
        let beside = SCTP.find(None, Some(&program)).unwrap();
        assert_eq!(beside, bin.canonicalize().unwrap().join(SCTP.file));
        let named = SCTP.find(Some("/does/not/exist.so".into()), Some(&program));
        assert!(named.unwrap_err().to_string().contains("/does/not/exist.so"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
