//! Shared by the tests: a lab, or the reason why there can be none; programs to run on its hosts.

pub(crate) mod programs;

use manypath_lab::{Isolation, Lab, LabError, LabSpec, PathSpec};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A lab with these paths. `None`, with the reason printed, only where neither root nor user
/// namespaces can be used.
pub(crate) fn lab(paths: &[&str]) -> Option<Lab> {
    start(LabSpec::new(specs(paths)))
}

pub(crate) fn specs(paths: &[&str]) -> Vec<PathSpec> {
    paths.iter().map(|path| path.parse().unwrap()).collect()
}

pub(crate) fn start(spec: LabSpec) -> Option<Lab> {
    match Lab::start(spec) {
        Ok(lab) => Some(lab),
        Err(error) if is_forbidden_here(&error) => {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether the system permits neither root's way nor user namespaces. As root nothing is excused.
fn is_forbidden_here(error: &LabError) -> bool {
    let LabError::Hosts { step, .. } = error else { return false };
    !is_root() && (step.contains("namespaces") || step.contains("/dev/net/tun"))
}

fn is_root() -> bool {
    uid() == 0
}

fn uid() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap())
}

/// Root, where we are it, and a user namespace.
pub(crate) fn isolations() -> Vec<Isolation> {
    let both = [Isolation::Root, Isolation::UserNamespace];
    both.into_iter().filter(|isolation| is_root() || *isolation != Isolation::Root).collect()
}

/// A command that runs one of the programs of `programs.rs` in this test binary.
pub(crate) fn program(command: &mut Command, name: &str, arguments: &[&str]) {
    command.args(["--exact", "program", "--nocapture", "--test-threads", "1"]);
    command.env("LAB_TEST_PROGRAM", format!("{name} {}", arguments.join(" ")));
    command.stdin(Stdio::null());
}

pub(crate) fn this_binary() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

/// A program on a host that has said that it is ready; killed when dropped.
pub(crate) struct Server {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Server {
    pub(crate) fn start(
        lab: &Lab,
        host: manypath_lab::Host,
        name: &str,
        arguments: &[&str],
    ) -> Self {
        let mut command = lab.command(host, this_binary());
        program(&mut command, name, arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, lines };
        server.answer("ready");
        server
    }

    /// The rest of the next line that starts with `word`.
    pub(crate) fn answer(&mut self, word: &str) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("the program ended without '{word}'");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program on a host to its end; the rest of its line that starts with `word`.
pub(crate) fn run(lab: &Lab, host: manypath_lab::Host, name: &str, arguments: &[&str]) -> String {
    let mut command = lab.command(host, this_binary());
    program(&mut command, name, arguments);
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = text.lines().find_map(|line| line.split_once("answer ").map(|(_, rest)| rest));
    answer.unwrap_or_else(|| panic!("no answer from {name}: {text}")).trim().to_owned()
}

/// The control socket of the lab `name`, as the README says.
pub(crate) fn socket_of(name: &str) -> std::path::PathBuf {
    let directory = match std::env::var("XDG_RUNTIME_DIR") {
        _ if is_root() => "/run/manypath".to_owned(),
        Ok(runtime) => runtime + "/manypath",
        Err(_) => format!("/tmp/manypath-{}", uid()),
    };
    std::path::Path::new(&directory).join(format!("lab-{name}.sock"))
}
