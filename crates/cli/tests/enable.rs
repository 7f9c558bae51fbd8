//! `manypath enable` and `disable`: what they write, that nothing of it stays, and that a unit is carried
//! through its starts and stops by what they have written.

use crate::common;

use common::cgroup::{Group, alive};
use common::clients::{carried, web_site};
use common::folder::Folder;
use common::{Finished, MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

fn manypath(args: &[&str]) -> Finished {
    let mut command = Command::new(MANYPATH);
    command.args(args);
    finish(command)
}

/// Every file and folder below, with its content.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("folder").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("type"));
            let content = match (kind.is_dir(), kind.is_symlink()) {
                (true, _) => b"folder".to_vec(),
                (_, true) => fs::read_link(&path).expect("link").display().to_string().into(),
                _ => fs::read(&path).expect("file"),
            };
            all.insert(path.clone(), content);
            folders.extend(kind.is_dir().then_some(path));
        }
    }
    all
}

/// A root folder with a unit of a vendor, and a drop-in of its administrator.
fn root(name: &str) -> Folder {
    let folder = Folder::new(name);
    let root = PathBuf::from(folder.text());
    fs::create_dir_all(root.join("usr/lib/systemd/system")).expect("folder");
    fs::create_dir_all(root.join("etc/systemd/system/nginx.service.d")).expect("folder");
    folder.file("usr/lib/systemd/system/nginx.service", "[Service]\nExecStart=/usr/sbin/nginx\n");
    folder.file("etc/systemd/system/nginx.service.d/10-own.conf", "[Service]\nNice=1\n");
    folder
}

#[test]
fn what_is_enabled_and_disabled_leaves_no_trace_in_files() {
    let folder = root("enable");
    let (text, units) = (folder.text(), "etc/systemd/system");
    let before = tree(Path::new(&text));
    let targets = [
        ("nginx", "manypath-nginx.service", "nginx.service.d/50-manypath.conf"),
        ("sshd.service", "manypath-sshd.service", "sshd.service.d/50-manypath.conf"),
        (
            "user.slice",
            "manypath-user.slice.service",
            "multi-user.target.wants/manypath-user.slice.service",
        ),
        (
            "/sys/fs/cgroup/a",
            "manypath-sys-fs-cgroup-a.service",
            "multi-user.target.wants/manypath-sys-fs-cgroup-a.service",
        ),
    ];
    for (target, service, starter) in targets {
        let done = manypath(&["enable", target, "--root", &text, "--json"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let new: Vec<_> =
            tree(Path::new(&text)).into_keys().filter(|one| !before.contains_key(one)).collect();
        let expected = [service, starter].map(|name| Path::new(&text).join(units).join(name));
        assert!(expected.iter().all(|one| new.contains(one)), "{new:?}");
        assert!(expected.iter().all(|one| done.stdout.contains(&one.display().to_string())));
        assert!(
            folder
                .read(&format!("{units}/{service}"))
                .contains("ExecStart=/usr/bin/manypath attach --")
        );
        // Once more changes nothing.
        assert_eq!(manypath(&["enable", target, "--root", &text]).code, Some(0));
        let done = manypath(&["disable", target, "--root", &text]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(tree(Path::new(&text)), before, "{target}");
    }
    let again = manypath(&["disable", "nginx", "--root", &text]);
    assert!(
        again.code != Some(0) && again.stderr.contains("nginx.service is not enabled"),
        "{again:?}"
    );
}

#[test]
fn what_cannot_be_enabled_is_said_and_nothing_is_written() {
    let folder = root("enable-wrong");
    let text = folder.text();
    let before = tree(Path::new(&text));
    for bad in ["../x", "a b", "-.slice", "x.socket", "docker-1a.scope", "/a b"] {
        let done = manypath(&["enable", bad, "--root", &text]);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(!done.stderr.is_empty());
    }
    assert_eq!(tree(Path::new(&text)), before);
    if !Path::new("/run/systemd/system").is_dir() {
        let done = manypath(&["enable", "nginx"]);
        assert!(done.code != Some(0) && done.stderr.contains("systemd is not running"), "{done:?}");
    }
}

/// What systemd would run for a unit, of the files that were written.
fn arguments(folder: &Folder, service: &str) -> Vec<String> {
    let text = folder.read(&format!("etc/systemd/system/{service}"));
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/manypath "));
    line.expect("a command").split(' ').map(str::to_owned).collect()
}

/// Where no systemd runs, the slice of all services comes and goes with a test.
static SLICE: Mutex<()> = Mutex::new(());

#[test]
fn a_unit_is_carried_before_it_runs_through_its_restarts_and_not_after() {
    let _alone = SLICE.lock();
    let site = web_site();
    let folder = root("enable-unit");
    let name = format!("test-{}", std::process::id());
    let done = manypath(&["enable", &name, "--root", &folder.text(), "--client-only"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let Some(place) = common::cgroup::place() else { return };
    let slice = place.join("system.slice");
    let was_there = slice.exists();
    let dir = slice.join(format!("{name}.service"));
    let arguments = arguments(&folder, &format!("manypath-{name}.service"));
    let mut group = Group::to_be_made(dir.clone());
    group.start(&site, Host::Left, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    fetch(&site, &group, 1);
    // systemd removes the cgroup of a unit that stops, and makes it anew.
    for _ in 0..3 {
        let old = group.links();
        wait_for("the cgroup to be empty", || fs::remove_dir(&dir).is_ok());
        wait_for("the cgroup to be there again", || dir.exists());
        wait_for("it to be attached again", || {
            let new = group.links();
            new.len() == 9 && !new.iter().any(|link| old.contains(link))
        });
        fetch(&site, &group, 1);
    }
    let objects = group.ebpf();
    group.end(&site, Host::Left, "-TERM");
    wait_for("nothing to be left", || alive(&objects).is_empty());
    assert_eq!((dir.exists(), slice.exists()), (false, was_there));
}

/// Clients that the right host's door has led to servers.
fn led(site: &Site) -> u64 {
    site.door_status(Host::Right)["counters"]["stack_relays_started"].as_u64().unwrap_or(0)
}

#[test]
fn a_web_server_in_its_unit_is_reached_through_its_restarts_and_nothing_is_left() {
    let Some(place) = common::cgroup::place() else { return };
    let _alone = SLICE.lock();
    let site = Site::new();
    let (units, web) = (root("enable-nginx"), Folder::new("enable-nginx-web"));
    let name = format!("nginx-{}", std::process::id());
    let before = tree(Path::new(&units.text()));
    let done = manypath(&["enable", &name, "--root", &units.text()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let arguments = arguments(&units, &format!("manypath-{name}.service"));
    let dir = place.join("system.slice").join(format!("{name}.service"));
    let mut group = Group::to_be_made(dir.clone());
    group.start(&site, Host::Right, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    web.file("file", [b'x'; 20_000]);
    let (conf, d) = (web.nginx(), web.text());
    let log = format!("{d}/error.log");
    let url = format!("http://{}:8080/file", site.server());
    for round in 1..=3 {
        let mut command =
            group.command(&site, Host::Right, "nginx", &["-p", &d, "-c", &conf, "-e", &log]);
        let mut nginx = command.spawn().expect("nginx");
        wait_for("nginx", || {
            site.direct("nc", &["-z", "-w", "1", &site.server(), "8080"]).code == Some(0)
        });
        let done = site.through("curl", &["-sS", "-f", "-o", "/dev/null", &url]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(led(&site), round);
        assert!(Command::new("kill").arg(nginx.id().to_string()).status().expect("kill").success());
        nginx.wait().expect("its end");
        // As systemd does between stop and start.
        let old = group.links();
        wait_for("the cgroup to be empty", || fs::remove_dir(&dir).is_ok());
        wait_for("it to be attached again", || {
            let new = group.links();
            new.len() == 9 && !new.iter().any(|link| old.contains(link))
        });
    }
    let own = format!("{} ", site.lab.address(Host::Left, 0));
    assert_eq!(web.read("access.log").lines().filter(|line| line.starts_with(&own)).count(), 3);
    let objects = group.ebpf();
    group.end(&site, Host::Right, "-TERM");
    wait_for("nothing to be left", || alive(&objects).is_empty());
    assert!(!dir.exists());
    assert_eq!(manypath(&["disable", &name, "--root", &units.text()]).code, Some(0));
    assert_eq!(tree(Path::new(&units.text())), before);
}

fn fetch(site: &Site, group: &Group, flows: u64) {
    let url = format!("http://{}:8080/small", site.server());
    let done = carried(site, flows, || {
        group.through(site, "curl", &["-sS", "-f", "-o", "/dev/null", &url])
    });
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// Directives that a unit must have, with exactly these values.
const HARDENED: &[&str] = &[
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallArchitectures=native",
];

/// What `systemd-analyze` says of a unit, from 0 to 10; `None` where this host does not have it.
fn exposure(unit: &Path) -> Option<f64> {
    let mut command = Command::new("systemd-analyze");
    let done =
        command.args(["security", "--offline=true", "--no-pager"]).arg(unit).output().ok()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let line = said.lines().find(|line| line.contains("Overall exposure level"));
    let number = line?.rsplit_once(": ")?.1.split_whitespace().next()?;
    Some(number.parse().expect("a number"))
}

#[test]
fn units_may_do_no_more_than_they_need() {
    let folder = root("enable-hardened");
    let done = manypath(&["enable", "nginx", "--root", &folder.text()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let attaching = Path::new(&folder.text()).join("etc/systemd/system/manypath-nginx.service");
    let service =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/manypathd.service"));
    for (unit, most) in [(attaching.as_path(), 3.5), (service, 2.0)] {
        let text = fs::read_to_string(unit).expect("a unit");
        for directive in HARDENED {
            assert!(text.lines().any(|line| line == *directive), "{directive}: {text}");
        }
        match exposure(unit) {
            Some(exposure) => assert!(exposure < most, "{}: {exposure}", unit.display()),
            None => eprintln!("SKIPPED: no systemd-analyze here"),
        }
    }
    let attaching = fs::read_to_string(attaching).expect("a unit");
    assert!(!attaching.contains("CAP_SYS_ADMIN"), "{attaching}");
    // Whoever reads packets of peers keeps none of these but the right to ports below 1024.
    let service = fs::read_to_string(service).expect("a unit");
    assert!(
        service.lines().any(|line| line == "CapabilityBoundingSet=CAP_NET_BIND_SERVICE"),
        "{service}"
    );
    assert!(service.lines().any(|line| line == "User=manypath"), "{service}");
}

#[test]
fn only_units_for_containers_may_enter_their_networks() {
    let folder = root("enable-containers");
    let done = manypath(&["enable", "machine.slice", "--containers", "--root", &folder.text()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let unit = "etc/systemd/system/manypath-machine.slice.service";
    let text = folder.read(unit);
    let bounds =
        text.lines().find(|line| line.starts_with("CapabilityBoundingSet=")).expect("a set");
    assert!(bounds.ends_with(" CAP_SYS_ADMIN CAP_SYS_PTRACE"), "{text}");
    assert!(text.lines().any(|line| line == "RestrictNamespaces=net"), "{text}");
    assert!(text.contains("attach --unit machine.slice --containers --replace\n"), "{text}");
    let most = HARDENED.iter().filter(|line| !line.starts_with("RestrictNamespaces="));
    most.for_each(|line| assert!(text.lines().any(|one| one == *line), "{line}: {text}"));
    match exposure(&Path::new(&folder.text()).join(unit)) {
        Some(exposure) => assert!(exposure < 4.1, "{exposure}"),
        None => eprintln!("SKIPPED: no systemd-analyze here"),
    }
}
