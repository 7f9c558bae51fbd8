//! Who reads packets has no rights of root, and all that needs them still works.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::folder::Folder;
use common::{Finished, MANYPATH, Site, cgroup, finish, in_cgroup, stack_of, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Rights can only be taken from root. Those who are not root have none to lose.
fn is_root() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        eprintln!("SKIPPED: not root");
    }
    root
}

/// A web server on the right host with a short file.
fn with_file() -> Site {
    let mut site = Site::new();
    site.web();
    site.random_file("file", 10_000);
    site
}

fn field<'a>(status: &'a str, name: &str) -> Vec<&'a str> {
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    let value = lines.into_iter().find(|(known, _)| *known == name);
    value.map(|(_, value)| value.split_whitespace().collect()).unwrap_or_default()
}

/// All threads of the process are without rights.
fn assert_unprivileged(pid: u32) {
    assert_only(pid, "0000000000000000");
}

/// The same, but for the right to ports below 1024 (CAP_NET_BIND_SERVICE), which UDP port 899 needs.
fn assert_serving(pid: u32) {
    assert_only(pid, "0000000000000400");
}

/// The same, but for these capabilities.
fn assert_only(pid: u32, capabilities: &str) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
    assert!(!tasks.is_empty());
    for task in tasks {
        let status = fs::read_to_string(task.join("status")).unwrap();
        for ids in ["Uid", "Gid"] {
            let ids = field(&status, ids);
            assert!(ids.len() == 4 && !ids.contains(&"0"), "{status}");
        }
        assert_eq!(field(&status, "Groups"), Vec::<&str>::new(), "{status}");
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(field(&status, set), [capabilities], "{set}: {status}");
        }
        for set in ["CapInh", "CapAmb"] {
            assert_eq!(field(&status, set), ["0000000000000000"], "{set}: {status}");
        }
        assert_eq!(field(&status, "NoNewPrivs"), ["1"], "{status}");
        assert_eq!(field(&status, "Seccomp"), ["2"], "{status}");
    }
    // Nobody but root may trace it: its files in /proc are root's.
    assert_eq!(fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid(), 0);
}

/// Whether the process itself has a socket of its network's UDP table at a port.
fn owns_udp(pid: u32, port: u16) -> bool {
    let own: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
        .map(|link| link.display().to_string())
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/udp")).unwrap();
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[1].ends_with(&format!(":{port:04X}"))
            && own.contains(&format!("socket:[{}]", fields[9]))
    })
}

fn pid(stack: &Value) -> u32 {
    stack["pid"].as_u64().unwrap().try_into().unwrap()
}

fn manypath(site: &Site, host: Host, args: &[&str]) -> Finished {
    let mut command = site.command(host, MANYPATH);
    command.args(args);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    done
}

/// Nobody but root may look into the directory, or at the files that are there then.
fn only_for_root(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
}

fn code(site: &Site, options: &[&str], port: u16) -> Finished {
    let url = format!("http://{}:{port}/file", site.server());
    let args = ["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url];
    finish(site.through_command(options, "curl", &args))
}

/// A download that lasts until it is killed.
fn long_download(site: &Site, options: &[&str]) -> Child {
    let url = format!("http://{}:8080/long", site.server());
    let args = ["-sS", "-o", "/dev/null", "--limit-rate", "100k", &url];
    let mut command = site.through_command(options, "curl", &args);
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_server_that_root_has_started_reads_packets_without_rights() {
    if !is_root() {
        return;
    }
    let site = with_file();
    fs::write(site.dir.join("rules"), "local enable port 9\n").unwrap();
    let log = site.dir.join("server.log");
    let (name, rules) = (log.display().to_string(), site.dir.join("rules"));
    let args = ["serve", "--allow", "8080", "--log", &name];
    let mut server = site.command(Host::Right, MANYPATH);
    let mut server = server.args(args).spawn().unwrap();
    wait_for("the server", || fs::read_to_string(&log).is_ok_and(|log| log.contains("accepting")));
    // The web server works as another user.
    fs::set_permissions(&site.dir, Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(&rules, Permissions::from_mode(0o600)).unwrap();

    assert_eq!(pid(&site.server_status()), server.id());
    assert!(owns_udp(server.id(), 9899));
    assert_serving(server.id());
    let sandbox = site.server_status()["sandbox"].clone();
    // Not every kernel has Landlock.
    let without = sandbox["missing"].as_array().unwrap().len();
    assert_eq!(sandbox["landlock"], without == 0, "{sandbox}");
    assert!(without == 0 || sandbox["missing"][0].to_string().contains("Landlock"), "{sandbox}");
    assert_eq!(sandbox["seccomp"], true);
    let text = manypath(&site, Host::Right, &["status", "-v"]).stdout;
    assert!(text.contains("CAP_NET_BIND_SERVICE, seccomp"), "{text}");

    assert_eq!(code(&site, &[], 8080).stdout, "200");
    assert_eq!(site.server_counter("stack_relays_started"), 1);
    // A file that only root can read, changed and read again.
    manypath(&site, Host::Right, &["rules", "add", "local", "enable", "port", "8082"]);
    assert_eq!(fs::metadata(&rules).unwrap().mode() & 0o777, 0o600);
    let allow = site.server_status()["allow"].to_string();
    assert!(allow.contains("8082") && allow.contains("\"9\""), "{allow}");
    manypath(&site, Host::Right, &["config", "reload"]);
    // A log in a directory that only root may enter, moved away.
    only_for_root(&site.dir);
    fs::rename(&log, log.with_extension("old")).unwrap();
    manypath(&site, Host::Right, &["config", "reload"]);
    wait_for("a new log", || fs::read_to_string(&log).is_ok_and(|log| log.contains("rules read")));
    // Killed, it leaves no name behind.
    server.kill().unwrap();
    server.wait().unwrap();
    let names = || fs::read_dir(site.dir.join("run")).unwrap().count();
    wait_for("its names to go", || names() == 0);
}

#[test]
fn the_stack_of_a_program_of_root_has_no_rights_and_remembers_peers() {
    if !is_root() || in_cgroup() {
        return;
    }
    let mut site = Site::new();
    site.web();
    site.random_file("long", 50_000_000);
    site.random_file("file", 10_000);
    site.serve("8080");
    only_for_root(&site.dir.join("run"));
    let mut program = long_download(&site, &[]);
    wait_for("a carried connection", || site.server_counter("stack_relays_started") == 1);
    let stack = stack_of(program.id());
    assert_unprivileged(stack);
    // Root's tools reach it.
    let path = manypath(&site, Host::Left, &["path", "show"]).stdout;
    assert!(path.contains("active"), "{path}");
    let second = site.lab.address(Host::Left, 1).to_string();
    manypath(&site, Host::Left, &["path", "change", &second, "backup"]);
    wait_for("a backup path", || {
        let json = manypath(&site, Host::Left, &["status", "--json"]).stdout;
        json.contains("\"role\": \"backup\"")
    });
    program.kill().unwrap();
    program.wait().unwrap();
    // What was learnt outlives the stack, until it is forgotten.
    let peers = || fs::read_to_string(site.dir.join("peers")).unwrap_or_default();
    wait_for("the cache", || peers().contains("8080"));
    assert_eq!(fs::metadata(site.dir.join("peers")).unwrap().uid(), 0);
    manypath(&site, Host::Left, &["cache", "flush"]);
    assert_eq!(peers(), "");
    assert_eq!(code(&site, &[], 8080).stdout, "200");
    wait_for("the cache", || peers().contains("8080"));
}

#[test]
fn what_a_suspended_keeper_did_not_take_is_kept_later() {
    if !is_root() || in_cgroup() {
        return;
    }
    let mut site = with_file();
    for port in [8082, 8083] {
        let args = ["-m", "http.server", "-d", "www", &port.to_string()];
        site.service("python3", &args, "tcp", port);
    }
    site.serve("8080,8082,8083");
    let script = "
        for port in 8080 8082 8083; do
            until [ -e ask-$port ]; do sleep 0.05; done
            curl -sS -o /dev/null http://$0:$port/file && touch had-$port
        done
        sleep 1000";
    let mut program = site.through_command(&[], "sh", &["-c", script, &site.server()]);
    let mut program = program.stdout(Stdio::null()).spawn().unwrap();
    let ask = |port: u16| {
        fs::write(site.dir.join(format!("ask-{port}")), "").unwrap();
        wait_for("an answer", || site.dir.join(format!("had-{port}")).exists());
    };
    let is_kept = |port: u16| {
        let peers = fs::read_to_string(site.dir.join("peers")).unwrap_or_default();
        peers.contains(&port.to_string())
    };
    ask(8080);
    wait_for("the cache", || is_kept(8080));
    let keeper = keeper_of(stack_of(program.id()));
    signal(keeper, "-STOP");
    // The first of them waits at the keeper, whom the second one finds owing an answer.
    for port in [8082, 8083] {
        ask(port);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    signal(keeper, "-CONT");
    wait_for("what came meanwhile", || is_kept(8082) && is_kept(8083));
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn the_door_of_programs_of_root_has_no_rights_and_full_buffers() {
    if !is_root() || in_cgroup() {
        return;
    }
    let mut site = Site::new();
    fs::create_dir_all(site.dir.join("www")).unwrap();
    site.random_file("file", 10_000);
    let root = site.dir.join("www").display().to_string();
    let server = ["-m", "http.server", "8080", "--directory", &root];
    site.service_through("python3", &server, "tcp", 8080);
    wait_for("a door", || site.door_status(Host::Right)["udp_port"] == 9899);
    let door = pid(&site.door_status(Host::Right));
    assert!(owns_udp(door, 9899));
    assert_serving(door);
    assert_eq!(code(&site, &[], 8080).stdout, "200");
    let listeners = &site.door_status(Host::Right)["listeners"][0];
    assert_eq!(listeners["sctp"], 1, "{listeners}");
    // Its sockets were opened when it had no rights any more.
    let mut sockets = site.command(Host::Right, "ss");
    sockets.args(["-H", "-uanm", "sport", "=", ":9899"]);
    let sockets = finish(sockets).stdout;
    assert!(sockets.contains(&format!("rb{}", 16 << 20)), "{sockets}");
}

#[test]
fn the_stack_of_a_cgroup_has_no_rights() {
    if !is_root() {
        return;
    }
    let mut site = with_file();
    site.serve("8080");
    let Some(mut group) = cgroup::Group::new() else { return };
    group.attach(&site, Host::Left, &[]);
    let url = format!("http://{}:8080/file", site.server());
    let done =
        group.through(&site, "curl", &["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url]);
    assert_eq!(done.stdout, "200", "{done:?}");
    assert_eq!(site.server_counter("stack_relays_started"), 1);
    let stacks: Value =
        serde_json::from_str(&manypath(&site, Host::Left, &["status", "--json"]).stdout).unwrap();
    let stacks = stacks["stacks"].as_array().unwrap();
    assert!(!stacks.is_empty());
    for stack in stacks {
        let serves = !stack["privileged_port"].is_null();
        if serves { assert_serving(pid(stack)) } else { assert_unprivileged(pid(stack)) }
    }
    drop(group);
}

#[test]
fn where_the_user_cannot_be_changed_the_stack_works_and_says_so() {
    if !is_root() {
        return;
    }
    let site = with_file();
    let log = site.dir.join("server.log");
    // As in a container whose engine takes this right from root.
    let mut server = site.command(Host::Right, "setpriv");
    server.args(["--bounding-set=-setuid", "--inh-caps=-setuid", "--", MANYPATH, "serve"]);
    let mut server = server.args(["--allow", "8080", "--log"]).arg(&log).spawn().unwrap();
    let text = || fs::read_to_string(&log).unwrap_or_default();
    wait_for("the server", || text().contains("accepting"));
    wait_for("a warning", || text().contains("rights of root on this host: user: "));
    assert_eq!(code(&site, &[], 8080).stdout, "200");
    assert_eq!(site.server_counter("stack_relays_started"), 1);
    let status = site.server_status();
    assert_eq!(
        (&status["sandbox"]["user"], &status["sandbox"]["seccomp"]),
        (&0.into(), &true.into())
    );
    let text = manypath(&site, Host::Right, &["status"]).stdout;
    assert!(text.contains("missing: user: Operation not permitted"), "{text}");
    server.kill().unwrap();
    server.wait().unwrap();
}

/// The process that opens files for a stack.
fn keeper_of(stack: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{stack}/task/{stack}/children")).unwrap();
    let keeper = children.trim().parse().unwrap();
    let line = fs::read_to_string(format!("/proc/{keeper}/cmdline")).unwrap();
    assert_eq!(line.split('\0').nth(1), Some("keeper"), "{line}");
    keeper
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_keeper_has_few_rights_and_a_stack_outlives_it() {
    if !is_root() {
        return;
    }
    let mut site = with_file();
    site.serve("8080");
    let keeper = keeper_of(pid(&site.server_status()));
    let status = fs::read_to_string(format!("/proc/{keeper}/status")).unwrap();
    // CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_NET_ADMIN.
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(field(&status, set), ["0000000000001006"], "{status}");
    }
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), (vec!["1"], vec!["2"]));
    signal(keeper, "-9");

    let mut reload = site.command(Host::Right, MANYPATH);
    reload.args(["config", "reload"]);
    let refused = finish(reload);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stdout.contains("the keeper of this stack does not answer"), "{refused:?}");
    assert_eq!(code(&site, &[], 8080).stdout, "200");
    assert_eq!(site.server_counter("stack_relays_started"), 1);
}

#[test]
fn a_stack_directly_over_ip_keeps_the_right_to_raw_sockets() {
    if !is_root() || in_cgroup() {
        return;
    }
    let site = with_file();
    let log = site.dir.join("server.log");
    let mut server = site.command(Host::Right, MANYPATH);
    server.args(["serve", "--allow", "8080", "--encapsulation", "native", "--log"]).arg(&log);
    let mut server = server.spawn().unwrap();
    wait_for("the server", || fs::read_to_string(&log).is_ok_and(|log| log.contains("accepting")));
    wait_for("its status", || site.server_status()["sandbox"]["seccomp"] == true);
    // CAP_NET_RAW.
    assert_only(server.id(), "0000000000002000");
    assert_eq!(site.server_status()["sandbox"]["capabilities"][0], "CAP_NET_RAW");
    assert_eq!(code(&site, &["--encapsulation", "native"], 8080).stdout, "200");
    assert_eq!(site.server_counter("stack_relays_started"), 1);
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_stack_that_root_has_not_started_is_as_it_was() {
    if !is_root() {
        return;
    }
    let site = with_file();
    // Where the user can reach it.
    let folder = Folder::new("other-user");
    let (program, log) = (folder.at("manypath"), folder.at("log"));
    fs::copy(MANYPATH, &program).unwrap();
    let mut server = site.command(Host::Right, "setpriv");
    server.args(["--reuid=4711", "--regid=4711", "--clear-groups", "--"]).arg(&program);
    server.args(["serve", "--allow", "8080", "--log"]).arg(&log).current_dir("/");
    for (variable, file) in [("RUNTIME_DIR", "run"), ("PEERS", "peers"), ("RULES", "rules")] {
        server.env(format!("MANYPATH_{variable}"), folder.at(file));
    }
    for variable in ["SYSCTL", "PATHS"] {
        server.env(format!("MANYPATH_{variable}"), folder.at("none"));
    }
    let mut server = server.spawn().unwrap();
    wait_for("the server", || fs::read_to_string(&log).is_ok_and(|log| log.contains("accepting")));
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    assert_eq!(field(&status, "Uid"), ["4711"; 4], "{status}");
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), (vec!["0"], vec!["0"]));
    let children = format!("/proc/{0}/task/{0}/children", server.id());
    assert_eq!(fs::read_to_string(children).unwrap(), "", "it needs no keeper");
    assert_eq!(code(&site, &[], 8080).stdout, "200");
    server.kill().unwrap();
    server.wait().unwrap();
}
