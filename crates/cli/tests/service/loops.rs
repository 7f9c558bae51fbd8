//! A server with several engine loops: clients are spread over them, and each packet finds its loop.

use super::takeover::{Course, pause};
use crate::common::machines::forbidding;
use crate::common::{MANYPATH, Site, finish, wait_for};
use manypath_lab::Host;
use serde_json::Value;
use std::process::{Child, Stdio};

/// Sends ten blocks to and fro, then one for each line of its input.
const CLIENT: &str = "
import os, socket, sys
s = socket.create_connection((sys.argv[1], 7000))
def block():
    data, got = os.urandom(100000), b''
    s.sendall(data)
    while len(got) < len(data):
        piece = s.recv(65536)
        assert piece, 'end of file'
        got += piece
    assert got == data
for _ in range(10):
    block()
print('begun', flush=True)
for line in sys.stdin:
    block()
    print('done', flush=True)
";

const ECHO: &str = "
import socket, threading
def serve(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()
listener = socket.create_server(('', 7000))
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
";

fn serve(options: &[&str]) -> Course {
    let mut site = Site::new();
    site.service("python3", &["-c", ECHO], "tcp", 7000);
    let base = ["serve", "--replace", "--allow", "7000", "-v"];
    Course::of(site, Host::Right, &[&base, options].concat())
}

struct Client {
    child: Child,
}

impl Client {
    /// A client whose association begins at its address on a path.
    fn begin(site: &Site, path: usize) -> Self {
        let (own, server) =
            (site.lab.address(Host::Left, path), site.lab.address(Host::Right, path));
        let mut command = site.command(Host::Left, MANYPATH);
        command.args(["run", "--local", &own.to_string(), "--", "python3", "-c", CLIENT]);
        command.arg(server.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = Self { child: command.spawn().unwrap() };
        assert_eq!(client.hear(), "begun\n");
        client
    }

    fn hear(&mut self) -> String {
        use std::io::Read;
        let mut word = [0; 6];
        let read = self.child.stdout.as_mut().unwrap().read_exact(&mut word[..5]);
        read.and_then(|()| match word[4] {
            b'\n' => Ok(()),
            _ => self.child.stdout.as_mut().unwrap().read_exact(&mut word[5..]),
        })
        .unwrap();
        String::from_utf8_lossy(&word).trim_end_matches('\0').to_owned()
    }

    /// Sends one more block to and fro.
    fn go_on(&mut self) {
        use std::io::Write;
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        assert_eq!(self.hear(), "done\n");
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// What each loop of the servers says of itself.
fn loops(site: &Site) -> Vec<Value> {
    let mut status = site.command(Host::Right, MANYPATH);
    status.args(["status", "--json"]);
    let all: Value = serde_json::from_str(&finish(status).stdout).unwrap_or_default();
    all["stacks"].as_array().cloned().unwrap_or_default()
}

fn associations(site: &Site) -> Vec<usize> {
    let count = |one: &Value| one["associations"].as_array().map_or(0, Vec::len);
    loops(site).iter().map(count).collect()
}

fn counter(one: &Value, name: &str) -> u64 {
    one["counters"][name].as_u64().unwrap_or(0)
}

#[test]
fn two_clients_are_carried_by_two_loops() {
    let course = serve(&["--loops", "2"]);
    let mut clients = [0, 1].map(|path| Client::begin(&course.site, path));
    assert_eq!(associations(&course.site), [1, 1]);
    clients.iter_mut().for_each(Client::go_on);
    let loops = loops(&course.site);
    assert_eq!(loops[0]["pid"], loops[1]["pid"]);
    let numbers = |name: &str| loops.iter().map(|one| one[name].as_u64()).collect::<Vec<_>>();
    assert_eq!(
        (numbers("loop_index"), numbers("loops")),
        (vec![Some(0), Some(1)], vec![Some(2); 2])
    );
    let ids: Vec<_> = loops.iter().map(|one| one["associations"][0]["id"].as_u64()).collect();
    assert_ne!(ids[0], ids[1], "no two associations of a process have the same number");
    let mut status = course.site.command(Host::Right, MANYPATH);
    let text = finish({
        status.arg("status");
        status
    });
    let head = ", 2 engine loops, up ";
    assert!(text.stdout.contains(head), "{}", text.stdout);
    assert!(text.stdout.contains(": 2 associations, 2 connections\n"), "{}", text.stdout);
    assert!(text.stdout.contains("\n  loop 1: 1 association, 1 connection\n"), "{}", text.stdout);
    for one in &loops {
        assert_eq!(counter(one, "sctp_out_of_the_blue"), 0);
    }
    clients.into_iter().for_each(Client::end);
}

#[test]
fn each_loop_hands_over_to_that_of_the_next_server() {
    let mut course = serve(&["--loops", "2"]);
    let mut clients = [0, 1].map(|path| Client::begin(&course.site, path));
    course.order("restart");
    pause();
    clients.iter_mut().for_each(Client::go_on);
    let mut others = [0, 1].map(|path| Client::begin(&course.site, path));
    let draining = |drains: bool| {
        let all = loops(&course.site);
        let of = all.iter().filter(|one| one["draining"] == drains);
        of.map(|one| one["associations"].as_array().map_or(0, Vec::len)).collect::<Vec<_>>()
    };
    assert_eq!((draining(true), draining(false)), (vec![1, 1], vec![1, 1]));
    clients.iter_mut().chain(&mut others).for_each(Client::go_on);
    clients.into_iter().for_each(Client::end);
    wait_for("the server before to end", || loops(&course.site).len() == 2);
    others.iter_mut().for_each(Client::go_on);
    others.into_iter().for_each(Client::end);
    course.order("stop");
    wait_for("all loops to end", || loops(&course.site).is_empty());
}

#[test]
fn a_server_with_another_number_of_loops_keeps_that_of_the_one_before() {
    let mut course = serve(&["--loops", "2"]);
    let mut clients = [0, 1].map(|path| Client::begin(&course.site, path));
    let mut second = course.site.command(Host::Right, MANYPATH);
    second.args(["serve", "--replace", "--allow", "7000"]).stderr(Stdio::piped());
    let second = second.spawn().unwrap();
    wait_for("the second server", || loops(&course.site).len() == 4);
    pause();
    clients.iter_mut().for_each(Client::go_on);
    clients.into_iter().for_each(Client::end);
    wait_for("the first server to end", || loops(&course.site).len() == 2);
    let kill = std::process::Command::new("kill").arg(second.id().to_string()).status();
    assert!(kill.unwrap().success());
    let said = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("2 engine loops instead of 1, because the server before has another number"),
        "{said}"
    );
    wait_for("all loops to end", || loops(&course.site).is_empty());
    course.order("stop");
}

#[test]
fn one_loop_serves_where_the_kernel_does_not_share_a_port() {
    let mut site = Site::new();
    site.service("python3", &["-c", ECHO], "tcp", 7000);
    let mut server = forbidding(&site, Host::Right, &["steering"]);
    server.args(["serve", "--allow", "7000", "--loops", "2"]).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    wait_for("the server", || loops(&site).len() == 1);
    Client::begin(&site, 0).end();
    let one = &loops(&site)[0];
    assert_eq!(one["loops"], 1);
    let mut status = site.command(Host::Right, MANYPATH);
    status.arg("status");
    let text = finish(status).stdout;
    assert!(
        text.contains("\n  1 engine loop instead of 2, because the kernel does not share a port"),
        "{text}"
    );
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn listeners_of_programs_are_refused_with_the_reason() {
    let course = serve(&["--loops", "2"]);
    let mut program = course.site.command(Host::Right, MANYPATH);
    let listen = "import socket; socket.create_server(('', 7100))";
    program.args(["run", "--", "python3", "-c", listen]);
    let ran = finish(program);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = std::fs::read_to_string(course.site.dir.join("log-serve")).unwrap();
    assert!(log.contains("the server has several engine loops: start it without --loops"), "{log}");
    assert_eq!(counter(&loops(&course.site)[0], "stack_listeners_not_offered"), 1);
}
