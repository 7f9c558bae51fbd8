//! `manypath ssh` with other servers and under other programs.

use crate::common;

use common::{Finished, MANYPATH, Site, find, finish};
use manypath_lab::Host;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PATH: &[&str] = &["100mbit,5ms,queue=200"];

/// `manypath ssh COMMAND` on the left host, with the test's keys.
fn ssh(site: &Site, command: &str, args: &[&str]) -> Command {
    let mut all = site.command(Host::Left, MANYPATH);
    all.args(["ssh", command]).args(site.ssh_options()).args(["-p", "2222"]).args(args);
    all
}

fn run(site: &Site, command: &str, args: &[&str]) -> Finished {
    finish(ssh(site, command, args))
}

fn host(site: &Site) -> String {
    format!("root@{}", site.server())
}

fn place(site: &Site, path: &Path) -> String {
    format!("{}:{}", host(site), path.display())
}

/// The shell that rsync and git are to use.
fn shell(site: &Site) -> String {
    format!("{MANYPATH} ssh exec {} -p 2222", site.ssh_options().join(" "))
}

/// Commands with their streams and status, and files in both directions.
fn all_works(site: &Site) {
    let script = "wc -c; echo complaint >&2; exit 7";
    let mut command = ssh(site, "exec", &[&host(site), script]);
    let zero = std::fs::File::open(site.dir.join("www/file")).expect("file");
    command.stdin(zero).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.spawn().expect("manypath").wait_with_output().expect("output");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "9000000", "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("complaint"), "{output:?}");
    assert_eq!(output.status.code(), Some(7));
    let content = std::fs::read(site.dir.join("www/file")).expect("file");
    let (there, here) = (site.dir.join("there"), site.dir.join("here"));
    let original = site.dir.join("www/file").display().to_string();
    let put = run(site, "put", &[&original, &place(site, &there)]);
    assert_eq!(put.code, Some(0), "{put:?}");
    let get = run(site, "get", &[&place(site, &there), &here.display().to_string()]);
    assert_eq!(get.code, Some(0), "{get:?}");
    assert!(std::fs::read(there).expect("a copy") == content, "what was put differs");
    assert!(std::fs::read(here).expect("a copy") == content, "what was got differs");
}

#[test]
fn dropbear_runs_commands_and_has_files() {
    let mut site = Site::with_paths(PATH);
    site.ssh_files();
    let _ = site.random_file("file", 9_000_000);
    let home = site.dir.join("home");
    std::fs::create_dir_all(home.join(".ssh")).expect("home");
    let authorized = home.join(".ssh/authorized_keys");
    std::fs::copy(site.dir.join("client_key.pub"), &authorized).expect("key");
    for (path, mode) in [(home.clone(), 0o700), (home.join(".ssh"), 0o700), (authorized, 0o600)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("mode");
    }
    let key = site.dir.join("dropbear_key").display().to_string();
    let made = Command::new(find("dropbearkey")).args(["-t", "ed25519", "-f", &key]).output();
    assert!(made.expect("dropbearkey").status.success());
    let users = site.dir.join("passwd").display().to_string();
    std::fs::write(&users, format!("root:x:0:0:root:{}:/bin/sh\n", home.display())).expect("users");
    // It knows no other place for keys than the user's home.
    let script = "mount --bind \"$1\" /etc/passwd && exec \"$2\" -F -E -p 2222 -r \"$3\"";
    let dropbear = find("dropbear").display().to_string();
    site.service(
        "unshare",
        &["-m", "sh", "-c", script, "sh", &users, &dropbear, &key],
        "tcp",
        2222,
    );
    all_works(&site);
}

/// A program of `tests/programs`, built from what Debian has of its libraries; built once.
fn go_program(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let source = sources.join(name).with_extension("go");
    let mut build = Command::new(find("go"));
    build.args(["build", "-o"]).arg(&program).arg(source).env("CGO_ENABLED", "0");
    build.env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode");
    build.env("GOCACHE", folder.join("go-cache")).env("HOME", folder);
    assert!(build.status().expect("go").success(), "run scripts/setup full");
    program
}

#[test]
#[ignore = "slow; make test-full"]
fn a_server_in_go_runs_commands_and_has_files() {
    let mut site = Site::with_paths(PATH);
    site.ssh_files();
    let _ = site.random_file("file", 9_000_000);
    let program = go_program("go_ssh_server").display().to_string();
    let key = site.dir.join("host_key").display().to_string();
    site.service(&program, &["2222", &key], "tcp", 2222);
    all_works(&site);
}

#[test]
fn rsync_and_git_use_it_in_the_place_of_ssh() {
    let mut site = Site::with_paths(PATH);
    site.ssh();
    let content = site.random_file("file", 4_000_000);
    let (www, copy) = (site.dir.join("www"), site.dir.join("copy"));
    let there = format!("{}/", place(&site, &www));
    let here = copy.display().to_string();
    let done = site.direct("rsync", &["-a", "-e", &shell(&site), &there, &here]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(copy.join("file")).expect("a copy") == content, "the copy differs");
    let git = |args: &[&str]| {
        let mut command = site.command(Host::Left, find("git"));
        let names = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        command.args(names).args(args).env("GIT_SSH_COMMAND", shell(&site));
        command.env("GIT_SSH_VARIANT", "ssh").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    };
    let repository = www.display().to_string();
    git(&["init", "-q", &repository]);
    git(&["-C", &repository, "add", "file"]);
    git(&["-C", &repository, "commit", "-q", "-m", "a file"]);
    let clone = site.dir.join("clone");
    git(&["clone", "-q", &place(&site, &www), &clone.display().to_string()]);
    assert!(std::fs::read(clone.join("file")).expect("a clone") == content, "the clone differs");
}

#[test]
fn a_wrong_password_is_told_with_the_status_of_ssh() {
    let mut site = Site::with_paths(PATH);
    site.ssh_files();
    let conf = site.dir.join("sshd_config");
    let text = std::fs::read_to_string(&conf).expect("configuration");
    let text = text.replace("PasswordAuthentication no", "PasswordAuthentication yes");
    std::fs::write(&conf, text).expect("configuration");
    site.service("sshd", &["-D", "-e", "-f", &conf.display().to_string()], "tcp", 2222);
    let ask = site.dir.join("ask");
    std::fs::write(&ask, "#!/bin/sh\necho asked >&2\necho wrong\n").expect("program");
    std::fs::set_permissions(&ask, Permissions::from_mode(0o700)).expect("mode");
    let mut command = site.command(Host::Left, MANYPATH);
    command.env("SSH_ASKPASS", &ask).env("SSH_ASKPASS_REQUIRE", "force");
    command.args(["ssh", "get", "-p", "2222", "-F", "/dev/null"]);
    command.args(["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]);
    command.args(["-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1"]);
    command.args([&place(&site, Path::new("/etc/hostname")), "copy"]);
    let done = finish(command);
    assert_eq!(done.code, Some(255), "{done:?}");
    for text in ["asked", "Permission denied", "login failed"] {
        assert!(done.stderr.contains(text), "no {text}: {done:?}");
    }
    assert!(!site.dir.join("copy").exists());
}

#[test]
fn over_manypath_a_file_comes_by_both_paths() {
    let mut site = Site::new();
    site.ssh();
    site.serve("2222");
    let content = site.random_file("file", 12_000_000);
    let (source, copy) = (site.dir.join("www/file"), site.dir.join("copy"));
    let (far, near) = (place(&site, &source), copy.display().to_string());
    let get = run(&site, "get", &["--manypath", &far, &near]);
    assert_eq!(get.code, Some(0), "{get:?}");
    assert!(std::fs::read(&copy).expect("a copy") == content, "the copy differs");
    for path in site.lab.samples(0).expect("samples").paths {
        let bytes: u64 = path.towards_left.iter().sum();
        assert!(bytes > 1_000_000, "path {} carried only {bytes} bytes", path.name);
    }
}

/// `manypath ssh serve` as a user without rights, whose home is in a file system that only it sees.
fn serve(site: &mut Site, keys: &str) {
    let users = site.dir.join("passwd").display().to_string();
    let line = "worker:x:1234:1234::/mnt/home:/bin/sh\nroot:x:0:0::/root:/bin/sh\n";
    std::fs::write(&users, line).expect("users");
    let script = "set -e; mount -t tmpfs -o mode=755 tmpfs /mnt; mkdir -p /mnt/home/.ssh
        touch /mnt/manypath-ssh; mount --bind \"$1\" /mnt/manypath-ssh; mount --bind \"$2\" /etc/passwd
        cp \"$3\" /mnt/home/.ssh/authorized_keys; chown -R 1234:1234 /mnt/home; cd /
        exec setpriv --reuid 1234 --regid 1234 --clear-groups \
            env HOME=/mnt/home TMPDIR=/mnt/home /mnt/manypath-ssh serve -p 2222";
    let program = env!("CARGO_BIN_EXE_manypath-ssh");
    site.service("unshare", &["-m", "sh", "-c", script, "sh", program, &users, keys], "tcp", 2222);
}

#[test]
fn a_user_serves_commands_and_files_without_root_and_nothing_else() {
    let mut site = Site::with_paths(PATH);
    site.ssh_files();
    let content = site.random_file("file", 9_000_000);
    let keys = site.dir.join("client_key.pub").display().to_string();
    serve(&mut site, &keys);
    let worker = format!("worker@{}", site.server());
    let who = run(&site, "exec", &["-n", &worker, "id -un; exit 3"]);
    assert_eq!((who.stdout.trim(), who.code), ("worker", Some(3)), "{who:?}");
    let original = site.dir.join("www/file").display().to_string();
    let put = run(&site, "put", &["--verify", &original, &format!("{worker}:copy")]);
    assert_eq!(put.code, Some(0), "{put:?}");
    let here = site.dir.join("here").display().to_string();
    let get = run(&site, "get", &["--verify", &format!("{worker}:copy"), &here]);
    assert_eq!(get.code, Some(0), "{get:?}");
    assert!(std::fs::read(&here).expect("a copy") == content, "the copy differs");
    let root = run(&site, "exec", &["-n", &host(&site), "id"]);
    assert_eq!(root.code, Some(255), "another user came in: {root:?}");
    let options = site.ssh_options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let ssh = |more: &[&str]| site.direct("ssh", &[&options[..], &["-p", "2222"], more].concat());
    let terminal = ssh(&["-tt", &worker, "tty"]);
    assert!(!terminal.stdout.contains("/dev/"), "{terminal:?}");
    let forward = ssh(&["-W", "127.0.0.1:2222", &worker]);
    assert_ne!(forward.code, Some(0), "it forwards: {forward:?}");
    assert_eq!(forward.stdout, "");
}

/// A server whose user has a file, as `(site, user@host, content)`.
fn served() -> (Site, String, Vec<u8>) {
    let mut site = Site::with_paths(PATH);
    site.ssh_files();
    let content = site.random_file("file", 3_000_000);
    let keys = site.dir.join("client_key.pub").display().to_string();
    serve(&mut site, &keys);
    let worker = format!("worker@{}", site.server());
    (site, worker, content)
}

/// A command with its streams and status, by a client that is given all but the command.
fn runs_commands(site: &Site, client: &[&str]) {
    let mut command = site.command(Host::Left, client[0]);
    command.args(&client[1..]).arg("wc -c; echo complaint >&2; exit 7");
    let file = std::fs::File::open(site.dir.join("www/file")).expect("file");
    command.stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.spawn().expect("a client").wait_with_output().expect("output");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "3000000", "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("complaint"), "{output:?}");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

#[test]
fn the_client_of_dropbear_is_served_commands_and_files() {
    let (site, worker, content) = served();
    let [theirs, key] = ["client_key", "dropbear_key"].map(|n| site.dir.join(n));
    let (theirs, key) = (theirs.display().to_string(), key.display().to_string());
    let convert = ["openssh", "dropbear", &theirs, &key];
    assert_eq!(site.direct("dropbearconvert", &convert).code, Some(0));
    let client = find("dbclient").display().to_string();
    let login = [client.as_str(), "-y", "-y", "-p", "2222", "-i", &key];
    runs_commands(&site, &[&login[..], &[&worker]].concat());
    let (file, here) = (site.dir.join("www/file"), site.dir.join("here"));
    let batch = site.dir.join("batch");
    let lines = format!("put {} copy\nget copy {}\n", file.display(), here.display());
    std::fs::write(&batch, lines).expect("batch");
    let subsystem = format!("{} -s {worker} sftp", login.join(" "));
    let batch = batch.display().to_string();
    let done = site.direct("sftp", &["-q", "-b", &batch, "-D", &subsystem]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(&here).expect("a copy") == content, "the copy differs");
}

#[test]
#[ignore = "slow; make test-full"]
fn a_client_in_go_is_served_commands_and_files() {
    let (site, worker, content) = served();
    let client = go_program("go_ssh_client").display().to_string();
    let key = site.dir.join("client_key").display().to_string();
    let server = format!("{}:2222", site.server());
    let (user, _) = worker.split_once('@').expect("a user");
    let login = [client.as_str(), &server, user, &key];
    runs_commands(&site, &[&login[..], &["exec"]].concat());
    let (file, here) = (site.dir.join("www/file"), site.dir.join("here"));
    let (file, here) = (file.display().to_string(), here.display().to_string());
    for copy in [["put", &file, "copy"], ["get", "copy", &here]] {
        let mut command = site.command(Host::Left, &client);
        command.args(&login[1..]).args(copy);
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{copy:?}: {done:?}");
    }
    assert!(std::fs::read(&here).expect("a copy") == content, "the copy differs");
}

#[test]
fn whoever_has_no_key_of_the_served_user_is_not_let_in() {
    let mut site = Site::with_paths(PATH);
    site.ssh_files();
    let keys = site.dir.join("host_key.pub").display().to_string();
    serve(&mut site, &keys);
    let worker = format!("worker@{}", site.server());
    let done = run(&site, "exec", &["-n", "-o", "BatchMode=yes", &worker, "id"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(255), ""), "{done:?}");
}

#[test]
fn without_keys_nothing_is_served() {
    let site = Site::with_paths(PATH);
    let mut command = site.command(Host::Right, MANYPATH);
    let key = site.dir.join("key").display().to_string();
    command.args(["ssh", "serve", "--keys", &key, "--host-key", &key]);
    let done = finish(command);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("nobody could log in"), "{done:?}");
}

/// What `manypath ssh serve` says whose sshd is this program in Python, and whether the port is open when it
/// says that somebody is served.
fn said_with_sshd(program: &str) -> (String, Option<bool>) {
    let site = Site::with_paths(PATH);
    let sshd = site.dir.join("sshd");
    let text = format!("#!/usr/bin/env python3\nimport socket, sys, time\n{program}\n");
    std::fs::write(&sshd, text).expect("program");
    std::fs::set_permissions(&sshd, Permissions::from_mode(0o755)).expect("mode");
    let (keys, key) = (site.dir.join("keys"), site.dir.join("key"));
    std::fs::write(&keys, "").expect("keys");
    std::fs::write(&key, "").expect("key");
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(["ssh", "serve", "--sshd"]).arg(sshd);
    command.arg("--keys").arg(keys).arg("--host-key").arg(key).stderr(Stdio::piped());
    let mut child = command.spawn().expect("serve");
    let (mut said, mut open) = (String::new(), None);
    for line in BufReader::new(child.stderr.take().expect("stderr")).lines() {
        let line = line.expect("a line");
        if line.contains("is served on port 2222") {
            open = Some(site.direct("nc", &["-z", &site.server(), "2222"]).code == Some(0));
            kill(&child);
        }
        said += &line;
    }
    child.wait().expect("its end");
    (said, open)
}

fn kill(child: &Child) {
    let sent = Command::new("kill").arg(child.id().to_string()).status();
    assert!(sent.expect("kill").success());
}

#[test]
fn a_user_is_said_to_be_served_when_sshd_has_its_port() {
    let late = "time.sleep(0.7); s = socket.create_server(('', 2222)); time.sleep(60)";
    let (said, open) = said_with_sshd(late);
    assert_eq!(open, Some(true), "{said}");
    let (said, open) = said_with_sshd("time.sleep(0.7); sys.exit(255)");
    assert_eq!(open, None, "{said}");
    assert!(said.contains("sshd exited"), "{said}");
}

/// sshd with a configuration that has more, and a file.
fn verifying(more: impl Fn(&Site) -> String) -> (Site, String) {
    let mut site = Site::with_paths(PATH);
    site.ssh_files();
    let conf = site.dir.join("sshd_config");
    let text = std::fs::read_to_string(&conf).expect("configuration");
    std::fs::write(&conf, format!("{text}{}\n", more(&site))).expect("configuration");
    site.service("sshd", &["-D", "-e", "-f", &conf.display().to_string()], "tcp", 2222);
    let _ = site.random_file("file", 1_000_000);
    let original = site.dir.join("www/file").display().to_string();
    (site, original)
}

#[test]
fn a_copy_that_differs_is_told_by_verify() {
    let (site, original) = verifying(|site| {
        let programs = site.dir.join("programs");
        std::fs::create_dir_all(&programs).expect("folder");
        let sum = programs.join("sha256sum");
        std::fs::write(&sum, format!("#!/bin/sh\necho {}  x\n", "0".repeat(64))).expect("program");
        std::fs::set_permissions(&sum, Permissions::from_mode(0o755)).expect("mode");
        format!("SetEnv PATH={}:/usr/bin:/bin", programs.display())
    });
    let there = place(&site, &site.dir.join("there"));
    for (command, from, to) in [("put", &*original, &*there), ("get", &*there, "here")] {
        let done = run(&site, command, &["--verify", from, to]);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stderr.contains("the copy differs from its original"), "{done:?}");
    }
}

#[test]
fn a_server_without_commands_cannot_verify_and_that_is_told() {
    let (site, original) = verifying(|_| "ForceCommand internal-sftp".to_owned());
    let done = run(&site, "put", &["--verify", &original, &place(&site, &site.dir.join("there"))]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("the server cannot verify it"), "{done:?}");
}
