//! Imitated machines: `machines/machine.c` forbids system calls by filters, as containers and services do, and
//! `machines/kernel.c` answers requests as older kernels do.

use super::{MANYPATH, Site, find};
use manypath_lab::Host;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names the library by which programs hand over their sockets.
const LIBRARY_PLACE: &str = "MANYPATH_HANDOVER_LIBRARY";
/// In place of what builds may have left beside the program.
const NOWHERE: &str = "/nowhere";

/// What Docker's default profile forbids of the calls that look into other processes.
pub(crate) const DOCKER: [&str; 3] =
    ["errno:pidfd_getfd:1", "errno:kcmp:1", "errno:process_vm_readv:1"];

/// Compiles a file of `machines`, once.
fn built(place: &OnceLock<PathBuf>, source: &str, options: &[&str]) -> PathBuf {
    let build = || {
        let name = format!("{}-{}", source.replace('.', "-"), std::process::id());
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(source);
        let mut compiler = Command::new(find("cc"));
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(&source);
        let status = compiler.args(options).status().expect("cc runs");
        assert!(status.success(), "{} does not compile", source.display());
        program
    };
    place.get_or_init(build).clone()
}

/// A host's command on a machine that forbids calls.
pub(crate) fn forbidding(site: &Site, host: Host, specs: &[&str]) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let mut command = site.command(host, built(&PROGRAM, "machine.c", &[]));
    command.args(specs).args(["--", MANYPATH]);
    command.env(LIBRARY_PLACE, NOWHERE);
    command
}

/// manypath on a host with an older kernel.
pub(crate) fn on_kernel(site: &Site, host: Host, version: &str) -> Command {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let mut command = site.command(host, MANYPATH);
    command.env("OLD_KERNEL", version).env(LIBRARY_PLACE, NOWHERE);
    command.env("LD_PRELOAD", built(&LIBRARY, "kernel.c", &["-shared", "-fPIC", "-ldl"]));
    command
}

/// The same, with the library by which programs hand over their sockets.
pub(crate) fn handing_over(site: &Site, host: Host, specs: &[&str]) -> Command {
    with_library(forbidding(site, host, specs))
}

/// Lets manypath find the library, where cargo has put it for this run.
pub(crate) fn with_library(mut command: Command) -> Command {
    let own = std::env::current_exe().expect("own path");
    let library = own.parent().expect("a folder").join("libmanypath_handover.so");
    command.env(LIBRARY_PLACE, library);
    command
}
