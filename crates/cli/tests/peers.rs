//! What is known about peers: learnt by one program, used by the next, shown, forgotten, healed.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::{Finished, MANYPATH, Site, finish};
use manypath_lab::Host;

fn peers(site: &Site, args: &[&str]) -> Finished {
    let mut command = site.command(Host::Left, MANYPATH);
    command.arg("cache").args(args);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

/// How often connections of a program were carried, and whether some were left for `reason`.
fn fetch(site: &Site, url: &str, reason: &str) -> (u64, bool) {
    let command = site.through_command(&["--json"], "curl", &["-sS", "-f", "-o", "/dev/null", url]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    let report: serde_json::Value = serde_json::from_str(done.stderr.trim()).unwrap();
    let left = report["left_to_the_kernel"].as_object().unwrap();
    (report["sctp"].as_u64().unwrap(), left.contains_key(reason))
}

/// The program is done before its stack has written what it has learnt.
fn wait_until_known(site: &Site, what: &str) {
    common::wait_for(what, || peers(site, &[]).stdout.contains(what));
}

#[test]
fn what_one_program_learns_serves_the_next_until_it_is_wrong_or_forgotten() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    let url = format!("http://{}:8080/small", site.server());
    assert!(peers(&site, &[]).stdout.contains("cache of peers is empty"));
    // Nobody speaks SCTP there yet: curl connects without waiting, so the first one is relayed.
    assert_eq!(fetch(&site, &url, "remembered"), (0, false));
    wait_until_known(&site, "plain TCP");
    assert_eq!(fetch(&site, &url, "remembered"), (0, true));
    assert!(peers(&site, &[]).stdout.contains(&format!("{}  plain TCP: ", site.server())));
    let json = peers(&site, &["--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["peers"][0]["reason"], "refused", "{json}");
    site.serve("8080");
    let service = format!("{}:8080", site.server());
    assert!(peers(&site, &["flush", &service]).stdout.starts_with("0 entries"));
    assert!(peers(&site, &["flush", &site.server()]).stdout.starts_with("1 entries"));
    assert_eq!(fetch(&site, &url, "remembered"), (1, false));
    wait_until_known(&site, &format!("{service}  carried over SCTP"));
}
