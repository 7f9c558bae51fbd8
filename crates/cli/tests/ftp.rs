//! The case that half-close is for (Bickhart 2005): FTP in active mode, and the reply that announces the
//! data connection is lost. The client takes the data connection from its queue when the reply has
//! been sent again; by then the server has sent everything and ended its direction.
//!
//! The control connection has path A and the data connection path B, so that cutting A loses the reply
//! and nothing else.

use crate::common;

use common::{MANYPATH, Site, find, wait_for};
use manypath_lab::{Change, Host};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
/// Longer than anything needs that a server could wrongly hear meanwhile.
const WHILE: Duration = Duration::from_millis(700);
const CONTROL: u16 = 2121;
const DATA: u16 = 5020;

/// A program that is killed when the test is done with it.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn script(name: &str) -> String {
    format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A Python program through `run`, which uses one address only and leaves its listeners alone.
fn python(site: &Site, host: Host, local: &str, args: &[&str]) -> Command {
    let mut command = site.command(host, MANYPATH);
    command.args(["run", "--client-only", "--report", "--local", local, "--"]);
    command.arg(find("python3")).args(args);
    command
}

/// `manypath serve` on one address of a host.
fn serve(site: &Site, host: Host, local: &str, port: u16) -> Program {
    let mut command = site.command(host, MANYPATH);
    command.args(["serve", "--local", local, "--allow", &port.to_string(), "-v"]);
    let child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn();
    let mut child = child.expect("manypath serve");
    let mut log = BufReader::new(child.stderr.take().expect("its log"));
    let mut line = String::new();
    while !line.contains("accepting associations") {
        line.clear();
        assert!(log.read_line(&mut line).expect("a line") > 0, "it has ended");
    }
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    Program(child)
}

/// The lines of a program.
fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (told, heard) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = told.send(line);
        }
    });
    heard
}

/// What the server heard of the client's direction while the reply was lost, and the file as it arrived
/// with how the client ended.
fn transfer(rules: &str) -> (bool, Vec<u8>, Vec<u8>) {
    let site = Site::with_paths(&["100mbit,5ms,queue=200"; 2]);
    std::fs::write(site.dir.join("rules"), rules).expect("rules");
    let content = site.random_file("file", 400_000);
    let (server, client) = (site.server(), site.lab.address(Host::Left, 1).to_string());
    let _control = serve(&site, Host::Right, &server, CONTROL);
    let _data = serve(&site, Host::Left, &client, DATA);

    let file = site.dir.join("www/file").display().to_string();
    let other = site.lab.address(Host::Right, 1).to_string();
    let args = [&script("ftp_server.py"), &CONTROL.to_string(), &file];
    let mut command = python(&site, Host::Right, &other, &args.map(|arg| arg.as_str()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut ftp = Program(command.spawn().expect("the server"));
    let said = lines(ftp.0.stdout.take().expect("its output"));
    let mut tell = ftp.0.stdin.take().expect("its input");
    let next = || said.recv_timeout(LIMIT).expect("the server goes on");
    assert_eq!(next(), "ready");

    let got = site.dir.join("got");
    let args = [
        &script("ftp_client.py"),
        &server,
        &CONTROL.to_string(),
        &client,
        &DATA.to_string(),
        &got.display().to_string(),
    ];
    let own = site.lab.address(Host::Left, 0).to_string();
    let mut command = python(&site, Host::Left, &own, &args.map(|arg| arg.as_str()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut fetching = Program(command.spawn().expect("the client"));
    assert_eq!(next(), "asked");
    let path = site.lab.path("A").expect("a path");
    path.set_towards(Host::Left, &[Change::Down]).expect("a cut");
    tell.write_all(b"reply\n").expect("the server listens");
    assert_eq!(next(), "sent");
    let ended = match said.recv_timeout(WHILE) {
        Err(RecvTimeoutError::Timeout) => false,
        other => other.expect("a line") == "ended",
    };
    assert!(std::fs::metadata(&got).is_err(), "the client has not taken the connection yet");
    path.up().expect("mended");
    if !ended {
        assert_eq!(next(), "ended");
    }
    tell.write_all(b"reply\n").expect("the server listens");
    let mut report = Vec::new();
    let mut output = fetching.0.stderr.take().expect("its report");
    output.read_to_end(&mut report).expect("its report");
    let report = String::from_utf8_lossy(&report).into_owned();
    wait_for("the client's end", || fetching.0.try_wait().expect("it runs").is_some());
    assert!(report.contains("sctp=1 tcp-relay=0"), "{report}");
    let mut report = String::new();
    let mut output = ftp.0.stderr.take().expect("its report");
    output.read_to_string(&mut report).expect("its report");
    assert!(report.contains("sctp=1 tcp-relay=0"), "{report}");
    (ended, std::fs::read(&got).unwrap_or_default(), content)
}

#[test]
fn an_ftp_transfer_outlives_the_loss_of_its_150_reply() {
    for form in ["mux", "direct"] {
        let (too_soon, got, sent) = transfer(&format!("remote enable form={form}\n"));
        assert!(!too_soon, "{form}: the server heard of an end before the client had the data");
        assert!(got == sent, "{form}: {} bytes of {}", got.len(), sent.len());
    }
}

/// What the case above would be without half-close: the server is told that the client has ended, while
/// the client does not even know of the connection.
#[test]
fn without_half_close_an_ftp_server_hears_of_an_end_that_is_none() {
    let (too_soon, ..) = transfer("remote enable half-close=off\n");
    assert!(too_soon);
}
