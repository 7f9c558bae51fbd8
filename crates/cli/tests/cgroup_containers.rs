//! Programs of containers, in a cgroup that manypath serves: they are carried within their own network.

use crate::common;

use crate::cgroup::fetch;
use common::cgroup::Group;
use common::clients::{carried, web_site};
use common::containers::Container;
use common::gateways::sh;
use common::{Finished, MANYPATH, Site, wait_for};
use manypath_lab::Host;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A container of the left host, in a cgroup that manypath serves with these options.
fn contained(site: &mut Site, options: &[&str]) -> Option<(Group, Container)> {
    let mut group = Group::new()?;
    group.attach(site, Host::Left, &[&["--client-only", "--json"], options].concat());
    let container = Container::new(site, Host::Left, &group);
    Some((group, container))
}

/// Fetches a small file in a container; `flows`: how many connections of it manypath carries.
fn fetch_in(site: &Site, container: &Container, flows: u64) -> Finished {
    let url = format!("http://{}:8080/small", site.server());
    let args = ["-sS", "-f", "-m", "3", "-o", "/dev/null", &url];
    carried(site, flows, || container.run(site, "curl", &args))
}

#[test]
fn programs_of_a_container_are_carried_within_its_network_until_it_ends() {
    let mut site = web_site();
    let Some((mut group, container)) = contained(&mut site, &["--containers"]) else { return };
    let server = container.wait_until_served(&group);
    let network = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).expect("a network");
    assert_eq!(network(server), network(container.pid));
    assert_eq!(fetch_in(&site, &container, 1).code, Some(0));
    // Programs of the host are carried by the host's own stack.
    fetch(&site, &group, 1);
    container.end();
    wait_for("nothing to be left in its network", || group.servers_of_networks().is_empty());
    fetch(&site, &group, 1);
    let report = group.end(&site, Host::Left, "-TERM");
    for words in ["\"opened\":3,\"sctp\":3", "\"left_to_the_kernel\":{}", "\"containers\":1"] {
        assert!(report.contains(words), "{words}: {report}");
    }
}

#[test]
fn programs_of_a_container_are_left_alone_and_named_unless_asked_for() {
    let mut site = web_site();
    let Some((mut group, container)) = contained(&mut site, &[]) else { return };
    assert_eq!(fetch_in(&site, &container, 0).code, Some(0));
    let said = || fs::read_to_string(site.dir.join("attach-Left")).expect("log");
    wait_for("a notice", || said().contains("use plain TCP: --containers carries them"));
    container.end();
    let report = group.end(&site, Host::Left, "-TERM");
    let words = "\"left_to_the_kernel\":{\"other-network-namespace\":1}";
    assert!(report.contains(words) && report.contains("\"containers\":0"), "{report}");
}

#[test]
fn a_container_reaches_nothing_that_its_own_filters_forbid() {
    let mut site = web_site();
    let Some((mut group, container)) = contained(&mut site, &["--containers"]) else { return };
    container.wait_until_served(&group);
    let hook = "type filter hook output priority 0;";
    let own = format!("table ip own {{\nchain out {{ {hook} tcp dport 8080 drop; }}\n}}");
    container.nft(&site, &own);
    assert_ne!(fetch_in(&site, &container, 0).code, Some(0));
    // The filters of a container are no others' business.
    fetch(&site, &group, 1);
    container.end();
    let report = group.end(&site, Host::Left, "-TERM");
    assert!(report.contains("\"egress-policy\":1"), "{report}");
}

#[test]
fn a_container_reaches_nothing_that_its_host_does_not_forward() {
    let mut site = web_site();
    let Some((group, container)) = contained(&mut site, &["--containers"]) else { return };
    container.wait_until_served(&group);
    let wall = "chain pods { type filter hook forward priority 0; iifname to-pod drop; }";
    sh(&site, Host::Left, &format!("nft -f - <<.\ntable ip wall {{\n{wall}\n}}\n."));
    assert_ne!(fetch_in(&site, &container, 0).code, Some(0));
    fetch(&site, &group, 1);
    container.end();
}

#[test]
fn a_network_with_nothing_but_loopback_is_left_alone() {
    let mut site = web_site();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Left, &["--client-only", "--containers", "--json"]);
    let container = Container::without_network(&mut site, Host::Left, &group);
    // It is looked for at least every two seconds.
    sleep(Duration::from_millis(2500));
    assert!(group.servers_of_networks().is_empty());
    assert_ne!(fetch_in(&site, &container, 0).code, Some(0));
    container.end();
    let report = group.end(&site, Host::Left, "-TERM");
    assert!(report.contains("\"other-network-namespace\":1"), "{report}");
}

/// Whoever is in charge of the host's network leaves these connects to the container's own stack.
#[test]
fn a_rule_for_sctp_only_holds_in_a_container_and_does_not_refuse_what_is_carried() {
    let mut site = web_site();
    fs::write(site.dir.join("rules"), "remote enable sctp-only=on\n").expect("rules");
    let Some((group, container)) = contained(&mut site, &["--containers"]) else { return };
    let denied = container.run(
        &site,
        "curl",
        &["-sS", "-m", "3", &format!("http://{}:8081", site.server())],
    );
    assert_ne!(denied.code, Some(0), "{denied:?}");
    container.wait_until_served(&group);
    // Manypath in the host's network may need a moment to hear that it is served.
    wait_for("a connection over SCTP", || fetch_in_or_not(&site, &container));
    container.end();
    drop(group);
}

fn fetch_in_or_not(site: &Site, container: &Container) -> bool {
    let url = format!("http://{}:8080/small", site.server());
    container.run(site, "curl", &["-sS", "-f", "-m", "3", "-o", "/dev/null", &url]).code == Some(0)
}

/// Fetches so slowly that it is there until it is killed.
fn hold_in(site: &Site, container: &Container) -> Child {
    let before = site.server_counter("stack_relays_started");
    let url = format!("http://{}:8080/large", site.server());
    let args = ["-sS", "-o", "/dev/null", "--limit-rate", "10k", &url];
    let held = container.command(site, "curl", &args).spawn().expect("curl");
    wait_for("a long fetch", || site.server_counter("stack_relays_started") > before);
    held
}

#[test]
fn a_takeover_leaves_no_connect_of_a_container_to_plain_tcp() {
    let mut site = web_site();
    site.random_file("large", 20_000_000);
    let Some((group, container)) = contained(&mut site, &["--containers"]) else { return };
    container.wait_until_served(&group);
    let mut held = hold_in(&site, &container);
    let mut second = Group::to_be_made(group.dir.clone());
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["attach", "--client-only", "--containers", "--replace", "--cgroup"]);
    command.arg(&group.dir).stdout(Stdio::null());
    second.adopt(command.spawn().expect("attach"));
    while !container.is_served(&second) {
        fetch_in(&site, &container, 1);
    }
    fetch_in(&site, &container, 1);
    // The one before comes back in the container, too.
    second.end(&site, Host::Left, "-KILL");
    wait_for("a connection over SCTP", || carries(&site, &container));
    held.kill().and_then(|()| held.wait()).expect("its end");
    container.end();
}

#[test]
#[ignore = "takes a minute: make test-full"]
fn a_container_that_the_successor_does_not_serve_falls_back_to_tcp() {
    let mut site = web_site();
    let Some((group, container)) = contained(&mut site, &["--containers"]) else { return };
    container.wait_until_served(&group);
    let mut second = Group::to_be_made(group.dir.clone());
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["attach", "--client-only", "--replace", "--cgroup"]).arg(&group.dir);
    second.adopt(command.stdout(Stdio::null()).spawn().expect("attach"));
    assert_eq!(fetch_in(&site, &container, 1).code, Some(0));
    let limit = Instant::now() + Duration::from_secs(90);
    while container.is_served(&group) {
        assert!(Instant::now() < limit, "the one before still serves it");
        sleep(Duration::from_millis(100));
    }
    assert_eq!(fetch_in(&site, &container, 0).code, Some(0));
    container.end();
}

/// Whether manypath carries what a container fetches.
fn carries(site: &Site, container: &Container) -> bool {
    let before = site.server_counter("stack_relays_started");
    fetch_in_or_not(site, container) && site.server_counter("stack_relays_started") > before
}

#[test]
fn nothing_stays_in_a_container_when_manypath_is_killed() {
    let mut site = web_site();
    let Some((mut group, container)) = contained(&mut site, &["--containers"]) else { return };
    let server = container.wait_until_served(&group);
    assert_eq!(fetch_in(&site, &container, 1).code, Some(0));
    group.end(&site, Host::Left, "-KILL");
    wait_for("its servant to end", || !Path::new(&format!("/proc/{server}/ns/net")).exists());
    assert_eq!(fetch_in(&site, &container, 0).code, Some(0));
    container.end();
}

#[test]
fn a_container_whose_stack_dies_is_served_again() {
    let mut site = web_site();
    let Some((group, container)) = contained(&mut site, &["--containers"]) else { return };
    let server = container.wait_until_served(&group);
    let stack = common::stack_of(server).to_string();
    assert!(Command::new("kill").args(["-9", &stack]).status().expect("kill").success());
    wait_for("its end", || !group.servers_of_networks().contains(&server));
    assert_eq!(fetch_in(&site, &container, 0).code, Some(0));
    assert_ne!(container.wait_until_served(&group), server);
    assert_eq!(fetch_in(&site, &container, 1).code, Some(0));
    container.end();
}
