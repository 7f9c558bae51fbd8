//! HTTP between stock programs and the SCTP of the Linux kernel, directly over IP. The far host is a guest
//! of User Mode Linux, joined to the right host by a TAP device; what runs in it is
//! `tests/peers/linux/web.py`, which knows nothing of manypath and listens with SCTP alone. Its file
//! system is this machine's, read-only.

use crate::common;

use common::{Finished, MANYPATH, Site, find, finish};
use manypath_lab::Host;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BYTES: u64 = 8_000_000;
const HOST: &str = "10.78.0.1";
const GUEST: &str = "10.78.0.2";
const KERNEL: &str = "/usr/bin/linux.uml";

/// A guest needs more time than [`common::wait_for`] grants where other work is done.
const BOOT: Duration = Duration::from_secs(40);

/// A site whose right host has the wire to a guest; `None`, with the reason printed, where no guest boots.
fn site() -> Option<Site> {
    if !Path::new(KERNEL).exists() {
        return skipped("user-mode-linux is missing; run: scripts/setup full");
    }
    let site = Site::new();
    for args in [
        "tuntap add dev guest mode tap".to_owned(),
        format!("addr add {HOST}/24 dev guest"),
        "link set guest up".to_owned(),
    ] {
        let mut command = site.command(Host::Right, find("ip"));
        command.args(args.split(' '));
        succeeded(finish(command));
    }
    let tried = finish(guest(&site, "try"));
    assert!(!tried.stdout.contains("FAILED"), "{tried:?}");
    if !tried.stdout.contains("READY") {
        return skipped(&format!("User Mode Linux does not boot here: {tried:?}"));
    }
    Some(site)
}

/// Says so past the harness, which keeps what a test that passes prints.
fn skipped(reason: &str) -> Option<Site> {
    let _ = writeln!(std::io::stderr(), "SKIPPED: nothing is shown of the kernel's SCTP: {reason}");
    None
}

/// The guest, as a process of the right host; it ends with its role.
fn guest(site: &Site, role: &str) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/linux/web.py");
    let mut command = site.command(Host::Right, KERNEL);
    command.args("mem=256M root=/dev/root rootfstype=hostfs rootflags=/ ro quiet".split(' '));
    command
        .args("con=null con0=null,fd:1 vec0:transport=tap,ifname=guest,depth=64,gro=0".split(' '));
    command.arg("umid=guest").arg(format!("uml_dir={}/", site.dir.display()));
    command.args(["init=/usr/bin/python3", "--", script, "vec0", &format!("{GUEST}/24"), HOST]);
    command.args(role.split(' '));
    command
}

/// Starts the guest's web server; returns its URL.
fn serve(site: &mut Site) -> String {
    let console = site.dir.join("console");
    let mut command = guest(site, "serve 8080");
    let file = std::fs::File::create(&console).expect("console");
    command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
    site.services.push(command.spawn().expect("the guest"));
    let said = || std::fs::read_to_string(&console).unwrap_or_default();
    let limit = Instant::now() + BOOT;
    while !said().contains("READY") {
        assert!(Instant::now() < limit, "the guest does not serve: {}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
    format!("http://{GUEST}:8080")
}

/// The guest as a client of the right host.
fn ask(site: &Site, role: &str) -> serde_json::Value {
    let done = finish(guest(site, role));
    let result = done.stdout.lines().find_map(|line| line.strip_prefix("RESULT "));
    assert!(result.is_some(), "{done:?}");
    serde_json::from_str(result.unwrap_or_default()).expect("JSON")
}

/// curl on the right host; every connection must have gone over SCTP.
fn curl(site: &Site, args: &[&str]) -> Finished {
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(["run", "--encapsulation", "native", "--report", "-v", "--"]);
    command.arg(find("curl")).args(["-sS", "-f"]).args(args);
    let done = succeeded(finish(command));
    assert!(done.stderr.contains("tcp-relay=0 failed=0"), "{done:?}");
    done
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn succeeded(done: Finished) -> Finished {
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

fn file(site: &Site, name: &str) -> (PathBuf, String) {
    let path = site.dir.join(name);
    let text = path.display().to_string();
    (path, text)
}

#[test]
#[ignore = "boots a kernel; part of make test-full"]
fn curl_talks_http_to_a_server_on_kernel_sctp() {
    let Some(mut site) = site() else { return };
    let url = serve(&mut site);
    let ((out, o), (head, h)) = (file(&site, "got"), file(&site, "head"));
    curl(&site, &["-D", &h, "-o", &o, &format!("{url}/{BYTES}")]);
    let got = std::fs::read(out).expect("the answer");
    let head = std::fs::read_to_string(head).expect("the head").to_lowercase();
    assert_eq!(got.len() as u64, BYTES);
    assert!(head.contains(&format!("x-sha256: {}", sha256(&got))), "{head}");
    // And the other way round.
    let content = site.random_file("sent", BYTES);
    let (_, sent) = file(&site, "www/sent");
    assert_eq!(curl(&site, &["-T", &sent, &format!("{url}/")]).stdout, sha256(&content));
    // Ten at a time, an association for each.
    let get = format!("{url}/[100001-100010]");
    curl(&site, &["-Z", "--parallel-immediate", "--no-progress-meter", "-o", "many-#1", &get]);
    for size in 100_001..=100_010 {
        let got = std::fs::metadata(site.dir.join(format!("many-{size}"))).expect("an answer");
        assert_eq!(got.len(), size);
    }
    // TCP would have found nobody there.
    let mut plain = site.command(Host::Right, find("curl"));
    plain.args(["-sS", &format!("{url}/1")]);
    assert_eq!(finish(plain).code, Some(7));
}

#[test]
#[ignore = "boots a kernel; part of make test-full"]
fn a_client_on_kernel_sctp_talks_http_to_services_behind_serve() {
    let Some(mut site) = site() else { return };
    site.web();
    let content = site.random_file("file", BYTES);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/put_server.py");
    let python = find("python3").display().to_string();
    site.service(&python, &[script, "8090"], "tcp", 8090);
    let args = ["serve", "--encapsulation", "native", "--allow", "8080,8090", "-v"];
    site.service(MANYPATH, &args, "raw", 132);
    let got = ask(&site, "get 8080 /file");
    assert_eq!((&got["status"], &got["bytes"]), (&200.into(), &BYTES.into()), "{got}");
    assert_eq!(got["sha256"], sha256(&content));
    let put = ask(&site, &format!("put 8090 /file {BYTES}"));
    assert_eq!((&put["status"], &put["text"]), (&200.into(), &put["sent_sha256"]), "{put}");
    assert_eq!(site.server_counter("stack_direct_associations_accepted"), 2);
    assert_eq!(site.server_counter("stack_relays_started"), 2);
}
