//! Setups in which the peer does not do its part, or is thought not to.

use crate::common::gateways::sh;
use crate::common::{MANYPATH, Site, wait_for};
use crate::doctor::patient::{cause, connect, doctor, healthy, is_mended, obey, wrong};
use manypath_lab::Host;

#[test]
fn no_manypath_is_running_on_the_peer() {
    let mut site = Site::new();
    let server = site.server();
    let cause = is_mended(&mut site, &[&server], "nobody-listens");
    assert_eq!(
        (&cause["command"], &cause["place"]),
        (&"manypath serve --allow 22".into(), &"peer".into())
    );
}

#[test]
fn the_service_is_not_open_to_peers() {
    let mut site = Site::new();
    site.web();
    site.serve("1234");
    let service = format!("{}:8080", site.server());
    let cause = is_mended(&mut site, &[&service], "not-allowed");
    assert_eq!(cause["command"], "manypath rules add local enable port 8080");
}

#[test]
fn a_peer_that_requires_encryption_is_well_where_it_is_offered() {
    let mut site = Site::new();
    site.service(MANYPATH, &["serve", "--allow", "8080", "--encrypt", "require"], "udp", 9899);
    let server = site.server();
    let (report, code) = doctor(&site, &[&server]);
    assert!(wrong(&report).is_empty() && code == Some(0), "{report:#}");
}

#[test]
fn a_rule_turns_encryption_off_that_the_peer_requires() {
    let mut site = Site::new();
    site.service(MANYPATH, &["serve", "--allow", "8080", "--encrypt", "require"], "udp", 9899);
    let (server, rules) = (site.server(), site.dir.join("rules"));
    let rule = format!("remote enable host {server} class=interactive encrypt=off");
    std::fs::write(&rules, format!("# rules\nremote enable port 25\n{rule}\n")).unwrap();
    let cause = is_mended(&mut site, &[&server], "encryption-required");
    let text = cause["text"].as_str().unwrap();
    assert!(text.contains(&format!("{rule} ({} line 3)", rules.display())), "{text}");
    let better = rule.replace("off", "opportunistic");
    assert_eq!(cause["command"], format!("manypath rules add --at 2 {better}"));
}

#[test]
fn the_peer_is_remembered_as_one_without_manypath() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 1000);
    let server = site.server();
    let url = format!("http://{server}:8080/small");
    let done = site.through("curl", &["-sS", "-f", "-o", "/dev/null", &url]);
    assert_eq!(done.code, Some(0), "{done:?}");
    site.serve("8080");
    let cause = is_mended(&mut site, &[&server], "remembered-plain");
    assert_eq!(cause["command"], format!("manypath cache flush {server}"));
}

#[test]
fn a_rule_leaves_the_peer_to_tcp() {
    let mut site = healthy();
    let server = site.server();
    std::fs::write(site.dir.join("rules"), format!("remote disable host {server}\n")).unwrap();
    let cause = is_mended(&mut site, &[&server], "rule-disables");
    assert_eq!(cause["command"], "manypath rules delete remote disable 1");
}

#[test]
fn nothing_is_carried_unless_a_rule_says_so() {
    let mut site = healthy();
    let server = site.server();
    std::fs::write(site.dir.join("rules"), "default remote disable\n").unwrap();
    let cause = is_mended(&mut site, &[&server], "rule-disables");
    assert_eq!(cause["command"], "manypath rules default remote enable");
}

#[test]
fn the_peers_user_has_disabled_a_path() {
    let mut site = healthy();
    connect(&mut site);
    let (server, second) = (site.server(), site.lab.address(Host::Right, 1));
    sh(&site, Host::Right, &format!("{MANYPATH} path add {second} disable"));
    let found = || cause(&doctor(&site, &[&server]).0, "peer-disables");
    wait_for("the peer's word", || found().is_some());
    let found = found().unwrap();
    assert_eq!((&found["place"], &found["path"]["interface"]), (&"peer".into(), &"pathB".into()));
    obey(&mut site, &found);
    wait_for("the path", || wrong(&doctor(&site, &[&server]).0).is_empty());
}
