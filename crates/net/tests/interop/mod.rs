//! One transfer between our native program and usrsctp, on two hosts of a lab.

pub(crate) mod tshark;

use manypath_lab::{Host, Lab, LabError, LabSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// We are on the left.
const HOSTS: [Host; 2] = [Host::Left, Host::Right];

/// Who sends the INIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Initiator {
    Ours,
    Theirs,
}

/// One transfer.
#[derive(Clone, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) initiator: Initiator,
    /// The path between the hosts, as `manypath-lab` takes it.
    pub(crate) path: &'a str,
    pub(crate) ipv6: bool,
    /// Bytes from us and from the peer.
    pub(crate) bytes: [u64; 2],
    /// Seconds after which both programs give up.
    pub(crate) seconds: u64,
    pub(crate) our_options: &'a [&'a str],
    pub(crate) their_options: &'a [&'a str],
}

/// What both ends and the capture say.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ours: Value,
    pub(crate) theirs: Value,
    /// Chunks of each type on the wire, from us and from the peer.
    pub(crate) chunks: [BTreeMap<u8, u64>; 2],
}

/// The programs of both sides; `None`, with the reason printed, without usrsctp or tshark.
pub(crate) fn programs() -> Option<&'static [PathBuf; 2]> {
    static PROGRAMS: OnceLock<Option<[PathBuf; 2]>> = OnceLock::new();
    PROGRAMS.get_or_init(build).as_ref()
}

fn build() -> Option<[PathBuf; 2]> {
    let tshark = Command::new("tshark").arg("--version").output().is_ok();
    if !Path::new("/usr/include/usrsctp.h").exists() || !tshark {
        let advice = "run: scripts/setup test peers (or apt install libusrsctp-dev tshark)";
        assert!(std::env::var_os("CI").is_none(), "usrsctp or tshark is missing; {advice}");
        println!("SKIPPED: usrsctp or tshark is missing; {advice}");
        return None;
    }
    Some([build_ours(), build_theirs()])
}

/// The example `native`, of the profile in which this test is built.
fn build_ours() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "-p", "manypath-net", "--example", "native"]);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.current_dir(WORKSPACE).status().expect("cargo runs").success());
    profile.join("examples/native")
}

fn build_theirs() -> PathBuf {
    let source = format!("{WORKSPACE}/tests/peers/sockets/peer.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("usrsctp-peer");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-DUSRSCTP", "-o"])
        .arg(&program)
        .arg(source);
    compiler.args(["-lusrsctp", "-lpthread"]);
    assert!(compiler.status().expect("cc runs").success(), "peer.c does not compile");
    program
}

/// Runs `case`; `None`, with the reason printed, where there can be no lab.
pub(crate) fn run(programs: &[PathBuf; 2], case: &Case<'_>) -> Option<Outcome> {
    let lab = match Lab::start(LabSpec::new(vec![case.path.parse().expect("a path")])) {
        Err(error @ LabError::Hosts { .. }) if !is_root() => {
            println!("SKIPPED: {error}");
            return None;
        }
        lab => lab.expect("a lab"),
    };
    let capture = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.pcapng", unique_name()));
    lab.capture(&capture).expect("a capture");
    let [ours, theirs] = transfer(&lab, programs, case);
    let captured = lab.stop_capture().expect("the capture is running");
    assert_eq!(captured.missed, 0, "the capture is not complete");
    let addresses = addresses(&lab, case);
    let mut chunks = tshark::chunks_without_complaint(&capture, &addresses[0]);
    let chunks = addresses.map(|address| chunks.remove(&address).unwrap_or_default());
    std::fs::remove_file(&capture).expect("the capture was written");
    Some(Outcome { ours, theirs, chunks })
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("/proc")) == 0
}

fn unique_name() -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("usrsctp-{}-{count}", std::process::id())
}

fn addresses(lab: &Lab, case: &Case<'_>) -> [String; 2] {
    HOSTS.map(|host| match case.ipv6 {
        false => lab.address(host, 0).to_string(),
        true => lab.address_v6(host, 0).to_string(),
    })
}

/// Both ends until they have ended.
fn transfer(lab: &Lab, programs: &[PathBuf; 2], case: &Case<'_>) -> [Value; 2] {
    let addresses = addresses(lab, case);
    let listener = usize::from(case.initiator == Initiator::Ours);
    let start = |side: usize| {
        let mut command = lab.command(HOSTS[side], &programs[side]);
        match side == listener {
            true => command.arg("listen").arg(&addresses[side]),
            false => command.arg("connect").arg(&addresses[side]).arg(&addresses[1 - side]),
        };
        command.arg(format!("send={}", case.bytes[side]));
        command.arg(format!("receive={}", case.bytes[1 - side]));
        command.arg(format!("seconds={}", case.seconds));
        command.args([case.our_options, case.their_options][side]);
        if side == 0 {
            command.args(["json", "attended"]);
        }
        Program::start(command)
    };
    let mut server = start(listener);
    server.wait_until_ready();
    let client = start(1 - listener);
    let (ours, theirs) = if listener == 0 { (server, client) } else { (client, server) };
    // Ours remains until theirs has ended: the last chunk may be lost, and its repetition be due in seconds.
    let theirs = theirs.result(case);
    [ours.result(case), theirs]
}

/// A running program; killed if the test gives up.
struct Program {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Program {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        Self { child, errors }
    }

    fn wait_until_ready(&mut self) {
        let mut line = String::new();
        self.errors.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
    }

    /// What it printed: one line of JSON.
    fn result(mut self, case: &Case<'_>) -> Value {
        drop(self.child.stdin.take());
        let (mut output, mut errors) = (String::new(), String::new());
        let mut stdout = self.child.stdout.take().expect("piped");
        stdout.read_to_string(&mut output).expect("text");
        self.errors.read_to_string(&mut errors).expect("text");
        let status = self.child.wait().expect("it was started");
        assert!(status.success(), "{status}: {output}{errors}{case:?}");
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}{errors}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
