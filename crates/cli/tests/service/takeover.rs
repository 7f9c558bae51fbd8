//! Connections outlive their server: it is started anew by a service manager, or replaced by hand.

use crate::common::{MANYPATH, Site, find, finish, wait_for};
use manypath_lab::Host;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
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
    os.kill(main, signal.SIGTERM)
    os.waitpid(main, 0)
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
    print('done', flush=True)
"#;

const ECHO: &str = "
import socket, sys, threading
def serve(connection):
    while data := connection.recv(65536):
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
            assert got == data
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

struct Transfers {
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
    fn end(self) -> String {
        std::fs::write(self.folder.join("enough"), "").unwrap();
        let output = self.client.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("failed, how, least blocks, longest pause (s): {text}");
        let words: Vec<&str> = text.trim().split(' ').collect();
        words[..words.len().saturating_sub(2)].join(" ").trim().to_owned()
    }
}

struct Course {
    site: Site,
    manager: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Course {
    /// An echo server at a privileged port and another one, and `manypath serve` before it, under a manager.
    fn new() -> Self {
        let mut site = Site::new();
        site.service("python3", &["-c", ECHO, "700", "7000"], "tcp", 7000);
        let (notify, log) = (site.dir.join("notify"), site.dir.join("log-serve"));
        let mut manager = site.command(Host::Right, find("python3"));
        manager.arg("-c").arg(MANAGER).arg(&notify).arg(&log);
        manager.args([MANYPATH, "serve", "--replace", "--allow", "700,7000", "-v"]);
        let mut manager = manager.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = manager.stdin.take().unwrap();
        let answers = BufReader::new(manager.stdout.take().unwrap());
        let mut course = Self { site, manager, orders, answers };
        course.order("start");
        course
    }

    fn order(&mut self, word: &str) {
        writeln!(self.orders, "{word}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n", "{word}: {}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.site.dir.join("log-serve")).unwrap_or_default()
    }

    fn transfers(&self, name: &str) -> Transfers {
        transfers(&self.site, name)
    }

    fn stacks(&self) -> Vec<(u64, bool, usize)> {
        stacks(&self.site)
    }
}

/// Ten connections that work.
fn transfers(site: &Site, name: &str) -> Transfers {
    let folder = site.dir.join(name);
    std::fs::create_dir(&folder).unwrap();
    let (server, dir) = (site.server(), folder.display().to_string());
    let mut client = site.through_command(&[], "python3", &["-c", CLIENT, &server, &dir]);
    let client = client.stdout(Stdio::piped()).spawn().unwrap();
    let connected = folder.join("connected");
    wait_for("ten connections", || connected.exists());
    Transfers { client, folder }
}

/// The stacks of the server's host: process, whether it drains, connections.
fn stacks(site: &Site) -> Vec<(u64, bool, usize)> {
    let mut status = site.command(Host::Right, MANYPATH);
    status.args(["status", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&finish(status).stdout).unwrap_or_default();
    let stack = |one: &serde_json::Value| {
        let associations = one["associations"].as_array().unwrap().iter();
        let flows = associations.map(|one| one["flows"].as_array().map_or(0, Vec::len)).sum();
        (one["pid"].as_u64().unwrap(), one["draining"] == true, flows)
    };
    let stacks = all["stacks"].as_array().cloned().unwrap_or_default();
    stacks.iter().filter(|one| one["accepting"] == true).map(stack).collect()
}

impl Drop for Course {
    fn drop(&mut self) {
        let stacks = self.stacks();
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

fn pause() {
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
    let mut site = Site::new();
    site.service("python3", &["-c", ECHO, "700", "7000"], "tcp", 7000);
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
    let mut second = serve(&["--replace"]).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the second server", || stacks(&site).len() == 2);
    pause();
    assert_eq!(transfers.end(), "0");
    wait_for("the first server to end", || stacks(&site).len() == 1);
    second.kill().unwrap();
    second.wait().unwrap();
}
