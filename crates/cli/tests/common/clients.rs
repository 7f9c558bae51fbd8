//! Stock programs as clients, whatever takes their connections to manypath; each proven to have gone through
//! it by the counters of the server's stack.

use super::{Finished, Site, find, finish};
use manypath_lab::Host;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes the command of a program whose connections manypath is to carry.
pub(crate) type Run<'a> = &'a dyn Fn(&str, &[&str]) -> Command;

fn through(run: Run, program: &str, args: &[&str]) -> Finished {
    finish(run(program, args))
}

/// Runs `act`; asserts that exactly `flows` connections reached the server's stack meanwhile.
pub(crate) fn carried(site: &Site, flows: u64, act: impl FnOnce() -> Finished) -> Finished {
    let before = site.server_counter("stack_relays_started");
    let finished = act();
    let carried = site.server_counter("stack_relays_started") - before;
    assert_eq!(carried, flows, "connections carried by manypath: {finished:?}");
    finished
}

/// A site with a web server, and a small file.
pub(crate) fn web_site() -> Site {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    site.serve("8080");
    site
}

/// One file, many in parallel, over both families; a port where nobody listens.
pub(crate) fn curl(site: &Site, run: Run) {
    let content = site.random_file("file", 2_000_000);
    let url = format!("http://{}:8080/file", site.server());
    let out = site.dir.join("got").display().to_string();
    let done = carried(site, 1, || through(run, "curl", &["-sS", "-f", "-o", &out, &url]));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(&out).expect("file") == content, "the file arrived damaged");

    let small = format!("http://{}:8080/small?[1-20]", site.server());
    let done = carried(site, 20, || {
        through(
            run,
            "curl",
            &[
                "-sS",
                "-f",
                "-Z",
                "--parallel-immediate",
                "-H",
                "Connection: close",
                "-o",
                "/dev/null",
                &small,
            ],
        )
    });
    assert_eq!(done.code, Some(0), "{done:?}");

    let six = format!("http://[{}]:8080/file", site.lab.address_v6(Host::Right, 0));
    let done = carried(site, 1, || through(run, "curl", &["-sS", "-f", "-g", "-o", &out, &six]));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(&out).expect("file") == content, "the file arrived damaged");

    let closed = format!("http://{}:8079/", site.server());
    let done = through(run, "curl", &["-sS", &closed]);
    assert_eq!(done.code, Some(7), "{done:?}");
}

/// scp, sftp, ssh with a terminal, rsync over ssh. sshd is at port 2222.
pub(crate) fn openssh(site: &Site, run: Run) {
    let content = site.random_file("file", 3_000_000);
    let (server, options) = (site.server(), site.ssh_options());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let user = user();
    let target = format!("{user}@{server}");
    let file = site.dir.join("www/file").display().to_string();
    let copy = |name: &str| site.dir.join(name);

    let upload = format!("{target}:{}", copy("scp").display());
    let args = [&options[..], &["-P", "2222", &file, &upload]].concat();
    let done = carried(site, 1, || through(run, "scp", &args));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(copy("scp")).expect("copy") == content, "scp damaged the file");

    let batch = site.dir.join("batch");
    std::fs::write(&batch, format!("get {file} {}\n", copy("sftp").display())).expect("batch");
    let batch = batch.display().to_string();
    let args = [&options[..], &["-P", "2222", "-b", &batch, &target]].concat();
    let done = carried(site, 1, || through(run, "sftp", &args));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(copy("sftp")).expect("copy") == content, "sftp damaged the file");

    let args = [
        &options[..],
        &["-tt", "-p", "2222", &target, "echo over $SSH_CONNECTION; tty -s && echo tty"],
    ]
    .concat();
    let done = carried(site, 1, || through(run, "ssh", &args));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("over ") && done.stdout.contains("tty"), "{done:?}");

    let shell = format!("ssh -p 2222 {}", options.join(" "));
    let download = format!("{target}:{file}");
    let local = copy("rsync").display().to_string();
    let done = carried(site, 1, || through(run, "rsync", &["-e", &shell, &download, &local]));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(local).expect("copy") == content, "rsync damaged the file");
}

fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An answer that can only come after the end of the request was seen, at port 7000.
pub(crate) fn netcat(site: &Site, run: Run) {
    // The answer can only come after the end of the request was seen: that is what half-close is.
    let program = "import socket\ns=socket.create_server(('0.0.0.0',7000))\nprint('up',flush=True)\n\
        c,_=s.accept()\nr=b''\nwhile d:=c.recv(99): r+=d\nc.sendall(r.upper())\nc.close()";
    let mut server = site.command(Host::Right, find("python3"));
    server.args(["-c", program]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = server.spawn().expect("server");
    let mut up = [0; 3];
    server.stdout.as_mut().expect("stdout").read_exact(&mut up).expect("the server is up");
    let before = site.server_counter("stack_relays_started");
    let mut command = run("nc", &["-N", &site.server(), "7000"]);
    let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("client");
    client.stdin.take().expect("stdin").write_all(b"half closed\n").expect("request");
    let output = client.wait_with_output().expect("output");
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "HALF CLOSED\n");
    assert_eq!(site.server_counter("stack_relays_started") - before, 1);
}

/// Python's asyncio and Node.
pub(crate) fn event_loops(site: &Site, run: Run) {
    let server = site.server();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/asyncio_client.py");
    let done = carried(site, 20, || through(run, "python3", &[program, &server, "8080"]));
    assert_eq!(done.stdout.trim(), "20 {10000}", "{done:?}");

    let script =
        "fetch(process.argv[1]).then(r => r.arrayBuffer()).then(b => console.log(b.byteLength))";
    let url = format!("http://{server}:8080/small");
    let done = carried(site, 1, || through(run, "node", &["-e", script, &url]));
    assert_eq!(done.stdout.trim(), "10000", "{done:?}");
}

/// A static program that makes its own system calls.
pub(crate) fn static_go(site: &Site, run: Run) {
    // The library is compiled once for all tests, which takes its time.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let client = site.dir.join("go-client");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/go/main.go");
    let mut build = Command::new(find("go"));
    build.args(["build", "-o"]).arg(&client).arg(source);
    build.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod").env("HOME", folder);
    build.env("GOCACHE", folder.join("go-cache"));
    assert!(build.status().expect("go").success());
    let url = format!("http://{}:8080/small", site.server());
    let client = client.display().to_string();
    let done = carried(site, 1, || through(run, &client, &[&url]));
    assert_eq!(done.stdout.trim(), "200 10000", "{done:?}");
}
