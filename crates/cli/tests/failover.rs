//! A path is lost in the middle of a download by an unmodified program: how long it gets nothing.
//!
//! One case alone, with its packets: `MANYPATH_CASE='3 paths, path 2 lost by BlackHole' MANYPATH_CAPTURE=/tmp/cut.pcapng
//! cargo test -p manypath-cli --test it -- --ignored --nocapture quarter`.

use crate::common;

use common::{Site, find, finish};
use manypath_lab::Host;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TWO: &[&str] = &["20mbit,10ms,queue=100", "10mbit,40ms,queue=100"];
const THREE: &[&str] = &["10mbit,10ms,queue=50", "10mbit,25ms,queue=50", "10mbit,75ms,queue=50"];

/// Bytes of the file, and of those that have arrived when the path is cut.
const FILE: u64 = 11_000_000;
const CUT_AT: usize = 4_000_000;
/// For how long the download is watched after the cut.
const WATCH: Duration = Duration::from_millis(1500);
/// For how long a filter rejects what comes.
const REJECTED: Duration = Duration::from_secs(6);

/// How a path is lost.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Cut {
    /// The network swallows all that goes over it.
    BlackHole,
    /// The interface of a host is switched off.
    Interface(Host),
}

/// Downloads a file, loses path `path` on the way, and returns the longest time after that during
/// which nothing arrived. `policies`: what the client wants of its paths.
fn longest_gap(paths: &[&str], path: usize, cut: Cut, policies: &str) -> Duration {
    let mut site = Site::with_paths(paths);
    std::fs::write(site.dir.join("paths"), policies).expect("policies");
    site.web();
    let content = site.random_file("file", FILE);
    site.serve("8080");
    if let Some(file) = std::env::var_os("MANYPATH_CAPTURE") {
        site.lab.capture(Path::new(&file)).expect("a capture");
    }
    let url = format!("http://{}:8080/file", site.server());
    let mut command = site.through_command(&[], "curl", &["-sS", "-f", "-N", &url]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("curl");
    let mut stream = child.stdout.take().expect("its output");
    let (mut received, mut buffer) = (0, vec![0; 1 << 16]);
    let (mut cut_at, mut last, mut longest) = (None, Instant::now(), Duration::ZERO);
    while cut_at.is_none_or(|at: Instant| at.elapsed() < WATCH) {
        let read = stream.read(&mut buffer).expect("a read");
        assert!(read > 0, "the download ended after {received} bytes");
        assert!(content[received..].starts_with(&buffer[..read]), "damaged after {received} bytes");
        received += read;
        let now = Instant::now();
        if cut_at.is_some() {
            longest = longest.max(now - last);
        } else if received >= CUT_AT {
            lose(&site, path, cut);
            cut_at = Some(Instant::now());
        }
        last = now;
    }
    // What was watched is enough.
    let _ = child.kill();
    let _ = child.wait();
    longest
}

fn lose(site: &Site, path: usize, cut: Cut) {
    let name = ["A", "B", "C"][path];
    match cut {
        Cut::BlackHole => site.lab.path(name).expect("a path").down().expect("down"),
        Cut::Interface(host) => {
            let mut command = site.command(host, "ip");
            command.args(["link", "set", &format!("path{name}"), "down"]);
            let done = finish(command);
            assert_eq!(done.code, Some(0), "{done:?}");
        }
    }
}

type Case = (&'static [&'static str], usize, Cut);

fn check(cases: impl IntoIterator<Item = Case>, limit: Duration) {
    let (mut failed, mut tried) = (Vec::new(), 0);
    for (paths, path, cut) in cases {
        let name = format!("{} paths, path {path} lost by {cut:?}", paths.len());
        if !is_wanted(&name) {
            continue;
        }
        tried += 1;
        let gap = longest_gap(paths, path, cut, "");
        let line = format!("{name}: {gap:?}");
        println!("{line}");
        if gap > limit {
            failed.push(line);
        }
    }
    assert!(failed.is_empty(), "longer than {limit:?}: {failed:#?}");
    assert!(tried > 0, "no case has the name that MANYPATH_CASE says");
}

/// Whether the name of a case has in it what `MANYPATH_CASE` says, if anything.
fn is_wanted(name: &str) -> bool {
    std::env::var("MANYPATH_CASE").ok().is_none_or(|wanted| name.contains(&wanted))
}

/// On a busy machine programs may have to wait for their turn for long.
#[test]
fn a_lost_path_does_not_stop_a_download() {
    let cases = [
        (TWO, 0, Cut::BlackHole),
        (TWO, 1, Cut::Interface(Host::Right)),
        (THREE, 0, Cut::Interface(Host::Left)),
        (THREE, 2, Cut::BlackHole),
    ];
    check(cases, Duration::from_secs(1));
}

/// Needs a quiet machine.
#[test]
#[ignore = "takes a quiet machine: make test-full"]
fn a_lost_path_stops_a_download_for_a_quarter_of_a_second_at_most() {
    let cuts = [Cut::BlackHole, Cut::Interface(Host::Right), Cut::Interface(Host::Left)];
    let losses = [(TWO, 0), (TWO, 1), (THREE, 0), (THREE, 1), (THREE, 2)];
    let cases = cuts.into_iter().flat_map(|cut| losses.map(|(paths, path)| (paths, path, cut)));
    check(cases, Duration::from_millis(250));
}

/// The longest gaps when the only path without a policy is lost and the other one is a backup.
fn check_backup(limit: Duration) {
    for cut in [Cut::BlackHole, Cut::Interface(Host::Right), Cut::Interface(Host::Left)] {
        let gap = longest_gap(TWO, 0, cut, "dev pathB backup\n");
        println!("a backup takes over from a path lost by {cut:?}: {gap:?}");
        assert!(gap < limit, "{cut:?}: {gap:?}");
    }
}

/// On a busy machine programs may have to wait for their turn for long.
#[test]
fn a_backup_takes_over_in_the_middle_of_a_download() {
    check_backup(Duration::from_secs(1));
}

/// Needs a quiet machine.
#[test]
#[ignore = "takes a quiet machine: make test-full"]
fn a_backup_takes_over_within_three_tenths_of_a_second() {
    check_backup(Duration::from_millis(300));
}

/// Has the server's host reject the UDP of manypath and send none, as a firewall may while it is being reloaded; or
/// ends that.
fn reject(site: &Site, rejects: bool) {
    let hook = |name: &str, rule: &str| {
        format!("chain {name} {{ type filter hook {name} priority 0; {rule}; }};")
    };
    let input = hook("input", "udp dport 9899 reject with icmpx type port-unreachable");
    let output = hook("output", "udp sport 9899 drop");
    let mut nft = site.command(Host::Right, find("nft"));
    nft.arg(match rejects {
        true => format!("table inet filter {{ {input} {output} }}"),
        false => "delete table inet filter".to_owned(),
    });
    let done = finish(nft);
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// Takes all addresses from the server's host, or gives them back.
fn flush(site: &Site, gone: bool) {
    for (index, path) in ["A", "B"].into_iter().enumerate() {
        let address = format!("{}/24", site.lab.address(Host::Right, index));
        let mut command = site.command(Host::Right, "ip");
        match gone {
            true => command.args(["address", "flush"]),
            false => command.args(["address", "add", &address]),
        };
        command.args(["dev", &format!("path{path}")]);
        let done = finish(command);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

/// Downloads a file and lets `disturb` have its way after the first part, with the process of the server's stack.
fn download_with(disturb: impl FnOnce(&Site, u64)) {
    let mut site = Site::with_paths(TWO);
    site.web();
    let content = site.random_file("file", FILE);
    site.serve("8080");
    let server = site.server_status()["pid"].as_u64().expect("a process");
    let url = format!("http://{}:8080/file", site.server());
    let mut command = site.through_command(&[], "curl", &["-sS", "-f", "-N", &url]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("curl");
    let mut received = vec![0; CUT_AT];
    let mut stream = child.stdout.take().expect("its output");
    stream.read_exact(&mut received).expect("the first part");
    disturb(&site, server);
    let mended = Instant::now();
    stream.read_to_end(&mut received).expect("the rest");
    assert!(child.wait().expect("its end").success());
    assert!(received == content, "damaged");
    println!("the rest came within {:?}", mended.elapsed());
    assert!(mended.elapsed() < Duration::from_secs(20), "{:?}", mended.elapsed());
    assert_eq!(site.server_counter("stack_peers_gone"), 0);
}

/// TCP takes a port unreachable for a passing error (RFC 1122 section 4.2.3.9).
#[test]
fn a_filter_that_rejects_for_some_seconds_ends_no_download() {
    download_with(|site, _| {
        reject(site, true);
        std::thread::sleep(REJECTED);
        reject(site, false);
    });
}

/// The kernel has the addresses again before the stack has sockets there, and says so to the client.
#[test]
fn a_server_that_is_late_to_use_its_addresses_again_resets_nobody() {
    download_with(|site, server| {
        flush(site, true);
        std::thread::sleep(Duration::from_secs(2));
        let send = |signal: &str| {
            let status = Command::new("kill").args([signal, &server.to_string()]).status();
            assert!(status.expect("kill").success());
        };
        send("-STOP");
        flush(site, false);
        std::thread::sleep(Duration::from_secs(4));
        send("-CONT");
    });
}
