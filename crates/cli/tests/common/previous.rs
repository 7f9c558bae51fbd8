//! The command of the version before this one.

use super::{Finished, MANYPATH, Site, finish};
use manypath_lab::Host;
use std::process::Command;

/// This version, and the one before it.
pub(crate) fn versions() -> [String; 2] {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/previous");
    let output = Command::new(script).output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let previous = String::from_utf8(output.stdout).expect("a path").trim().to_owned();
    [MANYPATH.to_owned(), previous]
}

/// The stacks of the right host, as a command says.
pub(crate) fn stacks(site: &Site, manypath: &str) -> Vec<serde_json::Value> {
    let mut command = site.command(Host::Right, manypath);
    command.args(["status", "--json"]);
    let said: Finished = finish(command);
    let all: serde_json::Value = serde_json::from_str(&said.stdout)
        .unwrap_or_else(|e| panic!("status is not JSON: {e}: {said:?}"));
    all["stacks"].as_array().cloned().unwrap_or_default()
}

/// A curl of a file of the site on the left host, under a command.
pub(crate) fn fetch(site: &Site, manypath: &str) -> Finished {
    let mut command = site.command(Host::Left, manypath);
    command.args([
        "run",
        "--report",
        "--",
        "curl",
        "-sS",
        "-o",
        "/dev/null",
        "-w",
        "%{size_download}",
    ]);
    command.arg(format!("http://{}:8080/file", site.server()));
    finish(command)
}
