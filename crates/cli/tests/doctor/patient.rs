//! Breaks, asks the doctor, does what it says, and asks again.

use crate::common::gateways::sh;
use crate::common::{Finished, MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

/// A host with two uplinks to a peer that serves port 8080.
pub(crate) fn healthy() -> Site {
    let mut site = Site::new();
    site.serve("8080");
    site
}

/// What the doctor says on the left host, and its exit status.
pub(crate) fn doctor(site: &Site, words: &[&str]) -> (Value, Option<i32>) {
    let done = said(site, &[words, &["--json"]].concat());
    let report = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    (report, done.code)
}

/// The same for people.
pub(crate) fn said(site: &Site, words: &[&str]) -> Finished {
    let mut command = site.command(Host::Left, MANYPATH);
    command.arg("doctor").args(words);
    finish(command)
}

/// The cause with this name.
pub(crate) fn cause(report: &Value, name: &str) -> Option<Value> {
    let mut causes = report["causes"].as_array().unwrap().iter();
    causes.find(|cause| cause["name"] == name).cloned()
}

/// The causes that are more than notes.
pub(crate) fn wrong(report: &Value) -> Vec<String> {
    let causes = report["causes"].as_array().unwrap().iter();
    let wrong = causes.filter(|cause| cause["weight"] != "note");
    wrong.map(|cause| cause["name"].as_str().unwrap().to_owned()).collect()
}

/// The doctor names `name` first, and alone; its command is given where it says; then all is well.
/// Returns the cause.
pub(crate) fn is_mended(site: &mut Site, words: &[&str], name: &str) -> Value {
    let (report, code) = doctor(site, words);
    assert_eq!(
        (wrong(&report).as_slice(), code),
        ([name.to_owned()].as_slice(), Some(1)),
        "{report:#}"
    );
    let found = cause(&report, name).unwrap();
    obey(site, &found);
    let (report, code) = doctor(site, words);
    assert!(wrong(&report).is_empty() && report["well"] == true && code == Some(0), "{report:#}");
    found
}

/// A program on the left host that holds a connection to port 8080 of the peer, over which a byte has come.
pub(crate) fn connect(site: &mut Site) {
    let accept = "while True:\n c,_=s.accept()\n c.sendall(b'x'); k.append(c)";
    let server = format!("import socket\nk=[]\ns=socket.create_server(('',8080))\n{accept}");
    site.service("python3", &["-c", &server], "tcp", 8080);
    let client = format!(
        "import socket,time\ns=socket.create_connection(('{}',8080))\ns.recv(1)\nprint(1,flush=True)\ntime.sleep(60)",
        site.server()
    );
    let heard = site.dir.join("heard");
    let mut command = site.through_command(&[], "python3", &["-c", &client]);
    command.stdin(Stdio::null()).stdout(File::create(&heard).unwrap());
    site.services.push(command.spawn().unwrap());
    wait_for("a byte", || fs::read_to_string(&heard).is_ok_and(|text| text.starts_with('1')));
}

/// Gives the command of a cause to a shell of the host that is meant.
pub(crate) fn obey(site: &mut Site, cause: &Value) {
    let command = cause["command"].as_str().unwrap_or_else(|| panic!("no command: {cause:#}"));
    let host = if cause["place"] == "peer" { Host::Right } else { Host::Left };
    match command.strip_prefix("manypath serve ") {
        // It does not end.
        Some(words) => {
            let words: Vec<_> = ["serve", "-v"].into_iter().chain(words.split(' ')).collect();
            site.service_on(host, MANYPATH, &words, "udp", 9899);
        }
        None => drop(sh(site, host, &with_programs(command))),
    }
}

/// Lets the shell find the program under test, and those that only root's PATH has.
fn with_programs(command: &str) -> String {
    let folder = |program: &Path| program.parent().unwrap().display().to_string();
    let folders = [folder(Path::new(MANYPATH)), folder(&find("ip"))];
    format!("PATH={}:/usr/sbin:/sbin:$PATH; {command}", folders.join(":"))
}
