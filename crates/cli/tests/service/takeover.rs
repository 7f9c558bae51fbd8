//! Connections outlive their server, and the process that carries a cgroup: it is started anew by a service manager, or
//! replaced by hand.

use crate::common::cgroup::{Group, enter};
use crate::common::previous;
use crate::common::{MANYPATH, Site, find, finish, wait_for};
use manypath_control::{ControlClient, ControlSocket, Reply, Request, Role};
use manypath_lab::Host;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A service manager as systemd is one: `start`, `restart`, `stop`, and `kill` for the newest server itself.
const MANAGER: &str = r#"
import fcntl, os, signal, socket, sys
notify, log, argv = sys.argv[1], sys.argv[2], sys.argv[3:]
line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
line.bind(notify)
stored, main = [], 0
def start():
    global main
    main = os.fork()
    if main == 0:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 2)
        copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in stored]
        for number, copy in enumerate(copies, 3):
            os.dup2(copy, number)
        env = dict(os.environ, NOTIFY_SOCKET=notify)
        if copies:
            env.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(copies)))
        os.execve(argv[0], argv, env)
    while True:
        text, fds, _, _ = socket.recv_fds(line, 4096, 8)
        if b'FDSTORE=1' in text:
            stored[:0] = fds
        if b'READY=1' in text:
            return
def end():
    global main
    if main:
        os.kill(main, signal.SIGTERM)
        os.waitpid(main, 0)
    main = 0
for command in sys.stdin:
    match command.strip():
        case 'start':
            start()
        case 'restart':
            end()
            start()
        case 'stop':
            end()
            while stored:
                os.close(stored.pop())
        case 'kill':
            server = open(f'/proc/{main}/task/{main}/children').read().split()[0]
            os.kill(int(server), signal.SIGKILL)
            os.waitpid(main, 0)
            main = 0
    print('done', flush=True)
"#;

const ECHO: &str = "
import socket, sys, threading
def serve(connection):
    name = connection.getpeername()
    while data := connection.recv(65536):
        assert connection.getpeername() == name
        connection.sendall(data)
    connection.close()
def listen(port):
    listener = socket.create_server(('', port))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()
for port in sys.argv[1:]:
    threading.Thread(target=listen, args=(int(port),)).start()
";

/// Sends blocks to and fro on ten connections until a file is there; prints how each ended, and the longest pause.
const CLIENT: &str = "
import os, socket, sys, threading, time
host, folder = sys.argv[1], sys.argv[2]
results, connected = [], threading.Barrier(11)
def work(port):
    gap, count, last = 0, 0, time.monotonic()
    try:
        s = socket.create_connection((host, port))
        s.settimeout(30)
        while not os.path.exists(folder + '/enough'):
            data, got = os.urandom(8192), b''
            s.sendall(data)
            while len(got) < len(data):
                piece = s.recv(65536)
                assert piece, 'end of file'
                got += piece
            assert got == data and s.getpeername() == (host, port)
            if count == 0:
                connected.wait()
                last = time.monotonic()
            count, gap, last = count + 1, max(gap, time.monotonic() - last), time.monotonic()
            time.sleep(0.005)
        results.append((None, gap, count))
    except Exception as error:
        results.append((type(error).__name__, gap, count))
threads = [threading.Thread(target=work, args=(7000 if i % 2 else 700,)) for i in range(10)]
[thread.start() for thread in threads]
connected.wait()
open(folder + '/connected', 'w').close()
[thread.join() for thread in threads]
errors = [error for error, _, _ in results if error]
print(len(errors), ' '.join(sorted(set(errors))), min(c for _, _, c in results), '%.3f' % max(g for _, g, _ in results))
";

pub(super) const SERVE: [&str; 5] = ["serve", "--replace", "--allow", "700,7000", "-v"];

/// A site whose right host sends back what it gets, at a privileged port and another one.
pub(super) fn echo() -> Site {
    let mut site = Site::new();
    site.service("python3", &["-c", ECHO, "700", "7000"], "tcp", 7000);
    site
}

pub(super) struct Transfers {
    client: Child,
    folder: PathBuf,
}

impl Transfers {
    /// As [`Self::end`], of connections that should end before they are told to.
    fn end_without_being_told(mut self) -> String {
        let limit = Instant::now() + Duration::from_secs(20);
        while self.client.try_wait().unwrap().is_none() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.end()
    }

    /// What became of them: how many have failed, and in which ways.
    pub(super) fn end(self) -> String {
        std::fs::write(self.folder.join("enough"), "").unwrap();
        let output = self.client.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("failed, how, least blocks, longest pause (s): {text}");
        let words: Vec<&str> = text.trim().split(' ').collect();
        words[..words.len().saturating_sub(2)].join(" ").trim().to_owned()
    }
}

pub(super) struct Course {
    pub(super) site: Site,
    manager: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Course {
    /// `manypath serve` before an echo server, under a manager.
    fn new() -> Self {
        Self::of(echo(), Host::Right, &SERVE)
    }

    /// manypath under a manager.
    pub(super) fn of(site: Site, host: Host, args: &[&str]) -> Self {
        let manager = site.command(host, find("python3"));
        Self::by(manager, site, Path::new(MANYPATH), args)
    }

    fn by(mut manager: Command, site: Site, manypath: &Path, args: &[&str]) -> Self {
        let (notify, log) = (site.dir.join("notify"), site.dir.join("log-serve"));
        manager.arg("-c").arg(MANAGER).arg(&notify).arg(&log).arg(manypath).args(args);
        let mut manager = manager.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = manager.stdin.take().unwrap();
        let answers = BufReader::new(manager.stdout.take().unwrap());
        let mut course = Self { site, manager, orders, answers };
        course.order("start");
        course
    }

    pub(super) fn order(&mut self, word: &str) {
        writeln!(self.orders, "{word}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n", "{word}: {}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.site.dir.join("log-serve")).unwrap_or_default()
    }

    pub(super) fn transfers(&self, name: &str) -> Transfers {
        transfers(&self.site, name)
    }

    fn stacks(&self) -> Vec<(u64, bool, usize)> {
        stacks(&self.site)
    }
}

/// Ten connections that work.
fn transfers(site: &Site, name: &str) -> Transfers {
    transfers_of(site, name, |args| site.through_command(&[], "python3", args))
}

fn transfers_of(site: &Site, name: &str, run: impl Fn(&[&str]) -> Command) -> Transfers {
    let folder = site.dir.join(name);
    std::fs::create_dir(&folder).unwrap();
    let (server, dir) = (site.server(), folder.display().to_string());
    let mut client = run(&["-c", CLIENT, &server, &dir]);
    let client = client.stdout(Stdio::piped()).spawn().unwrap();
    let connected = folder.join("connected");
    wait_for("ten connections", || connected.exists());
    Transfers { client, folder }
}

/// The stacks of the server's host: process, whether it drains, connections.
fn stacks(site: &Site) -> Vec<(u64, bool, usize)> {
    stacks_of(site, Host::Right, true)
}

/// Those that accept associations, or those that do not.
fn stacks_of(site: &Site, host: Host, accepting: bool) -> Vec<(u64, bool, usize)> {
    let stack = |one: &serde_json::Value| {
        let associations = one["associations"].as_array().unwrap().iter();
        let flows = associations.map(|one| one["flows"].as_array().map_or(0, Vec::len)).sum();
        (one["pid"].as_u64().unwrap(), one["draining"] == true, flows)
    };
    status_of(site, host).iter().filter(|one| one["accepting"] == accepting).map(stack).collect()
}

/// What `manypath status` says of each stack.
pub(super) fn status_of(site: &Site, host: Host) -> Vec<serde_json::Value> {
    let mut status = site.command(host, MANYPATH);
    status.args(["status", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&finish(status).stdout).unwrap_or_default();
    all["stacks"].as_array().cloned().unwrap_or_default()
}

impl Drop for Course {
    fn drop(&mut self) {
        let stacks = self.stacks();
        let _ = writeln!(self.orders, "stop");
        let _ = self.answers.read_line(&mut String::new());
        let _ = self.manager.kill();
        let _ = self.manager.wait();
        for (pid, ..) in stacks {
            let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

pub(super) fn pause() {
    std::thread::sleep(Duration::from_millis(700));
}

#[test]
fn connections_outlive_restarts_and_end_with_a_stop() {
    let mut course = Course::new();
    let first = course.transfers("first");
    course.order("restart");
    let second = course.transfers("second");
    course.order("restart");
    pause();
    let stacks = course.stacks();
    let carried = |draining| {
        let of = stacks.iter().filter(|one| one.1 == draining);
        of.map(|one| one.2).collect::<Vec<usize>>()
    };
    assert_eq!((carried(true), carried(false)), (vec![10, 10], vec![0]), "{stacks:?}");
    assert_eq!(first.end(), "0");
    assert_eq!(second.end(), "0");
    wait_for("the servers before to end", || course.stacks().len() == 1);
    let third = course.transfers("third");
    assert_eq!(course.stacks()[0].2, 10);
    course.order("restart");
    pause();
    let begun = Instant::now();
    course.order("stop");
    wait_for("all servers to end", || course.stacks().is_empty());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let ended = third.end_without_being_told();
    assert!(ended.starts_with("10 "), "{ended}");
}

#[test]
#[ignore = "slow; make test-full"]
fn connections_outlive_the_upgrade_from_the_last_release() {
    let site = echo();
    let installed = site.dir.join("manypath");
    symlink(previous::built("release"), &installed).unwrap();
    let manager = previous::command(&site, Host::Right, find("python3").to_str().unwrap());
    let mut course = Course::by(manager, site, &installed, &SERVE);
    let first = course.transfers("first");
    std::fs::remove_file(&installed).unwrap();
    symlink(MANYPATH, &installed).unwrap();
    course.order("restart");
    let second = course.transfers("second");
    pause();
    let mut stacks = course.stacks();
    stacks.sort_by_key(|one| !one.1);
    assert_eq!(
        stacks.iter().map(|one| (one.1, one.2)).collect::<Vec<_>>(),
        [(true, 10), (false, 10)]
    );
    assert_eq!([first.end(), second.end()], ["0", "0"]);
    wait_for("the server before to end", || course.stacks().len() == 1);
}

#[test]
fn a_server_serves_again_when_its_successor_is_killed() {
    let mut course = Course::new();
    let first = course.transfers("first");
    course.order("restart");
    pause();
    course.order("kill");
    wait_for("the server before", || course.stacks().iter().any(|one| !one.1));
    let second = course.transfers("second");
    assert_eq!(course.stacks().iter().map(|one| one.2).collect::<Vec<_>>(), [20]);
    course.order("start");
    pause();
    let third = course.transfers("third");
    assert_eq!([first.end(), second.end(), third.end()], ["0", "0", "0"]);
}

#[test]
fn a_server_replaces_another_by_hand() {
    let mut site = echo();
    site.serve("700,7000");
    let serve = |replace: &[&str]| {
        let mut command = site.command(Host::Right, MANYPATH);
        command.args(["serve", "--allow", "700,7000"]).args(replace);
        command
    };
    let refused = finish(serve(&[]));
    assert!(refused.stderr.contains("serve --replace"), "{refused:?}");
    let transfers = transfers(&site, "by-hand");
    assert_eq!(stacks(&site)[0].2, 10, "carried by the first server");
    let mut second = serve(&["--replace", "-v"]).spawn().unwrap();
    wait_for("the second server", || stacks(&site).len() == 2);
    pause();
    assert_eq!(transfers.end(), "0");
    wait_for("the first server to end", || stacks(&site).len() == 1);
    second.kill().unwrap();
    second.wait().unwrap();
}

/// Asks the server for its sockets, as a successor does that then dies.
fn begin_to_take_over(site: &Site) {
    let doors = std::fs::read_dir(site.dir.join("run")).unwrap().flatten().map(|it| it.path());
    let door = doors.filter(|it| it.file_name().unwrap().to_string_lossy().starts_with("door-"));
    let door = ControlSocket::connect(&door.last().expect("a door")).unwrap();
    let client = ControlClient::start(door, Role::Cli).unwrap();
    client.check_welcome(&client.receive().unwrap()).unwrap();
    client.send(&Request::TakeOver, None).unwrap();
    while !matches!(client.receive().unwrap(), Reply::Lent { left: 0, .. }) {}
}

#[test]
fn a_server_is_found_again_after_takeovers_that_came_to_nothing() {
    let mut site = echo();
    site.serve("700,7000");
    begin_to_take_over(&site);
    let transfers = transfers(&site, "found-again");
    for _ in 0..2 {
        let mut next = site.command(Host::Right, MANYPATH);
        next.args(SERVE);
        let mut next = next.spawn().unwrap();
        let has_taken_over = |stack: &serde_json::Value| stack["counters"]["stack_took_over"] == 1;
        wait_for("a server that has taken over", || {
            status_of(&site, Host::Right).iter().any(has_taken_over)
        });
        next.kill().unwrap();
        next.wait().unwrap();
        wait_for("the first server", || stacks(&site).iter().any(|one| !one.1));
    }
    assert_eq!(transfers.end(), "0");
}

/// How many processes carry a cgroup.
fn attached(group: &Group) -> usize {
    let dir = group.dir.display().to_string();
    let carries = |process: &std::fs::DirEntry| {
        let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        line.contains("\0attach\0") && line.contains(&dir) && line.ends_with("\0--anchored\0")
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(carries).count()
}

/// The connections of stacks that have any.
fn carried(site: &Site, host: Host, accepting: bool) -> Vec<usize> {
    stacks_of(site, host, accepting)
        .into_iter()
        .map(|one| one.2)
        .filter(|flows| *flows > 0)
        .collect()
}

#[test]
fn connections_of_a_cgroup_outlive_restarts_and_end_with_a_stop() {
    let Some(group) = Group::new() else { return };
    let mut site = echo();
    site.serve("700,7000");
    let dir = group.dir.display().to_string();
    let attach = ["attach", "--cgroup", &dir, "--replace", "--client-only"];
    let mut course = Course::of(site, Host::Left, &attach);
    let begin = |course: &Course, name| {
        let run = |args: &[&str]| enter(&group.dir, &course.site, Host::Left, "python3", args);
        transfers_of(&course.site, name, run)
    };
    let first = begin(&course, "first");
    course.order("restart");
    let second = begin(&course, "second");
    course.order("restart");
    pause();
    assert_eq!(carried(&course.site, Host::Left, false), [10, 10], "{}", course.log());
    assert_eq!([first.end(), second.end()], ["0", "0"], "{}", course.log());
    wait_for("the processes before to end", || attached(&group) == 1);
    let third = begin(&course, "third");
    assert_eq!(carried(&course.site, Host::Left, false), [10], "{}", course.log());
    course.order("restart");
    pause();
    course.order("stop");
    wait_for("all to end", || attached(&group) == 0);
    let ended = third.end_without_being_told();
    assert!(ended.starts_with("10 "), "{ended}");
}

#[test]
fn peers_of_a_cgroups_servers_outlive_its_restarts() {
    let Some(group) = Group::new() else { return };
    let site = Site::new();
    let dir = group.dir.display().to_string();
    let mut echo = enter(&group.dir, &site, Host::Right, "python3", &["-c", ECHO, "700", "7000"]);
    let mut echo = echo.spawn().unwrap();
    let mut course =
        Course::of(site, Host::Right, &["attach", "--cgroup", &dir, "--replace", "-v"]);
    let first = course.transfers("first");
    course.order("restart");
    let second = course.transfers("second");
    course.order("restart");
    pause();
    assert_eq!(carried(&course.site, Host::Right, true), [20], "{}", course.log());
    assert_eq!([first.end(), second.end()], ["0", "0"], "{}", course.log());
    wait_for("the processes before to end", || attached(&group) == 1);
    echo.kill().unwrap();
    echo.wait().unwrap();
}

#[test]
fn one_that_is_attached_is_replaced_by_hand() {
    let Some(mut group) = Group::new() else { return };
    let mut site = echo();
    site.serve("700,7000");
    group.attach(&site, Host::Left, &["--client-only"]);
    let run = |args: &[&str]| enter(&group.dir, &site, Host::Left, "python3", args);
    let transfers = transfers_of(&site, "by-hand", run);
    assert_eq!(carried(&site, Host::Left, false), [10]);
    let mut refused = site.command(Host::Left, MANYPATH);
    refused.args(["attach", "--client-only", "--cgroup"]).arg(&group.dir);
    let refused = finish(refused);
    assert!(refused.stderr.contains("attach --replace"), "{refused:?}");
    let second = replace(&group, &site, Host::Left, &["--client-only"]);
    assert_eq!(transfers.end(), "0");
    let said = group.wait(&site, Host::Left);
    assert!(said.contains("another manypath takes over; 10 connections go on here"), "{said}");
    end_by("-TERM", second);
}

/// Starts one that takes over from the one before, and waits until it is at work.
fn replace(group: &Group, site: &Site, host: Host, options: &[&str]) -> Child {
    let mut command = site.command(host, MANYPATH);
    command.args(["attach", "--replace", "--cgroup"]).arg(&group.dir).args(options);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "READY\n");
    child
}

fn signal(signal: &str, pid: u32) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

fn end_by(name: &str, mut child: Child) {
    signal(name, child.id());
    child.wait().unwrap();
}

#[test]
fn one_that_is_attached_serves_again_when_its_successor_is_killed_but_not_when_it_is_ended() {
    let Some(mut group) = Group::new() else { return };
    let mut site = echo();
    site.serve("700,7000");
    group.attach(&site, Host::Left, &["--client-only"]);
    let begin = |name| {
        let run = |args: &[&str]| enter(&group.dir, &site, Host::Left, "python3", args);
        transfers_of(&site, name, run)
    };
    let said = || std::fs::read_to_string(site.dir.join("attach-Left")).unwrap();
    let first = begin("first");
    end_by("-KILL", replace(&group, &site, Host::Left, &["--client-only"]));
    wait_for("the one before to serve", || said().contains("this process serves again"));
    let second = begin("second");
    assert_eq!(carried(&site, Host::Left, false), [20]);
    end_by("-TERM", replace(&group, &site, Host::Left, &["--client-only"]));
    let third = begin("third");
    assert_eq!(carried(&site, Host::Left, false), [20], "{}", said());
    assert_eq!([first.end(), second.end(), third.end()], ["0", "0", "0"]);
    let said = group.wait(&site, Host::Left);
    assert_eq!(said.matches("another manypath takes over").count(), 2, "{said}");
    assert_eq!(said.matches("this process serves again").count(), 1, "{said}");
}

/// A signal that nobody sent who is still there, as when the successor is killed before it is looked for.
#[test]
fn one_that_is_attached_serves_again_when_there_is_no_successor() {
    let Some(mut group) = Group::new() else { return };
    let mut site = echo();
    site.serve("700,7000");
    group.attach(&site, Host::Left, &["--client-only"]);
    signal("-USR1", group.pid());
    let said = || std::fs::read_to_string(site.dir.join("attach-Left")).unwrap();
    wait_for("it to serve again", || said().contains("this process serves again"));
    let run = |args: &[&str]| enter(&group.dir, &site, Host::Left, "python3", args);
    let transfers = transfers_of(&site, "transfers", run);
    assert_eq!(carried(&site, Host::Left, false), [10]);
    assert_eq!(transfers.end(), "0");
}

#[test]
fn one_that_is_attached_and_dismissed_leaves_its_cgroup_to_nobody() {
    let Some(mut group) = Group::new() else { return };
    let site = Site::new();
    group.attach(&site, Host::Left, &["--client-only"]);
    signal("-USR2", group.pid());
    std::thread::sleep(Duration::from_millis(100));
    signal("-USR1", group.pid());
    let said = || std::fs::read_to_string(site.dir.join("attach-Left")).unwrap();
    wait_for("it to hand over", || said().contains("another manypath takes over"));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!said().contains("this process serves again"), "{}", said());
}

#[test]
fn servers_of_a_cgroup_are_offered_again_when_the_successor_is_killed() {
    let Some(mut group) = Group::new() else { return };
    let site = Site::new();
    let mut echo = enter(&group.dir, &site, Host::Right, "python3", &["-c", ECHO, "700", "7000"]);
    let mut echo = echo.spawn().unwrap();
    group.attach(&site, Host::Right, &["-v"]);
    let first = transfers(&site, "first");
    end_by("-KILL", replace(&group, &site, Host::Right, &[]));
    let listeners = || site.door_status(Host::Right)["listeners"].as_array().map_or(0, Vec::len);
    wait_for("the listeners to be offered", || listeners() == 2);
    let second = transfers(&site, "second");
    assert_eq!(carried(&site, Host::Right, true), [20]);
    assert_eq!([first.end(), second.end()], ["0", "0"]);
    echo.kill().unwrap();
    echo.wait().unwrap();
}

/// The stack that launchers of servers share, until another one takes over.
#[test]
fn a_server_replaces_the_door_of_programs() {
    let site = Site::new();
    let mut echo = site.command(Host::Right, MANYPATH);
    echo.args(["run", "--"]).arg(find("python3")).args(["-c", ECHO, "700", "7000"]);
    let mut echo = echo.spawn().unwrap();
    wait_for("the door", || stacks(&site).len() == 1);
    let first = transfers(&site, "first");
    let door = stacks(&site);
    assert_eq!(door[0].2, 10, "carried by the door");
    let mut server = site.command(Host::Right, MANYPATH);
    server.args(["serve", "--replace", "--allow", "1"]).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    wait_for("the server", || stacks(&site).len() == 2);
    pause();
    assert_eq!(first.end(), "0");
    wait_for("the door to end", || stacks(&site).len() == 1);
    let offered = || site.door_status(Host::Right)["listeners"].as_array().map_or(0, Vec::len);
    wait_for("the programs to be offered", || offered() == 2);
    let second = transfers(&site, "second");
    let now = stacks(&site);
    assert!(now[0].2 == 10 && now[0].0 != door[0].0, "{now:?}");
    assert_eq!(second.end(), "0");
    for process in [&mut server, &mut echo] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
