//! What stacks say: one line for each connection, levels per subsystem that change live.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

fn log(site: &Site, name: &str) -> String {
    std::fs::read_to_string(site.dir.join(name)).unwrap_or_default()
}

fn sysctl(site: &Site, settings: &[&str]) -> Finished {
    let mut command = site.command(Host::Left, MANYPATH);
    command.arg("sysctl").args(settings);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

fn fetch(site: &Site, log: &str, url: &str) {
    let log = site.dir.join(log);
    let options = ["--log", log.to_str().unwrap()];
    let command = site.through_command(&options, "curl", &["-sS", "-f", "-o", "/dev/null", url]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn every_connection_leaves_one_line_that_says_what_carried_it_and_levels_are_per_subsystem() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    let url = format!("http://{}:8080/small", site.server());
    sysctl(&site, &["log_connection=info"]);
    fetch(&site, "plain", &url);
    let to = format!("connection: connection to {}:8080: ended after", site.server());
    wait_for("a line about plain TCP", || log(&site, "plain").contains(&to));
    let plain = log(&site, "plain");
    assert_eq!(plain.lines().count(), 1, "{plain}");
    assert!(plain.contains("over plain TCP (the peer does not accept"), "{plain}");

    site.serve("8080");
    let flush = finish({
        let mut command = site.command(Host::Left, MANYPATH);
        command.args(["cache", "flush"]);
        command
    });
    assert_eq!(flush.code, Some(0), "{flush:?}");
    fetch(&site, "carried", &url);
    wait_for("a line about SCTP", || log(&site, "carried").contains(&to));
    let carried = log(&site, "carried");
    assert_eq!(carried.lines().count(), 1, "{carried}");
    assert!(
        carried.contains(" B over SCTP (association 1, ") && carried.contains(" %)"),
        "{carried}"
    );

    sysctl(&site, &["log_connection=inherit", "log_association=info"]);
    fetch(&site, "associations", &url);
    wait_for("an association's end", || log(&site, "associations").contains("closed"));
    let lines = log(&site, "associations");
    assert!(lines.lines().all(|line| line.contains("] association: ")), "{lines}");
}

#[test]
fn a_place_where_nothing_can_be_written_is_told_before_the_program_runs() {
    let site = Site::new();
    let command = site.through_command(&["--log", "/nonexistent/log"], "true", &[]);
    let done = finish(command);
    assert_eq!(done.code, Some(125), "{done:?}");
    assert!(done.stderr.contains("--log: /nonexistent/log: "), "{done:?}");
}

/// Stack, launcher and programs share a terminal: whoever writes a line by pieces has others between them.
#[test]
fn all_that_is_told_is_told_by_whole_lines() {
    let mut site = Site::new();
    site.web();
    site.serve("8080");
    let url = format!("http://{}:8080/", site.server());
    for option in ["--report", "--json"] {
        let args = ["-sS", "-o", "/dev/null", &url];
        let mut command = site.through_command(&["-v", option], "curl", &args);
        // Each write is a datagram of its own.
        let (told, stderr) = UnixDatagram::pair().unwrap();
        told.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let mut child = command.stderr(OwnedFd::from(stderr)).spawn().unwrap();
        drop(command);
        let mut datagram = vec![0; 1 << 16];
        let mut all = String::new();
        while !(all.contains("connects opened=1") || all.contains("\"opened\":1")) {
            let length = told.recv(&mut datagram).unwrap_or_else(|e| panic!("{e}: {all}"));
            let text = std::str::from_utf8(&datagram[..length]).unwrap();
            assert!(text.ends_with('\n'), "a piece of a line: {text:?} after {all}");
            all.push_str(text);
        }
        assert!(all.contains("established"), "{all}");
        assert!(child.wait().unwrap().success());
    }
}
