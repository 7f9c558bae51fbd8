//! A server whose associations are encrypted is started anew.

use super::takeover::{Course, SERVE, echo, pause, status_of};
use manypath_lab::Host;

/// The server before keeps its keys, and the next one has the same identity.
#[test]
fn encrypted_connections_outlive_a_restart() {
    let site = echo();
    let settings = "step_aside = never\ntcp_race = off\nencrypt = require\n";
    std::fs::write(site.dir.join("sysctl.conf"), settings).unwrap();
    let mut course = Course::of(site, Host::Right, &SERVE);
    let first = course.transfers("first");
    course.order("restart");
    let second = course.transfers("second");
    pause();
    let stacks = status_of(&course.site, Host::Right);
    let all = stacks.iter().flat_map(|one| one["associations"].as_array().unwrap());
    let states: Vec<_> = all.map(|one| one["encryption"]["state"].as_str()).collect();
    assert!(states.len() > 1 && states.iter().all(|it| *it == Some("encrypted")), "{states:?}");
    assert_eq!([first.end(), second.end()], ["0", "0"]);
}
