//! `manypath ssh` against stock sshd.

use crate::common;

use common::{Finished, MANYPATH, Site, finish};
use manypath_lab::Host;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// sshd behind one path of 100 Mbit/s.
fn site() -> Site {
    let mut site = Site::with_paths(&["100mbit,5ms,queue=200"]);
    site.ssh();
    site
}

/// `manypath ssh COMMAND` on the left host, with the test's keys.
fn ssh(site: &Site, command: &str, args: &[&str]) -> Command {
    let mut all = site.command(Host::Left, MANYPATH);
    all.args(["ssh", command]).args(site.ssh_options()).args(["-p", "2222"]).args(args);
    all
}

fn host(site: &Site) -> String {
    format!("root@{}", site.server())
}

fn place(site: &Site, path: &Path) -> String {
    format!("{}:{}", host(site), path.display())
}

fn run(site: &Site, command: &str, args: &[&str]) -> Finished {
    finish(ssh(site, command, args))
}

/// Starts a command whose standard error is kept.
fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("manypath starts")
}

fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("output");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Files of a folder whose names say that they are not complete.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("folder").flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "part")).collect()
}

fn folder(site: &Site, name: &str) -> PathBuf {
    let folder = site.dir.join(name);
    std::fs::create_dir_all(&folder).expect("folder");
    folder
}

/// What `--json` has printed.
fn summary(finished: &Finished) -> serde_json::Value {
    serde_json::from_str(&finished.stdout).expect("JSON")
}

#[test]
fn a_command_has_its_streams_and_its_status() {
    let site = site();
    let script = "wc -c; echo complaint >&2; exit 7";
    let mut command = ssh(&site, "exec", &[&host(&site), script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("manypath starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&vec![b'x'; 3_000_000]).expect("input");
    drop(input);
    let output = child.wait_with_output().expect("output");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "3000000");
    assert!(String::from_utf8_lossy(&output.stderr).contains("complaint"));
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn files_come_and_go_with_their_bytes_times_and_permissions() {
    let site = site();
    // More than one session reads and writes it.
    let content = site.random_file("file", 20_000_000);
    let original = site.dir.join("www/file");
    std::fs::set_permissions(&original, std::fs::Permissions::from_mode(0o640)).expect("mode");
    let changed = std::fs::metadata(&original).expect("metadata").mtime();
    let (here, there) = (folder(&site, "here"), folder(&site, "there"));
    let put = run(&site, "put", &[&original.display().to_string(), &place(&site, &there)]);
    assert_eq!(put.code, Some(0), "{put:?}");
    let source = place(&site, &there.join("file"));
    let get = run(&site, "get", &["--json", &source, &here.display().to_string()]);
    assert_eq!(get.code, Some(0), "{get:?}");
    assert_eq!(summary(&get)["bytes"], 20_000_000);
    for copy in [here.join("file"), there.join("file")] {
        assert!(std::fs::read(&copy).expect("a copy") == content, "{} differs", copy.display());
        let metadata = std::fs::metadata(&copy).expect("metadata");
        assert_eq!((metadata.mtime(), metadata.mode() & 0o777), (changed, 0o640));
    }
    assert_eq!((parts(&here).len(), parts(&there).len()), (0, 0));
}

#[test]
fn a_wrong_host_key_ends_it_before_anything_is_sent() {
    let site = site();
    let other = std::fs::read_to_string(site.dir.join("client_key.pub")).expect("a key");
    let known = site.dir.join("known_hosts");
    std::fs::write(&known, format!("[{}]:2222 {other}", site.server())).expect("known hosts");
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["ssh", "exec", "-p", "2222", "-F", "/dev/null", "-i"]);
    command.arg(site.dir.join("client_key")).arg("-o");
    command.arg(format!("UserKnownHostsFile={}", known.display()));
    command.args(["-o", "BatchMode=yes", &host(&site), "echo reached"]);
    let finished = finish(command);
    assert_eq!(finished.code, Some(255), "{finished:?}");
    assert!(finished.stderr.contains("REMOTE HOST IDENTIFICATION HAS CHANGED"), "{finished:?}");
    assert!(finished.stderr.contains("login failed"), "{finished:?}");
    assert_eq!(finished.stdout, "");
}

#[test]
fn a_key_that_the_server_does_not_know_is_told() {
    let site = site();
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["ssh", "get", "-p", "2222", "-F", "/dev/null", "-o", "BatchMode=yes"]);
    command.args(["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]);
    command.args(["-o", "IdentitiesOnly=yes", "-i"]).arg(site.dir.join("host_key"));
    command.args([&place(&site, Path::new("/etc/hostname")), "copy"]);
    let finished = finish(command);
    assert_eq!(finished.code, Some(255), "{finished:?}");
    assert!(finished.stderr.contains("Permission denied"), "{finished:?}");
}

#[test]
fn a_file_that_is_not_there_is_told_by_name() {
    let site = site();
    let finished = run(&site, "get", &[&place(&site, Path::new("/no/such")), "copy"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("/no/such: no such file or directory"), "{finished:?}");
}

/// Begins a copy, breaks it with `break_it` when some of it is there, and continues it.
fn broken_and_continued(command: &str, break_it: impl Fn(&Site), mend: impl Fn(&Site)) {
    let site = site();
    // More than what an upload may write again.
    let content = site.random_file("file", 120_000_000);
    let (original, to) = (site.dir.join("www/file"), folder(&site, "to"));
    let (far, near) = match command {
        "get" => (place(&site, &original), to.display().to_string()),
        _ => (place(&site, &to), original.display().to_string()),
    };
    let ends = if command == "get" { [&far, &near] } else { [&near, &far] };
    let (from, into) = (ends[0].as_str(), ends[1].as_str());
    let alive = ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2", from, into];
    let child = start(ssh(&site, command, &alive));
    let size = || parts(&to).first().and_then(|part| std::fs::metadata(part).ok()).map(|m| m.len());
    let limit = Instant::now() + Duration::from_secs(40);
    while size().is_none_or(|size| size < 80_000_000) {
        assert!(Instant::now() < limit, "waited in vain for most of the file");
        std::thread::sleep(Duration::from_millis(20));
    }
    break_it(&site);
    let (code, stderr) = end(child);
    assert_eq!(code, Some(255), "{stderr}");
    assert!(stderr.contains("lost the connection to the server"), "{stderr}");
    assert!(!to.join("file").exists(), "a part was taken for the whole");
    assert_eq!(parts(&to).len(), 1);
    mend(&site);
    let again = run(&site, command, &["--json", from, into]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(summary(&again)["resumed"].as_u64() > Some(10_000_000), "{again:?}");
    assert!(std::fs::read(to.join("file")).expect("a copy") == content, "the copy differs");
    assert_eq!(parts(&to).len(), 0);
}

fn kill_sessions(site: &Site) {
    // The sessions, not the listener, which is the first of them.
    let listener = site.services[0].id().to_string();
    let status = Command::new("pkill").args(["-KILL", "-P", &listener]).status().expect("pkill");
    assert!(status.success(), "there was no session");
}

#[test]
fn a_download_whose_server_is_killed_is_kept_and_continued() {
    broken_and_continued("get", kill_sessions, |_| {});
}

#[test]
fn an_upload_whose_server_is_killed_is_kept_and_continued() {
    broken_and_continued("put", kill_sessions, |_| {});
}

#[test]
fn a_download_whose_path_is_lost_is_kept_and_continued() {
    let cut = |site: &Site| site.lab.path("A").expect("a path").down().expect("down");
    broken_and_continued("get", cut, |site| site.lab.path("A").expect("a path").up().expect("up"));
}

#[test]
fn an_upload_whose_path_is_lost_is_kept_and_continued() {
    let cut = |site: &Site| site.lab.path("A").expect("a path").down().expect("down");
    broken_and_continued("put", cut, |site| site.lab.path("A").expect("a path").up().expect("up"));
}

#[test]
fn folders_are_copied_whole_and_synchronised_by_what_differs() {
    let site = site();
    let original = folder(&site, "original/deep/er");
    let names: Vec<String> = (0..300).map(|number| format!("file {number}")).collect();
    for name in &names {
        std::fs::write(original.join(name), name.repeat(50)).expect("file");
    }
    std::fs::write(site.dir.join("original/empty"), "").expect("file");
    let root = site.dir.join("original").display().to_string();
    let there = folder(&site, "there");
    let put = run(&site, "put", &["-r", "--json", &root, &place(&site, &there)]);
    assert_eq!((put.code, summary(&put)["files"].as_u64()), (Some(0), Some(301)), "{put:?}");
    let (source, here) = (place(&site, &there.join("original")), site.dir.join("here"));
    let sync = |from: &str, to: &str| summary(&run(&site, "sync", &["--json", from, to]));
    let first = sync(&source, &here.display().to_string());
    assert_eq!((first["files"].as_u64(), first["unchanged"].as_u64()), (Some(301), Some(0)));
    for name in &names {
        let copy = std::fs::read_to_string(here.join("deep/er").join(name)).expect("a copy");
        assert_eq!(copy, name.repeat(50));
    }
    std::fs::write(here.join("deep/new"), "new").expect("file");
    let back = sync(&here.display().to_string(), &source);
    assert_eq!((back["files"].as_u64(), back["unchanged"].as_u64()), (Some(1), Some(301)));
    assert_eq!(std::fs::read_to_string(there.join("original/deep/new")).expect("a copy"), "new");
}

#[test]
fn a_disk_that_is_full_here_is_told_and_what_came_is_kept() {
    let site = site();
    let _ = site.random_file("file", 8_000_000);
    let full = folder(&site, "full");
    let script = "dir=$1; shift; mount -t tmpfs -o size=3m tmpfs \"$dir\"; \"$@\"; code=$?; ls \"$dir\"; exit $code";
    let mut command = site.command(Host::Left, common::find("unshare"));
    command.args(["-m", "sh", "-c", script, "sh"]).arg(&full).args([MANYPATH, "ssh", "get"]);
    command.args(site.ssh_options()).args(["-p", "2222"]);
    command.arg(place(&site, &site.dir.join("www/file"))).arg(&full);
    let finished = finish(command);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("No space left on device"), "{finished:?}");
    let names: Vec<&str> = finished.stdout.lines().collect();
    assert!(names.len() == 1 && names[0].ends_with(".part"), "{finished:?}");
}

#[test]
fn a_disk_that_is_full_there_is_told_and_nothing_is_taken_for_the_file() {
    let mut site = Site::with_paths(&["100mbit,5ms,queue=200"]);
    site.ssh_files();
    let full = folder(&site, "full");
    let script = "mount -t tmpfs -o size=3m tmpfs \"$1\" && exec \"$2\" -D -e -f \"$3\"";
    let sshd = common::find("sshd").display().to_string();
    let (dir, conf) = (full.display().to_string(), site.dir.join("sshd_config"));
    let conf = conf.display().to_string();
    site.service("unshare", &["-m", "sh", "-c", script, "sh", &dir, &sshd, &conf], "tcp", 2222);
    let _ = site.random_file("file", 8_000_000);
    let original = site.dir.join("www/file").display().to_string();
    let put = run(&site, "put", &[&original, &place(&site, &full)]);
    assert_eq!(put.code, Some(1), "{put:?}");
    assert!(put.stderr.contains("is its disk full?"), "{put:?}");
    let there = run(&site, "exec", &["-n", &host(&site), &format!("ls {dir}")]);
    assert!(there.stdout.trim().ends_with(".part"), "{there:?}");
}

#[test]
fn many_rekeys_lose_nothing() {
    let site = site();
    let content = site.random_file("file", 30_000_000);
    let source = place(&site, &site.dir.join("www/file"));
    let target = site.dir.join("copy").display().to_string();
    let get = run(&site, "get", &["-v", "-o", "RekeyLimit=2M", &source, &target]);
    assert_eq!(get.code, Some(0), "{get:?}");
    let rekeys = get
        .stderr
        .matches("rekeying in progress")
        .count()
        .max(get.stderr.matches("SSH2_MSG_KEXINIT sent").count());
    assert!(rekeys >= 10, "{rekeys} rekeys");
    assert!(std::fs::read(target).expect("a copy") == content, "the copy differs");
}

/// Bytes that each connection has received, as ssh tells at its end if it is verbose.
fn received(finished: &Finished) -> Vec<u64> {
    let lines = finished.stderr.lines().filter(|line| line.contains("Transferred: sent "));
    let number = |line: &str| {
        let (_, rest) = line.split_once("received ")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    lines.filter_map(number).collect()
}

#[test]
fn files_go_over_as_many_connections_as_are_asked_for() {
    let site = site();
    let content = site.random_file("file", 40_000_000);
    let (here, to) = (site.dir.join("www/file"), folder(&site, "to"));
    let many = ["-v", "--connections", "3"];
    let (here, there) = (here.display().to_string(), place(&site, &to));
    let put = run(&site, "put", &[&many[..], &[&here, &there]].concat());
    assert_eq!(put.code, Some(0), "{put:?}");
    assert!(std::fs::read(to.join("file")).expect("a copy") == content, "what was put differs");
    assert_eq!(std::fs::read_dir(&to).expect("folder").count(), 1, "something was left");
    let copy = site.dir.join("copy").display().to_string();
    let there = place(&site, &to.join("file"));
    let get = run(&site, "get", &[&many[..], &[&there, &copy]].concat());
    assert_eq!(get.code, Some(0), "{get:?}");
    assert!(std::fs::read(&copy).expect("a copy") == content, "what was got differs");
    let received = received(&get);
    assert!(get.stderr.contains(" ms, connections 3"), "{get:?}");
    assert!(received.len() == 3 && received.iter().all(|bytes| *bytes > 1_000_000), "{received:?}");
}

#[test]
fn where_keys_are_exchanged_often_there_are_several_connections() {
    let site = site();
    let content = site.random_file("file", 80_000_000);
    let source = place(&site, &site.dir.join("www/file"));
    let copy = site.dir.join("copy").display().to_string();
    let get = run(&site, "get", &["-v", "-o", "RekeyLimit=4M", &source, &copy]);
    assert_eq!(get.code, Some(0), "{get:?}");
    assert!(std::fs::read(&copy).expect("a copy") == content, "the copy differs");
    assert_eq!(received(&get).len(), 4);
}

/// A name that leads all connections but the first elsewhere: to `other`, a command.
fn elsewhere(site: &Site, other: &str) -> String {
    let script = site.dir.join("proxy");
    let text = format!(
        "#!/bin/sh\ngrep -q BatchMode=yes /proc/$PPID/cmdline && exec {other}\nexec nc {} 2222\n",
        site.server()
    );
    std::fs::write(&script, text).expect("program");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
    format!("ProxyCommand={}", script.display())
}

#[test]
fn a_connection_that_leads_to_another_server_carries_nothing() {
    let mut site = site();
    let content = site.random_file("file", 9_000_000);
    let (here, there) = (site.dir.join("www/file"), folder(&site, "there"));
    std::fs::copy(&here, there.join("file")).expect("a copy");
    // The other one has another file of this name, and none of what is put.
    let script = "mount -t tmpfs tmpfs \"$1\" && head -c 9000000 /dev/zero > \"$1/file\" &&
        exec \"$2\" -D -e -f \"$3\" -p 2223";
    let sshd = common::find("sshd").display().to_string();
    let (dir, conf) = (there.display().to_string(), site.dir.join("sshd_config"));
    let conf = conf.display().to_string();
    site.service("unshare", &["-m", "sh", "-c", script, "sh", &dir, &sshd, &conf], "tcp", 2223);
    let proxy = elsewhere(&site, &format!("nc {} 2223", site.server()));
    let many = ["-v", "-o", &proxy, "--connections", "3"];
    let copy = site.dir.join("copy").display().to_string();
    let [old, new] = ["file", "new"].map(|name| place(&site, &there.join(name)));
    let here = here.display().to_string();
    let get = [&many[..], &[&old, &copy]].concat();
    let put = [&many[..], &[&here, &new]].concat();
    for (command, args, made) in
        [("get", get, PathBuf::from(&copy)), ("put", put, there.join("new"))]
    {
        let done = run(&site, command, &args);
        assert_eq!((done.code, received(&done).len()), (Some(0), 3), "{done:?}");
        assert!(std::fs::read(made).expect("a copy") == content, "{command}: the copy differs");
    }
    assert_eq!(std::fs::read_dir(&there).expect("folder").count(), 2, "something was left");
}

#[test]
fn without_other_logins_the_first_one_carries_all() {
    let site = site();
    let content = site.random_file("file", 9_000_000);
    let copy = site.dir.join("copy").display().to_string();
    let (proxy, source) = (elsewhere(&site, "false"), place(&site, &site.dir.join("www/file")));
    let get = run(&site, "get", &["-o", &proxy, "--connections", "3", &source, &copy]);
    assert_eq!(get.code, Some(0), "{get:?}");
    assert!(get.stderr.contains("no more can log in without questions"), "{get:?}");
    assert!(std::fs::read(copy).expect("a copy") == content, "the copy differs");
}

#[test]
fn connections_to_a_forwarded_port_go_on_from_the_server() {
    let mut site = site();
    site.web();
    let content = site.random_file("file", 5_000_000);
    // Reached by its loopback only: by nobody but the server itself.
    let forward = start(ssh(&site, "forward", &["-L", "7777:127.0.0.1:8081", &host(&site)]));
    let copy = site.dir.join("copy").display().to_string();
    let url = "http://localhost:7777/file";
    let args = ["-sS", "--retry-connrefused", "--retry", "20", "--retry-delay", "1", "-o", &copy];
    let twice = [&args[..], &[url, "-o", "/dev/null", "http://localhost:7777/"]].concat();
    let curl = site.direct("curl", &twice);
    assert_eq!(curl.code, Some(0), "{curl:?}");
    assert!(std::fs::read(&copy).expect("a copy") == content, "the copy differs");
    let _ = Command::new("kill").arg(forward.id().to_string()).status();
    let (code, stderr) = end(forward);
    assert_eq!(code, Some(130), "{stderr}");
}

#[test]
fn ssh_itself_goes_through_a_pipe() {
    let site = site();
    let options = site.ssh_options().join(" ");
    let pipe = format!("{MANYPATH} ssh pipe {options} -p 2222 {} %h:%p", host(&site));
    let proxy = format!("ProxyCommand={pipe}");
    let all = site.ssh_options();
    let mut args: Vec<&str> = all.iter().map(String::as_str).collect();
    args.extend(["-o", &proxy, "-p", "2222", "root@127.0.0.1", "echo through"]);
    let finished = site.direct("ssh", &args);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "through"), "{finished:?}");
}

#[test]
fn the_login_of_a_master_that_runs_is_used_and_left() {
    let site = site();
    let socket = site.dir.join("s").display().to_string();
    let all = site.ssh_options();
    let mut args: Vec<&str> = all.iter().map(String::as_str).collect();
    let host = host(&site);
    args.extend(["-p", "2222", "-f", "-M", "-N", "-S", &socket, &host]);
    let mut master = site.command(Host::Left, common::find("ssh"));
    assert!(master.args(&args).stdin(Stdio::null()).status().expect("ssh").success());
    for _ in 0..2 {
        let mut command = site.command(Host::Left, MANYPATH);
        command.args(["ssh", "exec", "-S", &socket, "-n", "anything", "echo shared"]);
        let finished = finish(command);
        assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "shared"), "{finished:?}");
    }
    let end = site.direct("ssh", &["-S", &socket, "-O", "exit", "anything"]);
    assert_eq!(end.code, Some(0), "the master was gone: {end:?}");
}

#[test]
fn a_master_does_not_outlive_a_command_that_is_killed() {
    let site = site();
    let mut child = start(ssh(&site, "exec", &["-n", &host(&site), "echo $$; exec sleep 100"]));
    let sessions = || {
        let listener = site.services[0].id().to_string();
        let output = Command::new("pgrep").args(["-P", &listener]).output().expect("pgrep");
        !output.stdout.is_empty()
    };
    common::wait_for("a session", sessions);
    let _ = child.kill();
    let _ = child.wait();
    common::wait_for("the end of the session", || !sessions());
}
