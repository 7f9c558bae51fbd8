//! What the tests with C programs share.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const COMPILERS: [&str; 2] = ["gcc", "clang"];

/// Where the header is.
pub(crate) fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Where cargo puts libraries for this run.
pub(crate) fn libraries() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().to_owned()
}

/// A folder for the time of a test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("manypath-sctp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end, and gives what it has printed.
pub(crate) fn run(program: &str, args: &[&str]) -> String {
    // Cargo names a folder there in which an older library may lie.
    let output = Command::new(program).args(args).env_remove("LD_LIBRARY_PATH").output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}\n{text}{errors}", output.status);
    text
}

/// Compiles an example against the shared library.
pub(crate) fn example(scratch: &Scratch, name: &str, compiler: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(format!("{name}.c"));
    let program = scratch.path(&format!("{name}-{compiler}"));
    let libraries = libraries().display().to_string();
    let warnings = ["-Wall", "-Wextra", "-Werror", "-g", "-D_GNU_SOURCE"];
    let place = format!("-Wl,-rpath,{libraries}");
    let include = include().display().to_string();
    let rest = [source.to_str().unwrap(), "-I", &include, "-L", &libraries, &place, "-o", &program];
    run(compiler, &[&warnings[..], &rest, &["-lmanypath_sctp"]].concat());
    program
}

/// Compiles an example with the static library.
pub(crate) fn static_example(scratch: &Scratch, name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(format!("{name}.c"));
    let program = scratch.path(&format!("{name}-static"));
    let library = libraries().join("libmanypath_sctp.a").display().to_string();
    let include = include().display().to_string();
    let args =
        ["-D_GNU_SOURCE", source.to_str().unwrap(), "-I", &include, "-o", &program, &library];
    run("gcc", &[&args[..], &["-lpthread", "-ldl", "-lm"]].concat());
    program
}

/// Runs a script in a network of its own that has loopback, and gives what it has printed.
pub(crate) fn in_own_network(script: &str) -> String {
    let script = format!("set -e; ip link set lo up; {script}");
    run("timeout", &["240", "unshare", "--net", "bash", "-c", &script])
}
