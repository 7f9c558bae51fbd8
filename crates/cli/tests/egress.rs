//! What a program could not send itself, no stack sends for it: policies by user, by cgroup, by port, and
//! filters of a cgroup, under `manypath attach` and under root's `manypath run`.

use crate::common;

use common::cgroup::{Group, enter};
use common::clients::{carried, web_site};
use common::folder::Folder;
use common::{Finished, MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// A user of the tests, who need not exist.
const USER: &str = "1234";

/// What curl says of a connect that got no answer, and of one that was refused.
const NO_ANSWER: Option<i32> = Some(28);
const REFUSED: Option<i32> = Some(7);

/// Loads rules into the output hook of the left host.
fn policy(site: &Site, rules: &[&str]) {
    let chain = format!(
        "flush ruleset\ntable inet egress {{\nchain output {{\n\
         type filter hook output priority 0; policy accept;\n{}\n}}\n}}\n",
        rules.join("\n")
    );
    let file = site.dir.join("egress.nft");
    fs::write(&file, chain).expect("rules");
    let mut nft = site.command(Host::Left, find("nft"));
    nft.arg("-f").arg(&file);
    let done = finish(nft);
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// curl's arguments to fetch a small file within two seconds.
fn fetching(url: &str) -> Vec<&str> {
    vec!["-sS", "-g", "-f", "--max-time", "2", "-o", "/dev/null", url]
}

fn url(site: &Site) -> String {
    format!("http://{}:8080/small", site.server())
}

/// The same for both families.
fn urls(site: &Site) -> [String; 2] {
    [url(site), format!("http://[{}]:8080/small", site.lab.address_v6(Host::Right, 0))]
}

/// Fetches as the tests' user in the cgroup, and asserts how many connections were carried.
fn fetch_as_user(site: &Site, group: &Group, url: &str, flows: u64) -> Finished {
    let args = [&["--reuid", USER, "--clear-groups", "curl"], &fetching(url)[..]].concat();
    carried(site, flows, || group.through(site, "setpriv", &args))
}

/// Fetches as root in the cgroup.
fn fetch(site: &Site, group: &Group, flows: u64) -> Finished {
    carried(site, flows, || group.through(site, "curl", &fetching(&url(site))))
}

fn attached(site: &Site) -> Option<Group> {
    let mut group = Group::new()?;
    group.attach(site, Host::Left, &["--client-only", "--report"]);
    Some(group)
}

fn end(site: &Site, group: &mut Group) -> String {
    group.end(site, Host::Left, "-TERM")
}

/// Lets the filter of `programs/egress_filter.py` work on a cgroup.
fn filter(dir: &Path, which: &str) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/egress_filter.py");
    let mut command = Command::new(find("python3"));
    command.args([program, &dir.display().to_string(), which]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn without_a_policy_and_with_one_that_permits_connections_are_carried() {
    let site = web_site();
    let Some(mut group) = attached(&site) else { return };
    for url in urls(&site) {
        let done = fetch_as_user(&site, &group, &url, 1);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    // As a firewall of a careful host: what is no new connection, and not known, is dropped.
    policy(
        &site,
        &[
            "ct state invalid drop",
            "ct state established,related accept",
            "oif lo accept",
            &format!("meta skuid {USER} tcp dport 8080 ct state new accept"),
            &format!("meta skuid {USER} drop"),
        ],
    );
    for url in urls(&site) {
        let done = fetch_as_user(&site, &group, &url, 1);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let report = end(&site, &mut group);
    assert!(report.contains("opened=4 sctp=4") && report.contains("kernel: none"), "{report}");
}

#[test]
fn a_rule_by_user_holds_in_a_cgroup() {
    let site = web_site();
    let Some(mut group) = attached(&site) else { return };
    policy(&site, &["ct state invalid drop", &format!("meta skuid {USER} oif != lo drop")]);
    for url in urls(&site) {
        // The first one is found out at the gate, the next ones are the kernel's own.
        for _ in 0..2 {
            let done = fetch_as_user(&site, &group, &url, 0);
            assert_eq!(done.code, NO_ANSWER, "{done:?}");
        }
    }
    let done = fetch(&site, &group, 1);
    assert_eq!(done.code, Some(0), "{done:?}");
    let report = end(&site, &mut group);
    assert!(report.contains("opened=1 sctp=1"), "{report}");
    assert!(report.contains("egress-policy=4"), "{report}");
}

/// The stack relays the first connect to such a service as plain TCP.
#[test]
fn a_rule_by_user_holds_where_the_peer_has_no_manypath() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    let Some(group) = attached(&site) else { return };
    policy(&site, &[&format!("meta skuid {USER} oif != lo drop")]);
    let url = url(&site);
    let args = [&["--reuid", USER, "--clear-groups", "curl"], &fetching(&url)[..]].concat();
    for _ in 0..2 {
        let done = group.through(&site, "setpriv", &args);
        assert_eq!(done.code, NO_ANSWER, "{done:?}");
    }
}

#[test]
fn a_rule_that_rejects_is_heard_as_from_the_kernel() {
    let site = web_site();
    let Some(group) = attached(&site) else { return };
    let rule = format!("meta skuid {USER} oif != lo meta l4proto tcp reject with tcp reset");
    policy(&site, &[&rule]);
    for url in urls(&site) {
        for _ in 0..2 {
            let done = fetch_as_user(&site, &group, &url, 0);
            assert_eq!(done.code, REFUSED, "{done:?}");
        }
    }
}

#[test]
fn a_rule_by_group_or_port_holds_for_that_group_or_port_alone() {
    let site = web_site();
    let Some(group) = attached(&site) else { return };
    let url = url(&site);
    let fetch_as_group = |flows| {
        let args = [&["--regid", USER, "--clear-groups", "curl"], &fetching(&url)[..]].concat();
        carried(&site, flows, || group.through(&site, "setpriv", &args))
    };
    policy(&site, &[&format!("meta skgid {USER} tcp dport 9 drop")]);
    assert_eq!(fetch_as_group(1).code, Some(0));
    policy(&site, &[&format!("meta skgid {USER} tcp dport 8080 drop")]);
    assert_eq!(fetch_as_group(0).code, NO_ANSWER);
    assert_eq!(fetch_as_user(&site, &group, &url, 1).code, Some(0));
}

#[test]
fn a_rule_by_cgroup_holds_in_a_cgroup_below() {
    let site = web_site();
    let Some(group) = attached(&site) else { return };
    let below = group.dir.join("below");
    fs::create_dir(&below).expect("a cgroup below");
    // nft looks for it there.
    let name = below.strip_prefix("/sys/fs/cgroup").expect("in the usual place").display();
    policy(&site, &[&format!("socket cgroupv2 level 2 \"{name}\" oif != lo drop")]);
    let url = url(&site);
    for _ in 0..2 {
        let command = enter(&below, &site, Host::Left, "curl", &fetching(&url));
        let done = carried(&site, 0, || finish(command));
        assert_eq!(done.code, NO_ANSWER, "{done:?}");
    }
    assert_eq!(fetch(&site, &group, 1).code, Some(0));
    fs::remove_dir(&below).expect("nothing holds it");
}

/// As IPAddressDeny=any and IPAddressAllow=localhost of systemd.
#[test]
fn a_packet_filter_of_the_cgroup_holds() {
    let site = web_site();
    let Some(mut group) = attached(&site) else { return };
    filter(&group.dir, "only-loopback");
    for _ in 0..2 {
        let done = fetch(&site, &group, 0);
        assert_eq!(done.code, NO_ANSWER, "{done:?}");
    }
    let report = end(&site, &mut group);
    assert!(report.contains("opened=0") && report.contains("egress-policy=2"), "{report}");
}

/// As IPAddressDeny=any with other addresses allowed than loopback.
#[test]
fn a_filter_that_keeps_programs_from_the_gate_costs_one_connect() {
    let site = web_site();
    let Some(mut group) = attached(&site) else { return };
    filter(&group.dir, "no-loopback");
    let done = fetch(&site, &group, 0);
    assert_eq!(done.code, REFUSED, "it is told at once: {done:?}");
    for _ in 0..3 {
        let done = fetch(&site, &group, 0);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let report = end(&site, &mut group);
    assert!(report.contains("egress-policy=4"), "{report}");
}

/// The capabilities of the unit that `manypath enable` writes, as setpriv takes them.
fn capabilities_of_the_unit(site: &Site) -> String {
    let root = site.dir.join("root");
    let mut enable = Command::new(MANYPATH);
    enable.args(["enable", "test", "--root"]).arg(&root);
    assert_eq!(finish(enable).code, Some(0));
    let unit = fs::read_to_string(root.join("etc/systemd/system/manypath-test.service"));
    let unit = unit.expect("a unit");
    let set = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let set = set.expect("a set").to_lowercase().replace("cap_", "+").replace(' ', ",");
    format!("-all,{set}")
}

#[test]
fn in_a_cgroup_of_a_user_it_asks_with_the_capabilities_of_its_unit() {
    let site = web_site();
    let Some(mut group) = Group::new() else { return };
    let below = group.dir.join("below");
    fs::create_dir(&below).expect("a cgroup below");
    let user = Some(USER.parse().expect("a number"));
    for place in [below.clone(), below.join("cgroup.procs")] {
        std::os::unix::fs::chown(place, user, user).expect("a cgroup of the user's");
    }
    let mut attach = site.command(Host::Left, find("setpriv"));
    attach.args(["--bounding-set", &capabilities_of_the_unit(&site), "--no-new-privs", MANYPATH]);
    attach.args(["attach", "--client-only", "--report", "--cgroup"]).arg(&group.dir);
    group.start_by(attach, &site, Host::Left);
    let url = url(&site);
    let args = [&["--reuid", USER, "--clear-groups", "curl"], &fetching(&url)[..]].concat();
    let fetch = || finish(enter(&below, &site, Host::Left, "setpriv", &args));
    assert_eq!(carried(&site, 1, fetch).code, Some(0));
    policy(&site, &[&format!("meta skuid {USER} oif != lo drop")]);
    assert_eq!(carried(&site, 0, fetch).code, NO_ANSWER);
    let report = end(&site, &mut group);
    assert!(report.contains("opened=1 sctp=1") && report.contains("egress-policy=1"), "{report}");
    fs::remove_dir(&below).expect("nothing holds it");
}

/// Makes a socket in a cgroup that is gone when it connects.
const HOMELESS: &str = "
import errno, os, socket, sys
server, group = sys.argv[1:]
def enter(folder):
    open(folder + '/cgroup.procs', 'w').write('0')
for _ in range(2):
    os.mkdir(group + '/below')
    enter(group + '/below')
    s = socket.socket()
    enter(group)
    os.rmdir(group + '/below')
    print(errno.errorcode.get(s.connect_ex((server, 8080)), 'connected'))";

#[test]
fn where_nobody_can_ask_nothing_is_carried() {
    let site = web_site();
    let Some(mut group) = attached(&site) else { return };
    let dir = group.dir.display().to_string();
    let args = ["-c", HOMELESS, &site.server(), &dir];
    let done = carried(&site, 0, || group.through(&site, "python3", &args));
    assert_eq!(done.stdout, "ECONNREFUSED\nconnected\n", "{done:?}");
    let report = end(&site, &mut group);
    assert!(report.contains("opened=0") && report.contains("egress-policy=2"), "{report}");
}

#[test]
fn a_connect_for_sctp_only_is_not_made_as_plain_tcp() {
    let site = web_site();
    fs::write(site.dir.join("rules"), "remote enable port 8080 sctp-only=on\n").expect("rules");
    let Some(mut group) = attached(&site) else { return };
    policy(&site, &["oif != lo tcp dport 8080 counter drop"]);
    for _ in 0..2 {
        assert_eq!(fetch(&site, &group, 0).code, REFUSED);
    }
    let mut nft = site.command(Host::Left, find("nft"));
    nft.args(["list", "ruleset"]);
    let said = finish(nft).stdout;
    assert!(said.contains("counter packets 1 "), "only the packet that asks: {said}");
    let report = end(&site, &mut group);
    assert!(report.contains("refused, as only SCTP may be used=1"), "{report}");
}

#[test]
fn a_policy_that_comes_or_goes_holds_for_connects_to_come() {
    let site = web_site();
    let Some(group) = attached(&site) else { return };
    let url = url(&site);
    assert_eq!(fetch_as_user(&site, &group, &url, 1).code, Some(0));
    policy(&site, &[&format!("meta skuid {USER} oif != lo drop")]);
    assert_eq!(fetch_as_user(&site, &group, &url, 0).code, NO_ANSWER);
    policy(&site, &[]);
    // It is remembered, and the kernel's own connect meets no rule.
    assert_eq!(fetch_as_user(&site, &group, &url, 0).code, Some(0));
}

/// Connects with a mark, and says how that went.
const MARKED: &str = "
import socket, sys
s = socket.socket()
s.settimeout(5)
s.setsockopt(socket.SOL_SOCKET, 36, 7)
s.connect((sys.argv[1], 8080))
print('connected')";

#[test]
fn sockets_with_a_mark_are_the_kernels() {
    let site = web_site();
    let args = ["-c", MARKED, &site.server()];
    let mut run = site.command(Host::Left, MANYPATH);
    run.args(["run", "--report", "--"]).arg(find("python3")).args(args);
    let done = carried(&site, 0, || finish(run));
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "connected\n"), "{done:?}");
    assert!(done.stderr.contains("marked=1"), "{done:?}");
    let Some(mut group) = attached(&site) else { return };
    let done = carried(&site, 0, || group.through(&site, "python3", &args));
    assert_eq!(done.stdout, "connected\n", "{done:?}");
    let report = end(&site, &mut group);
    assert!(report.contains("marked=1"), "{report}");
}

/// Runs a shell command under root's `manypath run --report`.
fn run_as_root(site: &Site, script: &str, flows: u64) -> Finished {
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["run", "--report", "--"]).arg(find("sh")).args(["-c", script]);
    carried(site, flows, || finish(command))
}

#[test]
fn programs_of_roots_run_that_become_another_user_meet_the_rules_about_that_user() {
    let site = web_site();
    let fetch = format!("curl {}", fetching(&url(&site)).join(" "));
    let as_user = format!("setpriv --reuid {USER} --clear-groups {fetch}");
    let done = run_as_root(&site, &as_user, 1);
    assert_eq!(done.code, Some(0), "{done:?}");
    policy(&site, &["ct state invalid drop", &format!("meta skuid {USER} drop")]);
    let done = run_as_root(&site, &as_user, 0);
    assert_eq!(done.code, NO_ANSWER, "{done:?}");
    assert!(done.stderr.contains("egress-policy=1"), "{done:?}");
    assert_eq!(run_as_root(&site, &fetch, 1).code, Some(0));
    // What is about loopback alone does not concern the stack.
    policy(&site, &[&format!("meta skuid {USER} tcp dport 8080 accept")]);
    assert_eq!(run_as_root(&site, &as_user, 1).code, Some(0));
}

/// The stack, which is root's, would find a route.
#[test]
fn a_route_rule_that_forbids_a_user_holds_under_roots_run() {
    let site = web_site();
    let fetch = format!("curl {}", fetching(&url(&site)).join(" "));
    let as_user = format!("setpriv --reuid {USER} --clear-groups {fetch}");
    let ruled = shell(&site, &format!("ip rule add uidrange {USER}-{USER} prohibit"));
    assert_eq!(ruled.code, Some(0), "{ruled:?}");
    let done = run_as_root(&site, &as_user, 0);
    assert_eq!(done.code, REFUSED, "{done:?}");
    assert!(done.stderr.contains("egress-policy=1"), "{done:?}");
    assert_eq!(run_as_root(&site, &fetch, 1).code, Some(0));
}

#[test]
fn programs_of_roots_run_that_go_to_another_cgroup_meet_the_rules_about_that_cgroup() {
    let site = web_site();
    let Some(group) = Group::new() else { return };
    let procs = group.dir.join("cgroup.procs").display().to_string();
    let fetch = format!("curl {}", fetching(&url(&site)).join(" "));
    let moved = format!("echo $$ > {procs}; exec {fetch}");
    assert_eq!(run_as_root(&site, &moved, 1).code, Some(0));
    filter(&group.dir, "only-loopback");
    let done = run_as_root(&site, &moved, 0);
    assert_eq!(done.code, NO_ANSWER, "{done:?}");
    assert!(done.stderr.contains("egress-policy=1"), "{done:?}");
    assert_eq!(run_as_root(&site, &fetch, 1).code, Some(0));
}

/// A socket's group in its file can be any of its owner's; packet filters go by the one that it was made with.
#[test]
fn a_program_that_gives_its_socket_another_group_meets_the_rules_about_its_own() {
    let site = web_site();
    let connect = format!(
        "import os, socket
os.setgroups([{USER}]); os.setresgid(4321, 4321, 4321); os.setresuid({USER}, {USER}, {USER})
s = socket.socket(); os.fchown(s.fileno(), -1, {USER}); s.settimeout(2)
s.connect((\"{}\", 8080)); print(\"connected\")",
        site.server()
    );
    let as_group = format!("python3 -c '{connect}'");
    let done = run_as_root(&site, &as_group, 1);
    assert_eq!(done.stdout, "connected\n", "{done:?}");
    policy(&site, &["oifname != \"lo\" meta skgid 4321 drop"]);
    let done = run_as_root(&site, &as_group, 0);
    assert_ne!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("egress-policy=1"), "{done:?}");
}

/// Each user can be in a group that a packet filter keeps from the network, and run a program with it.
#[test]
fn a_program_in_another_group_does_not_use_the_stack_of_the_first() {
    let site = web_site();
    let folder = Folder::new("groups");
    let program = folder.at("manypath");
    fs::copy(MANYPATH, &program).expect("a copy that the user may execute");
    let url = url(&site);
    let fetch = |group: &str, flows| {
        let mut command = site.command(Host::Left, find("setpriv"));
        command.args(["--reuid", USER, "--regid", group, "--clear-groups"]).arg(&program);
        command.args(["run", "--report", "--"]).arg(find("curl")).args(fetching(&url));
        command.env_remove("MANYPATH_OWN_STACK").current_dir("/");
        for variable in ["RUNTIME_DIR", "PEERS", "RULES", "KEYS"] {
            command.env(format!("MANYPATH_{variable}"), folder.at(variable));
        }
        carried(&site, flows, || finish(command))
    };
    policy(&site, &["oifname != \"lo\" meta skgid 4321 drop"]);
    assert_eq!(fetch(USER, 1).code, Some(0));
    assert_eq!(fetch(USER, 1).code, Some(0), "by the stack of the first");
    let done = fetch("4321", 0);
    assert_eq!(done.code, NO_ANSWER, "{done:?}");
}

/// Sends datagrams, and prints whether an answer came.
const ASK: &str = "exec 3<>/dev/udp/$0/7000; echo hello >&3; echo hello >&3
timeout 1 dd bs=99 count=1 status=none <&3 | grep -q hello && echo answered || echo unheard";

/// A site with a UDP service that answers, and a rule that has its datagrams carried.
fn datagram_site() -> Site {
    let mut site = Site::new();
    fs::write(site.dir.join("rules"), "remote enable udp port 7000\n").expect("rules");
    let server = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 7000))
while True:
    data, peer = s.recvfrom(99)
    s.sendto(data, peer)";
    site.service("python3", &["-c", server], "udp", 7000);
    site.serve("7000/udp");
    site
}

fn flows_of_datagrams(site: &Site) -> u64 {
    site.server_counter("datagram_accepted")
}

#[test]
fn a_packet_filter_of_the_cgroup_holds_for_datagrams() {
    let site = datagram_site();
    let Some(mut group) = attached(&site) else { return };
    let ask = |group: &Group| group.through(&site, "bash", &["-c", ASK, &site.server()]).stdout;
    assert_eq!((ask(&group).as_str(), flows_of_datagrams(&site)), ("answered\n", 1));
    filter(&group.dir, "only-loopback");
    assert_eq!((ask(&group).as_str(), flows_of_datagrams(&site)), ("unheard\n", 1));
    let report = end(&site, &mut group);
    assert!(report.contains("asked=1 sctp=1") && report.contains("egress-policy="), "{report}");
}

#[test]
fn a_rule_by_user_holds_for_datagrams_under_roots_run() {
    let site = datagram_site();
    let ask = || {
        let mut run = site.command(Host::Left, MANYPATH);
        let user = ["--reuid", USER, "--clear-groups", "bash", "-c", ASK, &site.server()];
        run.args(["run", "--report", "--"]).arg(find("setpriv")).args(user);
        finish(run)
    };
    assert_eq!((ask().stdout.as_str(), flows_of_datagrams(&site)), ("answered\n", 1));
    policy(&site, &[&format!("meta skuid {USER} udp dport 7000 drop")]);
    let done = ask();
    assert_eq!((done.stdout.as_str(), flows_of_datagrams(&site)), ("unheard\n", 1));
    assert!(done.stderr.contains("egress-policy="), "{done:?}");
}

/// Runs a line of shell on the left host.
fn shell(site: &Site, line: &str) -> Finished {
    let mut command = site.command(Host::Left, find("sh"));
    command.args(["-c", line]);
    finish(command)
}

/// The policy is asked with the address that the route named when the connect began. Plain TCP sends its SYN again
/// from the new one; `manypath attach`, late to hear of either, aborted the connect.
#[test]
fn a_connect_survives_that_the_address_of_its_route_is_replaced() {
    let site = web_site();
    let Some(mut group) = attached(&site) else { return };
    let (own, pid) = (site.lab.address(Host::Left, 0), group.pid());
    assert_eq!(shell(&site, &format!("kill -STOP {pid}")).code, Some(0));
    let url = url(&site);
    let mut command = group.command(&site, Host::Left, "curl", &fetching(&url));
    let mut curl = command.spawn().expect("curl");
    wait_for("the connect", || shell(&site, "ss -Htn state syn-sent").stdout.contains("127.0.0.1"));
    let change =
        format!("ip address del {own}/24 dev pathA && ip address add 10.77.1.77/24 dev pathA");
    let changed = shell(&site, &change);
    assert_eq!(changed.code, Some(0), "{changed:?}");
    assert_eq!(shell(&site, &format!("kill -CONT {pid}")).code, Some(0));
    assert_eq!(curl.wait().expect("its end").code(), Some(0));
    let report = end(&site, &mut group);
    assert!(report.contains("opened=1") && report.contains("kernel: none"), "{report}");
}

/// A route that comes back a second later: until then nobody can ask whether the connect is permitted.
#[test]
fn a_connect_outlasts_that_its_route_goes_before_the_policy_is_asked() {
    let site = web_site();
    let Some(mut group) = attached(&site) else { return };
    let (own, pid) = (site.lab.address(Host::Left, 0), group.pid());
    let run = |line: &str| assert_eq!(shell(&site, line).code, Some(0), "{line}");
    run(&format!("kill -STOP {pid}"));
    let url = url(&site);
    let mut command = group.command(&site, Host::Left, "curl", &fetching(&url));
    let mut curl = command.spawn().expect("curl");
    wait_for("the connect", || shell(&site, "ss -Htn state syn-sent").stdout.contains("127.0.0.1"));
    run(&format!("ip address del {own}/24 dev pathA"));
    run(&format!("kill -CONT {pid}"));
    sleep(Duration::from_secs(1));
    assert_eq!(curl.try_wait().expect("its state"), None, "it has ended without a route");
    run(&format!("ip address add {own}/24 dev pathA"));
    assert_eq!(curl.wait().expect("its end").code(), Some(0));
    let report = end(&site, &mut group);
    assert!(report.contains("opened=1") && report.contains("kernel: none"), "{report}");
}
