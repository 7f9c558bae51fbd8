//! Commands of versions before this one.

use super::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use std::process::Command;

/// Those of [`Site`] that earlier versions know.
const SETTINGS: &str = "step_aside = never\n";

/// This version, and one that speaks the control language before it.
pub(crate) fn versions() -> [String; 2] {
    [MANYPATH.to_owned(), built("language")]
}

/// An earlier version, as `scripts/previous` calls it.
pub(crate) fn built(which: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/previous");
    let output = Command::new(script).arg(which).output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a path").trim().to_owned()
}

/// A command on a host, with settings that its version knows.
pub(crate) fn command(site: &Site, host: Host, manypath: &str) -> Command {
    let mut command = site.command(host, manypath);
    if manypath != MANYPATH {
        let settings = site.dir.join("sysctl-previous.conf");
        std::fs::write(&settings, SETTINGS).expect("settings");
        command.env("MANYPATH_SYSCTL", settings);
    }
    command
}

/// Starts a stack of either version on the right host, which lets peers reach a port.
pub(crate) fn serve(site: &mut Site, manypath: &str, port: &str) {
    let mut stack = command(site, Host::Right, manypath);
    stack.args(["serve", "--allow", port, "-v"]);
    site.begin_service(stack, manypath, "udp", 9899);
    wait_for("the stack", || !stacks(site, manypath).is_empty());
}

/// The stacks of the right host, as a command says.
pub(crate) fn stacks(site: &Site, manypath: &str) -> Vec<serde_json::Value> {
    let mut command = command(site, Host::Right, manypath);
    command.args(["status", "--json"]);
    let said: Finished = finish(command);
    let all: serde_json::Value = serde_json::from_str(&said.stdout)
        .unwrap_or_else(|e| panic!("status is not JSON: {e}: {said:?}"));
    all["stacks"].as_array().cloned().unwrap_or_default()
}

/// A curl of a file of the site on the left host, under a command.
pub(crate) fn fetch(site: &Site, manypath: &str) -> Finished {
    let mut command = command(site, Host::Left, manypath);
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
