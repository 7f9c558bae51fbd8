//! HTTP between stock programs and native SCTP ones (`tests/peers/usrsctp/http.c`: usrsctp in UDP, one
//! association for each connection): curl through `run` to a native server, a native client to nginx
//! and Python behind `serve`. Nothing listens with TCP where the native server is, so that what arrives
//! has come over SCTP.

use crate::common;

use common::{Finished, MANYPATH, Site, find, finish};
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

/// `manypath serve` on the right host without UDP.
fn serve_raw(site: &mut Site, allow: &str) {
    let args = ["serve", "--encapsulation", "native", "--allow", allow, "-v"];
    site.service(MANYPATH, &args, "raw", 132);
}

/// curl through `run` without UDP.
fn curl_raw(site: &Site, args: &[&str]) -> Finished {
    let options = ["--encapsulation", "native", "--report", "-v"];
    succeeded(finish(site.through_command(&options, "curl", &[&["-sS", "-f"], args].concat())))
}

#[test]
fn connections_are_carried_directly_over_ip() {
    let mut site = Site::new();
    site.web();
    let content = site.random_file("file", BYTES);
    serve_raw(&mut site, "8080");
    let out = site.dir.join("got").display().to_string();
    let url = format!("http://{}:8080/file", site.server());
    let done = curl_raw(&site, &["-o", &out, &url]);
    assert!(done.stderr.contains("sctp=1"), "{done:?}");
    assert!(std::fs::read(&out).expect("the file") == content, "it arrived damaged");
    let status = site.server_status();
    assert_eq!(status["counters"]["stack_relays_started"], 1);
    assert_eq!(status["udp_port"], 0);
    // Two programs at a time: each has the packets of both, and heeds its own.
    let url = format!("http://{}:8080/file?[1-8]", site.server());
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| {
            scope.spawn(|| curl_raw(&site, &["-Z", "--no-progress-meter", "-o", "/dev/null", &url]))
        });
        for done in both.map(|one| one.join().expect("curl")) {
            assert!(done.stderr.contains("tcp-relay=0 failed=0"), "{done:?}");
        }
    });
}

/// Its kernel says that it knows no such protocol, and TCP follows without a wait.
#[test]
fn a_host_without_sctp_is_reached_by_tcp_at_once() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    let url = format!("http://{}:8080/small", site.server());
    let options = ["--encapsulation", "native", "--report", "--tcp-head-start", "20000"];
    let options = [&options[..], &["--fallback-timeout", "20000"]].concat();
    let args = ["-sS", "-f", "-o", "/dev/null", &url];
    let done = succeeded(finish(site.through_command(&options, "curl", &args)));
    assert!(done.stderr.contains("sctp=0 tcp-relay=1"), "{done:?}");
    assert!(done.time.as_secs() < 10, "{done:?}");
}

#[test]
fn curl_and_a_native_server_talk_directly_over_ip() {
    let Some(program) = native_http() else { return };
    let mut site = Site::new();
    let server = site.server();
    let (env, name) = (find("env").display().to_string(), program.display().to_string());
    site.service(&env, &["NATIVE=1", &name, "serve", &server, "8080"], "raw", 132);
    let out = site.dir.join("got");
    let (o, get) = (out.display().to_string(), format!("http://{server}:8080/{BYTES}"));
    curl_raw(&site, &["-o", &o, &get]);
    assert_eq!(std::fs::metadata(out).expect("the answer").len(), BYTES);
    let content = site.random_file("sent", BYTES);
    let file = site.dir.join("www/sent").display().to_string();
    let done = curl_raw(&site, &["-T", &file, &format!("http://{server}:8080/")]);
    assert_eq!(done.stdout, sha256(&content));
}

#[test]
fn without_the_privilege_it_is_said_what_is_missing() {
    let setpriv = find("setpriv").display().to_string();
    let none = ["--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups"];
    // `run` leaves the small numbers to its program.
    for (args, code) in [
        (&["run", "--encapsulation", "native", "--", "true"][..], 125),
        (&["serve", "--encapsulation", "native", "--allow", "22"], 1),
    ] {
        let mut command = Command::new(&setpriv);
        command.args(none).arg(MANYPATH).args(args);
        let done = finish(command);
        assert_eq!(done.code, Some(code), "{done:?}");
        assert!(done.stderr.contains("CAP_NET_RAW"), "{done:?}");
        assert!(done.stderr.contains("--encapsulation udp"), "{done:?}");
    }
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
