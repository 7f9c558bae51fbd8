//! HTTP between stock programs and native SCTP ones (`tests/peers/usrsctp/http.c`: usrsctp in UDP, one
//! association for each connection): curl through `run` to a native server, a native client to nginx
//! and Python behind `serve`. Nothing listens with TCP where the native server is, so that what arrives
//! has come over SCTP.

mod common;

use common::{Finished, Site, find, finish};
use manypath_lab::Host;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const BYTES: u64 = 5_000_000;

/// The native program; `None`, with the reason printed, without usrsctp.
fn native_http() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    if !Path::new("/usr/include/usrsctp.h").exists() {
        let advice = "run: scripts/setup peers (or apt install libusrsctp-dev)";
        assert!(std::env::var_os("CI").is_none(), "usrsctp is missing; {advice}");
        println!("SKIPPED: usrsctp is missing; {advice}");
        return None;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/usrsctp/http.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("usrsctp-http");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    compiler.args(["-lusrsctp", "-lpthread"]);
    assert!(compiler.status().expect("cc runs").success(), "http.c does not compile");
    Some(program)
}

/// A site with the native server at port 8080 of the right host, and its URL.
fn native_site(program: &Path) -> (Site, String) {
    let mut site = Site::new();
    let server = site.server();
    let name = program.display().to_string();
    site.service(&name, &["serve", &server, "8080"], "udp", 9899);
    let url = format!("http://{server}:8080");
    (site, url)
}

/// The native client on the left host.
fn ask(site: &Site, program: &Path, args: &[&str]) -> serde_json::Value {
    let own = site.lab.address(Host::Left, 0).to_string();
    let mut command = site.command(Host::Left, program);
    command.args([args[0], &own, &site.server()]).args(&args[1..]);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).expect("JSON of the report")
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn succeeded(done: Finished) -> Finished {
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

#[test]
fn curl_talks_http_to_a_native_sctp_server() {
    let Some(program) = native_http() else { return };
    let (site, url) = native_site(program);
    let (out, head) = (site.dir.join("got"), site.dir.join("head"));
    let (o, h) = (out.display().to_string(), head.display().to_string());
    let get = format!("{url}/{BYTES}");
    succeeded(site.through("curl", &["-sS", "-f", "-D", &h, "-o", &o, &get]));
    let got = std::fs::read(&out).expect("the answer");
    let head = std::fs::read_to_string(&head).expect("the head").to_lowercase();
    assert_eq!(got.len() as u64, BYTES);
    assert!(head.contains(&format!("x-sha256: {}", sha256(&got))), "{head}");
    // And the other way round.
    let content = site.random_file("sent", BYTES);
    let file = site.dir.join("www/sent").display().to_string();
    let done = succeeded(site.through("curl", &["-sS", "-f", "-T", &file, &url]));
    assert_eq!(done.stdout, sha256(&content));
}

#[test]
fn many_connections_to_a_native_sctp_server_stand_side_by_side() {
    let Some(program) = native_http() else { return };
    let (site, url) = native_site(program);
    let get = format!("{url}/[100001-100020]");
    let args = ["-sS", "-f", "-Z", "--parallel-immediate", "--parallel-max", "20", "-o", "got-#1"];
    succeeded(site.through("curl", &[&args[..], &[&get]].concat()));
    for size in 100_001..=100_020 {
        let got = std::fs::metadata(site.dir.join(format!("got-{size}"))).expect("an answer");
        assert_eq!(got.len(), size);
    }
}

/// The host speaks SCTP, but its web server only TCP.
#[test]
fn a_service_beside_a_native_sctp_server_is_reached_by_tcp() {
    let Some(program) = native_http() else { return };
    let mut site = Site::new();
    let (server, name) = (site.server(), program.display().to_string());
    site.service(&name, &["serve", &server, "9000"], "udp", 9899);
    site.web();
    site.random_file("small", 10_000);
    let url = format!("http://{server}:8080/small");
    let command =
        site.through_command(&["--report"], "curl", &["-sS", "-f", "-o", "/dev/null", &url]);
    let done = succeeded(finish(command));
    assert!(done.stderr.contains("sctp=0 tcp-relay=1"), "{done:?}");
}

#[test]
fn a_native_sctp_client_talks_http_to_services_behind_serve() {
    let Some(program) = native_http() else { return };
    let mut site = Site::new();
    site.web();
    let content = site.random_file("file", BYTES);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/put_server.py");
    let python = find("python3").display().to_string();
    site.service(&python, &[script, "8090"], "tcp", 8090);
    site.serve("8080,8090");
    let got = ask(&site, program, &["get", "8080", "/file"]);
    assert_eq!((&got["status"], &got["bytes"]), (&200.into(), &BYTES.into()), "{got}");
    assert_eq!(got["sha256"], sha256(&content));
    let put = ask(&site, program, &["put", "8090", "/file", &BYTES.to_string()]);
    assert_eq!((&put["status"], &put["text"]), (&200.into(), &put["sent_sha256"]), "{put}");
    assert_eq!(site.server_counter("stack_direct_associations_accepted"), 2);
    assert_eq!(site.server_counter("stack_relays_started"), 2);
}

/// Only what is allowed is there for native clients, too.
#[test]
fn a_native_sctp_client_does_not_reach_what_is_not_allowed() {
    let Some(program) = native_http() else { return };
    let mut site = Site::new();
    site.web();
    site.random_file("small", 100);
    site.serve("8081");
    let own = site.lab.address(Host::Left, 0).to_string();
    for port in ["8080", "8081"] {
        let mut command = site.command(Host::Left, program);
        command.args(["get", &own, &site.server(), port, "/small"]);
        let done = finish(command);
        // 8080 is not allowed; at 8081 a server listens on loopback only.
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    }
}
