//! `manypath ssh` against stock sshd.

mod common;

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
    assert!(finished.stderr.contains("not logged in"), "{finished:?}");
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
    assert!(stderr.contains("the connection to the server is lost"), "{stderr}");
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
